"""Certificates to draw: accepted, rejected, with a fixed number of samples, and without a sample.
Seeded, and quick.
"""

from __future__ import annotations

import pytest
from dp_accounting import dp_event

import evr
from attempts import certify_claim
from evr._kernel.verdict.settings import Claim, Settings

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=50)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    ledger = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    exact = evr.estimate_delta(EVENT, 0.5).value
    return {
        "accepted": evr.certify(EVENT, epsilon=0.5, tau=0.8, seed=1, ledger=ledger),
        "rejected": certify_claim(EVENT, Claim(0.5, 0.6 * exact / 0.8, 0.8), Settings(), seed=2, ledger=ledger),
        "fixed": evr.certify(EVENT, epsilon=0.4, tau=0.3, seed=3, method="fixed", ledger=ledger),
        "no sample": evr.certify(dp_event.LaplaceDpEvent(2.0), epsilon=1.0, tau=0.5, seed=4, ledger=ledger),
    }


@pytest.fixture(scope="session")
def pages(certificates):
    from evr._report import page

    return {name: page.render(c, source="run.certificate.json") for name, c in certificates.items()}
