"""Which process wrote a row of the ledger, and whether it still runs."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

_FORGOTTEN_SECONDS = 600.0  # after which a silent process on another machine is taken for dead


def _started(process: int) -> str:
    """When a process started, in the kernel's ticks; empty where the system does not say."""
    try:
        return (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
        )
    except (OSError, IndexError):
        return ""


def this_process() -> str:
    """This process: machine, number, and when it started, for numbers are used again."""
    return f"{socket.gethostname()} {os.getpid()} {_started(os.getpid())}"


def is_alive(owner: str, seen: str) -> bool:
    """Whether the process that wrote a row still runs; on another machine, whether it was heard of
    lately.
    """
    try:
        host, process, started = owner.split(" ")
        if host == socket.gethostname() and os.name == "posix":
            os.kill(int(process), 0)
            return _started(int(process)) == started
        return (
            datetime.now(UTC) - datetime.fromisoformat(seen)
        ).total_seconds() < _FORGOTTEN_SECONDS
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError, TypeError, OverflowError, AttributeError):
        return False
