"""Makes the certificates of ``data/gpu-*.certificate.json``, where there is a GPU.

Run ``python tests/certificate/gpu_certificates.py FOLDER``. They are small, so that replaying
them on a processor takes seconds.
"""

import sys
import tempfile
from pathlib import Path

from dp_accounting.dp_event import DpEvent

import evr

E = evr.events

CERTIFICATES: dict[str, tuple[DpEvent, float]] = {
    # independent bins
    "gpu-bins": (E.RedrawnBinsDpEvent(3.0, 20, 10), 1.0),
    # bins of correlated noise
    "gpu-matrix": (E.BallsInBinsDpEvent(3.0, 300, 30, (1.0, 0.5)), 1.0),
    # b-min-sep sampling
    "gpu-min-sep": (E.BMinSepDpEvent(2.4, 60, 6, 0.1, True, (1.0, 0.5, 0.25)), 2.0),
}


def main(folder: Path) -> None:
    for name, (event, epsilon) in CERTIFICATES.items():
        with tempfile.TemporaryDirectory() as ledger:
            found = evr.certify(
                event,
                epsilon=epsilon,
                tau=0.9,
                method="sequential",
                device="cuda",
                ledger=f"{ledger}/ledger.sqlite",
                path=folder / f"{name}.certificate.json",
            )
        print(name, found.verdict, found.verification.samples)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
