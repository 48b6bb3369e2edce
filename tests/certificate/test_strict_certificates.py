"""Certificates of strict proofs: they replay to the same integers anywhere, and no altered one is
believed.
"""

from __future__ import annotations

import copy
import json
import math
import random
import time

import pytest
from dp_accounting import dp_event

import evr
import evr._plan.sampled as planning
from attempts import certify_claim
from evr import events
from evr._certificate.certificate import Certificate, digest_of
from evr._kernel.events import MECHANISMS, Composition
from evr._kernel.pairs import DiscretePair, Pairs
from evr._kernel.sampled.line import TiltedProposal
from evr._kernel.verdict.settings import Claim, Settings, threshold_of
from evr._proving import choosing
from evr._proving.choosing import Forecast, StrictProving
from evr._proving.sampling import Sampling
from evr.errors import CertificateError, DisagreementError, EvrError
from kernel.strict.stress import plant

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=30)
MENDED = 100


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strict")
    return evr.certify(EVENT, epsilon=0.5, tau=0.99, method="strict", ledger=folder / "ledger.sqlite")


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    return evr.certify(EVENT, epsilon=0.5, tau=0.8, method="both", seed=1, ledger=folder / "ledger.sqlite")


def mended(document):
    """With the digest that belongs to it."""
    return json.dumps({**document, "digest": digest_of(document)})


def test_a_strict_certificate_says_proved_and_no_probability(certificate):
    assert certificate.accepted
    assert "proved in exact arithmetic" in certificate.statement
    for word in ("Monte Carlo", "samples", "probability of", "entropy"):
        assert word not in certificate.statement
    assert certificate.release.allowance is None
    assert certificate.verification.samples == 0
    proofs = {name: section.strict for name, section in certificate.verification.directions.items()}
    assert proofs["remove"].plan["windows"]
    assert proofs["add"].model_dump(exclude_none=True) == {"bound": "0"}  # no loss exceeds epsilon
    assert certificate.times.seconds > 0.01  # the proof was in hand when the attempt was counted


def test_it_replays_to_the_same_integers(certificate):
    found = evr.replay(Certificate.from_json(certificate.to_json()))
    assert found.agrees
    assert found.verification.accepted
    assert evr.replay(certificate, fresh=True).agrees


def test_other_software_is_no_excuse(certificate):
    """Integers come out the same everywhere: what differs is held against the certificate."""
    document = certificate.document()
    document["software"] |= {"numpy": "1.0.0", "evr": "0.0.9"}
    document = Certificate.sealed(document).document()
    older = Certificate.from_json(mended(document))
    assert "by evr 0.0.9: in both directions" in older.statement
    for fresh in (False, True):
        found = evr.replay(older, fresh=fresh)
        assert (found.agrees, found.undecided, found.notes) == (True, None, ())
    section = document["verification"]["directions"]["remove"]
    section["strict"]["digest"] = section["strict"]["digest"][::-1]
    found = evr.replay(Certificate.from_json(mended(document)))
    assert not found.agrees
    assert found.undecided is None


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def altered(value, rng):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 7))
    if isinstance(value, float):
        return value * rng.choice((0.5, 0.999, 1 - 1e-12, 2.0)) if value else 1e-9
    if isinstance(value, str):
        place = rng.randrange(len(value)) if value else 0
        return value[:place] + rng.choice("0123456789abcdef/-") + value[place + 1 :]
    return 0


def test_none_of_many_altered_certificates_is_believed(certificate):
    """Each with one value altered and its digest mended. What a replay takes on trust is left
    out.
    """
    trusted = {"digest", "software", "times", "record"}
    known = ("seconds", "entropy", "entropy_is_fresh")
    document = certificate.document()
    places = [path for path, _ in leaves(document) if path[0] not in trusted and path[-1] not in known]
    proofs = [path for path in places if "strict" in path]
    believed, rng = [], random.Random(20)
    for trial in range(MENDED):
        path = rng.choice(proofs if trial % 2 else places)
        changed = copy.deepcopy(document)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        if (value := altered(inner[path[-1]], rng)) == inner[path[-1]]:
            continue
        inner[path[-1]] = value
        try:
            if evr.replay(Certificate.from_json(mended(changed))).agrees:
                believed.append((path, value))
        except (CertificateError, EvrError):
            continue
    assert believed == []


