"""Makes the certificates of ``data/gpu-*.certificate.json``, where there is a GPU.

Run ``python tests/certification/gpu_certificates.py FOLDER``. They are small, so that replaying
them on a processor takes seconds.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import evr
from evr.proving import devices
from evr.sampling.cuda.device import most_outcomes

CERTIFICATES: dict[str, tuple[dict[str, Any], float]] = {
    # drawn as they are: mixtures in the one direction, envelopes in the other
    "gpu-gaussian": ({"noise_multiplier": 4.0, "sampling_probability": 0.2, "steps": 90}, 1.0),
    # merged to outcomes
    "gpu-outcomes": ({"noise_multiplier": 2.0, "sampling_probability": 0.1, "steps": 200}, 1.5),
}


def main(folder: Path) -> None:
    for name, (training, epsilon) in CERTIFICATES.items():
        merges = name == "gpu-outcomes"  # else as if tables did not fit
        with (
            tempfile.TemporaryDirectory() as ledger,
            patch.object(devices, "most_outcomes", most_outcomes if merges else lambda: 2),
        ):
            found = evr.certify(
                evr.dpsgd(**training),
                epsilon=epsilon,
                tau=0.9,
                device="cuda",
                ledger=f"{ledger}/ledger.sqlite",
                path=folder / f"{name}.certificate.json",
            )
        sections = found.verification.directions.values()
        drawn = [one.plan["kinds"][0]["sampler"] for one in sections if one.plan is not None]
        print(name, found.verdict, found.verification.samples, *drawn)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
