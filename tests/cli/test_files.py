"""Files of certify, verify and resume: nothing is lost in silence, and a
refusal costs no attempt.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evr as package
from evr._basics.numbers import stated
from evr._dpsgd import stated_in
from evr.cli.files import certificate_path
from helpers import near

CHEAP = ["--noise-multiplier", "2", "--sampling-probability", "1", "--steps", "1"]
TARGET = ["--delta", "1e-3", "--tau", "0.9"]
SPEC = '[[mechanism]]\nkind = "gaussian"\nnoise_multiplier = 2.0\n\n[claim]\ndelta = 1e-3\ntau = 0.9\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noise.toml").write_text(SPEC)
    return tmp_path


def counted() -> int:
    """How many attempts are in the ledger of this folder."""
    if not Path(".evr/ledger.sqlite").exists():
        return 0
    with package.Ledger() as ledger:
        return len(ledger.attempts())


def test_certificates_are_named_after_what_they_certify(evr: Callable[..., Any]) -> None:
    assert evr("certify", *CHEAP, *TARGET, "-q").code == 0
    assert evr("certify", *CHEAP, "--delta", "2e-3", "--tau", "0.9", "-q").code == 0
    found = sorted(path.name for path in Path().glob("*.certificate.json"))
    assert found == [
        "dpsgd-noise2-steps1-delta0.001.certificate.json",
        "dpsgd-noise2-steps1-delta0.002.certificate.json",
    ]
    for name, delta in zip(found, (1e-3, 2e-3), strict=True):
        assert package.Certificate.load(name).claim.delta == near(delta, rel=1e-12)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_read_once(evr: Callable[..., Any]) -> None:
    """As in ``evr certify <(...)``."""
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_text, args=(SPEC,), daemon=True)
    writer.start()
    assert evr("certify", "pipe", "-q").code == 0


def test_names_tell_trainings_apart() -> None:
    one = package.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    two = package.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=250, epochs=15)
    targets: tuple[dict[str, float], ...] = ({"delta": 1e-5}, {"epsilon": 1.14, "delta": 1e-5})
    names = {str(certificate_path(None, event, **target)) for event in (one, two) for target in targets}
    assert len(names) == 4
    assert "dpsgd-noise1.1-steps3516-epsilon1.14-delta1e-5.certificate.json" in names


def test_what_is_there_is_not_overwritten(evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    arguments = ["certify", *CHEAP, *TARGET, "--output", "mine.json", "-q"]
    assert evr(*arguments).code == 0
    before = Path("mine.json").read_bytes()
    assert "mine.json exists already" in refused(*arguments)
    assert Path("mine.json").read_bytes() == before
    assert counted() == 1
    assert evr(*arguments, "--force").code == 0
    assert Path("mine.json").read_bytes() != before
    assert counted() == 2


def test_force_keeps_what_was_accepted_of_something_else(evr: Callable[..., Any]) -> None:
    for index, delta in enumerate(("1e-3", "2e-3")):
        flags = ["--delta", delta, "--tau", "0.9", "-o", "mine.json", "-q", *(["--force"] if index else [])]
        assert evr("certify", *CHEAP, *flags).code == 0
    assert evr("certify", *CHEAP, "--delta", "2e-3", "--tau", "0.9", "-o", "mine.json", "-q", "--force").code == 0
    assert package.Certificate.load("mine.accepted.json").claim.delta == near(1e-3)  # the same again moves nothing


REFUSED: dict[str, tuple[list[str], str]] = {
    "no folder": (["--output", "none/c.json"], "lies in a folder that does not exist"),
    "a folder": (["--output", "."], "is a folder: name a file"),
    "no folder for the page": (["--report", "none/r.html"], "lies in a folder that does not exist"),
    "one file for both": (["--output", "x.json", "--report", "x.json"], "is that of --output, too"),
    "workers": (["--workers", "0"], "workers=0 is not an integer >= 1"),
    "method": (["--method", "x"], "--method x is not one of"),
    "seed": (["--seed", "-1"], "seed=-1 is not an integer >= 0"),
    "tau": (["--tau", "1.5"], "tau=1.5 is not in (0, 1)"),
    "name": (["--name", "\n"], "is not a name"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_costs_no_attempt(name: str, refused: Callable[..., str]) -> None:
    flags, message = REFUSED[name]
    assert message in refused("certify", "noise.toml", *flags)
    assert counted() == 0
    assert not list(Path().glob("*.json"))


def test_it_says_what_it_is_about_to_do(evr: Callable[..., Any]) -> None:
    strict = evr("certify", *CHEAP, *TARGET)
    name = "dpsgd-noise2-steps1-delta0.001.certificate.json"
    for word in ("Proving (1.37, 0.001) in exact arithmetic", name, ".evr/ledger.sqlite"):
        assert word in strict.err
    sampled = evr("certify", *CHEAP, *TARGET, "--method", "sequential", "-o", "two.json")
    assert "samples (sequential test), about" in sampled.err
    assert evr("certify", *CHEAP, *TARGET, "-o", "three.json", "--quiet").err == ""


def test_a_dry_run_leaves_nothing_behind(evr: Callable[..., Any]) -> None:
    told = evr("certify", *CHEAP, *TARGET, "--dry-run")
    assert (told.code, told.err) == (0, "")
    assert "in exact arithmetic, about" in told.out
    asked = evr("certify", *CHEAP, *TARGET, "--method", "sequential", "--dry-run", "--json").json
    assert asked["method"] == "sequential"
    assert asked["samples"] > 0
    assert asked["seconds"] > 0
    assert asked["certificate"].endswith(".certificate.json")
    assert asked["ledger"] == str(Path(".evr/ledger.sqlite"))
    assert not Path(".evr").exists()
    assert not list(Path().glob("*.json"))


def test_a_dry_run_asks_the_ledger_that_there_is(evr: Callable[..., Any]) -> None:
    given = [*CHEAP, "--epsilon", "1", "--delta", "1e-2", "--method", "sequential"]
    assert evr("certify", *given).code == 0
    first = evr("certify", *given, "--dry-run", "-o", "other.json", "--name", "named")
    assert first.code == 0
    assert evr("certify", *given, "--dry-run", "--name", "named").code == 0  # it replaces no file
    assert counted() == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_closed_folder_costs_no_attempt(folder: Path, refused: Callable[..., str]) -> None:
    (folder / "closed").mkdir(mode=0o500)
    assert "cannot be written" in refused("certify", "noise.toml", "--output", "closed/c.json")
    assert counted() == 0


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"path": "none/c.json"}, {"seed": -1}, {"max_samples": 0}])
def test_a_refusal_in_python_costs_no_attempt(wrong: dict[str, Any]) -> None:
    event = package.dpsgd(noise_multiplier=2.0, sampling_probability=1.0, steps=1)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        package.certify(event, delta=1e-3, tau=0.9, **wrong)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        package.release(lambda: 1, event, epsilon=1.0, delta=6.9e-3 / 0.9, tau=0.9, **wrong)
    assert counted() == 0


def interrupt(monkeypatch: pytest.MonkeyPatch, evr: Callable[..., Any], *arguments: object) -> None:
    """Run what is interrupted before its first sample."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("evr._release.attempt.prove", stop)
        assert evr(*arguments).code == 130


