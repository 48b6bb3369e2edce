"""The command. It parses and prints; what it decides is decided in the floors below.

Exit codes: 0 accepted or done, 3 rejected, 2 bad input, 1 a bug (or a pipe closed early), 130 interrupted.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command; a user's mistake is one line on standard error, never a traceback."""
    import typer

    from evr.cli.app import app
    from evr.cli.output import fail, plain_warnings

    plain_warnings()
    try:
        code = app(standalone_mode=False, prog_name="evr")
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except BrokenPipeError:  # whoever read the output has read enough; typer, which sees most of these, leaves with 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ValueError, TypeError, OverflowError) as error:
        fail(str(error))
    except Exception as error:
        _usage(error)
    if code == _INTERRUPTED:
        print("interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Exception) -> None:
    """Say in one line what typer found wrong with the command line; raise what is not its complaint again."""
    from evr.cli.output import fail

    if not hasattr(error, "format_message"):
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed already
        sys.exit(2)
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    where = f" Try '{context.command_path} --help'." if context is not None else ""
    fail(message[:1].lower() + message[1:] + ("" if message.endswith((".", "?", "!")) else ".") + where)
