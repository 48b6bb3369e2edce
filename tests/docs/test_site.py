"""The site as a reader opens it: from a folder, without a network, on a wide
screen and on a phone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, browsed
from evr.cli.app import app
from helpers import full

for module in ("mkdocs", "material", "mkdocstrings"):
    pytest.importorskip(module, reason="make docs installs what builds the site")

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"desktop": (1280, 900), "phone": (390, 800)}


class Elements(HTMLParser):
    """The attributes of every element of a page, by tag, and all ids."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: dict[str, list[dict[str, str]]] = defaultdict(list)
        self.ids: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.found[tag].append(given)
        self.ids |= {given[name] for name in ("id", "name") if name in given}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it: any warning is an error, and
    nothing is printed.
    """
    folder = tmp_path_factory.mktemp("docs") / "site"
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Elements]:
    return {page: Elements(page) for page in sorted(site.rglob("*.html")) if page.name != "404.html"}


def test_every_link_leads_somewhere_on_the_disk(pages: dict[Path, Elements]) -> None:
    for page, elements in pages.items():
        for link in elements.found["a"]:
            target = link.get("href", "")
            if target and not target.startswith(("http://", "https://", "mailto:")):
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                assert file.is_file(), f"{page.name}: {target} leads nowhere"
                if anchor and not anchor.startswith("__"):
                    assert anchor in pages[file].ids, f"{page.name}: {target}: no such place"


def test_nothing_comes_from_the_network(site: Path, pages: dict[Path, Elements]) -> None:
    for page, elements in pages.items():
        parts = [(e, "src") for tag in ("script", "img", "iframe") for e in elements.found[tag]]
        parts += [(e, "href") for e in elements.found["link"]]
        for element, name in parts:
            source = element.get(name, "")
            assert "//" not in source, f"{page.name} loads {source}"
            if source == "data:,":  # no icon, which a browser would ask for
                continue
            assert not source or (page.parent / source).is_file(), f"{page.name}: {source} is missing"
    for sheet in site.glob("assets/katex/*.css"):
        for font in re.findall(r"url\(([^)]+)\)", sheet.read_text("utf-8")):
            assert (sheet.parent / font).is_file(), font


def test_every_option_is_in_its_commands_table() -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    marks = re.findall(r"^## evr (\w+)$(?:(?!^## ).)*?^<!-- options of (\w+) -->$", text, flags=re.S | re.M)
    commands = {command.name for command in app.registered_commands}
    assert {heading for heading, _ in marks} == commands
    assert all(heading == mark for heading, mark in marks)


def test_tables_of_options_come_from_the_code(site: Path) -> None:
    text = unescape(re.sub(r"<[^>]+>", "", (site / "cli.html").read_text("utf-8")))
    helped = subprocess.run(
        [sys.executable, "-m", "evr", "certify", "--help"], capture_output=True, text=True, check=True
    ).stdout
    section = text.partition("evr certify¶")[2].partition("evr report¶")[0]
    flags = set(re.findall(r"--[a-z][\w-]+", helped)) - {"--help"}
    assert len(flags) > 10
    assert {flag for flag in flags if flag not in section} == set()


def test_no_option_is_without_words(site: Path) -> None:
    text = (site / "cli.html").read_text("utf-8")
    rows = re.findall(r'<tr>\s*<td><code><span class="whole">-.*?</tr>', text, flags=re.S)
    assert len(rows) > 70
    for row in rows:
        *_, meaning = (re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td>.*?</td>", row, flags=re.S))
        assert len(meaning) > 10, row
        assert not meaning.startswith("By default"), row


def test_names_with_hyphens_stay_on_one_line(site: Path) -> None:
    text = (site / "cli.html").read_text("utf-8")
    assert '<code><span class="whole">--batch-size</span></code>' in text
    sheet = (site / "assets" / "extra.css").read_text("utf-8")
    assert ".whole { white-space: nowrap; }" in sheet


def test_the_reference_shows_types(site: Path) -> None:
    text = unescape(re.sub(r"<[^>]+>", "", (site / "api.html").read_text("utf-8")))
    assert re.search(r"noise_multiplier:\s*float", text)
    assert re.search(r"->\s*Verification", text)


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")


def browse(folder: Path, page: Path, *options: str) -> dict[str, Any]:
    """What a page says in ``<pre id="audit">``, as JSON, and what it logged."""
    printed, console = browsed(folder, page, *options, "--dump-dom")
    found = re.search(r'<pre id="audit">(.*?)</pre>', printed, flags=re.S)
    assert found, console
    return {**json.loads(unescape(found[1])), "console": console}


AUDIT = """<!doctype html><body style="margin:0"><script>
const pages = %s, [width, height] = %s, found = {};
function wide(view) {
  const scrolls = ".md-typeset__scrollwrap, pre, code, .arithmatex, .md-sidebar, .md-nav, "
    + ".md-header, .md-search, .md-overlay, .md-skip";
  return [...view.document.querySelectorAll(".md-content *")]
    .filter(e => !e.closest(scrolls) && e.getBoundingClientRect().right > view.innerWidth + 1)
    .map(e => e.tagName + "." + e.className + ": " + e.textContent.slice(0, 60));
}
async function audit() {
  for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.style = `width:${width}px;height:${height}px;border:0`;
    document.body.append(frame);
    await new Promise(done => { frame.onload = done; frame.src = page; });
    const view = frame.contentWindow, all = view.document;
    const marked = [...all.querySelectorAll(".arithmatex")];
    const right = e => e.getBoundingClientRect().right;
    const cut = [...all.querySelectorAll(".language-console code")].filter(e => [...e.childNodes]
      .some(n => n.nodeType === 1 && !n.classList.contains("go") && right(n) > right(e) + 1));
    const tables = [...all.querySelectorAll(".md-typeset__scrollwrap")]
      .filter(e => e.scrollWidth > e.clientWidth + 1);
    found[page] = {
      width: view.innerWidth, scroll: all.documentElement.scrollWidth, wide: wide(view),
      formulas: marked.length,
      raw: marked.filter(e => !e.querySelector(".katex")).map(e => e.textContent),
      broken: [...all.querySelectorAll(".whole")].filter(e => e.getClientRects().length > 1)
        .map(e => e.textContent),
      commands: cut.map(e => e.textContent.slice(0, 80)),
      tables: tables.map(e => e.textContent.trim().slice(0, 60)),
    };
    frame.remove();
  }
  const out = document.createElement("pre");
  out.id = "audit";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}