def test_resume_takes_the_id_that_the_ledger_shows(
    evr: Callable[..., Any], refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, evr, "certify", *CHEAP, *TARGET, "-o", "one.json")
    interrupt(monkeypatch, evr, "certify", "noise.toml", "--delta", "2e-3")
    assert "which one? Add its id: 2, 1" in refused("resume")
    waiting = [row for row in evr("ledger").rows if "interrupted" in row]
    assert [(row[0], Path(row[6]).name) for row in waiting] == [("1", "one.json"), ("2", "noise.certificate.json")]
    assert "attempt 7 was not interrupted; those that were: 2, 1" in refused("resume", 7)
    assert evr("resume", 1, "-q").code == 0
    assert package.Certificate.load("one.json").claim.delta == near(1e-3)
    assert evr("resume", "-q").code == 0  # one is left
    assert package.Certificate.load("noise.certificate.json").claim.delta == near(2e-3)
    assert "no verification was interrupted" in refused("resume")


def test_resume_overwrites_nothing_and_writes_elsewhere(
    evr: Callable[..., Any], refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, evr, "certify", *CHEAP, *TARGET, "-o", "one.json")
    Path("one.json").write_text("something else")
    assert "one.json exists already" in refused("resume")
    assert "workers=0" in refused("resume", "-o", "two.json", "--workers", 0)
    assert "does not exist" in refused("resume", "-o", "none/two.json")
    assert evr("ledger", "--json").json["attempts"][0]["state"] == "interrupted"  # it waits still
    ran = evr("resume", "--output", "two.json", "--json")
    assert (ran.code, ran.json["certificate"]) == (0, "two.json")
    assert Path("one.json").read_text() == "something else"
    assert package.Certificate.load("two.json").accepted
    assert evr("ledger", "--json").json["attempts"][0]["certificate"].endswith("two.json")


