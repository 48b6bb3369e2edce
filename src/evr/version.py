"""The version, in one place: the build reads it here."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

__version__ = "0.1.0"


@cache
def commit() -> str | None:
    """The commit of these sources, where they were installed from Git or lie in a clone."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        source = distribution("evr-dp").read_text("direct_url.json")
        found = json.loads(source or "{}").get("vcs_info", {}).get("commit_id")
    except (PackageNotFoundError, ValueError):
        found = None
    text = found or _head(Path(__file__).parents[2] / ".git")
    return text if re.fullmatch("[0-9a-f]{40}", text) else None


def _head(folder: Path) -> str:
    """The commit that is checked out in a clone, by Git's files."""
    try:
        head = (folder / "HEAD").read_text("utf-8").strip()
        if not head.startswith("ref: "):
            return head
        reference = head.removeprefix("ref: ")
        if (folder / reference).is_file():
            return (folder / reference).read_text("utf-8").strip()
        packed = (folder / "packed-refs").read_text("utf-8")
        return next((x.split()[0] for x in packed.splitlines() if x.endswith(reference)), "")
    except OSError:
        return ""
