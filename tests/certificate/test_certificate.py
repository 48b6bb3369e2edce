"""Certificates: there and back, damage, and alterations that a mended digest does not hide."""

from __future__ import annotations

import copy
import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.verdict.attempts import Attempt
from evr._wording.statement import NOTES, describe_event
from evr.errors import CertificateError, FalseCertificateError
from evr.types import Note
from forging import altered, at, consistent, dotted, leaves, restated, text

SAMPLED = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.3, dp_event.DiscreteLaplaceDpEvent(1.0, 2)), 5)
ON_TRUST = ("software.", "times.", "release.name")


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """An accepted, a rejected, a named, a fixed-sample and a strict certificate, as documents."""
    ledger = tmp_path_factory.mktemp("certificates") / "ledger.sqlite"
    gaussian = dp_event.GaussianDpEvent(2.0)
    made = {
        "accepted": evr.certify(SAMPLED, epsilon=0.5, tau=0.9, method="sequential", ledger=ledger),
        "rejected": evr.certify(dp_event.GaussianDpEvent(2.0), epsilon=1.0, tau=0.99, max_samples=64, ledger=ledger),
        "named": evr.certify(gaussian, delta=1e-3, tau=0.9, ledger=ledger, name="paper", seed=3),
        "fixed": evr.certify(gaussian, epsilon=1.0, tau=0.7, method="fixed", ledger=ledger),
        "strict": evr.certify(SAMPLED, epsilon=0.5, tau=0.85, method="strict", ledger=ledger),
    }
    assert [c.verdict for c in made.values()] == ["accepted", "rejected", "accepted", "accepted", "accepted"]
    return {name: c.document() for name, c in made.items()}


