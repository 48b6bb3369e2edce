"""Flags as other libraries and papers call them, each answered with evr's own."""

from __future__ import annotations

from typing import Any

OTHER_NAMES = {
    "noise-multiplier": "noise sigma noise-std noise-scale nm",
    "batch-size": "batch lot lot-size batchsize expected-batch-size",
    "sampling-probability": "sampling-rate sample-rate sampling-prob probability rate q",
    "dataset-size": "dataset records num-records num-samples size n",
    "steps": "iterations num-steps iters",
    "epochs": "epoch num-epochs",
    "epsilon": "eps target-epsilon epsilons",
    "delta": "target-delta",
    "adjacency": "relation neighboring-relation neighbors",
}


def flag_meant(error: Any, context: Any) -> str | None:
    """The answer to a flag in another spelling; None where evr has nothing like it."""
    option = str(getattr(error, "option_name", ""))
    wanted = option.lstrip("-").replace("_", "-").lower()
    known = {name for param in context.command.params for name in param.opts} if context else ()
    for name, others in OTHER_NAMES.items():
        if f"--{name}" in known and (wanted == name or wanted in others.split()):
            return f"no such option: {option}. Did you mean --{name}?"
    return None
