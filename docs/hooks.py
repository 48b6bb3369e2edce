"""Run by mkdocs: a comment ``<!-- options of certify -->`` becomes the table of that command's
options, from its code.
"""

from __future__ import annotations

import re
from typing import Any

import typer

from evr.cli.app import app

MARK = re.compile(r"<!-- options of (\w+) -->")


def options(name: str) -> str:
    """The arguments and options of a command as a Markdown table.

    >>> print(options("describe").splitlines()[0])
    | option | value | what it does |
    """
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    context = typer.Context(command, info_name=name)
    rows = ["| option | value | what it does |", "|---|---|---|"]
    for parameter in command.get_params(context):
        if parameter.name != "help":
            usage, text = parameter.get_help_record(context)
            rows.append("| {} | {} | {} |".format(*_parts(usage), _sentence(text)))
    return "\n".join(rows) + "\n"


def _parts(usage: str) -> tuple[str, str]:
    """The names of an option, and the value that it takes.

    >>> _parts("-o, --output FILE"), _parts("--method fft|rdp|all"), _parts("SPEC <path>")
    (('`-o`, `--output`', 'FILE'), ('`--method`', '`fft`, `rdp` or `all`'), ('`SPEC`', 'FILE'))
    """
    flags, _, value = usage.rpartition(" ") if " " in usage.replace(", ", ",") else (usage, "", "")
    names = ", ".join(f"`{flag}`" for flag in flags.split(", "))
    choices = [f"`{choice}`" for choice in value.split("|")]
    if len(choices) > 1:
        return names, ", ".join(choices[:-1]) + " or " + choices[-1]
    return names, value.replace("<path>", "FILE").strip("<>")


def _sentence(text: str) -> str:
    """The help of an option, its default as a sentence."""
    return re.sub(r"\s*\[default: (.*?)\]$", r" By default `\1`.", text).strip()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return MARK.sub(lambda mark: options(mark[1]), markdown)
