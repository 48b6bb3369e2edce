"""Step 3 of EVR: let out what was verified, and count every attempt."""

from evr.gate.gate import Release, certify, release, resume

__all__ = ["Release", "certify", "release", "resume"]
