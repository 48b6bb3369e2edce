"""Spellings of other libraries and of earlier versions, each answered with evr's own."""

from __future__ import annotations

import re
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
"""Flags as other libraries and papers call them."""

COMMANDS = {
    "curve": "evr estimate --epsilon 0:5:0.25",
    "online": "evr estimate --every 1",
    "compare": "evr estimate --compare",
    "sweep": "evr estimate --noise-multiplier 0.6:2:0.1",
    "verify": "evr certify --epsilon EPSILON --delta DELTA",
    "inspect": "evr show FILE",
    "report": "evr show FILE --html PAGE",
    "latex": "evr show FILE --latex",
}
"""Commands of earlier versions, and some that people expect."""

IN_PYTHON = {
    "proposal": "evr.certify(proposal=...)",
    "max-samples": "evr.certify(max_samples=...)",
    "dask": "evr.certify(executor=...), with the executor of a Dask client",
    "samples": 'evr.estimate_delta(method="monte_carlo", samples=...)',
    "tolerance": 'evr.estimate_delta(method="strict", tolerance=...)',
    "direction": "evr.estimate_delta(direction=...)",
    "schema": "evr.certification.certificate.json_schema()",
}
"""Flags of earlier versions that Python keeps."""

GONE = {
    "exact": "give --epsilon and --delta for a pair with all its digits",
    "floor": "the first attempt of a named release fixes the least delta",
    "peers": "`evr estimate --compare` asks other libraries",
    "no-peers": "the page asks nobody",
    "offset": "Algorithm 2 takes the paper's",
}


def command_meant(message: str) -> str | None:
    """The answer to a command in another spelling; None where evr has nothing like it."""
    named = re.match(r"No such command '([\w-]+)'", message)
    meant = None if named is None else COMMANDS.get(named[1])
    return None if named is None or meant is None else f"no command {named[1]!r}: it is `{meant}`"


def flag_meant(error: Any, context: Any) -> str | None:
    """The answer to a flag in another spelling; None where evr has nothing like it."""
    option = str(getattr(error, "option_name", ""))
    wanted = option.lstrip("-").replace("_", "-").lower()
    known = {name for param in context.command.params for name in param.opts} if context else ()
    for name, others in OTHER_NAMES.items():
        if f"--{name}" in known and (wanted == name or wanted in others.split()):
            return f"no such option: {option}. Did you mean --{name}?"
    if wanted in IN_PYTHON:
        return f"no such option: {option}. Python has it: {IN_PYTHON[wanted]}"
    if wanted in GONE:
        return f"no such option: {option}: {GONE[wanted]}"
    return None
