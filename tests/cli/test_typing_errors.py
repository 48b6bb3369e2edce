"""What a person gets wrong: names of flags, false pairs, numbers that are likely slips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evr._release import attempt
from evr.cli import reporting

MNIST = ["--dataset-size", "60000", "--batch-size", "256", "--epochs", "1"]
SHORT = ["--steps", "20", "--delta", "1e-6"]
NOISY = ["--noise-multiplier", "1.1", *MNIST]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("flag", "right"),
    [
        ("--noise", "--noise-multiplier"),
        ("--sigma", "--noise-multiplier"),
        ("--noise_multiplier", "--noise-multiplier"),
        ("--batch", "--batch-size"),
        ("--lot-size", "--batch-size"),
        ("--sample-rate", "--sampling-probability"),
        ("--eps", "--epsilon"),
    ],
)
@pytest.mark.parametrize("command", ["certify", "estimate", "calibrate"])
def test_flags_of_other_libraries(command: str, flag: str, right: str, refused: Callable[..., str]) -> None:
    said = refused(command, flag, "1")
    assert f"no such option: {flag}. Did you mean {right}? Try 'evr {command} --help'." in said


def test_other_flags_are_not_guessed(refused: Callable[..., str]) -> None:
    assert "Did you mean" not in refused("certify", "--lr", "1")
    assert "--noise-multiplier" not in refused("replay", "--noise", "1")  # it has no such flag


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--json"]])
def test_a_false_pair_leaves_with_3(more: list[str], evr: Callable[..., Any]) -> None:
    ran = evr("certify", *NOISY, "--epsilon", "0.1", "--delta", "1e-6", *more)
    assert (ran.code, ran.out) == (3, "")
    assert "this is false" in ran.err
    assert "would hold" in ran.err
    assert not Path(".evr/ledger.sqlite").exists()


def test_a_pair_that_is_true_by_too_little_leaves_with_3(evr: Callable[..., Any]) -> None:
    delta = float(evr("estimate", *NOISY, "--epsilon", "0.5", "--quiet").out)
    ran = evr("certify", *NOISY, "--epsilon", "0.5", "--delta", repr(delta * (1 + 1e-6)))
    assert (ran.code, ran.out) == (3, "")
    assert "true by too little to be verified" in ran.err


def test_delta_0_where_epsilon_is_infinite(refused: Callable[..., str]) -> None:
    assert "epsilon is infinite" in refused("estimate", *NOISY, "--delta", "0")


def test_resume_remembers_force(evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("old.certificate.json")
    flags = [*NOISY, "--delta", "1e-6", "--output", file]
    assert evr("certify", *flags, "--quiet").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(attempt, "prove", _interrupted)
        assert evr("certify", *flags, "--force", "--quiet").code == 130
    assert evr("resume", "--quiet").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(attempt, "prove", _interrupted)
        assert evr("certify", *NOISY, "--delta", "1e-6", "-o", "new.json").code == 130
    Path("new.json").write_text(file.read_text())  # came in between, and nobody allowed that
    assert evr("resume", "--quiet").code == 2
    assert evr("resume", "--quiet", "--output", file).code == 2
    assert evr("resume", "--quiet", "--force").code == 0


def _interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


NOTES = {
    "delta": ([*NOISY, "--delta", "0.01"], "delta = 0.01 is not below one over the 60,000 records"),
    "noise": (["--noise-multiplier", "281.6", *MNIST, "--delta", "1e-6"], "multiplier 281.6 is"),
    "share": (
        ["--noise-multiplier", "20", "--sampling-probability", "0.43", "--steps", "9", "--delta", "1e-6"],
        "sampling probability 0.43 is above 0.2",
    ),
    "epsilon": (
        ["--noise-multiplier", "0.2", "--sampling-probability", "0.1", "--steps", "20", "--delta", "1e-6"],
        "promises next to nothing",
    ),
}


@pytest.mark.parametrize("name", NOTES)
@pytest.mark.parametrize("command", ["estimate", "certify"])
def test_a_note_on_what_may_be_a_slip(command: str, name: str, evr: Callable[..., Any]) -> None:
    flags, words = NOTES[name]
    plain = evr(command, *flags)
    assert plain.code == 0
    (line,) = [line for line in plain.err.splitlines() if line.startswith("note: ")]
    assert words in line
    assert "note" not in plain.out
    force = ["--force"] if command == "certify" else []
    asked = evr(command, *flags, "--json", *force)
    assert "note" not in asked.json
    assert words in asked.err
    assert evr(command, *flags, "--quiet", *force).err == ""


def test_a_note_on_a_file(evr: Callable[..., Any]) -> None:
    spec = Path("run.toml")
    spec.write_text(
        '[[mechanism]]\nkind = "dpsgd"\nnoise_multiplier = 1.1\ndataset_size = 60000\n'
        "batch_size = 256\nepochs = 1\n\n[claim]\ndelta = 1e-3\n"
    )
    assert "is not below one over the 60,000 records" in evr("estimate", spec).err


def test_usual_numbers_have_no_note(evr: Callable[..., Any]) -> None:
    assert evr("estimate", *NOISY, "--delta", "1e-5").err == ""
    flags = ["--sampling-probability", "1", "--steps", "9"]
    assert evr("estimate", "--noise-multiplier", "20", *flags, "--delta", "1e-6").err == ""


def test_a_note_where_noise_or_steps_are_found(evr: Callable[..., Any]) -> None:
    ran = evr("calibrate", "--epsilon", "1e-5", "--delta", "1e-3", *MNIST)
    assert ran.code == 0
    # noise that was found is not a slip; on a busy machine the search has words, too
    (line,) = (line for line in ran.err.splitlines() if not line.startswith("Searching"))
    assert "is not below one over" in line
    flags = ["--noise-multiplier", "100", "--sampling-probability", "0.01"]
    ran = evr("calibrate", "--epsilon", "0.01", "--delta", "1e-6", *flags)
    assert "is above 50: is it a standard deviation?" in ran.err


@pytest.mark.parametrize("target", [["--delta", "1e-6"], ["--epsilon", "1.5", "--delta", "1e-6"]])
def test_a_first_word_before_anything_is_found(
    target: list[str], evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reporting._SOON <= 1.0  # with the time that it takes to start, two seconds
    monkeypatch.setattr(reporting, "_SOON", 0.0)
    ran = evr("certify", *NOISY, *target, "--dry-run")
    assert ran.code == 0
    assert ran.err.splitlines() == ["Working out what to prove, and how."]
    assert evr("certify", *NOISY, *target, "--dry-run", "--quiet").err == ""
    monkeypatch.setattr(reporting, "_SOON", 60.0)  # nothing to say of what is over at once
    assert evr("certify", *NOISY, *target, "--dry-run").err == ""


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["curve"], "evr estimate --epsilon 0:5:0.25"),
        (["online"], "evr estimate --every 1"),
        (["compare"], "evr estimate --compare"),
        (["verify"], "evr certify"),
        (["inspect", "x.json"], "evr show FILE"),
        (["report", "x.json"], "evr show FILE --html PAGE"),
        (["estimate", "--epsilons", "0:1:1"], "--epsilon"),
    ],
)
def test_other_spellings_are_answered_with_the_one_of_evr(
    arguments: list[str], meant: str, refused: Callable[..., str]
) -> None:
    assert meant in refused(*arguments)
