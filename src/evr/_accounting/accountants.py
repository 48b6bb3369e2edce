"""Accountants behind the interface that TF Privacy, JAX Privacy and Google's library share: ``FFTAccountant``, the
default, and ``StrictAccountant``, which proves its answers.
"""

import copy
import math
from dataclasses import replace
from typing import Any, Self

import dp_accounting
from dp_accounting import dp_event

from evr._accounting.api import estimate_delta, estimate_epsilon
from evr._basics import validate
from evr._kernel.events import Composition
from evr._kernel.events.relations import ADD_OR_REMOVE, Relation, relation_named
from evr._kernel.events.walk import Walk
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact.law import LOCK
from evr.errors import UnsupportedEventError
from evr.types import EstimateMethod


class CompositionAccountant(dp_accounting.PrivacyAccountant):
    """What evr's accountants share: they add up pairs with their counts, so composing costs next to nothing. Threads
    that compose or ask take turns.
    """

    _method: EstimateMethod

    def __init__(self, neighboring_relation: Relation = ADD_OR_REMOVE) -> None:
        super().__init__(relation_named(neighboring_relation))
        self._counts: dict[Pairs, int] = {}
        self._units: dict[str, str] = {}

    def compose(self, event: dp_event.DpEvent, count: int = 1) -> Self:
        with LOCK:
            return super().compose(event, count)

    def _maybe_compose(self, event: dp_event.DpEvent, count: int, do_compose: bool) -> Any:
        walking = Walk(self.neighboring_relation, self._units)
        try:
            parts = walking.counts(event)
        except UnsupportedEventError as error:
            return self.CompositionErrorDetails(invalid_event=error.event, error_message=str(error))
        if do_compose:
            self._units = walking.units
            for pairs, number in parts:
                self._counts[pairs] = self._counts.get(pairs, 0) + count * number
        return None

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # what is composed later belongs to one of the two

    @property
    def composition(self) -> Composition:
        """Everything composed so far."""
        with LOCK:
            counts, unit = tuple(self._counts.items()), next(iter(self._units), None)
        return replace(Composition.from_counts(counts, self.neighboring_relation), unit=unit)

    def get_epsilon(self, target_delta: float) -> float:
        composition = self.composition
        if composition.is_non_private:  # by the interface's convention, even at delta = 1
            validate.probability(target_delta=target_delta)
            return math.inf
        return estimate_epsilon(composition, target_delta, method=self._method).value

    def get_delta(self, target_epsilon: float) -> float:
        return estimate_delta(self.composition, target_epsilon, method=self._method).value


class FFTAccountant(CompositionAccountant):
    """Near-exact epsilon and delta of what was composed: estimates, not bounds.

    Parameters
    ----------
    neighboring_relation
        As of ``evr.estimate_delta``; adding or removing one record by default.

    Examples
    --------
    >>> import dp_accounting, evr
    >>> accountant = evr.FFTAccountant()
    >>> step = dp_accounting.PoissonSampledDpEvent(1e-3, dp_accounting.GaussianDpEvent(1.0))
    >>> f"{accountant.compose(step, 1000).get_delta(0.5):.4e}"
    '2.0582e-10'
    """

    _method = EstimateMethod.FFT


class StrictAccountant(CompositionAccountant):
    """Proved epsilon and delta of what was composed: upper bounds in exact arithmetic, near-exact too.

    An answer takes about a second. A law that is not known exactly is refused when the answer is asked for.

    Parameters
    ----------
    neighboring_relation
        As of ``evr.estimate_delta``; adding or removing one record by default.

    Examples
    --------
    >>> import dp_accounting, evr
    >>> step = dp_accounting.PoissonSampledDpEvent(1e-3, dp_accounting.GaussianDpEvent(1.0))
    >>> proved = evr.StrictAccountant().compose(step, 1000).get_delta(0.5)
    >>> 1 < proved / evr.FFTAccountant().compose(step, 1000).get_delta(0.5) < 1.0005
    True
    """

    _method = EstimateMethod.STRICT
