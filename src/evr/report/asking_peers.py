"""What other accountants say, asked in a process of its own: their time is limited, and their
failures stay theirs.

``python -m evr.report.asking_peers`` reads ``{"event": ..., "delta": ...}`` and prints an answer a
line, the quickest first.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
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


NAMES = {  # in the order in which they are asked
    "rdp": "dp_accounting, RDP",
    "pld": "dp_accounting, privacy loss distributions",
    "prv": "prv-accountant",
    "afa": "autodp, analytical Fourier accountant",
}


def ask(
    event: dict[str, Any],
    delta: float,
    *,
    relation: str = "add-or-remove",
    patience: float = PATIENCE,
) -> tuple[list[Answer], str | None]:
    """Epsilon at ``delta`` by each peer, and what is to be said of those that did not answer."""
    question = json.dumps({"event": event, "delta": delta, "relation": relation})
    command = [sys.executable, "-W", "ignore", "-m", "evr.report.asking_peers"]
    try:
        done = subprocess.run(
            command, input=question.encode(), capture_output=True, timeout=patience, check=True
        )
        return _read(done.stdout), None
    except subprocess.TimeoutExpired as late:
        answers = _read(late.stdout or b"")
        missing = [
            name for name in NAMES.values() if name not in {answer.peer for answer in answers}
        ]
        return (
            answers,
            f"No answer within {patience:g} seconds: {'; '.join(missing)}. evr compare waits for "
            "them.",
        )
    except (subprocess.CalledProcessError, OSError):
        return [], "They could not be asked about this event."


def _read(lines: bytes) -> list[Answer]:
    """The answers of whole lines; a last one that was cut off is left out."""
    return [Answer(**json.loads(line)) for line in lines.decode().split("\n")[:-1]]


def answers(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Ask one peer after the other."""
    from evr.certification.event_json import event_from_json
    from evr.estimation import peers

    event, delta = event_from_json(question["event"]), question["delta"]
    for peer in NAMES:
        for found in peers.compare(
            event,
            delta=delta,
            delta_error=min(1e-10, delta / 1000),
            peers=(peer,),
            neighboring_relation=question["relation"],
        ):
            row: dict[str, Any] = {
                "peer": NAMES[peer],
                "kind": "",
                "epsilon": None,
                "seconds": None,
                "reason": "",
            }
            if isinstance(found, peers.PeerUnavailable):
                row["reason"] = found.reason
            elif not math.isfinite(found.value):
                row.update(kind=found.kind, seconds=found.seconds, reason="infinite")
            else:
                row.update(kind=found.kind, epsilon=found.value, seconds=found.seconds)
            yield row


if __name__ == "__main__":
    for one in answers(json.load(sys.stdin)):
        print(json.dumps(one), flush=True)
