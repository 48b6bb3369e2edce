"""Certificates: made, read, repeated, attested and shown; and the records of trainings that they are made of."""

from evr._certificate.attestation import Attestation as Attestation
from evr._certificate.certificate import Certificate as Certificate
from evr._certificate.certificate import digest_of as digest_of
from evr._certificate.replay import Replay as Replay
from evr._certificate.replay import replay as replay
from evr._records import Record as Record
from evr._records import Recorder as Recorder
from evr._records import Recording as Recording
from evr._records import record as record
from evr._release.gate import certify as certify
from evr._report.page import write_report as write_report
