"""The version, in one place: the build reads it here."""

import contextlib
import json
import re
from functools import cache
from pathlib import Path

__version__ = "0.1.0"


@cache
def commit() -> str | None:
    """The commit of these sources, where they were installed from Git or lie in a clone."""
    import subprocess
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        source = distribution("evr-dp").read_text("direct_url.json")
        found = json.loads(source or "{}").get("vcs_info", {}).get("commit_id")
    except (PackageNotFoundError, ValueError):
        found = None
    clone = Path(__file__).parents[3] / ".git"
    if found is None and clone.exists():
        command = ["git", "--git-dir", str(clone), "rev-parse", "HEAD"]
        with contextlib.suppress(OSError):  # there is no Git
            found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found if re.fullmatch("[0-9a-f]{40}", found or "") else None
