"""``FFTAccountant``: the default accountant behind the interface that TF Privacy, JAX Privacy and Google's library
share.
"""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
from dp_accounting import dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.estimation.api import estimate_delta, estimate_epsilon
from evr.laws import Pairs
from evr.mechanisms import Composition, leaves
from evr.mechanisms.relations import ADD_OR_REMOVE, Relation, relation_named


class CompositionAccountant(dp_accounting.PrivacyAccountant):
    """What evr's accountants share: they add up pairs with their counts, so composing costs next to nothing."""

    def __init__(self, neighboring_relation: Relation = ADD_OR_REMOVE) -> None:
        super().__init__(relation_named(neighboring_relation))
        self._counts: dict[Pairs, int] = {}

    def _maybe_compose(self, event: dp_event.DpEvent, count: int, do_compose: bool) -> Any:
        try:
            parts = list(leaves(event, self.neighboring_relation))
        except UnsupportedEventError as error:
            return self.CompositionErrorDetails(invalid_event=error.event, error_message=str(error))
        if do_compose:
            for pairs, number in parts:
                self._counts[pairs] = self._counts.get(pairs, 0) + count * number
        return None

    @property
    def composition(self) -> Composition:
        """Everything composed so far."""
        return Composition.from_counts(self._counts.items(), self.neighboring_relation)


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

    def get_epsilon(self, target_delta: float) -> float:
        composition = self.composition
        if composition.is_non_private:  # by the interface's convention, even at delta = 1
            validate.probability(target_delta=target_delta)
            return math.inf
        return estimate_epsilon(composition, target_delta).value

    def get_delta(self, target_epsilon: float) -> float:
        return estimate_delta(self.composition, target_epsilon).value
