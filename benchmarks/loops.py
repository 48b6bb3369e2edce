"""What a record adds to a step of a training by Opacus, Lightning, Hugging Face, JAX Privacy and Keras, and what evr's
accountant adds to a round of Flower.

    python benchmarks/loops.py [--steps 40] [--repeats 5]

Trainings with a record and without it take turns in one process, on one thread. A step is timed by itself, in seconds
of processor time, and the median over its training is taken. What is printed is the median of the ratios of
neighbouring trainings. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import secrets
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
warnings.simplefilter("ignore")

RECORDS, BATCH, NOISE, SIZE, CLASSES, WIDTH = 2_560, 128, 1.1, 784, 10, 128
FIRST = 3  # steps that compile
Moments = list[float]


def stamp(moments: Moments) -> None:
    moments.append(time.process_time())


def opacus(steps: int, place: Path | None) -> Moments:
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    import evr
    import evr.integrations.opacus

    torch.set_num_threads(1)
    torch.seed()
    data = TensorDataset(torch.rand(RECORDS, SIZE), torch.randint(0, CLASSES, (RECORDS,)))
    model: Any = torch.nn.Sequential(torch.nn.Linear(SIZE, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, CLASSES))
    model, optimizer, loader = PrivacyEngine(accountant="evr").make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
    )
    moments: Moments = []
    with contextlib.nullcontext() if place is None else evr.record(optimizer, loader, place):
        while len(moments) < steps:
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                stamp(moments)
    return moments


def lightning(steps: int, place: Path | None) -> Moments:
    import lightning.pytorch as pl
    import torch
    from opacus import PrivacyEngine
    from opacus.data_loader import DPDataLoader
    from torch.utils.data import DataLoader, TensorDataset

    from evr.integrations.lightning import Record

    data = TensorDataset(torch.rand(RECORDS, SIZE), torch.randint(0, CLASSES, (RECORDS,)))
    moments: Moments = []

    class Data(pl.LightningDataModule):
        def train_dataloader(self) -> Any:
            return DPDataLoader.from_data_loader(DataLoader(data, batch_size=BATCH))

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(SIZE, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, CLASSES)
            )
            self.privacy_engine = PrivacyEngine(accountant="evr")

        def configure_optimizers(self) -> Any:
            self.trainer.fit_loop.setup_data()
            optimizer, loader = torch.optim.SGD(self.parameters(), lr=0.1), self.trainer.train_dataloader
            options = {"noise_multiplier": NOISE, "max_grad_norm": 1.0}
            made = self.privacy_engine.make_private(module=self, optimizer=optimizer, data_loader=loader, **options)
            self.hooked = {"model": made[0]}
            return made[1]

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    class Stamps(pl.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            stamp(moments)

    torch.set_num_threads(1)
    torch.seed()
    callbacks = [Stamps(), *([] if place is None else [Record(place)])]
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    pl.Trainer(max_steps=steps, accelerator="cpu", callbacks=callbacks, enable_checkpointing=False, **quiet).fit(
        Net(), Data()
    )
    return moments


def huggingface(steps: int, place: Path | None) -> Moments:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

    from evr.integrations.huggingface import PrivateTrainer

    torch.set_num_threads(1)
    moments: Moments = []
    words = torch.randint(0, 50, (RECORDS, 16))
    data = [{"input_ids": one, "labels": torch.tensor(index % 2)} for index, one in enumerate(words)]
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, max_position_embeddings=16, **sizes))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("embeddings" not in name)

    class Stamps(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            more["optimizer"].zero_grad()  # which a training without a record has to do as well
            stamp(moments)

    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
        options |= {"per_device_train_batch_size": 32, "max_steps": steps, "logging_strategy": "no"}
        trainer = PrivateTrainer(
            model=model,
            args=TrainingArguments(folder, **options),
            train_dataset=data,
            noise_multiplier=NOISE,
            record=place or Path(folder) / "unused",
            callbacks=[Stamps()],
        )
        if place is None:
            trainer.remove_callback(trainer.recorder)
        trainer.train()
    return moments


def jax_privacy(steps: int, place: Path | None) -> Moments:
    import jax
    import jax.numpy as jnp
    from jax_privacy import batch_selection
    from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

    from evr.integrations.jax import record

    draws, moments = np.random.default_rng(), Moments()
    features, labels = draws.normal(size=(RECORDS, SIZE)), draws.integers(0, CLASSES, RECORDS)
    config = BandMFExecutionPlanConfig(
        strategy=np.ones(1),
        iterations=steps,
        epsilon=None,
        delta=None,
        noise_multiplier=NOISE,
        sampling_prob=BATCH / RECORDS,
        normalize_by=BATCH,
    )

    def loss(weights: Any, x: Any, y: Any) -> Any:
        scores = jax.nn.relu(x @ weights[0]) @ weights[1]
        return jnp.mean(-jax.nn.log_softmax(scores)[jnp.arange(len(y)), y])

    with contextlib.nullcontext(None) if place is None else record(config, place) as recording:
        plan = config.plan if recording is None else recording.plan
        gradient = plan.clipped_grad(loss, batch_argnums=(1, 2))

        @jax.jit
        def update(weights: Any, x: Any, y: Any, padding: Any, state: Any) -> Any:
            noisy, state = plan.noise_addition_transform.update(
                gradient(weights, x, y, is_padding_example=padding), state
            )
            return jax.tree.map(lambda one, step: one - 0.1 * step, weights, noisy), state

        weights = (0.01 * draws.normal(size=(SIZE, WIDTH)), 0.01 * draws.normal(size=(WIDTH, CLASSES)))
        state = plan.noise_addition_transform.init(weights)
        for batch in plan.batch_selection_strategy.batch_iterator(RECORDS):
            indices = batch_selection.pad_to_multiple_of(batch, 256)
            weights, state = update(weights, features[indices], labels[indices], indices == -1, state)
            jax.block_until_ready(weights)
            stamp(moments)
    return moments


def keras(steps: int, place: Path | None) -> Moments:
    import keras
    from jax_privacy import keras_api

    from evr.integrations.keras import Record

    draws, moments = np.random.default_rng(), Moments()
    given: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-5, "clipping_norm": 1.0, "batch_size": BATCH}
    given |= {"train_size": RECORDS, "train_steps": steps, "gradient_accumulation_steps": 1, "noise_multiplier": NOISE}
    config = keras_api.DPKerasConfig(**given, poisson_sampling_in_fit=True, seed=secrets.randbits(62))
    layers = [keras.Input((SIZE,)), keras.layers.Dense(WIDTH, activation="relu"), keras.layers.Dense(CLASSES)]
    model = keras_api.make_private(keras.Sequential(layers), config)
    model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    stamps = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: stamp(moments))
    callbacks = [stamps, *([] if place is None else [Record(config, place)])]
    x, y = draws.normal(size=(RECORDS, SIZE)), draws.integers(0, CLASSES, RECORDS)
    model.fit(x, y, BATCH, epochs=steps // (RECORDS // BATCH), callbacks=callbacks, verbose=0)
    return moments


def flower(steps: int, place: Path | None) -> Moments:
    """The server's part of a round with 20 clients: clip, average, add noise, count."""
    from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, SamplingMethod
    from flwr.supercore.differential_privacy import add_gaussian_noise_inplace, compute_clip_model_update

    from evr.integrations.flower import Accountant

    method, relation = SamplingMethod.NO_AMPLIFICATION, NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = Accountant(PrivacyConfig(1e-5, 20, relation, method, 1e3))
    event, moments = GaussianPrivacyEvent(4.0, 20, 20), Moments()
    weights, draws = [np.zeros((SIZE, WIDTH)), np.zeros((WIDTH, CLASSES))], np.random.default_rng()
    for _ in range(steps):
        if place is not None:
            accountant.would_exceed(event)
        replies = [[one + draws.normal(size=one.shape) for one in weights] for _ in range(20)]
        for reply in replies:
            compute_clip_model_update(reply, weights, 1.0)
        weights = [np.mean(parts, axis=0) for parts in zip(*replies, strict=True)]
        add_gaussian_noise_inplace(weights, 0.2)
        if place is not None:
            accountant.compose(event)
            accountant.get_privacy_spent()
        stamp(moments)
    return moments


LOOPS: dict[str, Callable[[int, Path | None], Moments]] = {
    "opacus": opacus,
    "lightning": lightning,
    "transformers": huggingface,
    "jax_privacy": jax_privacy,
    "keras": keras,
    "flwr": flower,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    for package, train in LOOPS.items():
        if importlib.util.find_spec(package) is None:
            print(f"{package:12}  not installed")
            continue
        ratios, plain = [], []
        with tempfile.TemporaryDirectory() as folder:
            for repeat in range(chosen.repeats):
                seconds = {}
                for place in (None, Path(folder) / f"{repeat}.record.jsonl"):
                    np.random.set_bit_generator(np.random.MT19937())  # which Hugging Face's Trainer seeds
                    moments = train(chosen.steps, place)
                    seconds[place is None] = statistics.median(np.diff(moments[FIRST:]))
                ratios.append(seconds[False] / seconds[True])
                plain.append(seconds[True])
        step = 1e3 * statistics.median(plain)
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{package:12}  {step:7.1f} ms a step, with evr {statistics.median(ratios):.3f} times that ({spread})")


if __name__ == "__main__":
    main()
