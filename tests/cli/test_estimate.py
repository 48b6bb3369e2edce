"""``evr estimate``."""

import pytest

from helpers import near


def test_delta(evr, dpsgd):
    ran = evr("estimate", *dpsgd, "--epsilon", 0.5)
    assert ran.code == 0
    assert ran.out.startswith("delta = 2.05824e-10 at epsilon = 0.5 (estimate by fft, remove direction")
    assert ran.out.count("\n") == 1


def test_epsilon_quiet_is_a_number(evr, dpsgd):
    ran = evr("estimate", *dpsgd, "--delta", 1e-9, "--quiet")
    assert float(ran.out) == near(0.411113988, rel=1e-8)
    assert ran.err == ""


def test_json(evr, dpsgd):
    found = evr("estimate", *dpsgd, "--epsilon", 0.5, "--json").json
    assert found["delta"] == near(2.0582412e-10, rel=1e-7)
    assert (found["epsilon"], found["kind"], found["method"], found["direction"]) == (0.5, "estimate", "fft", "remove")
    assert found["error"] < 1e-6 * found["delta"]
    assert "GaussianDpEvent(noise_multiplier=1.0)" in found["event"]


def test_infinite_epsilon_is_a_word_in_json(evr):
    found = evr(
        "estimate", "--noise-multiplier", 0, "--sampling-probability", 1, "--steps", 1, "--delta", 1e-9, "--json"
    ).json
    assert found["epsilon"] == "inf"


def test_steps_may_be_written_with_an_exponent(evr):
    flags = ["--noise-multiplier", 1, "--sampling-probability", 1e-3, "--epsilon", 0.5, "-q"]
    assert evr("estimate", *flags, "--steps", "1e3").out == evr("estimate", *flags, "--steps", "1000").out


def test_the_claim_of_the_specification_counts(evr, mixed):
    assert evr("estimate", mixed, "--quiet").out == evr("estimate", mixed, "--delta", 1e-5, "--quiet").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "-1"], "epsilon=-1.0 is not in [0, 1e100]"),
        (["--epsilon", "nan"], "epsilon=nan is not in [0, 1e100]"),
        (["--delta", "1.5"], "delta=1.5 is not in [0, 1]"),
        (["--epsilon", "one"], "invalid value for '--epsilon': 'one' is not a number."),
        (["--epsilon", "1", "--delta", "0.1"], "estimate what? Give either --epsilon"),
        ([], "estimate what? Give either --epsilon (to find delta) or --delta (to find epsilon)"),
        (["--epsilon", "1", "--method", "ftt"], "--method ftt is not one of 'fft', "),
        (["--epsilom", "1"], "--epsilon"),
        (["--epsilon", "1", "--steps", "1.5"], "invalid value for '--steps': '1.5' is not a whole number."),
        (["--epsilon", "1", "--steps", "0"], "steps=0 is not an integer >= 1"),
        (["--epsilon", "1", "--sampling-probability", "1.5"], "--sampling-probability=1.5 is not in [0, 1]"),
    ],
)
def test_bad_input(refused, dpsgd, arguments, words):
    assert words in refused("estimate", *dpsgd, *arguments)


def test_nothing_described(refused):
    assert "Give a SPEC file" in refused("estimate", "--epsilon", 1)


def test_file_and_flags(refused, dpsgd, mixed):
    assert "both describe a mechanism" in refused("estimate", mixed, *dpsgd, "--epsilon", 1)


def test_no_such_file(refused):
    assert "missing.toml: cannot be read" in refused("estimate", "missing.toml", "--epsilon", 1)
