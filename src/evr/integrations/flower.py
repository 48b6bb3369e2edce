"""evr's accountant for Flower (1.35 and later), for its strategies with differential privacy and for loops of your own.

Numbers are proved bounds (``method="strict"``), for clients. What they mean depends on how clients are sampled:

* ``POISSON``: each client by its own coin; adding or removing a client.
* ``WITHOUT_REPLACEMENT``: so many clients of a known number, drawn anew for each round; replacing a client by another.
  The sensitivity is then two clipping norms, which Flower's ``RdpAccountant`` counts as one.
* ``NO_AMPLIFICATION``: Flower says "adding or removing". Where a round has a fixed number of clients, one client more
  puts another one out, so that what is proved is for a client that sends nothing instead (zero-out); same numbers.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from dp_accounting import NeighboringRelation, dp_event
from flwr.serverapp import GaussianPrivacyEvent, PrivacyConfig, PrivacySpent, SamplingMethod

from evr._accounting import estimate_delta, estimate_epsilon
from evr._basics import validate
from evr._basics.randomness import refuse_seeded_numpy
from evr._certificate.certificate import Certificate
from evr._dpsgd import composed
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT
from evr._release.gate import certify

_METHOD, _SCHEMA = "evr", 1
_RELATIONS = {
    SamplingMethod.POISSON: ADD_OR_REMOVE,
    SamplingMethod.WITHOUT_REPLACEMENT: REPLACE_ONE,
    SamplingMethod.NO_AMPLIFICATION: ZERO_OUT,
}
_STATES = {  # whose states hold the same list of releases, and their keys
    "evr": {"schema_version", "backend", "config", "compositions"},
    "rdp": {"schema_version", "backend", "config", "compositions", "orders"},
}
_FIELDS = {
    PrivacyConfig: {"target_delta", "population_size", "neighboring_relation", "sampling_method", "max_epsilon"},
    GaussianPrivacyEvent: {"noise_multiplier", "sample_size", "population_size"},
}
"""The fields of Flower's classes that are read here: a class with others may mean something else."""


