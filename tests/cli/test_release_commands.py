"""certify, verify, replay, inspect, ledger, resume: success, rejection, bad input, JSON,
interruption.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evr as package
from evr._certificate.certificate import digest_of
from helpers import near

CHEAP = ["--noise-multiplier", "2", "--sampling-probability", "1", "--steps", "1"]
SPEC = '[[mechanism]]\nkind = "gaussian"\nnoise_multiplier = 2.0\n\n[claim]\ndelta = 1e-3\ntau = 0.9\n'


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "noise.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def certificate(spec: Path, evr: Callable[..., Any]) -> Path:
    assert evr("certify", spec, "--method", "sequential", "--quiet").code == 0
    return spec.with_name("noise.certificate.json")


def test_certify(spec: Path, evr: Callable[..., Any]) -> None:
    ran = evr("certify", spec)
    assert ran.code == 0
    assert ran.out.startswith("Accepted: (")
    assert "0.001)-differentially private." in ran.out.splitlines()[0]
    assert "under add-or-remove-one adjacency" in ran.out
    assert f"certificate: {spec.with_name('noise.certificate.json')}" in ran.out
    assert "attempt 1" in ran.out
    assert (spec.parent / ".evr" / "ledger.sqlite").exists()
    again = evr("certify", spec, "--quiet", "--force")
    assert again.err == ""
    assert again.out.count("\n") == 1
    listed = evr("ledger", "--json").json
    assert [(a["attempt"], a["state"]) for a in listed["attempts"]] == [(1, "accepted"), (2, "accepted")]
    (release,) = listed["releases"]
    assert release["left"] == near(release["allowance"] / 4)


def test_certify_by_flags_and_json(spec: Path, evr: Callable[..., Any], tmp_path: Path) -> None:
    target = tmp_path / "mine.json"
    ran = evr(
        "certify",
        *CHEAP,
        "--epsilon",
        1,
        "--tau",
        0.9,
        "--json",
        "--output",
        target,
        "--ledger",
        tmp_path / "l",
        "--name",
        "mine",
    )
    assert ran.code == 0
    assert ran.err == ""
    assert ran.json["verdict"] == "accepted"
    assert ran.json["guarantee"]["epsilon"] == 1.0
    delta = ran.json["guarantee"]["delta"]
    release = ran.json["release"]
    assert release == release | {"name": "mine", "floor": delta, "attempt": 1}
    if "total_allowance" in release:
        assert release["total_allowance"] == near(0.1 / 40 * delta)
    assert target.exists()
    assert not (tmp_path / ".evr").exists()


def test_rejection(spec: Path, evr: Callable[..., Any]) -> None:
    ran = evr("certify", spec, "--epsilon", 1, "--delta", 3e-3, "--tau", 0.9)
    assert ran.code == 3
    assert ran.out.startswith("Rejected: (1, 0.003)-differential privacy was not verified.")
    again = ["--epsilon", 1, "--delta", 3e-3, "--tau", 0.99, "--seed", 1, "--json", "--force"]
    assert evr("certify", spec, *again).code == 3
    assert evr("replay", spec.with_name("noise.certificate.json"), "--quiet").code == 3


def test_bad_input(spec: Path, refused: Callable[..., str], evr: Callable[..., Any], tmp_path: Path) -> None:
    assert "certify what?" in refused("certify", *CHEAP)
    assert "tau=2.0 is not in (0, 1)" in refused("certify", spec, "--tau", 2)
    assert "--method x is not one of" in refused("certify", spec, "--method", "x")
    assert "there is no ledger" in refused("ledger", "--ledger", tmp_path / "none")
    assert "there is no ledger" in refused("resume", "--ledger", tmp_path / "none")
    assert "cannot be read" in refused("replay", tmp_path / "none")
    assert "argument" in refused("show").lower()
    assert evr("certify", spec, "--seed", 5, "--quiet").code == 0
    assert "entropy 0x5 was used before" in refused("certify", spec, "--seed", 5, "--quiet", "--force")
    (tmp_path / "broken").write_text("x" * 5000)
    assert "not a database" in refused("ledger", "--ledger", tmp_path / "broken")


def test_replay(certificate: Path, evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    ran = evr("replay", certificate)
    assert ran.code == 0
    assert "agrees with its replay (65,536 samples drawn again); the verdict is accepted." in ran.out
    fresh = evr("replay", certificate, "--fresh", "--json")
    assert fresh.code == 0
    assert (fresh.json["agrees"], fresh.json["fresh"], fresh.json["replayed"]) == (True, True, "accepted")
    document = json.loads(certificate.read_text())
    document["guarantee"]["delta"] = 1e-9
    certificate.write_text(json.dumps(document))
    assert "the digest does not match" in refused("replay", certificate)
    assert "the digest does not match" in refused("show", certificate)
    certificate.write_text(json.dumps({**document, "digest": digest_of(document)}))
    for command in (["replay"], ["replay", "--fresh"], ["replay", "--json"], ["show"], ["show", "--json"]):
        ran = evr(*command, certificate)
        assert (ran.code, ran.out) == (3, "")
        assert "do not rely on it. guarantee.delta: recorded 1e-09, recomputed 0.001\n" in ran.err


def test_a_certificate_of_another_version_is_not_called_false(certificate: Path, evr: Callable[..., Any]) -> None:
    document = json.loads(certificate.read_text())
    document["software"]["numpy"] = "1.26.4"
    for fields in document["verification"]["directions"].values():
        fields["log_wealth"] *= 1.1
    certificate.write_text(json.dumps({**document, "digest": digest_of(document)}))
    ran = evr("replay", certificate)
    assert ran.code == 3
    assert "could not be replayed here: its samples were drawn by evr 0.1.0 with numpy 1.26.4, and this is" in ran.out
    assert "do not rely on it" not in ran.out
    assert "--fresh" in evr("replay", certificate, "--json").json["undecided"]
    assert evr("replay", certificate, "--fresh").code == 0


# an alarm that rings in a destructor is swallowed there, and rings again
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_how_long_a_command_may_be_busy(
    certificate: Path, refused: Callable[..., str], evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (["replay"], ["show", "--html", "page.html"]):
        assert "--max-seconds" in refused(*command, certificate, "--max-seconds", 1e-9, "-q")
    assert evr("replay", certificate, "--max-seconds", "inf").code == 0
    assert "--max-seconds=-1.0 is not positive" in refused("replay", certificate, "--max-seconds", -1)

    def without_end(*_: Any, **__: Any) -> None:
        while True:
            try:
                time.sleep(0.05)
            except Exception:  # what an alarm must pass
                continue

    monkeypatch.setattr(sys.modules["evr._certificate.replay"], "understood", without_end)
    monkeypatch.setattr("evr._report.page.understood", without_end)
    for command in (["replay"], ["show", "--html", "page.html"]):
        told = refused(*command, certificate, "--max-seconds", 0.3)
        assert "took more than 0.3 s" in told
        assert "--max-seconds" in told


def test_show(certificate: Path, evr: Callable[..., Any]) -> None:
    ran = evr("show", certificate)
    assert ran.code == 0
    assert "a gaussian mechanism (noise multiplier 2) is" in ran.out.lower()
    assert re.search(r"remove direction\t.*; the mean of [\d,]+ samples is \S+, give or take \S+\n", ran.out)
    assert "(recorded as fresh)" in ran.out
    assert evr("show", certificate, "--json").json["verdict"] == "accepted"
    assert "under add-or-remove-one adjacency" in ran.out


def test_show_names_the_relation_of_the_certificate(spec: Path, evr: Callable[..., Any]) -> None:
    groups = 'iterations = 4\ncycle_length = 2\nsampling_probability = 0.5\npartition = "fixed"\n'
    spec.write_text(SPEC.replace("gaussian", "cyclic_poisson").replace("\n\n", f"\n{groups}\n"))
    assert evr("certify", spec, "--quiet").code == 0
    ran = evr("show", spec.with_name("noise.certificate.json"))
    assert "under zero-out adjacency" in ran.out
    assert "add-or-remove" not in ran.out


def test_ledger_lists(certificate: Path, evr: Callable[..., Any]) -> None:
    ran = evr("ledger")
    assert ran.rows[0][:4] == ["id", "release", "attempt", "state"]
    assert ran.rows[1][3] == "accepted"


def test_progress_in_lines(spec: Path, evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evr._proving.progress._OFTEN", -1.0)
    ran = evr("certify", spec, "--method", "sequential")
    assert "remove: 65,536 samples, delta about" in ran.err


def test_a_rejected_rerun_keeps_what_was_accepted(spec: Path, evr: Callable[..., Any], tmp_path: Path) -> None:
    target = tmp_path / "one.json"
    assert evr("certify", spec, "--output", target).code == 0
    false = ["--epsilon", 1, "--delta", 3e-3, "--tau", 0.9]
    ran = evr("certify", spec, *false, "--output", target, "--force")
    assert ran.code == 3
    assert f"the one that was accepted before: {tmp_path / 'one.accepted.json'}" in ran.out
    assert package.Certificate.load(tmp_path / "one.accepted.json").accepted


SLOW = """
import signal, sys, time
# A background job starts with interruptions ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from evr.cli import main
from evr._kernel.sampled import driver
next_round = driver.next_round

