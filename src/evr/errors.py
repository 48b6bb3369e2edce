"""The exceptions of evr: one small tree. Invalid values raise the built-in ``ValueError`` and
``TypeError``.
"""

from typing import Any


class EvrError(Exception):
    """Root of every exception that evr defines."""


class UnsupportedEventError(EvrError, ValueError):
    """A ``DpEvent`` has no dominating pair here. Names the sub-event, its path in the tree and what
    is supported.

    Attributes
    ----------
    event
        The offending sub-event.
    """

    def __init__(self, message: str, event: Any = None) -> None:
        super().__init__(message)
        self.event = event


class FalseClaimError(EvrError, ValueError):
    """A pair that was to be certified is false by its estimate, or true by too little to be
    verified: says what would hold. Nothing was counted.
    """


class AccuracyError(EvrError, ValueError):
    """An estimate would say next to nothing: its own error is as large as what it estimates, or
    floats cannot hold it.
    """


class SpecError(EvrError, ValueError):
    """A specification file does not say what ran: names the key, the rule and, for a typing error,
    the nearest key.
    """


class CertificateError(EvrError, ValueError):
    """A certificate cannot be read: damaged, altered, not of this kind, or
    written by a newer evr.
    """


class LedgerError(EvrError, ValueError):
    """The ledger cannot be used, or refuses: damaged, not writable, a seed used before, a claim
    below the floor.
    """


class RecordError(EvrError, ValueError):
    """The record of a training cannot be used, or what ran breaks what its accounting rests on."""


class AlreadyReleasedError(LedgerError):
    """A release lets out one output, and that is out, or may be."""


class NearbyReleaseWarning(UserWarning):
    """A new release differs from an older one by rounding only; the two are counted apart."""


class TooLongError(EvrError, ValueError):
    """What is asked for would take longer than allowed: says how long, why, and how to allow it."""


class ClusterError(EvrError, ConnectionError):
    """A cluster cannot be reached, refuses or was lost: says which, and the remedy. An attempt
    under way can be continued.
    """


class BudgetExceededError(EvrError, RuntimeError):
    """A step would exceed the budget of a privacy filter: it was not counted, and must not run."""


class NotReleasedError(EvrError, RuntimeError):
    """There is no value: the claim was not verified, so nothing ran.

    Attributes
    ----------
    certificate
        Of the attempt that was rejected.
    """

    def __init__(self, message: str, certificate: Any = None) -> None:
        super().__init__(message)
        self.certificate = certificate


class DeviceError(EvrError, ValueError):
    """A GPU that was asked for cannot be used, or failed: says why, and what to do."""


class DisagreementError(EvrError, RuntimeError):
    """Two independent proofs of one claim do not agree: one of them is broken. Nothing is
    certified.
    """
