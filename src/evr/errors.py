"""The exceptions of evr, all derived from ``EvrError``; invalid values raise ``ValueError`` and ``TypeError``."""

from typing import Any


class EvrError(Exception):
    """Root of every exception that evr defines."""


class UnsupportedEventError(EvrError, ValueError):
    """A ``DpEvent`` has no dominating pair here. Names the sub-event (``event``), its path and what is supported."""

    def __init__(self, message: str, event: Any = None) -> None:
        super().__init__(message)
        self.event = event


class OtherRelationError(UnsupportedEventError):
    """A mechanism has no laws under the relation of neighbours. Says why, and what to do."""


class FalseClaimError(EvrError, ValueError):
    """A pair is false by its estimate, or too close to verify. Says what would hold. Nothing was counted."""


class AccuracyError(EvrError, ValueError):
    """The error of an estimate is as large as the estimate, or floats cannot hold it."""


class SpecError(EvrError, ValueError):
    """A specification file cannot be understood. Names the key, the rule and, for a typing error, the nearest key."""


class CertificateError(EvrError, ValueError):
    """A certificate cannot be read: it is damaged, altered, of another format, or not a certificate."""


class FalseCertificateError(CertificateError):
    """A certificate contradicts itself, or what it says does not come out again. Names the fields."""


class LedgerError(EvrError, ValueError):
    """The ledger cannot be used (damaged, or not writable), or refuses an attempt (a seed was used before)."""


class AlreadyReleasedError(LedgerError):
    """This release has produced its one output, or may have."""


class RecordError(EvrError, ValueError):
    """The record of a training cannot be used, or the training broke a hypothesis of its accounting."""


class TooLongError(EvrError, ValueError):
    """A file asks for too much work, or the work took longer than allowed. Says how to allow it."""


class ClusterError(EvrError, ConnectionError):
    """A cluster cannot be reached, refuses or was lost. Says the remedy. An attempt under way can be continued."""


class DeviceError(EvrError, ValueError):
    """A GPU that was asked for cannot be used, or failed. Says why, and what to do."""


class BudgetExceededError(EvrError, RuntimeError):
    """A step would exceed a budget: it was not counted, and must not run."""


class NotReleasedError(EvrError, RuntimeError):
    """There is no value, because the claim was not verified and nothing ran. ``certificate`` is that of the attempt."""

    def __init__(self, message: str, certificate: Any = None) -> None:
        super().__init__(message)
        self.certificate = certificate


class DisagreementError(EvrError, RuntimeError):
    """Two independent proofs of one claim disagree, so one of them is broken. Nothing is certified."""
