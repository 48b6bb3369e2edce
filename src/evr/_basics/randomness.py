"""Independent streams of random numbers, named by what they are for.

Philox is counter-based: a key selects a stream, a counter a place in it. The key is a digest of (entropy, purpose,
attempt, direction), the block number is the upper part of the counter, so block ``n`` holds the same numbers whoever
draws it and in whatever order, and an estimate never shares a number with a verification.
"""

import hashlib
import numbers
import secrets
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

ENTROPY_BITS = 256


def entropy_of(seed: Any) -> int:
    """A caller's seed as entropy; where there is none, fresh entropy from the operating system."""
    given = seed_of(seed)
    return secrets.randbits(ENTROPY_BITS) if given is None else given


def seed_of(seed: Any) -> int | None:
    """A caller's seed as a plain integer, whatever kind of integer it is; None stays None.

    >>> seed_of(-1)
    Traceback (most recent call last):
    ...
    ValueError: seed=-1 is not an integer >= 0
    """
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise ValueError(f"seed={seed!r} is not an integer >= 0")
    return int(seed)


@dataclass(frozen=True)
class Stream:
    """A named stream, cut into blocks.

    >>> stream = Stream(entropy=1, purpose="verify", attempt=1, direction="remove")
    >>> bool(stream.block(3).random() == stream.block(3).random())
    True
    >>> bool(stream.block(3).random() == stream.block(4).random())
    False
    """

    entropy: int
    purpose: str
    attempt: int = 1
    direction: str = "remove"

    def block(self, number: int) -> np.random.Generator:
        """The generator of one block; blocks do not overlap, for each has 2^192 counters to itself."""
        name = f"{self.entropy:x}|{self.purpose}|{self.attempt}|{self.direction}"
        digest = hashlib.sha256(name.encode()).digest()[:16]
        key = int.from_bytes(digest, "little")
        return np.random.Generator(np.random.Philox(key=key, counter=number << 192))


def of_rows(generator: np.random.Generator, rows: NDArray[np.intp]) -> np.random.Generator:
    """The generator for some of its rows: one that draws by place (``RowNumbers``) must know which rows they are."""
    return cast(np.random.Generator, getattr(generator, "of_rows", lambda _: generator)(rows))


def for_purpose(generator: np.random.Generator, purpose: int) -> np.random.Generator:
    """The generator for another purpose: one that draws by place counts its calls from 0 again."""
    return cast(np.random.Generator, getattr(generator, "for_purpose", lambda _: generator)(purpose))


def refuse_seeded_numpy(drawn: str, error: type[Exception]) -> None:
    """Raise an error if somebody called ``np.random.seed``: what NumPy's global generator draws is no secret then."""
    if getattr(np.random.get_bit_generator(), "seed_seq", None) is None:  # type: ignore[attr-defined]
        what = f"NumPy's global generator, which draws {drawn}, was seeded by hand, so they are no secret"
        fresh = "np.random.set_bit_generator(np.random.MT19937())"
        raise error(f"{what}: do not call np.random.seed(); or call {fresh} after it, before the training is set up")
