"""The words of evr as enums: each member is a string, and every argument takes the member or the string.

>>> from evr.types import Method, Relation
>>> Method.STRICT == "strict"
True
>>> [*Relation]
[<Relation.ADD_OR_REMOVE: 'add-or-remove'>, <Relation.REPLACE_ONE: 'replace-one'>, <Relation.ZERO_OUT: 'zero-out'>]
"""

from enum import StrEnum


class Method(StrEnum):
    """How a claim is proved."""

    AUTO = "auto"
    """Strict where that takes seconds and succeeds, else sequential."""
    STRICT = "strict"
    """In exact arithmetic, without a chance of failure."""
    SEQUENTIAL = "sequential"
    """By samples, tested by betting."""
    FIXED = "fixed"
    """By a number of samples that is fixed in advance (Algorithm 2 of the paper)."""
    BOTH = "both"
    """Strictly and by samples."""


class EstimateMethod(StrEnum):
    """How epsilon or delta is estimated. ``STRICT`` gives a proved upper bound."""

    FFT = "fft"
    STRICT = "strict"
    RDP = "rdp"
    MONTE_CARLO = "monte_carlo"


class Relation(StrEnum):
    """Which data sets are neighbours."""

    ADD_OR_REMOVE = "add-or-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


class Unit(StrEnum):
    """Whose data is protected. An example is a record."""

    RECORD = "record"
    EXAMPLE = "example"
    USER = "user"
    CLIENT = "client"


class Sampling(StrEnum):
    """How DP-SGD draws its batches."""

    POISSON = "poisson"
    WITHOUT_REPLACEMENT = "without-replacement"
    ALLOCATION = "allocation"


class Note(StrEnum):
    """What the recorder of a training may have noted. A statement assumes something for each."""

    GENERATOR = "generator"
    GHOST = "ghost"
    LOST = "lost"
    OTHER = "other"
    PARAMETERS = "parameters"
    SAMPLER = "sampler"


class Direction(StrEnum):
    """Who has the additional record. A guarantee under add-or-remove adjacency needs both."""

    REMOVE = "remove"
    """``P`` is the mechanism with the record, ``Q`` without: ``(M(D + x), M(D))``."""
    ADD = "add"
    """``P`` is the mechanism without the record, ``Q`` with: ``(M(D), M(D + x))``."""
