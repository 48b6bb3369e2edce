"""Trainings as programs of their own, for tests that kill them, resume them, or run them in several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

PATIENCE = 900.0  # seconds until a program is taken to hang, on a machine that is busy


def command(program, *arguments):
    """What starts a program of this folder."""
    return [sys.executable, str(Path(__file__).with_name(f"{program}.py")), *map(str, arguments)]


def environment(**more):
    """Programs find the modules of the tests."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def run(program, *arguments, dies_after=-1):
    """A program that has ended, by itself or because it was killed after so many steps."""
    return subprocess.run(
        command(program, *arguments),
        env=environment(DIES_AFTER=str(dies_after)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def dies(step):
    """Called by a program after each step: kill -9, if it is this one's turn."""
    if int(step) == int(os.environ.get("DIES_AFTER", "-1")):
        os.kill(os.getpid(), signal.SIGKILL)
