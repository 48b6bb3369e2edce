"""The command. It parses and prints; what it decides is decided in the floors below.

Exit codes: 0 accepted or done, 3 rejected, 2 bad input, 1 a bug, 130 interrupted.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; a user's mistake is one line on standard error, never a traceback."""
    from evr.cli.app import app
    from evr.cli.output import fail

    try:
        app()
    except (ValueError, TypeError, OverflowError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
