"""Train, then verify the record: the weights leave only if what really ran was verified.

    python examples/opacus/after.py [--folder out] [--noise-used 2.0]

The training is recorded. What the record says, not what was planned, is verified at (3, 1e-5), and
the record and the certificate name each other. With less noise than that takes (``--noise-used``)
the claim is rejected, and the weights are withheld.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from digits import DELTA, EPSILON, accuracy, least_noise, train

import evr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("digits-after"), help="where everything is written")
    parser.add_argument("--noise-used", type=float, help="noise of the training; what (3, 1e-5) needs by default")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    weights = train(chosen.noise_used or least_noise(), chosen.folder / "training.record.jsonl")

    record = evr.Record.load(chosen.folder / "training.record.jsonl")
    out = record.release(
        lambda: weights,
        epsilon=EPSILON,
        delta=DELTA,
        ledger=chosen.folder / "ledger.sqlite",
        path=chosen.folder / "model.certificate.json",
    )
    torch.save(out.value, chosen.folder / "model.pt")
    print(f"released with accuracy {accuracy(out.value):.3f}")
    print(out.certificate.statement)


if __name__ == "__main__":
    main()