def slowly(*arguments):  # so that the interruption comes before the end
    time.sleep(0.1)
    print("drawing", file=sys.stderr, flush=True)
    return next_round(*arguments)

driver.next_round = slowly
sys.argv = ["evr", "certify", "noise.toml", "--tau", "0.997"]
sys.argv += ["--workers", "1", "--seed", "1", "--quiet"]
main()
"""


def test_interrupted_and_resumed(spec: Path, evr: Callable[..., Any]) -> None:
    import signal

    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    assert child.stderr.readline() == "drawing\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, (out, err)
    assert err.replace("drawing\n", "") == "the attempt counts; `evr resume` continues it\ninterrupted\n"
    assert out == ""
    assert evr("ledger", "--json").json["attempts"][0]["state"] == "interrupted"
    ran = evr("resume", "--json")
    assert ran.code == 0
    assert ran.json["certificate"] == str(spec.with_name("noise.certificate.json"))
    again = evr("replay", spec.with_name("noise.certificate.json"), "--json")
    assert again.json["mismatches"] == []
    assert again.code == 0


def test_replay_takes_the_latest_certificate(spec: Path, evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    assert "which certificate?" in refused("replay")
    for delta in (1e-4, 1e-5):
        assert evr("certify", spec, "--delta", delta, "-o", f"{delta}.json", "-q", "--method", "strict").code == 0
    assert evr("replay").out.startswith("1e-05.json: agrees")
    Path("1e-05.json").unlink()
    assert evr("replay").out.startswith("0.0001.json: agrees")
    Path("0.0001.json").unlink()
    assert "which certificate?" in refused("replay")
    assert "give them" in refused("replay", "--attestation", "any.json")
