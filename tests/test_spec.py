"""Specification files: every kind, and every mistake as a ``SpecError`` that helps."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from dp_accounting import dp_event
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evr import events
from evr._kernel.events import Composition
from evr._spec import load, parse
from evr.errors import SpecError
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent, dpsgd

GAUSSIAN = '[[mechanism]]\nkind = "gaussian"\nnoise_multiplier = 1.0\n'

KINDS = {
    "dpsgd": (
        "noise_multiplier = 1.5\nsampling_probability = 0.01\nsteps = 100",
        dpsgd(noise_multiplier=1.5, sampling_probability=0.01, steps=100),
    ),
    "gaussian": ("noise_multiplier = 2", dp_event.GaussianDpEvent(2.0)),
    "laplace": ("noise_multiplier = 0.5", dp_event.LaplaceDpEvent(0.5)),
    "randomized_response": ("noise_parameter = 0.25\nnum_buckets = 4", dp_event.RandomizedResponseDpEvent(0.25, 4)),
    "discrete_laplace": ("noise_parameter = 0.3\nsensitivity = 2", dp_event.DiscreteLaplaceDpEvent(0.3, 2)),
    "discrete_gaussian": ("sigma = 3.0", DiscreteGaussianDpEvent(3.0, 1)),
    "epsilon_delta": ("epsilon = 1.0\ndelta = 1e-6", EpsilonDeltaDpEvent(1.0, 1e-6)),
    "mixture_of_gaussians": (
        "standard_deviation = 1.0\nsensitivities = [0.0, 1.0]\nsampling_probs = [0.5, 0.5]",
        dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)),
    ),
    "balls_in_bins": (
        "noise_multiplier = 3.0\niterations = 20\ncycle_length = 4\nstrategy = [1.0, 0.5]",
        events.BallsInBinsDpEvent(3.0, 20, 4, (1.0, 0.5)),
    ),
    "redrawn_bins": ("noise_multiplier = 3.0\ncycle_length = 4\nepochs = 5", events.RedrawnBinsDpEvent(3.0, 4, 5)),
    "cyclic_poisson": (
        'noise_multiplier = 3.0\niterations = 20\ncycle_length = 4\nsampling_probability = 0.2\npartition = "fixed"',
        events.CyclicPoissonDpEvent(3.0, 20, 4, 0.2, "fixed"),
    ),
    "b_min_sep": (
        "noise_multiplier = 3.0\niterations = 2\nmin_sep = 4\nsampling_probability = "
        "0.2\nwarm_start = false\nstrategy = [[1.0, 0.5], [2.0]]",
        events.BMinSepDpEvent(3.0, 2, 4, 0.2, False, ((1.0, 0.5), (2.0,))),
    ),
    "matrix_mechanism": (
        "noise_multiplier = 3.0\nstrategy = [1.0, 0.5]\niterations = 20\nmin_sep = 4\nmax_participations = 3",
        events.MatrixMechanismDpEvent(3.0, (1.0, 0.5), 20, 4, 3),
    ),
}


SCHEMES = ("dpsgd", "balls_in_bins", "redrawn_bins", "cyclic_poisson", "b_min_sep", "matrix_mechanism")
"""What says by itself who takes part when."""
RELATIONS = {"randomized_response": "replace-one"}
"""What has to be asked for."""


def table(kind, lines):
    return f'[[mechanism]]\nkind = "{kind}"\n{lines}\n'


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind):
    lines, expected = KINDS[kind]
    assert parse(table(kind, lines)).event(RELATIONS.get(kind)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_repeat(kind):
    lines, expected = KINDS[kind]
    event = parse(table(kind, lines + "\nrepeat = 3")).event(RELATIONS.get(kind))
    assert event == dp_event.SelfComposedDpEvent(expected, 3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (*SCHEMES, *RELATIONS)])
def test_sampling(kind):
    lines, expected = KINDS[kind]
    event = parse(table(kind, lines + "\nsampling_probability = 0.1\nrepeat = 2")).event()
    assert event == dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.1, expected), 2)


def test_dpsgd_in_the_units_of_a_training():
    lines = "noise_multiplier = 1.1\ndataset_size = 60_000\nbatch_size = 256\nepochs = 15"
    expected = dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    assert parse(table("dpsgd", lines)).event() == expected


def test_all_kinds_in_one_file_compose():
    event = parse("\n".join(table(kind, lines) for kind, (lines, _) in KINDS.items())).event("zero-out")
    assert event.events == [expected for _, expected in KINDS.values()]
    assert len(Composition.of(event, "zero-out").remove) == len(KINDS)


def test_the_claim():
    claim = parse(GAUSSIAN + "[claim]\ndelta = 1e-9\ntau = 0.9").claim
    assert (claim.epsilon, claim.delta, claim.tau) == (None, 1e-9, 0.9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no mechanism is described"),
        ("mechanism = []", "mechanism: list should have at least 1 item"),
        ("[mechanism]\nkind = 'gaussian'", "write \\[\\[mechanism\\]\\]"),
        ("mechanism = [1]", r"mechanism\[0\]: .*found 1"),
        ("[[mechanism]]\nnoise_multiplier = 1.0", r"mechanism\[0\]\.kind: missing; known: dpsgd, gaussian"),
        (table("gausian", ""), r"mechanism\[0\]\.kind: unknown kind 'gausian'; did you mean 'gaussian'\?"),
        (table("zzz", ""), r"unknown kind 'zzz'; known: dpsgd"),
        ("mechanism = [{kind = [1]}]", r"mechanism\[0\]\.kind: unknown kind \[1\]"),
        (table("gaussian", ""), r"mechanism\[0\]\.noise_multiplier: field required"),
        (
            table("gaussian", "noise_multiplyer = 1.0"),
            r"noise_multiplyer: unknown key; did you mean 'noise_multiplier'\?",
        ),
        (GAUSSIAN + r'"\u001b[2J" = 1', r"mechanism\[0\]\.\\x1b\[2J: unknown key"),
        (GAUSSIAN + "qqq = 1", r"mechanism\[0\]\.qqq: unknown key; known: kind, noise_multiplier, repeat"),
        (GAUSSIAN + "[clam]\ndelta = 1e-9", r"clam: unknown key; did you mean 'claim'\?"),
        (GAUSSIAN + "[claim]\ndelt = 1e-9", r"claim\.delt: unknown key; did you mean 'delta'\?"),
        (GAUSSIAN + GAUSSIAN + "steps = 3", r"mechanism\[1\]\.steps: unknown key"),
        (
            table("gaussian", "noise_multiplier = '1'"),
            r"noise_multiplier: input should be a valid number \(found '1'\)",
        ),
        (table("gaussian", "noise_multiplier = true"), r"noise_multiplier: .*\(found True\)"),
        (table("gaussian", "noise_multiplier = 1979-05-27"), "noise_multiplier: input should be a valid number"),
        (GAUSSIAN + "repeat = 1.5", r"repeat: input should be a valid integer .*found 1\.5"),
        (GAUSSIAN + "[claim]\ndelta = 'small'", r"claim\.delta: .*found 'small'"),
        (
            table("laplace", "noise_multiplier = -1.0"),
            r"mechanism\[0\] \(kind 'laplace'\): noise_multiplier=-1.0 is not",
        ),
        (table("gaussian", "noise_multiplier = nan"), r"noise_multiplier=nan is not"),
        (GAUSSIAN + "sampling_probability = 1e-400", "1e-400 is beyond what a float holds"),  # and is not 0
        (GAUSSIAN + "[claim]\nepsilon = 1e400", "1e400 is beyond what a float holds"),  # and is not infinite
        (GAUSSIAN + "sampling_probability = 1.5", r"sampling_probability=1.5 is not in \[0, 1\]"),
        (GAUSSIAN + "repeat = 0", r"repeat=0 is not an integer >= 1"),
        (GAUSSIAN + "repeat = 0x" + "f" * 5000, r"repeat=<an integer of 20000 bits> is too large"),
        (table("gaussian", "noise_multiplier = 0x" + "f" * 5000), "noise_multiplier: .*an integer of 20000 bits"),
        (table("gaussian", "noise_multiplier = " + "1" * 5000), "not valid TOML"),
        (
            table("dpsgd", "noise_multiplier = 1.0\nsampling_probability = 0.1\nsteps = -1"),
            "steps=-1 is not an integer",
        ),
        (
            table("dpsgd", "noise_multiplier = 1.0\nsteps = 1"),
            r"mechanism\[0\] \(kind 'dpsgd'\): how often is a record sampled\? "
            "Give sampling_probability",
        ),
        (
            table("dpsgd", "noise_multiplier = 1.0\nsampling_probability = 0.1\nsteps = 1\nepochs = 2"),
            r"steps=1 and epochs=2.0 say the same twice",
        ),
        ("a = " + "[" * 5000, "not valid TOML"),
        ("this is not TOML", "not valid TOML: .*line 1"),
        ("a = 1\na = 2", "not valid TOML: Cannot overwrite"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(SpecError, match=message):
        parse(text).event()


def test_a_file(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(GAUSSIAN)
    assert load(path).event() == load(str(path)).event() == dp_event.GaussianDpEvent(1.0)


def test_files_that_cannot_be_read_are_named(tmp_path):
    missing, latin, broken = (tmp_path / name for name in ("missing.toml", "latin.toml", "broken.toml"))
    latin.write_bytes(b"# caf\xe9\n")
    broken.write_text("[[mechanism]\n")
    for path, message in (
        (missing, r"missing\.toml: cannot be read \(No such file"),
        (tmp_path, r"cannot be read \(Is a directory\)"),
        (latin, r"latin\.toml: not UTF-8 text \(invalid continuation byte at byte 5\)"),
        (broken, r"broken\.toml: not valid TOML"),
        *([(Path("/dev/zero"), "zero: larger than 32 MiB")] if Path("/dev/zero").exists() else []),
    ):
        with pytest.raises(SpecError, match=message):
            load(path)


def only_spec_errors(text):
    with contextlib.suppress(SpecError):
        parse(text).event()


@settings(max_examples=300, deadline=None)
@given(st.text())
@example("\ufeff")
@example("\x00")
def test_any_text_gives_an_event_or_a_spec_error(text):
    only_spec_errors(text)


WORDS = st.sampled_from([*KINDS, "kind", "repeat", "noise_multiplier", "sampling_probability", "steps", "epsilon", "x"])
VALUES = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        ["true", '"gaussian"', "[]", "{}", "[1.0, 0.5]", "1e999", "-0.0", "2024-01-01", "{kind = 1}", "'''"]
    ),
)
LINES = st.one_of(
    st.builds("{} = {}".format, WORDS, VALUES),
    st.builds('kind = "{}"'.format, WORDS),
    st.sampled_from(["[[mechanism]]", "[claim]", "[mechanism]", "[[mechanism.kind]]", "[claim.delta]"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=8).map("\n".join), st.booleans())
def test_any_near_specification_gives_an_event_or_a_spec_error(text, headed):
    only_spec_errors("[[mechanism]]\n" + text if headed else text)


def test_one_bracket_instead_of_two():
    with pytest.raises(SpecError, match=r"^\[mechanism\] is one table.*write \[\[mechanism\]\]$"):
        parse('[mechanism]\nkind = "gaussian"\nnoise_multiplier = 1.0\n')


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "[claim]\ndelta = 1e-5\n"])
def test_an_empty_file_says_what_belongs_there(text):
    with pytest.raises(SpecError, match=r"^no mechanism is described: write what ran in a table \[\[mechanism\]\]"):
        parse(text)


def test_a_wrong_value_is_named_with_its_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(GAUSSIAN.replace("1.0", "nan"))
    with pytest.raises(SpecError) as caught:
        load(path).event()
    assert str(caught.value).startswith(f"{path}: mechanism[0] (kind 'gaussian'): noise_multiplier=nan is not")


def test_the_units_of_a_training():
    units = "noise_multiplier = 1.1\ndataset_size = 60000\nbatch_size = 256\nepochs = 15\n"
    event = parse(f'[[mechanism]]\nkind = "dpsgd"\n{units}').event()
    assert event == dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    assert event.count == 3516


RATIO = '[[mechanism]]\nkind = "{}"\n{}\nsampling_probability = "{}"\n'


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("dpsgd", "noise_multiplier = 1.0\nsteps = 3"),
        ("laplace", "noise_multiplier = 1.0"),
        ("b_min_sep", "noise_multiplier = 1.0\niterations = 4\nmin_sep = 2\nwarm_start = true"),
    ],
)
def test_a_probability_may_be_a_ratio(kind, keys):
    given, meant = (parse(RATIO.format(kind, keys, q)).event() for q in ("256/60000", "256 / 60000"))
    exact = RATIO.format(kind, keys, "x").replace('"x"', repr(256 / 60000))
    assert given == meant == parse(exact).event()
    for wrong in ("256/0", "a lot", "1/3/4", "-1/3"):
        with pytest.raises(SpecError, match=r"sampling_probability: .*number \(found '"):
            parse(RATIO.format(kind, keys, wrong))
    with pytest.raises(SpecError, match=r"sampling_probability=2\.0"):
        parse(RATIO.format(kind, keys, "2/1")).event()
