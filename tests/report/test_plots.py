"""Pictures: they hold what they should, and the same input gives the same bytes."""

import numpy as np
import pytest
from matplotlib.text import Text

import evr
from evr._report import plots

EPSILONS = np.linspace(0, 4, 9)
DELTAS = 0.1 * np.exp(-2 * EPSILONS**2)


def test_privacy_curves_are_labelled_and_logarithmic():
    figure = plots.privacy_curves({"ours": (EPSILONS, DELTAS), "theirs": (EPSILONS, 2 * DELTAS)}, title="Two curves")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("ε", "δ(ε)", "log")
    assert axes.get_title(loc="left") == "Two curves"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "theirs"]
    first, second = axes.get_lines()
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    low, high = axes.get_ylim()
    assert low < DELTAS.min()
    assert high > 0.2


@pytest.mark.parametrize("deltas", [np.zeros(9), np.ones(9), np.where(EPSILONS > 2, 0.0, DELTAS)])
def test_zeros_and_ones_do_not_break_the_scale(deltas):
    assert plots.render(plots.privacy_curves({"fft": (EPSILONS, deltas)}), "png").startswith(b"\x89PNG")


def test_a_long_title_is_not_cut():
    words = "Noise multiplier 0.8, dataset size 50,000, batch size 512, epochs 30, sampling probability 0.01024"
    figure = plots.privacy_curves({"fft": (EPSILONS, DELTAS)}, title=f"Privacy curve\n{words}")
    (axes,) = figure.axes
    figure.draw_without_rendering()  # lays it out
    assert axes.get_title(loc="left").replace("\n", " ") == f"Privacy curve {words}"
    (drawn,) = axes.findobj(lambda one: isinstance(one, Text) and one.get_text().startswith("Privacy curve"))
    assert drawn.get_window_extent().x1 <= figure.bbox.x1


def test_a_sweep_draws_itself_in_the_looks_of_evr():
    found = evr.sweep(
        noise_multiplier=[1.0, 2.0, 3.0], steps=[1, 2], sampling_probability=1.0, delta=1e-5, method="rdp"
    )
    (axes,) = plots.curve(found, title="Noise").axes
    assert axes.get_title(loc="left") == "Noise"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("noise multiplier", "epsilon")
    assert [line.get_color() for line in axes.get_lines()] == [look.colour for look in plots.LOOKS[:2]]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_picture_is_the_same_file(kind, tmp_path):
    one, two = (plots.render(plots.privacy_curves({"a": (EPSILONS, DELTAS)}), kind) for _ in range(2))
    assert one == two
    plots.save(plots.privacy_curves({"a": (EPSILONS, DELTAS)}), tmp_path / f"x.{kind.upper()}")
    assert (tmp_path / f"x.{kind.upper()}").read_bytes() == one


def test_a_long_title_is_broken_and_not_cut():
    found = evr.sweep(noise_multiplier=[1.0, 2.0], sampling_probability=0.1, steps=2, delta=1e-3)
    title = "Epsilon\nNoise multiplier 0.8, dataset size 50,000, batch size 512, epochs 30, sampling allocation"
    (axes,) = plots.curve(found, title=title).axes
    assert axes.get_title(loc="left").split() == title.split()
    axes.figure.draw_without_rendering()
    box = next(text for text in axes.get_children() if getattr(text, "get_text", str)() == axes.get_title(loc="left"))
    assert box.get_window_extent().x1 <= axes.figure.bbox.x1
