"""Run by mkdocs: a comment ``<!-- options of certify -->`` becomes the table of that command's
options, from its code; and names such as ``--batch-size`` stay on one line.
"""

from __future__ import annotations

import re
from typing import Any

import typer

from evr.cli.app import app

MARK = re.compile(r"<!-- options of ([\w ]+) -->")
CODE = re.compile(r"<code>[^<]*</code>")
HYPHENED = re.compile(r"[^\s<>&;]*-\w[^\s<>&;]*")
NUMBER = re.compile(r"(<(pre|code|script|style)\b.*?</\2>|<[^>]*>)|\b\d[\d.]*e-\d+", re.S)
_LONGEST = 32  # characters that fit on a phone


def options(name: str) -> str:
    """The arguments and options of a command as a Markdown table.

    >>> print(options("describe").splitlines()[0])
    | option | value | what it does |
    """
    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
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
    return names, re.sub(r"<path>|<list\[Path\]>", "FILE", value).strip("<>")


def _sentence(text: str) -> str:
    """The help of an option, its default as a sentence."""
    return re.sub(r"\s*\[default: (.*?)\]$", r" By default `\1`.", text).strip()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return MARK.sub(lambda mark: options(mark[1]), markdown)


def unbroken(html: str) -> str:
    """Names with hyphens in code among words, and numbers such as 1e-9, each kept on one line.

    >>> unbroken("<p>or <code>--batch-size 256</code></p>")
    '<p>or <code><span class="whole">--batch-size</span> 256</code></p>'
    >>> unbroken('<p id="1e-9">at 1e-9</p>')
    '<p id="1e-9">at <span class="whole">1e-9</span></p>'
    """

    def kept(name: re.Match[str]) -> str:
        return name[0] if len(name[0]) > _LONGEST else f'<span class="whole">{name[0]}</span>'

    html = NUMBER.sub(lambda one: one[0] if one[1] else kept(one), html)
    return CODE.sub(lambda code: f"<code>{HYPHENED.sub(kept, code[0][6:-7])}</code>", html)


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs for every page, once it is HTML."""
    return unbroken(html)
