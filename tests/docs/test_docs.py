"""The documentation keeps its promises: links lead somewhere, names exist, commands run and print
the numbers shown.

Examples with ``>>>`` are run by pytest itself.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import operator
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import evr
from evr.cli import main
from evr.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CHEAP = {"estimate", "calibrate", "describe", "refute", "risk"}
COMMANDS = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def anchors(page):
    """The anchors of a page's headings, as both GitHub and the site make them."""
    text = without_code(page.read_text("utf-8"))
    headings = re.findall(r"^#+ +(.+)$", text, flags=re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings)
    named = re.findall(r'<a id="([^"]+)">', text)
    return {*named, *(re.sub(r"[ -]+", "-", heading.strip()) for heading in kept)}


def consoles():
    """Each command shown in a console block, with the output shown below it."""
    for page in PAGES:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text("utf-8"), flags=re.S | re.M):
            for shown in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, output = shown.partition("\n")
                yield page, command, output


@pages
def test_links_lead_somewhere(page):
    text = without_code(page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} leads nowhere"
        if anchor:
            assert anchor in anchors(file), f"{target}: no such heading"


def test_every_page_is_on_the_site_once():
    configuration = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs").glob("**/*.md"):
        assert configuration.count(f": {page.relative_to(ROOT / 'docs').as_posix()}\n") == 1, page.name


def test_every_name_of_the_notation_exists():
    rows = re.findall(
        r"^\|[^|]+\|[^|]+\| `(evr[\w.]*)` \|", (ROOT / "docs" / "notation.md").read_text("utf-8"), flags=re.M
    )
    assert len(rows) > 25
    for name in rows:
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:cut]))
            except ImportError:
                continue
            for part in parts[cut:]:
                found = getattr(found, part)
            break


def test_every_public_name_is_in_the_reference():
    shown = re.findall(r"^::: evr\.(\S+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), flags=re.M)
    events = {
        f"events.{name}"
        for name, kind in vars(evr.events).items()
        if name.endswith("DpEvent") and isinstance(kind, type)
    }
    assert set(shown) >= (set(evr.__all__) - {"events"}) | events
    assert len(shown) == len(set(shown))
    for path in shown:
        home = ".".join(["evr", *path.split(".")[:-1]])
        found = importlib.import_module(home) if home != "evr.errors" else evr
        assert operator.attrgetter(path.rpartition(".")[2])(found)


def public(found):
    """An object, and the public functions of a class that are its own."""
    yield found
    if isinstance(found, type):
        for name, part in vars(found).items():
            if not name.startswith("_") and (callable(part) or isinstance(part, property)):
                yield part.fget if isinstance(part, property) else part


@pytest.mark.parametrize("name", sorted({*evr.__all__} - {"events"}))
def test_docstrings_are_complete(name):
    found = getattr(evr, name)
    for part in public(found):
        text = inspect.getdoc(part)
        assert text, f"{name}: {getattr(part, '__name__', part)} has no docstring"
        if inspect.isfunction(part) and (part is found or text.count("Parameters")):
            for parameter in inspect.signature(part).parameters:
                said = re.search(rf"\b{parameter}\b", text)
                assert parameter in ("self", "cls") or said, f"{name} does not say what {parameter} is"


@pytest.mark.parametrize("name", sorted({*evr.__all__} - {"events"}))
def test_docstrings_say_what_comes_back_and_what_is_raised(name):
    found = getattr(evr, name)
    text = inspect.getdoc(found)
    if inspect.isfunction(found):
        returns = inspect.signature(found).return_annotation
        assert returns in (None, "None") or "Returns\n-------" in text, f"{name} does not say what it returns"
        assert "Raises\n------" in text, f"{name} does not say what it raises"
    if dataclasses.is_dataclass(found):
        for one in dataclasses.fields(found):
            said = one.name.startswith("_") or re.search(rf"\b{one.name}\b", text)
            assert said, f"{name} does not say what {one.name} is"


def test_every_command_is_described():
    described = set(re.findall(r"^## evr (\w+)$", (ROOT / "docs" / "cli.md").read_text("utf-8"), flags=re.M))
    assert described == COMMANDS


def test_every_command_shown_exists():
    shown = {shlex.split(command)[1] for _, command, _ in consoles() if command.startswith("evr ")}
    assert shown <= COMMANDS


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder like a fresh clone, to write into."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)


def run(command, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


@pytest.mark.parametrize(
    "command", sorted({c for _, c, _ in consoles() if c.split()[0] == "evr" and c.split()[1] in CHEAP})
)
def test_commands_print_the_numbers_shown(command, clone, monkeypatch, capsys):
    assert run(command, monkeypatch) == (3 if command.split()[1] == "refute" else 0)  # what is refuted is false
    printed = capsys.readouterr().out
    for output in {output for _, shown, output in consoles() if shown == command}:
        timeless = re.sub(r"\d[\d.]* s\b", "", output)
        for number in re.findall(r"\d+\.\d{4,}(?:e-\d+)?", timeless):
            assert number in printed, f"{number} is not what {command!r} prints"


def test_the_commands_around_a_certificate(clone, monkeypatch, capsys):
    """Those of cli.md, in its order, in one folder: each finds what those before it wrote."""
    numbers = itertools.count(1 << 200)
    # fresh, and the same each time
    monkeypatch.setattr("evr._basics.randomness.secrets.randbits", lambda bits: next(numbers))
    cli = ROOT / "docs" / "cli.md"
    for page, command, output in consoles():
        words = shlex.split(command)
        if page != cli or words[1] in CHEAP:
            continue
        assert run(command, monkeypatch) == 0, command
        captured = capsys.readouterr()
        printed = captured.err + captured.out
        for line in output.splitlines():
            assert line.split(" [...]")[0] in printed, command


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/guide/users.md"])
def test_a_newcomer_sees_what_the_page_shows(page, clone, monkeypatch, capsys):
    """Its commands in order, in a clone where `make run` has run; lines may be broken elsewhere."""

    def words(text):
        return " ".join(re.sub(r"\d[\d.]* s\b", "", text).split())

    assert run("evr certify examples/dpsgd.toml --force", monkeypatch) == 0  # as `make run`, but quicker
    capsys.readouterr()
    for command, output in [(command, output) for found, command, output in consoles() if found == ROOT / page]:
        if command.split()[0] == "evr" and command.split()[1] not in CHEAP:
            assert run(command, monkeypatch) == 0, command
            captured = capsys.readouterr()
            for part in output.split("[...]"):
                for shown in part.split("\n\n"):
                    told = shown.split("\nwrote ")[0]  # on the other stream
                    for paragraph in re.split(r"(?<=sqlite\.)\n", told):
                        assert words(paragraph) in words(captured.err + captured.out), command


def test_files_of_the_examples_are_there():
    for page in PAGES:
        for name in re.findall(r"examples/[\w.]+\.(?:toml|py)\b", page.read_text("utf-8")):
            assert (ROOT / name).exists(), f"{page.name} names {name}"