audit();
</script>
"""


@needs_browser
@pytest.mark.parametrize("size", [full("desktop"), "phone"])
def test_every_page_fits_and_its_mathematics_is_typeset(
    site: Path, pages: dict[Path, Elements], tmp_path: Path, size: str
) -> None:
    names = [page.relative_to(site).as_posix() for page in pages]
    names.remove("calculator.html")  # its workers outlast virtual time; tests/report/test_calculator.py looks at it
    harness = site / f"audit-{size}.html"
    harness.write_text(AUDIT % (json.dumps(names), json.dumps(SIZES[size])), "utf-8")
    found = browse(tmp_path, harness, "--allow-file-access-from-files", "--virtual-time-budget=60000")
    harness.unlink()
    console = found.pop("console")
    assert set(found) == set(names)
    width, _ = SIZES[size]
    for name, page in found.items():
        assert page["width"] == width, name
        assert page["scroll"] <= width, (name, page["wide"])
        assert page["wide"] == [], name
        assert page["commands"] == [], name
        assert page["broken"] == [], name
        assert page["raw"] == [], name
        if size == "desktop":
            assert page["tables"] == [], name
    assert console == []
    formulas = {name: page["formulas"] for name, page in found.items()}
    assert formulas["explanation.html"] > 20
    assert formulas["guarantees.html"] > 250
    assert formulas["guarantees_strict.html"] > 150


SEARCH = """<script>
addEventListener("load", async () => {
  const wait = ms => new Promise(done => setTimeout(done, ms));
  const toggle = document.querySelector("#__search");
  const field = document.querySelector("[data-md-component=search-query]");
  toggle.checked = true;
  toggle.dispatchEvent(new Event("change"));
  field.focus();
  field.value = "supermartingale";
  let links = [];
  for (let round = 0; round < 40 && !links.length; round++) {
    field.dispatchEvent(new Event("keyup", { bubbles: true }));
    await wait(250);
    links = [...document.querySelectorAll(".md-search-result__link")].map(e => e.href);
  }
  const out = document.createElement("pre");
  out.id = "audit";
  out.textContent = JSON.stringify({ links });
  document.body.append(out);
});
</script></body>"""


@needs_browser
def test_search_works_from_the_folder(site: Path, tmp_path: Path) -> None:
    page = site / "searched.html"
    page.write_text((site / "index.html").read_text("utf-8").replace("</body>", SEARCH), "utf-8")
    found = browse(tmp_path, page, "--virtual-time-budget=20000")
    page.unlink()
    assert any("guarantees.html" in link for link in found["links"]), found
