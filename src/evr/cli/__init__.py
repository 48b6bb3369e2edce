"""The command. It parses and prints; the library decides.

Exit codes: 0 accepted or done, 3 rejected, refuted or false, 2 bad input, 1 a bug, 130 interrupted. If a pipe is closed
early, the code is 0, or 1 for commands whose code is a verdict: nobody has read it.
"""

import io
import os
import re
import sys
import warnings
from typing import Any, NoReturn

REJECTED = 3
"""The exit code of a claim that is rejected, or refused as false."""
_INTERRUPTED = 130
_WITH_VERDICT = ("audit", "certify", "refute", "replay", "resume")
# Flags and commands as other libraries, papers and people call them, each answered with evr's own.
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
_IN_PYTHON = {
    ", or set max_samples": "",
    ", or dp_accounting's relation": "",
    " (low and high say where)": "",
    " (max_seconds=, None, in Python)": "",
    "give epsilon and delta; or advantage;": "give --epsilon and --delta; or --advantage;",
    "leave the proof file out": "leave out --proof",
}
"""What the library says in the words of Python, and what whoever typed flags reads instead."""
_COMMANDS = {
    "curve": "evr estimate --epsilon 0:5:0.25",
    "online": "evr estimate --every 1",
    "compare": "evr estimate --compare",
    "sweep": "evr estimate --noise-multiplier 0.6:2:0.1",
    "verify": "evr certify --epsilon EPSILON --delta DELTA",
    "inspect": "evr show FILE",
    "report": "evr show FILE --html PAGE",
}


def main() -> None:
    """Run the command; a user's mistake is one line on standard error, never a traceback."""
    try:
        code = _run()
    except KeyboardInterrupt:  # while modules are loaded, too
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        print("interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _run() -> Any:
    """The exit code, if an ``int``; most mistakes leave with theirs."""
    import typer

    from evr.cli.app import app
    from evr.cli.output import fail
    from evr.errors import BudgetExceededError, FalseCertificateError, FalseClaimError

    # Whoever started evr with a stream closed wants nothing on it.
    sys.stdout, sys.stderr = (stream or io.StringIO() for stream in (sys.stdout, sys.stderr))
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        code = app(standalone_mode=False, prog_name="evr")
        sys.stdout.flush()
        return code
    except typer.Abort:
        return _INTERRUPTED
    except BrokenPipeError:
        return _read_enough()
    except SystemExit as left:  # typer's word for a closed pipe is to leave with 1
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        return _read_enough()
    except OSError as error:
        fail(": ".join(filter(None, (error.filename, error.strerror))) or str(error))
    except (FalseClaimError, FalseCertificateError, BudgetExceededError) as error:
        fail(in_flags(error), REJECTED)
    except (ValueError, TypeError, OverflowError) as error:
        fail(in_flags(error))
    except Exception as error:
        _usage(error)


def in_flags(error: Exception) -> str:
    """The message of an error of the library for whoever typed flags; what has no flag is left out. What is wrong in a
    file is said in the file's words.
    """
    from evr.cli.options import DESCRIBING, PROMISING, flag_of
    from evr.errors import CertificateError, RecordError, SpecError

    message = "; ".join([str(error), *getattr(error, "__notes__", [])])
    message = re.sub(r"\b(?:neighboring_relation|unit)='[\w-]+' \((--\w+ [\w-]+)\)", r"\1", message)
    if isinstance(error, CertificateError | RecordError | SpecError):
        return message
    for phrase, words in _IN_PYTHON.items():
        message = message.replace(phrase, words)
    message = re.sub(r"\b(method|device|sampling)='([\w-]+)'", r"--\1 \2", message)
    typed = {word[2:].partition("=")[0].replace("-", "_") for word in sys.argv if word.startswith("--")}
    known = PROMISING if typed.isdisjoint(DESCRIBING) else (*PROMISING, *DESCRIBING)
    flags = {name: flag_of(name) for name in (*typed, *known) if "_" in name or name in typed}
    flags["neighboring_relation"] = "--adjacency"
    flags |= {"false_positive_rate": "--fpr"} if "fpr" in typed else {}
    # A word with an underscore is a keyword anywhere, others where a value follows; neither within an event.
    ends = {name: r"(?![\w./-])" if "_" in name else r"(?==(?!\.\.\.))" for name in flags}
    words = "|".join(re.escape(name) + end for name, end in ends.items())
    return re.sub(rf"\w\([^()]*\)|(?<![\w./(-])(?:{words})", lambda word: flags.get(word[0], word[0]), message)


def _read_enough() -> int:
    """Whoever read the output has closed the pipe: write to nobody from here on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if sys.argv[1:2] and sys.argv[1] in _WITH_VERDICT else 0


def _usage(error: Exception) -> NoReturn:
    """Say in one line what typer found wrong with the command line; raise what is not its complaint again."""
    from evr.cli.output import fail

    if not hasattr(error, "format_message"):
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        sys.exit(2)
    context = getattr(error, "ctx", None)
    said = " ".join(error.format_message().split())
    message = _meant(error, said) or said
    where = f" Try '{context.command_path} --help'." if context is not None else ""
    fail(message[:1].lower() + message[1:] + ("" if message.endswith((".", "?", "!")) else ".") + where)


def _meant(error: Any, said: str) -> str | None:
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
