"""Flags and commands as other libraries, papers and people call them, each answered with evr's own."""

from __future__ import annotations

import re
from typing import Any

_FLAGS = {
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
_COMMANDS = {
    "curve": "evr estimate --epsilon 0:5:0.25",
    "online": "evr estimate --every 1",
    "compare": "evr estimate --compare",
    "sweep": "evr estimate --noise-multiplier 0.6:2:0.1",
    "verify": "evr certify --epsilon EPSILON --delta DELTA",
    "inspect": "evr show FILE",
    "report": "evr show FILE --html PAGE",
}


def meant(error: Any, said: str) -> str | None:
    """The answer to a flag or a command in another spelling; None where evr has nothing like it."""
    command = re.match(r"No such command '([\w-]+)'", said)
    if command is not None and command[1] in _COMMANDS:
        return f"no command {command[1]!r}: it is `{_COMMANDS[command[1]]}`"
    option, context = str(getattr(error, "option_name", "")), getattr(error, "ctx", None)
    wanted = option.lstrip("-").replace("_", "-").lower()
    known = {name for param in context.command.params for name in param.opts} if context else ()
    for name, others in _FLAGS.items():
        if f"--{name}" in known and (wanted == name or wanted in others.split()):
            return f"no such option: {option}. Did you mean --{name}?"
    return None