@pytest.fixture
def _verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay with the same primary fields gives the same verification: do it once."""
    known: dict[str, Any] = {}

    run = Attempt.run

    def remembered(how: Any, composition: Any, claim: Any, settings: Any, *planners: Any) -> Any:
        key = repr((seen[-1], composition, claim, settings, how.number, how.seed))
        if key not in known:
            known[key] = run(how, composition, claim, settings, *planners)
        return known[key]

    def plans_of(certificate: Any) -> Any:
        sections = certificate.verification.directions.values()
        seen.append([(getattr(section, "plan", None), section.strict) for section in sections])
        return plans(certificate)

    seen: list[Any] = []
    replay = sys.modules["evr._certificate.replay"]
    plans = replay._plans
    monkeypatch.setattr(replay, "_plans", plans_of)
    monkeypatch.setattr(Attempt, "run", remembered)


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * (1 + 1e-6) if value else 1e-3
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return "1" if value is None else [0.5]


def test_there_and_back(documents: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    for name, document in documents.items():
        certificate = evr.Certificate.from_json(text(document, mend=False))
        assert certificate.document() == document
        certificate.save(tmp_path / f"{name}.json")
        assert evr.Certificate.load(tmp_path / f"{name}.json") == certificate
        assert certificate.dp_event() == (SAMPLED if name in ("accepted", "strict") else dp_event.GaussianDpEvent(2.0))


def test_an_accepted_certificate_is_kept_when_a_rejected_one_takes_its_place(
    documents: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    accepted, rejected = (evr.Certificate.from_json(text(documents[name])) for name in ("accepted", "rejected"))
    path = tmp_path / "my.certificate.json"
    rejected.save(path)
    rejected.save(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    accepted.save(path)
    rejected.save(path)
    rejected.save(path)
    assert evr.Certificate.load(path) == rejected
    assert evr.Certificate.load(tmp_path / "my.certificate.accepted.json") == accepted


@pytest.mark.parametrize("name", ["accepted", "rejected", "named", "fixed", "strict"])
def test_replay_agrees_bit_for_bit(documents: dict[str, dict[str, Any]], name: str) -> None:
    for workers in (1, 3):
        found = evr.replay(evr.Certificate.from_json(text(documents[name])), workers=workers)
        assert found.mismatches == ()
        assert found.notes == ()


def test_fresh_replay(documents: dict[str, dict[str, Any]]) -> None:
    certificate = evr.Certificate.from_json(text(documents["accepted"]))
    found = evr.replay(certificate, fresh=True)
    assert found.agrees
    assert found.verification is not None
    assert found.verification.entropy_is_fresh
    assert f"{found.verification.entropy:x}" != certificate.verification.entropy


@pytest.mark.usefixtures("_verified_once")
@pytest.mark.parametrize("name", ["accepted", "rejected", "named", "fixed", "strict"])
def test_every_altered_field_is_found(documents: dict[str, dict[str, Any]], name: str) -> None:
    document = documents[name]
    undetected = []
    for path in leaves(document):
        changed = altered(document, path, other)
        if path != ("digest",):
            with pytest.raises(CertificateError):  # an honest digest no longer fits
                evr.Certificate.from_json(text(changed, mend=False))
        try:
            certificate = evr.Certificate.from_json(text(changed))
        except CertificateError:
            continue
        if evr.replay(certificate).agrees:
            undetected.append(dotted(path))
    # A plan that draws the same samples with the same bounds is as good a plan: a tilt that ends
    # outside of all losses, say, an edge where there is no mass, or a first place far below epsilon.
    same = (".tilt.cap", ".tilt.floor", ".knots.0")
    trusted = [
        p
        for p in undetected
        if p.startswith(ON_TRUST) or p.endswith((".seconds", *same)) or ".edges." in p or p == "digest"
    ]
    assert undetected == trusted


@pytest.mark.usefixtures("_verified_once")
@pytest.mark.parametrize("name", ["accepted", "rejected", "named", "fixed", "strict"])
def test_every_removed_field_is_found(documents: dict[str, dict[str, Any]], name: str) -> None:
    document = documents[name]
    for path in leaves(document):
        if isinstance(path[-1], int) or dotted(path).startswith(ON_TRUST):
            continue
        changed = copy.deepcopy(document)
        place = changed
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        try:
            certificate = evr.Certificate.from_json(text(changed, mend=path != ("digest",)))
        except CertificateError:
            continue
        assert not evr.replay(certificate).agrees, dotted(path)


def test_a_thorough_forger_is_found(documents: dict[str, dict[str, Any]]) -> None:
    """Who makes all derived fields fit, words and digest included, still cannot make the samples
    fit.
    """
    forged = copy.deepcopy(documents["accepted"])
    forged["claim"]["delta"] /= 2
    with pytest.raises(FalseCertificateError, match=r"guarantee\.delta"):
        evr.Certificate.from_json(text(forged))
    for section in forged["verification"]["directions"].values():
        section["log_wealth"] += 1.0
    found = evr.replay(evr.Certificate.from_json(json.dumps(consistent(forged))))
    assert not found.agrees
    assert any(m.field.startswith("verification") for m in found.mismatches)


def test_a_rejected_certificate_cannot_be_made_an_accepted_one(documents: dict[str, dict[str, Any]]) -> None:
    forged = copy.deepcopy(documents["rejected"])
    forged["verdict"] = "accepted"
    forged["guarantee"] = {"epsilon": 1.0, "delta": forged["claim"]["delta"]}
    with pytest.raises(FalseCertificateError, match=r"verdict.*'accepted'.*'rejected'"):
        evr.Certificate.from_json(json.dumps(restated(forged)))


def test_seeds_do_not_pass_as_fresh(documents: dict[str, dict[str, Any]]) -> None:
    forged = copy.deepcopy(documents["named"])
    forged["verification"]["entropy_is_fresh"] = True
    with pytest.raises(FalseCertificateError, match=r"verification\.entropy_is_fresh"):
        evr.Certificate.from_json(json.dumps(consistent(forged)))


def test_other_software_is_noted(documents: dict[str, dict[str, Any]]) -> None:
    older = copy.deepcopy(documents["accepted"])
    older["software"]["numpy"] = "1.0"
    older["verification"]["directions"]["remove"]["log_wealth"] *= 1 + 1e-13
    found = evr.replay(evr.Certificate.from_json(text(older)))
    assert found.agrees
    assert any("made with numpy 1.0, and this is " in note for note in found.notes)
    assert any("compared to a relative difference of 1e-09" in note for note in found.notes)


def test_samples_of_another_version_speak_neither_for_nor_against(documents: dict[str, dict[str, Any]]) -> None:
    older = copy.deepcopy(documents["accepted"])
    older["software"]["numpy"] = "1.26.4"
    older["verification"]["directions"]["remove"]["log_wealth"] *= 1.1
    found = evr.replay(evr.Certificate.from_json(text(older)))
    assert not found.agrees
    assert found.undecided is not None
    assert found.undecided.startswith("its samples were drawn by evr 0.1.0 with numpy 1.26.4, and this is ")
    assert "--fresh" in found.undecided


def test_other_software_excuses_samples_and_nothing_else(documents: dict[str, dict[str, Any]]) -> None:
    """A forger who names other software gets no more than "undecided", and that only for what is drawn: what a file
    says of itself has to fit, whoever wrote it.
    """
    lies: dict[tuple[str, ...], Any] = {
        ("claim", "delta"): 1e-9,
        ("guarantee", "delta"): 1e-9,
        ("release", "allowance"): 1e-30,
        ("statement",): "It is (0.01, 0)-differentially private.",
        ("verdict",): "rejected",
    }
    for software in ("numpy", "evr"):
        for path, lie in lies.items():
            forged = altered(documents["accepted"], path, lambda _, lie=lie: lie)  # type: ignore[misc]
            forged["software"][software] = "0.0.9"
            with pytest.raises(FalseCertificateError, match=path[0]):
                evr.Certificate.from_json(text(forged))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not valid JSON, perhaps cut off"),
        ("[]", "not a certificate of evr"),
        ("{}", "it has no schema_version"),
        ('{"schema_version": true}', "it has no schema_version"),
        ('{"schema_version": 99}', "schema version 99; this evr reads 3"),
        ('{"schema_version": 3}', "the digest does not match"),
        ('{"schema_version": 1, "schema_version": 1}', "a key occurs twice"),
        ('{"schema_version": 3, "a": NaN}', "data that JSON cannot hold"),
        ('{"schema_version": 3, "a": 1e999}', "data that JSON cannot hold"),
        ('{"schema_version": 3, "a": "\\ud800"}', "do not print"),
        ("[" * 100_000, "not valid JSON"),
        ("9" * 10_000, "not valid JSON"),
    ],
)
def test_what_is_no_certificate(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)
    with pytest.raises(CertificateError, match=message) as raised:
        evr.Certificate.load(path)
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot be read"):
        evr.Certificate.load(tmp_path / "missing")
    with pytest.raises(CertificateError, match="cannot be read"):
        evr.Certificate.load(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CertificateError, match="not UTF-8"):
        evr.Certificate.load(tmp_path / "bytes")


def test_truncation_at_any_place_is_detected(documents: dict[str, dict[str, Any]]) -> None:
    whole = evr.Certificate.from_json(text(documents["accepted"])).to_json()
    for end in range(0, len(whole) - 2, 37):
        with pytest.raises(CertificateError):
            evr.Certificate.from_json(whole[:end])


def test_the_published_schema_is_current(documents: dict[str, dict[str, Any]]) -> None:
    schema = evr.Certificate.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    published = resources.files("evr._certificate") / "certificate.schema.json"
    assert published.read_text(encoding="utf-8") == json.dumps(schema, indent=2, sort_keys=True) + "\n"
    assert set(schema["required"]) <= set.intersection(*map(set, documents.values()))


def test_no_field_is_null_or_about_another_method(documents: dict[str, dict[str, Any]]) -> None:
    for document in documents.values():
        outside = {path for path in leaves(document) if not {"event", "plan"} & set(path)}
        assert all(at(document, path) not in (None, "nan", "-inf", {}) for path in outside)
    strict = documents["strict"]
    assert set(strict["verification"]) == {"method", "directions"}
    assert {key for part in strict["verification"]["directions"].values() for key in part} == {
        "accepted",
        "reason",
        "strict",
    }
    assert strict["release"] == {"attempt": 1}
    assert "tau" not in strict["claim"]
    assert "strict" not in documents["accepted"]["verification"]["directions"]["remove"]


def test_no_truth_value(documents: dict[str, dict[str, Any]]) -> None:
    with pytest.raises(TypeError, match="no truth value"):
        bool(evr.Certificate.from_json(text(documents["accepted"])))


def test_the_statement_names_every_assumption(documents: dict[str, dict[str, Any]]) -> None:
    statement = documents["accepted"]["statement"]
    for word in (
        "add-or-remove-one",
        "Poisson sampling, not shuffled",
        "recorded as fresh",
        "later mechanisms are chosen",
        "did not depend on the data",
        "follows the stated distribution exactly",
        "one output",
        "sequential test",
    ):
        assert word in statement
    assert "Poisson" not in documents["named"]["statement"]
    assert "chose the seed" in documents["named"]["statement"]
    assert "no guarantee" in documents["rejected"]["statement"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"type": "NoOpDpEvent"}, "nothing"),
        ({"type": "ComposedDpEvent", "events": []}, "nothing"),
        ({"type": "LaplaceDpEvent", "noise_multiplier": 0.1}, "a Laplace mechanism (noise multiplier 0.1)"),
        ({"type": "own.module.EllipticDpEvent"}, "an unknown mechanism (register it to describe it)"),
        (
            {"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1.0, "sensitivities": [0.0, 1.0]}
            | {"sampling_probs": [0.5, 0.5]},
            "a mixture of Gaussians mechanism "
            "(standard deviation 1, sensitivities [0.0, 1.0], sampling probs [0.5, 0.5])",
        ),
        (
            {"type": "ComposedDpEvent", "events": [{"type": "NoOpDpEvent"}] * 9},
            "9 mechanisms one after the other, the first being nothing",
        ),
        (
            {"type": "DiscreteGaussianDpEvent", "sigma": 3.0, "sensitivity": 2, "dimension": 1},
            "a discrete Gaussian mechanism (sigma 3, sensitivity 2, dimension 1)",
        ),
    ],
)
def test_events_in_words(document: dict[str, Any], words: str) -> None:
    assert describe_event(document) == words


def test_certify_by_delta_and_by_epsilon(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    by_delta = evr.certify(SAMPLED, delta=0.1, tau=0.8, ledger=ledger, path=tmp_path / "c.json")
    assert by_delta.accepted
    assert by_delta.guarantee is not None
    assert by_delta.guarantee.delta == 0.1
    exact = float(evr.estimate_epsilon(SAMPLED, 0.08))
    assert exact <= by_delta.guarantee.epsilon < exact * 1.01
    by_epsilon = evr.certify(SAMPLED, epsilon=0.5, tau=0.8, ledger=ledger)
    assert by_epsilon.guarantee is not None
    truth = float(evr.estimate_delta(SAMPLED, 0.5))
    assert truth / 0.8 <= by_epsilon.guarantee.delta < truth / 0.8 * (1 + 1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "certify what"),
        ({"epsilon": 1.0, "delta": 1e-5}, r"this is false.*would hold"),
        ({"delta": 0.0}, r"delta=0.0 is not in \(0, 1\]"),
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"epsilon": 1.0, "tau": 0.0}, "tau=0.0"),
    ],
)
def test_certify_refuses(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        evr.certify(SAMPLED, **options, ledger=tmp_path / "ledger.sqlite")
    assert not (tmp_path / "ledger.sqlite").exists()


def test_certify_of_what_has_no_epsilon(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"no epsilon lets delta=1e-06 be verified, .* fail with a chance of 0.001: claim delta=0.00102",
    ):
        evr.certify(evr.events.EpsilonDeltaDpEvent(1.0, 1e-3), delta=1e-6, ledger=tmp_path / "l")
    with pytest.raises(ValueError, match="fail with a chance of 1: give them noise"):
        evr.certify(dp_event.GaussianDpEvent(0.0), delta=1e-6, ledger=tmp_path / "l")


@pytest.mark.parametrize("epsilon", [1.0, 0.25])
def test_strict_proofs_there_and_back_also_where_delta_is_nothing(epsilon: float, tmp_path: Path) -> None:
    certificate = evr.certify(
        dp_event.LaplaceDpEvent(2.0), epsilon=epsilon, tau=0.9, method="strict", ledger=tmp_path / "ledger.sqlite"
    )
    assert certificate.accepted
    assert "proved in exact arithmetic" in certificate.statement
    again = evr.Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert evr.replay(again).agrees


def test_every_kind_of_note_has_its_assumption() -> None:
    assert [*NOTES] == [*Note]


@pytest.mark.parametrize("value", [None, "x", -1, 1e300, "inf", [], [1.0], True], ids=repr)
def test_events_of_odd_values_are_refused_when_they_are_read(documents: dict[str, dict[str, Any]], value: Any) -> None:
    """Whatever a mechanism or its words make of them, it is the certificate that is wrong."""
    for name in ("strict", "fixed"):
        for path in leaves(documents[name]["event"], ("event",)):
            changed = altered(documents[name], path, lambda _: value)
            if changed != documents[name]:
                with pytest.raises(CertificateError):
                    evr.Certificate.from_json(text(changed))
