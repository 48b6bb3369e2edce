"""Certificates, statements, the ledger, and replay."""

from evr.certification.certificate import Certificate
from evr.certification.ledger import Ledger
from evr.certification.replay import Mismatch, Replay, replay
from evr.certification.tables import Attempt

__all__ = ["Attempt", "Certificate", "Ledger", "Mismatch", "Replay", "replay"]
