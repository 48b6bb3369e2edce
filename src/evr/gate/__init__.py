"""Step 3 of EVR: let out what was verified, and count every attempt."""

from evr.gate.attempt import resume
from evr.gate.certify import certify
from evr.gate.gate import Release, release, released
from evr.gate.recording import Recorder
from evr.gate.records import Record

__all__ = ["Record", "Recorder", "Release", "certify", "release", "released", "resume"]
