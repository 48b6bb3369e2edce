"""Importing evr and asking for help are quick, and nothing heavy comes along unasked.

Seconds are of processor time, and what is too slow is tried three times, so that other work on the
machine does not fail the tests.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORT_BUDGET = 0.3
HELP_BUDGET = 0.5


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def timed(code):
    """The seconds that the code takes inside a fresh interpreter, and the modules that it loads."""
    start = "import sys, time; start = time.process_time()"
    return python(f"{start}; {code}; print(time.process_time() - start, *sys.modules)").split()


def test_import_brings_nothing_heavy_and_costs_little_more_than_dp_accounting():
    base = ours = float("inf")
    for _ in range(3):
        took, *loaded = timed("import evr; evr.dpsgd; evr.register")
        assert not {"matplotlib", "torch", "opacus", "dask", "distributed", "sklearn", "jinja2"} & set(loaded)
        ours, base = min(ours, float(took)), min(base, float(timed("import dp_accounting")[0]))
        if ours <= base + IMPORT_BUDGET:
            return
    pytest.fail(f"import evr takes {ours:.2f} s, import dp_accounting {base:.2f} s")


def test_help_is_quick_and_does_not_load_the_library():
    code = (
        "import atexit, sys, time\nsys.argv = ['evr', '--help']\n"
        "atexit.register(lambda: print(time.process_time(), *sys.modules))\nfrom evr.cli import main\nmain()"
    )
    least = float("inf")
    for _ in range(3):
        answer = python(code)
        assert "describe" in answer
        took, *loaded = answer.splitlines()[-1].split()
        assert "evr.cli.app" in loaded
        assert not {"numpy", "scipy", "dp_accounting", "pydantic", "matplotlib"} & set(loaded)
        least = min(least, float(took))  # of the whole process, its start included
        if least <= HELP_BUDGET:
            return
    pytest.fail(f"evr --help takes {least:.2f} s")


def test_certify_loads_no_statistics_and_no_optimisation(tmp_path):
    flags = "--noise-multiplier 1 --sampling-probability 0.001 --steps 100 --delta 1e-9 --dry-run"
    code = (
        f"import os, sys\nos.chdir({str(tmp_path)!r})\nsys.argv = ['evr', 'certify', *{flags.split()!r}]\n"
        "from evr.cli import main\ntry:\n    main()\nexcept SystemExit:\n    print(*sys.modules)"
    )
    *said, loaded = python(code).splitlines()
    assert "Proving" in " ".join(said)
    assert "dp_accounting.dp_event" in loaded.split()
    assert not {"scipy.stats", "scipy.signal", "scipy.optimize"} & set(loaded.split())


def test_what_is_loaded_lightly_is_whole_when_asked():
    code = (
        "from evr.cli.app import _load_lightly\n_load_lightly('dp_accounting')\nimport sys\n"
        "from dp_accounting import NeighboringRelation, dp_event\nassert 'scipy.stats' not in sys.modules\n"
        "import dp_accounting\nfrom dp_accounting.rdp import RdpAccountant\n"
        "assert dp_accounting.NeighboringRelation is NeighboringRelation\n"
        "assert dp_accounting.calibrate_dp_mechanism and dp_accounting.dp_event is dp_event\n"
        "assert isinstance(dp_accounting.GaussianDpEvent(1.0), dp_event.GaussianDpEvent)\n"
        "print(dp_accounting.pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(1.0)).get_epsilon(1e-5) > 3)"
    )
    assert python(code).split() == ["True"]
