"""``evr calibrate``."""

import pytest

TARGET = ["--epsilon", "1", "--delta", "1e-6"]


def test_the_noise_written_down_is_on_the_private_side(evr):
    flags = ["--sampling-probability", 0.01, "--steps", 1000]
    ran = evr("calibrate", *TARGET, *flags)
    assert ran.out.startswith("noise_multiplier = 1.563, the smallest of four digits for epsilon = 1 and delta = 1e-6")
    deltas = [
        float(evr("estimate", "--noise-multiplier", noise, *flags, "--epsilon", 1, "-q").out)
        for noise in (1.563, 1.562)
    ]
    assert deltas[0] < 0.9999e-6 < 1e-6 < deltas[1]


def test_the_noise_that_is_found_is_certified(evr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--epsilon", 3, "--delta", 1e-5, "--dataset-size", 50_000, "--batch-size", 1024]
    flags += ["--epochs", 30]
    noise = evr("calibrate", *flags, "--quiet").out.strip()
    assert noise == "1.322"
    refused = evr("certify", *flags, "--noise-multiplier", 1.321535)
    assert refused.code != 0
    assert "or this pair with --noise-multiplier=1.322\n" in refused.err
    assert evr("certify", *flags, "--noise-multiplier", noise).code == 0


@pytest.mark.parametrize("risk", [["--advantage", 0.2], ["--true-positive-rate", 0.01, "--false-positive-rate", 0.001]])
def test_the_noise_for_a_risk_is_certified(evr, tmp_path, monkeypatch, risk):
    monkeypatch.chdir(tmp_path)
    flags = [*risk, "--sampling-probability", 0.01, "--steps", 500]
    noise = evr("calibrate", *flags, "--quiet").out.strip()
    ran = evr("certify", *flags, "--noise-multiplier", noise)
    assert ran.code == 0
    assert f"above {risk[1]}." in ran.out
    assert evr("certify", *flags, "--noise-multiplier", 0.98 * float(noise), "-q").code == 3


def test_most_steps(evr):
    flags = ["--noise-multiplier", 1.4, "--sampling-probability", 0.01]
    steps = int(evr("calibrate", *TARGET, *flags, "--quiet").out)
    deltas = [float(evr("estimate", *flags, "--steps", k, "--epsilon", 1, "-q").out) for k in (steps, steps + 1)]
    assert deltas[0] <= 1e-6 < deltas[1]


def test_json(evr):
    found = evr("calibrate", *TARGET, "--sampling-probability", 1, "--steps", 10, "--json").json
    assert found["parameter"] == "noise_multiplier"
    assert found["estimated_delta"] <= found["delta"] == 1e-6
    assert found["value"] > 1


def test_repetitions_of_a_specification(evr, mixed):
    found = evr("calibrate", mixed, "--epsilon", 1, "--delta", 1e-6, "--json").json
    assert found["parameter"] == "repetitions"
    assert found["value"] >= 1


def test_the_claim_of_a_specification_is_its_target(evr, refused, mixed):
    assert "Add --epsilon" in refused("calibrate", mixed)  # its claim has a delta only
    assert evr("calibrate", mixed, "--epsilon", 1, "--json").json["delta"] == 1e-5
    mixed.write_text(mixed.read_text() + "epsilon = 1.0\n")
    found = evr("calibrate", mixed, "--json").json
    assert (found["epsilon"], found["delta"]) == (1.0, 1e-5)
    assert evr("calibrate", mixed, "--delta", 1e-6, "--json").json["delta"] == 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "10"], "calibrate to which target? Add --epsilon and --delta"),
        (["--epsilon", "1", "--steps", "10"], "Add --delta"),
        (["--true-positive-rate", "0.01", "--steps", "10"], "Add --false-positive-rate"),
        (["--advantage", "0.1", "--epsilon", "1", "--steps", "10"], "--epsilon=1.0, --advantage=0.1: give"),
        (TARGET, "find what? Give --steps"),
        ([*TARGET, "--steps", "10", "--noise-multiplier", "1"], "leave nothing to find: leave out one of them"),
        (["--epsilon", "1", "--delta", "0", "--steps", "10"], "delta=0.0 is not in (0, 1)"),
        (["--epsilon", "inf", "--delta", "0.1", "--steps", "10"], "epsilon=inf is not >= 0 and finite"),
        ([*TARGET, "--noise-multiplier", "0.1", "--sampling-probability", "1"], "even 1 misses the target"),
        (["--epsilon", "1", "--advantage", "0.1"], "give --epsilon and --delta; or --advantage; or --true"),
        ([*TARGET, "--noise-multiplier", "0"], "--noise-multiplier=0.0 is not positive"),
    ],
)
def test_bad_input(refused, arguments, words):
    assert words in refused("calibrate", *arguments)


def test_the_noise_of_shuffled_batches_is_found_from_a_file(evr, refused, tmp_path):
    flags = [*TARGET, "--sampling", "shuffled", "--steps", 10, "--sampling-probability", 0.1]
    told = refused("calibrate", *flags)
    assert "noise_multiplier=1" not in told  # nobody gave it
    assert "`evr calibrate FILE --scale-noise`" in told
    (tmp_path / "run.toml").write_text('[[mechanism]]\nkind = "shuffled_batches"\nnoise_multiplier = 1.0\nepochs = 5\n')
    found = evr("calibrate", tmp_path / "run.toml", *TARGET, "--scale-noise", "--json").json
    assert found["noise"] == [found["value"]] == [9.447]  # sqrt(5) times that of one Gaussian, 4.2247


def test_file_and_flags(refused, mixed):
    assert "both describe a mechanism" in refused("calibrate", mixed, *TARGET, "--steps", 3)
