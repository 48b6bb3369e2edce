"""Records of JAX loops: what a plan of JAX Privacy sampled, clipped and noised, step by step.

``recording.plan`` is the plan of a configuration whose parts tell what they do: the sampler announces a step before it
hands out the batch, and the noise counts itself wherever it runs, inside ``jax.jit`` too (``jax.debug.callback``).
Sizes of batches and norms of sums are compared, never written.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import dp_event

from evr._basics.randomness import refuse_seeded_numpy
from evr._kernel.events import schemes
from evr._records import Recorder
from evr._records.recording import EMPTY
from evr.errors import RecordError
from evr.integrations.jax_privacy import from_jax_privacy

_KEY_BY_HAND = 100_000  # JAX Privacy draws keys below 2^31: one of them is below this with probability 5e-5
_SEED_BY_HAND = 2**64  # NumPy seeds its generators with 128 bits
_LOOSE = 1.001  # rounding of norms in single precision
_SEED = "looks chosen by hand, so it is no secret: leave it out"


class Recording(Recorder):
    """Records a training by JAX Privacy: DP-SGD by a configuration of one band, or by a ``DPTrainer``.

    Use it as a context manager. Train with ``recording.plan`` in place of the plan, or call ``recording.fit`` in place
    of ``trainer.fit``. Options are ``constants``, ``new`` and ``resume``, as of ``evr.record``. What breaks the
    accounting raises ``RecordError``, at the next batch or at the end, and the record has no event.
    """

    def __init__(self, source: Any, path: str | Path = "training.record.jsonl", **options: Any) -> None:
        event = from_jax_privacy(source)
        event = event.event if isinstance(event, schemes.ZeroOutDpEvent) else event
        step = getattr(event, "event", None)
        if not isinstance(event, dp_event.SelfComposedDpEvent) or not isinstance(step, dp_event.PoissonSampledDpEvent):
            why = f"{type(event).__name__} is not DP-SGD on Poisson batches, which is what a record holds"
            raise RecordError(f"{why}: certify the configuration, evr.events.from_jax_privacy(config)")
        refuse_seeded_numpy("the keys of the noise", RecordError)
        config = getattr(source, "config", source)
        self._facts: dict[str, Any] = {
            "noise_multiplier": float(step.event.noise_multiplier),
            "clipping_norm": float(config.l2_clip_norm),
            "sampling_probability": float(step.sampling_probability),
            "divisor": float(config.normalize_by),
        }
        plan = source.plan if hasattr(source, "plan") else source.make()
        self._trainer = None if config is source else source
        self._iterations, self._clips = event.count, False
        self._bound = float(plan.clipped_grad(lambda: None).l2_norm_bound)
        self._drawn: deque[int] = deque()  # sizes of batches whose noise has not run
        self._wrong: list[tuple[str, str]] = []
        versions = {"jax": str(jax.__version__), "config": type(config).__name__}
        super().__init__(path, versions, **options)
        self.plan = self._observed(plan)
        self.find("note", "generator", "the noise is not from a cryptographic generator")

    def _observed(self, plan: Any) -> Any:
        transform = plan.noise_addition_transform

        def clipped_grad(*args: Any, **options: Any) -> Any:
            self._clips = True
            return plan.clipped_grad(*args, **options)

        def init(params: Any) -> Any:
            state = transform.init(params)
            self._look_at_keys(state)
            return state

        def update(updates: Any, state: Any, params: Any = None) -> Any:
            squares = [jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(updates)]
            jax.debug.callback(self._on_noise, jnp.sqrt(sum(squares)))
            return transform.update(updates, state, params)

        return dataclasses.replace(
            plan,
            clipped_grad=clipped_grad,
            batch_selection_strategy=_Sampler(plan.batch_selection_strategy, self),
            noise_addition_transform=transform._replace(init=init, update=update),
        )

    def fit(self, dataset: Any, state: Any, *, rng_or_seed: Any = None, callback: Any = None, **options: Any) -> Any:
        """``DPTrainer.fit``. Each step is announced in the record before it happens: the first one here, the others
        after the step before them.
        """
        if self._trainer is None:
            raise TypeError("fit() is for a DPTrainer: give record() the trainer, or train with recording.plan")

        def after(step: int, now: Any, aux: Any) -> None:
            if step < self._iterations:
                self.step(**self._facts)
            if callback is not None:
                callback(step, now, aux)

        rng, self._clips = self.fresh(rng_or_seed), True
        self._check()
        self.step(**self._facts)
        return self._trainer.fit(dataset, state, rng_or_seed=rng, callback=after, **options)

    def fresh(self, rng: Any) -> Any:
        """The generator that draws the batches."""
        rng = np.random.default_rng(rng)
        seed = getattr(getattr(rng.bit_generator, "seed_seq", None), "entropy", None)
        if not isinstance(seed, int) or seed < _SEED_BY_HAND:
            self._wrong.append(("seed", f"the sampler has the seed {seed}, which {_SEED}"))
        return rng

    def announce(self, size: int) -> None:
        """Write down a step on a batch of so many records, before the batch is handed out."""
        self._check()
        self.step(**self._facts)
        self._drawn.append(size)

    def _on_noise(self, norm: Any) -> None:
        """The noise has run; errors are kept, since JAX would lose them."""
        if not self._drawn:
            self._wrong.append(("no_batch", "noise was added to a batch that recording.plan did not draw"))
        elif float(norm) > (drawn := self._drawn.popleft()) * self._bound * _LOOSE:
            words = "a sum is longer than clipping allows: take the gradients by recording.plan.clipped_grad"
            self._wrong.append(("clipping", words) if drawn else ("empty_batch", EMPTY))

    def _look_at_keys(self, state: Any) -> None:
        for leaf in jax.tree.leaves(state):
            traced = isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, jax.Array)
            if not traced and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                seed = int("".join(f"{word:08x}" for word in np.ravel(jax.random.key_data(leaf))), 16)
                if seed < _KEY_BY_HAND:
                    self._wrong.append(("seed", f"the noise has the key {seed}, which {_SEED}"))

    def _check(self) -> None:
        if self._wrong:
            for what, words in dict.fromkeys(self._wrong):
                self.find("breach", what, words)
            words, self._wrong = self._wrong[0][1], []
            raise RecordError(f"after step {self.steps}: {words}")

    def _end(self) -> None:
        jax.effects_barrier()
        if 0 in self._drawn or len(self._drawn) > 1:  # one may be drawn and left at the end
            self._wrong.append(("empty_batch", EMPTY))
        if self.steps and not self._clips:
            self._wrong.append(("clipping", "recording.plan.clipped_grad was not used"))
        with contextlib.closing(self):
            self._check()
            super()._end()


class _Sampler:
    """A batch selection strategy that tells what it draws."""

    def __init__(self, strategy: Any, recording: Recording) -> None:
        self._strategy, self._recording = strategy, recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def batch_iterator(self, num_examples: int, rng: Any = None) -> Iterator[Any]:
        for batch in self._strategy.batch_iterator(num_examples, rng=self._recording.fresh(rng)):
            self._recording.announce(len(batch))
            yield batch


record = Recording
