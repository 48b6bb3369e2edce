"""Verify the plan, then train: the gate opens before the data is touched.

    python examples/opacus/before.py [--folder out] [--noise-used 2.0]

The noise that (3, 1e-5) needs is found, the claim is verified, and only then does the training run,
recorded. Behind the gate the record must be within the plan; with less noise than planned
(``--noise-used``) it is not, and no weights come out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from digits import DELTA, EPSILON, accuracy, least_noise, plan, train

import evr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("digits"), help="where everything is written")
    parser.add_argument("--noise-used", type=float, help="noise of the training, if it is not what was planned")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    noise = least_noise()
    print(f"planned noise multiplier {noise}")

    def training() -> dict[str, torch.Tensor]:
        weights = train(chosen.noise_used or noise, chosen.folder / "training.record.jsonl")
        evr.Record.load(chosen.folder / "training.record.jsonl").require(plan(noise))
        return weights

    out = evr.release(
        training,
        plan(noise),
        epsilon=EPSILON,
        delta=DELTA,
        neighboring_relation="zero-out",  # Opacus computes with the number of records
        ledger=chosen.folder / "ledger.sqlite",
        path=chosen.folder / "model.certificate.json",
    )
    torch.save(out.value, chosen.folder / "model.pt")
    print(f"released with accuracy {accuracy(out.value):.3f}")
    print(out.certificate.statement)


if __name__ == "__main__":
    main()
