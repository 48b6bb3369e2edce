"""Some models are of mechanisms that are registered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models import mechanisms


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    with mechanisms.registered():
        yield
