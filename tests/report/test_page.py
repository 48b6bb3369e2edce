"""The page of a certificate: whole, self-contained, named for those who do not see it, and true to
its certificate.
"""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from typing import Any

import pytest

import evr
from evr._report import page, plots
from evr._wording.publishing import meaning

KINDS = ["accepted", "rejected", "fixed", "no sample"]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Tree(HTMLParser):
    """Every element with its attributes and text; complains about tags that do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open: list[dict[str, Any]] = []
        self.elements: list[dict[str, Any]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {[e['tag'] for e in self.open]}"

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": "", "within": [e["tag"] for e in self.open]}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": "", "within": [e["tag"] for e in self.open]})

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1]["tag"] == tag, f"</{tag}> closes <{self.open[-1]['tag']}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag):
        return [e for e in self.elements if e["tag"] == tag]

    def text_of(self, identifier):
        (found,) = [e for e in self.elements if e["attrs"].get("id") == identifier]
        return " ".join(found["text"].split())


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


def test_tags_nest_and_identifiers_are_unique(pages, kind):
    tree = Tree(pages[kind])
    identifiers = [e["attrs"]["id"] for e in tree.elements if "id" in e["attrs"]]
    assert len(identifiers) == len(set(identifiers))
    known = set(identifiers)
    for element in tree.elements:
        for attribute in ("aria-labelledby", "aria-describedby"):
            assert set(element["attrs"].get(attribute, "").split()) <= known
        for name in ("href", "clip-path", "data-copy"):
            target = re.search(r"#([^)]+)\)?$", element["attrs"].get(name) or "")
            assert target is None or target[1] in known, element["attrs"]


def test_nothing_points_outside(pages, kind):
    text = pages[kind]
    assert "://" not in text
    assert not re.search(r"@import|url\((?!#)", text)
    for element in Tree(text).elements:
        assert element["tag"] not in {"iframe", "object", "embed", "img"}
        assert "src" not in element["attrs"]
        if element["tag"] == "link":
            assert element["attrs"]["href"] == "data:,"


def test_pictures_have_words(pages, kind):
    tree = Tree(pages[kind])
    drawn = [e for e in tree.all("svg") if e["attrs"].get("role") == "img"]
    assert len(drawn) == {"accepted": 2, "rejected": 2, "fixed": 2, "no sample": 1}[kind]
    for svg in drawn:
        title, description = svg["attrs"]["aria-labelledby"].split()
        assert len(tree.text_of(title)) > 10
        assert len(tree.text_of(description)) > 20
    assert all(e["attrs"].get("aria-hidden") == "true" for e in tree.all("svg") if e not in drawn)
    assert len(tree.all("figcaption")) == len(drawn)


def test_pictures_follow_the_theme(pages):
    svgs = "".join(re.findall(r"<svg.*?</svg>", pages["accepted"], flags=re.S))
    assert not any(colour in svgs for colour in plots.PAINTS.values())
    assert not re.search(r"(fill|stroke): #(?!ffffff)", svgs), "a colour that no theme changes"


def test_it_has_a_language_a_title_and_one_first_heading(pages, kind):
    tree = Tree(pages[kind])
    assert tree.all("html")[0]["attrs"]["lang"] == "en"
    (title,) = [e for e in tree.all("title") if "head" in e["within"]]
    assert "Privacy certificate" in title["text"]
    assert len(tree.all("h1")) == 1
    levels = [int(e["tag"][1]) for e in tree.elements if re.fullmatch("h[1-6]", e["tag"])]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_buttons_and_header_cells_are_named(pages, kind):
    tree = Tree(pages[kind])
    assert all(e["attrs"].get("aria-label") for e in tree.all("button"))
    assert all(e["attrs"].get("scope") in {"row", "col"} for e in tree.all("th"))


def test_statement_and_verdict_are_the_certificates(certificates, pages, kind):
    tree = Tree(pages[kind])
    assert tree.text_of("statement") == " ".join(certificates[kind].short_statement.split())
    for number in re.findall(r"\d[\d.]*e-\d+", certificates[kind].short_statement):
        assert f'<span class="whole">{number}</span>' in pages[kind]
    full = [" ".join(e["text"].split()) for e in tree.all("details")]
    assert any(text.endswith(" ".join(certificates[kind].statement.split())) for text in full)
    clauses = [e["text"].rstrip(";.") for e in tree.all("li")]
    *means, basis = meaning(certificates[kind]) or [""]
    assert basis in " ".join(e["text"] for e in tree.all("p"))
    held = certificates[kind].guarantee is not None
    listed = [*means, *certificates[kind].assumptions] if held else []
    assert clauses == [c.rstrip(".") for c in listed]
    assert tree.text_of("verdict").lower() == certificates[kind].verdict
    assert ("Not verified" in tree.all("h1")[0]["text"]) == (certificates[kind].guarantee is None)


def test_the_summary_comes_first_and_details_are_folded(pages, kind):
    tree = Tree(pages[kind])
    places = {e["tag"]: i for i, e in reversed(list(enumerate(tree.elements)))}
    assert places["h1"] < places["dl"] < places["section"]
    folded = [e["text"] for e in tree.all("figure") if "details" in e["within"]]
    assert not any("Privacy curve" in text for text in folded)
    read = " ".join(e["text"] for e in tree.elements if e["tag"] in ("p", "h1", "h2", "dd", "li"))
    assert not re.search(r"\b(tau|kappa)\b|τ|κ", read)


def test_a_rejected_page_promises_nothing(pages):
    text = pages["rejected"]
    assert "uarantee" not in re.sub(r"<details>.*?</details>", "", text, flags=re.S).replace(
        "it gives no guarantee", ""
    ).replace("This gives no guarantee", "")
    assert "What is assumed" not in text
    assert "LaTeX" not in text


def test_a_title_heads_the_page(certificates):
    one = certificates["no sample"]
    named = one.description.model_copy(update={"title": "MNIST CNN v3"})
    text = page.render(one.model_copy(update={"description": named}))
    assert Tree(text).text_of("title") == "MNIST CNN v3"
    assert "<title>MNIST CNN v3: Privacy certificate" in text


def test_every_parameter_is_there(certificates, pages, kind):
    document = certificates[kind].document()
    tree = Tree(pages[kind])
    cells = " ".join(e["text"] for e in tree.elements if e["attrs"].get("class") == "value")
    assert document["digest"] in cells
    assert document["verification"].get("entropy", "") in cells
    for section in ("claim", "release"):
        for value in document[section].values():
            assert page._shown(value) in cells
    for fields in document["verification"]["directions"].values():
        assert fields["reason"] in cells


def test_it_says_how_to_replay(pages):
    install = f"pip install evr-dp=={evr.__version__}"
    replays = "evr replay run.certificate.json evr replay --fresh run.certificate.json"
    assert Tree(pages["accepted"]).text_of("replay") == f"{install} {replays}"


def test_names_are_escaped(certificates):
    text = page.render(certificates["accepted"], source="<b>&.json")
    assert "<b>&.json" not in text
    assert "evr replay &#39;&lt;b&gt;&amp;.json&#39;" in text  # as a shell wants it


def test_the_same_certificate_gives_the_same_page(certificates, pages):
    for source in ("run.certificate.json", "/home/somebody/run.certificate.json"):  # the page is passed on
        assert page.render(certificates["accepted"], source=source) == pages["accepted"]
