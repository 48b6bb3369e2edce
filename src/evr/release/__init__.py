"""Step 3 of EVR: let out what was verified, with a certificate that can be replayed, and count every attempt."""

from evr.release.attempt import resume
from evr.release.bounds import proved_delta
from evr.release.certificate import Certificate
from evr.release.certify import certify
from evr.release.gate import Release, release, released
from evr.release.ledger import Ledger
from evr.release.replay import Mismatch, Replay, replay
from evr.release.rows import Attempt

__all__ = [
    "Attempt",
    "Certificate",
    "Ledger",
    "Mismatch",
    "Release",
    "Replay",
    "certify",
    "proved_delta",
    "release",
    "released",
    "replay",
    "resume",
]
