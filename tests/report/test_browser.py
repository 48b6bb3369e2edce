"""The page in a real browser: nothing complains, overflows, fades or lacks a name."""

from __future__ import annotations

import json
import re

import pytest
from matplotlib.image import imread

from browser import CHROMIUM, browsed

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

PHONE, DESKTOP = (390, 1600), (1200, 1600)
LIGHT, DARK = 1, 0

AUDIT = """
<script>
function luminance(colour) {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
function ground(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
  }
  return "rgb(255, 255, 255)";
}
function contrast(element, property) {
  const [a, b] = [getComputedStyle(element)[property], ground(element)]
    .map(luminance).sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
// A clipboard that answers at once: the browser's own is a process away, for which virtual time
// does not wait.
let clipboard = "";
const ours = { writeText: async text => { clipboard = text; } };
Object.defineProperty(navigator, "clipboard", { value: ours });
document.querySelector("button").click();
setTimeout(() => {
  const faint = [];
  const text = "h1, h2, h3, p, dt, dd, th, td, figcaption, pre, button, summary, .pill";
  for (const e of document.querySelectorAll(text)) {
    if (contrast(e, "color") < 4.5) faint.push(e.tagName + "." + e.className);
  }
  for (const e of document.querySelectorAll("figure svg text")) {
    if (contrast(e, "fill") < 4.5) faint.push("svg text " + e.textContent);
  }
  const wide = [...document.querySelectorAll("main *")]
    .filter(e => !e.closest(".scroll, svg, pre, .hidden"))
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.tagName + "." + e.className);
  const height = e => e.getBoundingClientRect().height;
  const small = [...document.querySelectorAll("figure svg text")].map(height).filter(h => h < 9);
  const found = {
    width: innerWidth, scroll: document.documentElement.scrollWidth,
    faint: [...new Set(faint)], wide, small: small.length, clipboard,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    copied: document.querySelector("button").textContent,
    resources: performance.getEntriesByType("resource").map(e => e.name)
      .filter(n => !n.startsWith("data:")),
    pictures: [...document.querySelectorAll("svg[role=img]")].map(height),
  };
  const out = document.createElement("pre");
  out.id = "audit";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}, 300);
</script>
"""


def browse(folder, html, *options):
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    return browsed(folder, path, "--virtual-time-budget=3000", *options)


@pytest.mark.parametrize(("kind", "size", "theme"), [("accepted", PHONE, DARK), ("rejected", DESKTOP, LIGHT)])
def test_audit(tmp_path, pages, kind, size, theme):
    width, height = size
    audited = pages[kind].replace("</body>", AUDIT + "</body>").replace("<details", "<details open")
    dom, console = browse(
        tmp_path,
        audited,
        f"--window-size={width},{height}",
        f"--blink-settings=preferredColorScheme={theme}",
        "--dump-dom",
    )
    found = json.loads(
        re.search(r'<pre id="audit">(.*?)</pre>', dom, flags=re.S)[1].replace("&gt;", ">").replace("&amp;", "&")
    )
    assert console == []
    assert found["dark"] == (theme == DARK)
    assert found["resources"] == []
    assert found["scroll"] <= found["width"], found["wide"]
    assert found["wide"] == []
    assert found["faint"] == []
    assert found["small"] == 0
    assert found["copied"] == "Copied"
    assert len(found["clipboard"]) > 20
    assert len(found["pictures"]) >= 2
    assert all(tall > 150 for tall in found["pictures"])


def test_it_is_dark_where_the_reader_is(tmp_path, pages):
    width, height = DESKTOP
    shot = tmp_path / "dark.png"
    browse(
        tmp_path,
        pages["accepted"],
        f"--window-size={width},{height}",
        f"--blink-settings=preferredColorScheme={DARK}",
        f"--screenshot={shot}",
    )
    pixels = imread(shot)[..., :3]
    assert pixels.mean() < 0.35
    assert pixels.std() > 0.02, "an empty page"


def test_it_prints(tmp_path, pages):
    sheet = tmp_path / "page.pdf"
    browse(tmp_path, pages["accepted"], "--no-pdf-header-footer", f"--print-to-pdf={sheet}")
    content = sheet.read_bytes()
    assert content.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
