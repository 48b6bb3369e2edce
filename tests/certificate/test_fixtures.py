"""Certificates of each sampler, written once: every later version draws them again."""

from __future__ import annotations

import pytest

import evr
from certificate.make_fixtures import FIXTURES, path_of


@pytest.mark.parametrize("name", FIXTURES)
def test_a_stored_certificate_replays(name: str) -> None:
    certificate = evr.Certificate.load(path_of(name))
    assert certificate.accepted
    found = evr.replay(certificate)
    assert found.agrees, found.mismatches