class Accountant:
    """A ``flwr.serverapp.PrivacyAccountant``: ``DifferentialPrivacyServerSideFixedClipping(..., accountant=...)``.

    One thread at a time may use it.

    Parameters
    ----------
    config
        Flower's ``PrivacyConfig``. With ``max_epsilon``, its strategies stop before the round that would exceed it.
    """

    def __init__(self, config: PrivacyConfig) -> None:
        _check(config, PrivacyConfig)
        if config.sampling_method not in _RELATIONS:
            names = ", ".join(method.value for method in _RELATIONS)
            raise ValueError(f"sampling_method={config.sampling_method!r} is not accounted for: give one of {names}")
        self._config = config
        self._releases: list[tuple[GaussianPrivacyEvent, int]] = []

    @property
    def config(self) -> PrivacyConfig:
        return self._config

    @property
    def num_releases(self) -> int:
        """How many noisy sums were let out."""
        return sum(count for _, count in self._releases)

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """Under which relation of neighbours, who are clients, the numbers hold."""
        return _RELATIONS[self._config.sampling_method]

    @property
    def event(self) -> dp_event.DpEvent:
        """What ran so far: what ``evr.certify`` takes."""
        return self._event_with()

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Count so many equal releases. Flower draws their noise from NumPy's global generator, before it calls this:
        one that somebody seeded is refused.
        """
        refuse_seeded_numpy("the numbers of Flower's noise", ValueError)
        self._compose(event, count)

    def _compose(self, event: GaussianPrivacyEvent, count: int) -> None:
        self._step(event)
        count = validate.positive_integer(count=count)
        if self._releases and self._releases[-1][0] == event:
            self._releases[-1] = event, self._releases[-1][1] + count
        else:
            self._releases.append((event, count))

    def get_epsilon(self, delta: float) -> float:
        """A proved upper bound on epsilon at ``delta``."""
        return self._proved(estimate_epsilon, self.event, validate.open_probability(delta=delta))

    def get_delta(self, epsilon: float) -> float:
        """A proved upper bound on delta at ``epsilon``."""
        return self._proved(estimate_delta, self.event, epsilon)

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """What was spent at ``delta``, or at the configuration's."""
        delta = self._config.target_delta if delta is None else delta
        return PrivacySpent(self.get_epsilon(delta), delta, self.num_releases, _METHOD)

    def would_exceed(self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether so many releases more could cost more than the limit. Nothing is counted."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise ValueError("there is no limit: give max_epsilon, or PrivacyConfig(..., max_epsilon=...)")
        more = (event, validate.positive_integer(count=count))
        epsilon = self._proved(estimate_epsilon, self._event_with(more), self._config.target_delta)
        return epsilon > validate.positive(max_epsilon=limit)

    def certify(self, **options: Any) -> Certificate:
        """``evr.certify`` of what ran, for clients: at the configuration's delta unless another is given."""
        if not self._releases:
            raise ValueError("no release was counted: there is nothing to certify")
        described = {"unit": "client", **(options.pop("description", None) or {})}
        asked = {"delta": self._config.target_delta, "neighboring_relation": self.neighboring_relation, **options}
        return certify(self.event, description=described, **asked)

    def state_dict(self) -> dict[str, object]:
        """The releases and the configuration, in JSON's types."""
        releases = [{"event": asdict(event), "count": count} for event, count in self._releases]
        told = {"schema_version": _SCHEMA, "backend": _METHOD, "config": _written(self._config)}
        return {**told, "compositions": releases}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of this accountant, or of Flower's ``RdpAccountant``, with the same configuration."""
        if state.get("schema_version") != _SCHEMA or state.get("backend") not in _STATES:
            told = f"schema_version={state.get('schema_version')!r} and backend={state.get('backend')!r}"
            raise ValueError(f"a state with {told} is not known: give one of schema {_SCHEMA} by evr or rdp")
        if unlike := state.keys() ^ _STATES[state["backend"]]:
            raise ValueError(f"the state has other keys than evr knows: {', '.join(sorted(unlike))}")
        if state.get("config") != _written(self._config):
            raise ValueError(f"the state is of {state.get('config')}, and this accountant has {_written(self._config)}")
        before, self._releases = self._releases, []
        try:
            for index, one in enumerate(validate.sequence(compositions=state.get("compositions"))):
                known = isinstance(one, Mapping) and one.keys() == {"event", "count"}
                if not known or set(one["event"]) != _FIELDS[GaussianPrivacyEvent]:
                    raise ValueError(f"compositions[{index}]={validate.shown(one)} is not an event and a count")
                self._compose(GaussianPrivacyEvent(**one["event"]), one["count"])
        except BaseException:
            self._releases = before
            raise

    def _proved(self, estimate: Any, event: dp_event.DpEvent, at: float) -> float:
        if isinstance(event, dp_event.NoOpDpEvent):
            return 0.0
        bound: float = estimate(event, at, method="strict", neighboring_relation=self.neighboring_relation).value
        return bound

    def _event_with(self, *more: tuple[GaussianPrivacyEvent, int]) -> dp_event.DpEvent:
        releases = [*self._releases, *more]
        return composed([dp_event.SelfComposedDpEvent(self._step(one), count) for one, count in releases])

    def _step(self, event: GaussianPrivacyEvent) -> dp_event.DpEvent:
        _check(event, GaussianPrivacyEvent)
        size, population = event.sample_size, self._config.population_size
        if event.population_size != population:
            raise ValueError(f"population_size={event.population_size}, and that of the configuration is {population}")
        noise = dp_event.GaussianDpEvent(event.noise_multiplier)
        if self._config.sampling_method is SamplingMethod.POISSON:
            return dp_event.PoissonSampledDpEvent(size / population, noise)
        if self._config.sampling_method is SamplingMethod.WITHOUT_REPLACEMENT:
            return dp_event.SampledWithoutReplacementDpEvent(population, size, noise)
        return noise


def _check(value: Any, cls: Any) -> None:
    """Raise ``TypeError`` unless a value is of a class of Flower, itself, with the fields that are known."""
    if type(value) is not cls:
        raise TypeError(f"{type(value).__name__} is not accounted for: give a {cls.__name__}")
    if unlike := {field.name for field in fields(cls)} ^ _FIELDS[cls]:
        listed = ", ".join(sorted(unlike))
        raise TypeError(f"this Flower's {cls.__name__} has other fields than evr knows ({listed})")


def _written(config: PrivacyConfig) -> dict[str, Any]:
    return {name: getattr(value, "value", value) for name, value in asdict(config).items()}
