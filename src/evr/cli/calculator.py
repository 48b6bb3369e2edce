"""``evr calculator``: the page that estimates the epsilon of DP-SGD and proves it, in a browser."""

import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

from evr.cli import options
from evr.cli.output import as_json, say


def calculator(
    path: Annotated[bool, options.option("Print where the page is, and do not open it.", "--path")] = False,
    json: options.Json = False,
) -> None:
    """Open the calculator: a page that estimates the epsilon of DP-SGD while you type, and then proves it.

    The page is one file in a new folder for temporary files. It needs no network. Keep it, or send it to somebody.

    Example: evr calculator
    """
    from evr._report.calculator import page

    file = Path(tempfile.mkdtemp(prefix="evr-")) / "calculator.html"
    file.write_text(page(), encoding="utf-8")
    if json:
        as_json({"path": str(file)})
    elif path or not webbrowser.open(file.as_uri()):
        print(file)
    else:
        say(f"opened {file}")