def test_a_truncated_or_damaged_file_is_refused(certificate, tmp_path):
    text = certificate.to_json()
    for length in (0, 1, len(text) // 3, len(text) - 2):
        (tmp_path / "cut.json").write_text(text[:length])
        with pytest.raises(CertificateError):
            Certificate.load(tmp_path / "cut.json")
    with pytest.raises(CertificateError, match="digest"):
        Certificate.from_json(text.replace('"bits": ', '"bits": 1', 1))


def test_a_proof_that_shows_more_than_it_does_is_refused(certificate):
    """A better bound, with the guarantee to match, and everything mended that can be."""
    document = certificate.document()
    for section in document["verification"]["directions"].values():
        section["strict"]["bound"] = "1/100000000"
    found = evr.replay(Certificate.sealed(document))
    assert any("strict" in mismatch.field for mismatch in found.mismatches)


def test_a_claim_that_is_false_is_rejected(tmp_path):
    delta = evr.estimate_delta(EVENT, 0.5).value
    claim = Claim(0.5, 0.98 * delta / 0.99, 0.99)
    settings = Settings("strict")
    found = certify_claim(EVENT, claim, settings, ledger=tmp_path / "ledger.sqlite")
    assert not found.accepted
    assert found.guarantee is None
    assert "It was not shown that" in found.statement
    assert evr.replay(found).agrees


def test_both_proofs_stand_in_one_certificate(double):
    assert double.accepted
    assert double.verification.method == "both"
    assert double.verification.samples > 0
    assert all(section.strict is not None for section in double.verification.directions.values())
    assert "confirmed by a sequential test" in double.statement
    assert evr.replay(double).agrees


def test_both_refuse_a_plan_that_composes_steps(double):
    """The strict proof composes too: a sampled one that shares its law proves nothing beside it."""
    steps, stated = Composition.of(EVENT).simplified("remove"), double.claim
    claim = Claim(stated.epsilon, stated.delta, stated.tau)
    plan = planning.planned(steps, claim, "capped")
    assert plan.proposal.places
    document = copy.deepcopy(double.document())
    document["verification"]["directions"]["remove"]["plan"] = plan.to_json()
    found = evr.replay(Certificate.from_json(mended(document)))
    assert not found.agrees
    assert "share no composed law" in found.mismatches[0].recomputed


def test_both_find_a_fault_in_the_strict_proof(tmp_path, monkeypatch):
    """Products that lose mass accept a false claim; samples do not."""
    plant(
        monkeypatch,
        "masses",
        "up = Masses(self.first, raised, wide.width, self.most).rounded_down(bits)",
        "up = Masses(self.first, raised, wide.width, self.most).rounded_down(bits + 1)",
    )
    delta = evr.estimate_delta(EVENT, 0.5).value
    assert evr.verify(EVENT, epsilon=0.5, delta=0.5 * delta / 0.8, tau=0.8, method="strict").accepted
    with pytest.raises(DisagreementError, match="the strict proof shows the claim and the sampled one does not"):
        evr.verify(EVENT, epsilon=0.5, delta=0.5 * delta / 0.8, tau=0.8, method="both", seed=1)


def test_both_find_a_fault_in_the_sampled_proof(monkeypatch):
    """Weights that are too small accept a false claim; integers do not."""
    draw = TiltedProposal.draw
    monkeypatch.setattr(
        TiltedProposal, "draw", lambda *a: (b := draw(*a))._replace(log_weights=b.log_weights - math.log(4.0))
    )
    delta = evr.estimate_delta(EVENT, 0.5).value
    assert evr.verify(EVENT, epsilon=0.5, delta=0.5 * delta / 0.8, tau=0.8, seed=1).accepted
    with pytest.raises(DisagreementError, match="the sampled proof shows the claim and the strict one does not"):
        evr.verify(EVENT, epsilon=0.5, delta=0.5 * delta / 0.8, tau=0.8, method="both", seed=1)


def test_a_disagreement_certifies_nothing_and_counts(tmp_path, monkeypatch):
    plant(
        monkeypatch,
        "masses",
        "up = Masses(self.first, raised, wide.width, self.most).rounded_down(bits)",
        "up = Masses(self.first, raised, wide.width, self.most).rounded_down(bits + 1)",
    )
    delta = evr.estimate_delta(EVENT, 0.5).value
    claim = Claim(0.5, 0.5 * delta / 0.8, 0.8)
    settings = Settings("both")
    ledger = evr.Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(DisagreementError, match="nothing is certified"):
        certify_claim(EVENT, claim, settings, ledger=ledger, path=tmp_path / "c.json", seed=2)
    assert not (tmp_path / "c.json").exists()
    assert [attempt.state for attempt in ledger.attempts()] == ["failed"]


class PlainDpEvent(dp_event.DpEvent):
    """A mechanism without an exact law."""


def test_auto_chooses_strict_where_it_can(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    assert evr.certify(EVENT, epsilon=0.5, tau=0.9, ledger=ledger).verification.method == "strict"
    sampled = evr.certify(EVENT, epsilon=0.5, tau=0.7, seed=3, ledger=ledger)
    assert sampled.verification.method == "sequential"
    with pytest.raises(ValueError, match="method='guess' is not one of 'auto'"):
        evr.certify(EVENT, epsilon=0.5, method="guess", ledger=ledger)


def test_auto_samples_where_a_strict_proof_fails(tmp_path):
    """A strict bound is not tight for a large loss beside tiny ones; that claim, twice the truth,
    was rejected.
    """
    tiny = dp_event.RandomizedResponseDpEvent(1 - 1e-10, 2)
    event = dp_event.ComposedDpEvent([events.EpsilonDeltaDpEvent(3.0, 0.0), dp_event.SelfComposedDpEvent(tiny, 20)])
    asked = {"ledger": tmp_path / "ledger", "neighboring_relation": "replace-one"}
    certificate = evr.certify(event, epsilon=3.0, delta=2 * 3.3568e-10, **asked)
    assert certificate.verification.method == "sequential"
    assert certificate.verdict == "accepted"


def test_auto_samples_where_it_cannot(tmp_path):
    pair = DiscretePair.from_probabilities([0.3, 0.7], [0.35, 0.65])
    evr.register(PlainDpEvent, lambda event: Pairs(pair, pair))
    try:
        event = dp_event.SelfComposedDpEvent(PlainDpEvent(), 3)
        delta = evr.estimate_delta(event, 0.1).value
        claim = Claim(0.1, delta / 0.9)
        assert not StrictProving(Composition.of(event)).shows(claim, threshold_of(claim))
    finally:
        del MECHANISMS[PlainDpEvent]


@pytest.mark.parametrize(("samples", "method"), [("refused", "strict"), (5.0, "sequential"), (50.0, "strict")])
def test_auto_takes_the_shorter_way(samples, method, monkeypatch):
    """Where a strict proof takes longer than seconds, it is still taken if samples take longer, or are refused."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    monkeypatch.setattr(StrictProving, "seconds", lambda *_: {"remove": 9.0, "add": 3.0})

    def forecast(composition, claim, settings, strict):
        if samples == "refused":
            raise ValueError("too many samples")
        return Forecast(claim, settings, strict, seconds={"remove": samples})

    monkeypatch.setattr(choosing, "forecast", forecast)
    claim = Claim(0.5, 1.7e-11)
    strict = StrictProving(Composition.of(event))
    assert strict.settings("auto", Sampling(), claim, threshold_of(claim)).method == method


def far_offset(plan):
    """All places are 1e14 and more beyond epsilon: they were once followed one by one."""
    plan["grids"][0][0] = "1" + "0" * 300


def far_window(plan):
    """Each window is 2^27 places below or above what the one before it left."""
    most = (1 << 26) - 1
    plan["grids"][0] = ["0", 0, 0, 1, most - 8, most]
    for index in range(len(plan["windows"])):
        low, high = (-most, 8 - most) if index % 2 == 0 else (most - 8, most)
        plan["windows"][index] = [0, 0, 0, low, high]


@pytest.mark.parametrize("alter", [far_offset, far_window])
def test_places_that_are_far_away_do_not_keep_a_replay_busy(certificate, alter):
    document = copy.deepcopy(certificate.document())
    alter(document["verification"]["directions"]["remove"]["strict"]["plan"])
    start = time.process_time()
    found = evr.replay(Certificate.from_json(mended(document)), max_seconds=60.0)
    assert not found.agrees
    assert time.process_time() - start < 20.0
