"""Certificates, statements, the ledger, and replay."""

from evr.certification.certificate import Certificate
from evr.certification.judging import Mismatch
from evr.certification.ledger import Attempt, Ledger
from evr.certification.replay import Replay, replay

__all__ = ["Attempt", "Certificate", "Ledger", "Mismatch", "Replay", "replay"]
