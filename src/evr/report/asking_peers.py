"""What other accountants say, asked in a process of its own: their time is limited, and their failures stay theirs.

``python -m evr.report.asking_peers`` reads ``{"event": ..., "delta": ...}`` and prints a list of answers.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

PATIENCE = 30.0
"""Seconds after which the page goes without them."""


@dataclass(frozen=True)
class Answer:
    """A peer's epsilon, or the reason why there is none."""

    peer: str
    kind: str
    epsilon: float | None
    seconds: float | None
    reason: str


NAMES = {
    "prv": "prv-accountant",
    "pld": "dp_accounting, privacy loss distributions",
    "rdp": "dp_accounting, RDP",
    "afa": "autodp, analytical Fourier accountant",
}


def ask(event: dict[str, Any], delta: float, *, patience: float = PATIENCE) -> tuple[list[Answer], str | None]:
    """Epsilon at ``delta`` by each peer; or none, and why not."""
    question = json.dumps({"event": event, "delta": delta})
    command = [sys.executable, "-W", "ignore", "-m", "evr.report.asking_peers"]
    try:
        done = subprocess.run(
            command, input=question, capture_output=True, text=True, timeout=patience, check=True, encoding="utf-8"
        )
        return [Answer(**row) for row in json.loads(done.stdout)], None
    except subprocess.TimeoutExpired:
        return [], f"They took longer than {patience:g} seconds; evr compare waits for them."
    except (subprocess.CalledProcessError, OSError, ValueError):
        return [], "They could not be asked about this event."


def _answers(question: dict[str, Any]) -> list[dict[str, Any]]:
    from evr.estimate import peers
    from evr.release.event_json import event_from_json

    rows = []
    delta = question["delta"]
    for found in peers.compare(event_from_json(question["event"]), delta=delta, delta_error=min(1e-10, delta / 1000)):
        row: dict[str, Any] = {"peer": NAMES[found.peer], "kind": "", "epsilon": None, "seconds": None, "reason": ""}
        if isinstance(found, peers.PeerUnavailable):
            row["reason"] = found.reason
        elif not math.isfinite(found.value):
            row.update(kind=found.kind, seconds=found.seconds, reason="infinite")
        else:
            row.update(kind=found.kind, epsilon=found.value, seconds=found.seconds)
        rows.append(row)
    return rows


if __name__ == "__main__":
    print(json.dumps(_answers(json.load(sys.stdin))))
