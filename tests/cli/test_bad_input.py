"""What somebody met who walked through all commands with bad input: each is refused in words, at
once, and nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evr as package
from evr._certificate import limits
from evr._report import plots
from evr.cli import in_flags
from evr.errors import TooLongError
from helpers import near

GAUSSIAN = '[[mechanism]]\nkind = "gaussian"\nnoise_multiplier = 2.0\n'
BINS = ["--noise-multiplier", 0.8, "--dataset-size", 50_000, "--batch-size", 512, "--epochs", 30]
BINS += ["--sampling", "allocation"]
STEP = ["--noise-multiplier", 2, "--sampling-probability", 1, "--steps", 1]
DRAWN = ["--noise-multiplier", 2, "--dataset-size", 100, "--batch-size", 50, "--steps", 1]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noise.toml").write_text(f"{GAUSSIAN}[claim]\ndelta = 1e-3\n")
    return tmp_path


@pytest.fixture
def certificate(evr: Callable[..., Any]) -> Path:
    assert evr("certify", "noise.toml", "--method", "strict").code == 0
    return Path("noise.certificate.json")


def test_no_workers_are_the_callers_mistake(certificate: Path, refused: Callable[..., str]) -> None:
    assert "workers=0 is not an integer >= 1" in refused("replay", certificate, "--workers", 0)
    assert "--max-seconds=0.0 is not positive" in refused("replay", certificate, "--max-seconds", 0)


@pytest.mark.parametrize("command", ["estimate", "certify"])
def test_absurd_epsilons(command: str, refused: Callable[..., str]) -> None:
    assert "epsilon=1e+300 is not in [0, 1e100]" in refused(command, *STEP, "--epsilon", 1e300)


def test_batches_without_replacement_have_a_name_too(evr: Callable[..., Any]) -> None:
    flags = ["--sampling", "without-replacement", "--adjacency", "replace-one", "--delta", 1e-3]
    ran = evr("certify", *DRAWN, *flags, "--dry-run", "--json")
    assert ran.code == 0
    name = "dpsgd-noise2-steps1-delta0.001.certificate.json"
    assert ran.json["certificate"] == name


def test_batches_by_allocation_are_described_and_have_a_name_too(evr: Callable[..., Any]) -> None:
    flags = ["--noise-multiplier", 2, "--dataset-size", 100, "--batch-size", 10, "--epochs", 2]
    assert "each record in 2 batches of all, at random" in evr("describe", *flags, "--sampling", "allocation").out
    ran = evr("certify", *flags, "--sampling", "allocation", "--delta", 1e-3, "--dry-run", "--json")
    assert ran.json["certificate"] == "dpsgd-noise2-steps20-delta0.001.certificate.json"


def test_an_exact_proof_takes_no_seed(refused: Callable[..., str]) -> None:
    told = refused("certify", "noise.toml", "--method", "strict", "--seed", 1)
    assert "--seed=1 belongs to methods that sample" in told
    assert not Path(".evr").exists()


@pytest.mark.parametrize("claim", ["delta = 2.0", "delta = nan", "epsilon = -1.0", "tau = 1.0"])
def test_a_claim_is_named_with_its_file(claim: str, refused: Callable[..., str]) -> None:
    Path("claim.toml").write_text(f"{GAUSSIAN}[claim]\n{claim}\n")
    key = claim.split()[0]
    assert f"claim.toml: claim.{key}: input should be" in refused("estimate", "claim.toml")


def test_what_leaves_nothing_to_calibrate_is_named(refused: Callable[..., str]) -> None:
    target = ["--epsilon", 1, "--delta", 1e-5, "--noise-multiplier", 1]
    assert "--noise-multiplier and --epochs leave nothing" in refused(
        "calibrate", *target, "--sampling-probability", 0.1, "--epochs", 3
    )


def test_a_schedule_of_noise_is_scaled(refused: Callable[..., str]) -> None:
    flags = ["--epsilon", 1, "--delta", 1e-5, "--sampling-probability", 0.1, "--noise-multiplier", "1@3,2@4"]
    assert "error: --noise-multiplier is a schedule: add --scale-noise" in refused("calibrate", *flags)


def test_an_exact_proof_is_shown_without_a_word_of_samples(certificate: Path, evr: Callable[..., Any]) -> None:
    section = package.Certificate.load(certificate).verification.directions["remove"]
    assert ["remove direction", section.reason] in evr("show", certificate).rows


def test_a_picture_is_of_the_relation_that_was_asked_for(
    evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    figure = plots.curve

    def watched(found: Any, **options: Any) -> Any:
        drawn.append(found)
        return figure(found, **options)

    monkeypatch.setattr("evr._report.plots.curve", watched)
    flags = ["--epsilon", "0,1", "--adjacency", "replace-one", "--plot", "curve.svg"]
    ran = evr("estimate", "noise.toml", *flags)
    assert ran.code == 0
    (curve,) = drawn
    assert (curve.epsilons[-1], curve.deltas[-1]) == (1.0, near(float(ran.rows[2][1]), rel=1e-5))


def test_a_rejection_says_why(evr: Callable[..., Any]) -> None:
    claim = ["certify", *STEP, "--epsilon", 1, "--delta", 2e-4, "--tau", 0.5, "--force"]
    strictly = evr(*claim, "--method", "strict")
    assert strictly.code == 3
    assert "remove direction: delta is at most 0.0" in strictly.out
    drawn = evr(*claim, "--method", "sequential")
    assert drawn.code == 3
    assert "(delta is about " in drawn.out
    assert "samples (sequential test)" in drawn.err


def test_new_samples_are_spoken_of_where_there_are_some(certificate: Path, evr: Callable[..., Any]) -> None:
    exact = evr("replay", certificate, "--fresh").out
    assert "its integers came out the same" in exact
    assert evr("certify", "noise.toml", "--method", "sequential", "-o", "drawn.json").code == 0
    drawn = evr("replay", "drawn.json", "--fresh").out
    assert re.search(r": all but its samples agrees, and [\d,]+ new samples give the same verdict", drawn)


def test_a_folder_that_takes_no_file_is_found_out_first(refused: Callable[..., str], folder: Path) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("there is no /proc here")
    assert "cannot be written" in refused("certify", "noise.toml", "-o", "/proc/evr.json")
    assert not (folder / ".evr").exists()


@pytest.mark.parametrize("text", ["1e-400", "1e400", "1e-200/1e200"])
def test_numbers_that_no_float_holds(text: str, refused: Callable[..., str]) -> None:
    assert "beyond what a float holds" in refused("estimate", *STEP, "--epsilon", text)


def test_noise_is_looked_for_far_away(evr: Callable[..., Any]) -> None:
    found = evr(
        *("calibrate", "--epsilon", 1e-3, "--delta", 1e-16, "--json"), *("--steps", 1e9, "--sampling-probability", 1)
    )
    assert 2.15e8 < found.json["value"] < 2.16e8  # one Gaussian of noise 2.154e8 / sqrt(1e9)


@pytest.mark.parametrize("counted", [False, True])
def test_an_interruption_counts_where_an_attempt_was_counted(
    counted: bool, evr: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    place = "evr._release.attempt.prove" if counted else "evr.cli.reporting.say"
    monkeypatch.setattr(place, interrupt)
    ran = evr("certify", "noise.toml")
    assert ran.code == 130
    assert ("the attempt counts; `evr resume` continues it\n" in ran.err) == counted
    assert len(evr("ledger", "--json").json["attempts"]) == counted


def test_a_sampling_probability_near_nothing(evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    steps = ["--noise-multiplier", 1, "--steps", 20, "--sampling-probability"]
    found = evr("estimate", *steps, 1e-250, "--delta", 1e-5)
    assert found.out.startswith("epsilon = 0 at delta = 1e-5 ")
    words = refused("estimate", *steps, 1e-300, "--delta", 1e-5)
    assert "--sampling-probability=1e-300 is below 1e-250" in words
    assert "give 1e-250, which covers it" in words


def test_a_claim_that_no_float_tells_from_0_is_named_as_it_was_given(refused: Callable[..., str]) -> None:
    assert "delta=1e-300 is not above 2e-290" in refused("certify", *STEP, "--delta", 1e-300)


def test_a_tau_beyond_the_threshold_of_the_first_attempt(evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    claim = ["certify", *STEP, "--epsilon", 1, "--delta", 7e-3, "--method", "sequential", "--quiet"]
    assert evr(*claim, "--tau", 0.9).code == 0
    words = refused(*claim, "--tau", 0.999, "--force")
    assert "tau=0.999 leaves nothing to verify" in words
    assert "fixed a threshold of 0.9975 times delta: give a smaller tau" in words


def test_remedies_are_flags(refused):
    """Errors of the library name keywords; whoever typed flags is told flags, and nothing that has none."""
    told = refused("certify", *BINS, "--delta", 1e-9, "--tau", 0.9999, "--method", "fixed", "--dry-run", "--quiet")
    assert "lower tau (now 0.9999), use --method sequential, use --method strict" in told
    assert "max_samples" not in told


def test_words_of_a_file_stay_its_words(refused):
    Path("run.toml").write_text(GAUSSIAN.replace("2.0", "-1.0"))
    assert "(kind 'gaussian'): noise_multiplier=-1.0 is not" in refused("estimate", "run.toml", "--delta", 1e-5)


def test_keywords_become_flags_but_not_within_events(refused):
    told = refused("estimate", *STEP, "--delta", 1e-5, "--adjacency", "x")
    assert "error: --adjacency='x' is not known: give one of 'add-or-remove', 'replace-one', 'zero-out'\n" in told
    told = refused("estimate", *DRAWN, "--delta", 1e-5, "--user-norm", 2)
    assert "--user-norm=2.0 needs --records-per-user and --sampling poisson" in told
    assert "ShuffledBatchesDpEvent(noise_multiplier=..., epochs=...)" in refused(
        "estimate", *DRAWN, "--delta", 1e-5, "--sampling", "shuffled"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["certify", *STEP, "--delta", 1e-3, "--report", "a", "--proof", "a"], "--proof='a' is that of --report, too"),
        (["certify", *STEP, "--delta", 1e-3, "--proof", "check_proof.py"], "is the checker"),
        (["certify", "noise.toml", "-o", "noise.toml", "--force"], "--output='noise.toml' is read, too"),
        (["estimate", "noise.toml", "--epsilon", "0,1", "--csv", "./noise.toml"], "is read, too"),
        (["refute", "noise.toml", "--epsilon", 0, "--proof", "noise.toml"], "is read, too"),
        (["attest", "noise.toml", "c.json", "-o", "c.json", "--force"], "--output='c.json' is read, too"),
    ],
)
def test_no_file_takes_the_place_of_another(
    arguments: list[object], words: str, refused: Callable[..., str], evr: Callable[..., Any]
) -> None:
    assert evr("certify", "noise.toml", "-o", "c.json").code == 0
    before = {path: path.read_bytes() for path in Path().glob("*.*") if path.is_file()}
    assert words in refused(*arguments)
    assert {path: path.read_bytes() for path in Path().glob("*.*") if path.is_file()} == before


def test_a_remedy_has_no_python_beside_its_flag(refused):
    Path("run.toml").write_text('[[mechanism]]\nkind = "shuffled_batches"\nnoise_multiplier = 2.0\nepochs = 1\n')
    told = refused("estimate", "run.toml", "--delta", 1e-5, "--adjacency", "add-or-remove")
    assert "it has one under 'zero-out': --adjacency zero-out" in told
    said = "allow more with --max-seconds, inf for no limits (max_seconds=, None, in Python)"
    assert said.endswith(limits._ALLOW[-60:])
    assert in_flags(TooLongError(said)) == "allow more with --max-seconds, inf for no limits"
