"""``evr refute`` and ``evr estimate --both-sides``: what they print, and their exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import evr as library
from cli.conftest import DPSGD
from evr._proof import check_proof
from evr._records import Recorder

SPEC = """
[[mechanism]]
kind = "dpsgd"
noise_multiplier = 1.0
sampling_probability = 1e-3
steps = 1000

[claim]
epsilon = 0.5
delta = 2.05e-10
"""


def test_a_false_pair_is_refuted_with_exit_code_3(evr):
    ran = evr("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2.05e-10)
    assert ran.code == 3
    assert ran.out.startswith("Refuted: delta at epsilon 0.5 is at least 2.05")
    assert "for some training of this description, on some pair of neighbours" in ran.out


def test_a_true_pair_is_open_with_exit_code_0(evr):
    ran = evr("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2.06e-10)
    assert ran.code == 0
    assert ran.out.startswith("Open: the claim is not refuted.")


NEAR = 9e-4
CLAIMS = [
    ('kind="dpsgd", noise_multiplier=1.0, sampling_probability=1e-3, steps=1000', 0.5, "add-or-remove"),
    ('kind="dpsgd", noise_multiplier=1.1, dataset_size=60000, batch_size=256, epochs=15', 1.2, "add-or-remove"),
    ('kind="dpsgd", noise_multiplier=2.0, sampling_probability=0.01, steps=1500', 1.0, "zero-out"),
    ('kind="dpsgd", noise_multiplier=0.8, sampling_probability=0.01, steps=200', 2.0, "replace-one"),
    (
        'kind="dpsgd", noise_multiplier=2.0, sampling_probability=0.02, steps=100, records_per_user=4',
        1.0,
        "add-or-remove",
    ),
    ('kind="gaussian", noise_multiplier=2.0', 1.0, "add-or-remove"),
    ('kind="laplace", noise_multiplier=4.0, repeat=10', 1.3, "add-or-remove"),
    ('kind="discrete_gaussian", sigma=8.0, sensitivity=1, repeat=12', 0.9, "add-or-remove"),
    ('kind="randomized_response", noise_parameter=0.8, num_buckets=4, repeat=6', 1.0, "replace-one"),
    (
        'kind="dpsgd", noise_multiplier=0.9, sampling_probability=0.02, steps=60}, '
        '{kind="laplace", noise_multiplier=8.0, repeat=3',
        0.8,
        "add-or-remove",
    ),
]


@pytest.mark.parametrize(("ran", "epsilon", "relation"), CLAIMS)
def test_claims_near_the_truth_are_judged_rightly(evr, tmp_path, ran, epsilon, relation):
    (tmp_path / "run.toml").write_text(f"mechanism = [{{{ran}}}]\n")
    asked = [tmp_path / "run.toml", "--epsilon", epsilon, "--adjacency", relation, "--json"]
    truth = evr("estimate", *asked).json["delta"]  # its error is below 1e-8 of it
    false = evr("refute", *asked, "--delta", truth * (1 - NEAR))
    assert false.code == 3
    assert false.json["refuted"]
    assert truth * (1 - NEAR) < false.json["lower"] <= truth * (1 + 1e-8)
    true = evr("refute", *asked, "--delta", truth * (1 + NEAR))
    assert true.code == 0
    assert not true.json["refuted"]
    assert true.json["attained"]


def test_a_pair_that_makes_no_sense_is_bad_input(refused):
    assert "delta" in refused("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2)


def test_certify_says_what_is_proved_of_a_false_pair(evr):
    ran = evr("certify", *DPSGD, "--epsilon", 0.5, "--delta", 2.05e-10)
    assert ran.code == 3
    assert "this is false: delta(0.5) is proved to be at least 2.05" in ran.err


def test_what_is_not_attained_is_open(evr):
    batches = ["--noise-multiplier", 1, "--dataset-size", 1000, "--batch-size", 10, "--steps", 10]
    flags = [*batches, "--sampling", "without-replacement", "--adjacency", "replace-one"]
    ran = evr("refute", *flags, "--epsilon", 1, "--delta", 1e-9, "--json")
    assert ran.code == 0
    assert not ran.json["refuted"]
    assert not ran.json["attained"]
    assert ran.json["lower"] > 1e-9


def test_quiet_is_one_word(evr):
    assert evr("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2.05e-10, "-q").out == "refuted\n"
    assert evr("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2.06e-10, "-q").out == "open\n"


def test_json_is_what_python_says(evr):
    found = evr("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2.05e-10, "--json").json
    event = library.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    expected = library.refute(event, epsilon=0.5, delta=2.05e-10)
    assert found.pop("seconds") > 0
    assert all(getattr(expected, name) == value for name, value in found.items())
    assert found["refuted"] is True
    assert "the rest is on paper" in found["sentence"]


def test_files_and_their_claim(evr, tmp_path):
    (tmp_path / "run.toml").write_text(SPEC)
    assert evr("refute", tmp_path / "run.toml").code == 3
    assert evr("refute", tmp_path / "run.toml", "--delta", 2.1e-10).code == 0
    with Recorder(tmp_path / "run.record.jsonl") as recorder:
        for _ in range(3):
            recorder.step(noise_multiplier=1.0, clipping_norm=1.0, sampling_probability=0.01)
    assert evr("refute", tmp_path / "run.record.jsonl", "--epsilon", 0.1, "--delta", 1e-9, "-q").out == "refuted\n"


def test_a_pair_is_needed(refused):
    assert "refute which pair? Add --epsilon and --delta" in refused("refute", *DPSGD)
    assert "refute which pair? Add --delta" in refused("refute", *DPSGD, "--epsilon", 1)


def test_both_sides_of_an_estimate(evr, refused):
    ran = evr("estimate", *DPSGD, "--delta", 1e-9, "--both-sides")
    assert ran.code == 0
    assert ran.out.startswith("epsilon in [0.4111")
    assert "both proved" in ran.out
    found = evr("estimate", *DPSGD, "--epsilon", 0.5, "--both-sides", "--json").json
    assert found["lower"] < 2.0582412161652618e-10 < found["upper"]
    low, high = evr("estimate", *DPSGD, "--epsilon", 0.5, "--both-sides", "-q").out.split("\t")
    assert float(low) < 2.0582412161652618e-10 < float(high)
    assert "--both-sides" in refused("estimate", *DPSGD, "--epsilon", "0:1:0.5", "--both-sides")


def test_both_sides_say_where_the_lower_one_is_about_the_pair_only(evr, tmp_path):
    (tmp_path / "run.toml").write_text('[[mechanism]]\nkind = "zcdp"\nrho = 0.5\n')
    ran = evr("estimate", tmp_path / "run.toml", "--epsilon", 4, "--both-sides")
    assert "for evr's pair only: the mechanism may have less" in ran.out


def test_a_refutation_has_a_file(evr, tmp_path):
    path = tmp_path / "false.proof"
    ran = evr("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2.05e-10, "--proof", path)
    assert ran.code == 3
    assert f"{path}: {check_proof.REFUTED}" in ran.err
    assert check_proof.check(path.read_bytes()).word == check_proof.REFUTED
    assert path.with_name("check_proof.py").read_bytes() == Path(check_proof.__file__).read_bytes()


def test_what_is_open_has_no_file(evr, tmp_path):
    ran = evr("refute", *DPSGD, "--epsilon", 0.5, "--delta", 2.06e-10, "--proof", tmp_path / "none.proof")
    assert ran.code == 0
    assert "not written, since nothing is refuted" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_what_no_file_can_state_is_said(refused, tmp_path):
    (tmp_path / "run.toml").write_text(
        '[[mechanism]]\nkind = "balls_in_bins"\nnoise_multiplier = 1.0\niterations = 10\ncycle_length = 10\n'
    )
    claim = ["--epsilon", 1, "--delta", 1e-9, "--proof", tmp_path / "bins.proof"]
    assert "cannot be stated in a proof file" in refused("refute", tmp_path / "run.toml", *claim)