def test_the_ledger_says_what_ran_and_where_its_certificate_is(evr: Callable[..., Any]) -> None:
    told = evr("certify", "noise.toml", "--method", "sequential")
    assert told.code == 0
    attempts = evr("ledger").rows
    row = dict(zip(attempts[0], attempts[1], strict=True))
    assert row["what ran"] == "a Gaussian mechanism (noise multiplier 2)"
    assert row["certificate"] == str(Path("noise.certificate.json").absolute())
    certificate = package.Certificate.load("noise.certificate.json")
    assert certificate.guarantee is not None
    assert row["claim"] == f"({certificate.guarantee.epsilon:g}, 0.001)"
    # One number, one rounding: up, in statement, command and ledger.
    assert float(row["allowance"]) >= certificate.release.allowance
    assert row["allowance"] == stated(certificate.release.allowance, 2)
    total = stated(certificate.release.total_allowance, 2)
    assert f"at most {total}" in certificate.statement
    assert f"spent on it: {row['allowance']} of {total}" in told.out


def test_the_ledger_lists_no_allowance_for_a_proof_in_exact_arithmetic(evr: Callable[..., Any]) -> None:
    assert evr("certify", "noise.toml", "--method", "strict").code == 0
    attempts = evr("ledger").rows
    assert dict(zip(attempts[0], attempts[1], strict=True))["allowance"] == "none"
    assert evr("ledger", "--json").json["attempts"][0]["allowance"] == 0


def test_latex_of_a_certificate(evr: Callable[..., Any]) -> None:
    told = evr("certify", "noise.toml", "--method", "sequential")
    assert "\n\nIt is assumed that\n- " in told.out
    ran = evr("show", "noise.certificate.json", "--latex")
    assert ran.code == 0
    assert "10^{" in ran.out
    assert ran.out.count("@") == 2
    assert "@" not in evr("show", "noise.certificate.json", "--latex", "-q").out


def test_a_search_is_not_described_as_one_training(tmp_path: Path) -> None:
    """The file of the guide to tuning: the sizes describe one run, and a certificate of the search has none."""
    one = '[[mechanism]]\nkind = "dpsgd"\nnoise_multiplier = 1\ndataset_size = 60_000\nbatch_size = 256\nepochs = 15\n'
    path = tmp_path / "search.toml"
    path.write_text(one)
    sizes = {"algorithm": "DP-SGD", "dataset_size": 60_000, "batch_size": 256, "epochs": 15}
    assert stated_in(package.load(path).event()) == sizes
    path.write_text(one + "\n[tuning]\nmean = 20\n")
    assert stated_in(package.load(path).event()) == {}
