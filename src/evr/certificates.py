"""Certificates: made, read, repeated, attested and shown; and the records of trainings that they are made of."""

from evr._certificate.attestation import Attestation
from evr._certificate.certificate import Certificate, digest_of
from evr._certificate.replay import Replay, replay
from evr._records import Record, Recorder, Recording, record
from evr._release.gate import certify
from evr._report.page import write_report

__all__ = [
    "Attestation",
    "Certificate",
    "Record",
    "Recorder",
    "Recording",
    "Replay",
    "certify",
    "digest_of",
    "record",
    "replay",
    "write_report",
]
