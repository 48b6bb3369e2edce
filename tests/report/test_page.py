"""The page of a certificate: whole, self-contained, named for those who do not see it, and true to
its certificate.
"""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

import evr
from evr.report import asking_peers, page, pictures
from helpers import near

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=50)  # of the certificates
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
        element = {
            "tag": tag,
            "attrs": dict(attrs),
            "text": "",
            "within": [e["tag"] for e in self.open],
        }
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(
            {"tag": tag, "attrs": dict(attrs), "text": "", "within": [e["tag"] for e in self.open]}
        )

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
    assert len(drawn) == {"accepted": 5, "rejected": 5, "fixed": 4, "no sample": 1}[kind]
    for svg in drawn:
        title, description = svg["attrs"]["aria-labelledby"].split()
        assert len(tree.text_of(title)) > 10
        assert len(tree.text_of(description)) > 20
    assert all(e["attrs"].get("aria-hidden") == "true" for e in tree.all("svg") if e not in drawn)
    assert len(tree.all("figcaption")) == len(drawn)


def test_pictures_follow_the_theme(pages):
    text = pages["accepted"]
    assert not any(colour in text for colour in pictures.PAINTS.values())
    svgs = re.findall(r"<svg.*?</svg>", text, flags=re.S)
    assert not re.search(r"(fill|stroke): #(?!ffffff)", "".join(svgs)), (
        "a colour that no theme changes"
    )


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
    held = certificates[kind].guarantee is not None
    assert clauses == ([c.rstrip(".") for c in certificates[kind].assumptions] if held else [])
    assert tree.text_of("verdict").lower() == certificates[kind].verdict
    assert ("Not verified" in tree.all("h1")[0]["text"]) == (certificates[kind].guarantee is None)


def test_the_summary_comes_first_and_what_experts_want_is_folded(pages, kind):
    tree = Tree(pages[kind])
    places = {e["tag"]: i for i, e in reversed(list(enumerate(tree.elements)))}
    assert places["h1"] < places["dl"] < places["section"]
    for picture in tree.all("figure"):
        expert = re.search("Log wealth|Sizes of the samples", picture["text"]) is not None
        assert ("details" in picture["within"]) == expert
    if kind == "accepted":
        assert "For experts: log wealth and sizes of the samples" in pages[kind]


def test_the_margin_names_only_what_it_shows(pages):
    whole, margin = (
        next(e for e in Tree(pages["accepted"]).all("figure") if title in e["text"])["text"]
        for title in ("Privacy curve of each direction", "The margin between")
    )
    assert re.search(r"\badd\b", whole)
    assert not re.search(r"\badd\b", margin)
    assert re.search(r"\bremove\b", margin)


def test_like_is_compared_with_like(certificates, pages):
    tree = Tree(pages["accepted"])
    rows = {e["text"].split("\n")[0]: e["text"] for e in tree.all("tr")}
    delta = certificates["accepted"].claim.delta
    for start, at in (("evr, with τ = 0.99", 0.99 * delta), ("evr, estimate", delta)):
        row = next(text for text in rows.values() if text.strip().startswith(start))
        value = f"{evr.estimate_epsilon(EVENT, at).value:.6g}"
        assert value in row


def test_every_parameter_is_there(certificates, pages, kind):
    document = certificates[kind].document()
    tree = Tree(pages[kind])
    cells = " ".join(e["text"] for e in tree.elements if e["attrs"].get("class") == "value")
    assert document["digest"] in cells
    assert document["verification"]["entropy"] in cells
    for section in ("claim", "release"):
        for value in document[section].values():
            assert page._shown(value) in cells
    for fields in document["verification"]["directions"].values():
        assert fields["reason"] in cells


def test_it_says_how_to_replay(pages):
    assert Tree(pages["accepted"]).text_of("replay") == (
        "evr replay run.certificate.json evr replay --fresh run.certificate.json"
    )


def test_names_are_escaped(certificates):
    text = page.render(certificates["accepted"], source="<b>&.json", peers=False)
    assert "<b>&.json" not in text
    assert "&lt;b&gt;&amp;.json" in text


def test_the_same_certificate_gives_the_same_page(certificates, pages):
    assert (
        page.render(certificates["accepted"], source="run.certificate.json", peers=False)
        == pages["accepted"]
    )


def test_peers_are_asked_or_the_reason_is_given(certificates, monkeypatch):
    answers = [
        asking_peers.Answer("somebody", "upper bound", 0.75, 1.5, ""),
        asking_peers.Answer("nobody", "", None, None, "is not installed"),
    ]
    monkeypatch.setattr(asking_peers, "ask", lambda event, delta, relation: (answers, None))
    rows = [
        " ".join(e["text"].split()) for e in Tree(page.render(certificates["accepted"])).all("tr")
    ]
    assert "somebodyupper bound0.751.5" in [
        row.replace(" ", "").replace("upperbound", "upper bound") for row in rows
    ]
    assert any("nobody" in row and "is not installed" in row for row in rows)
    assert "They are asked for epsilon" in page.render(certificates["no sample"])


def test_impatience_with_peers():
    event = {"type": "GaussianDpEvent", "noise_multiplier": 1.0}
    answers, reason = asking_peers.ask(event, 1e-5, patience=0.01)
    assert answers == []
    assert reason is not None
    assert reason.startswith("No answer within 0.01 seconds: dp_accounting, RDP; ")


def test_an_event_that_peers_do_not_know():
    answers, reason = asking_peers.ask({"type": "NobodyKnows"}, 1e-5)
    assert answers == []
    assert reason == "They could not be asked about this event."


def test_peers_answer():
    found = list(
        asking_peers.answers(
            {
                "event": {"type": "GaussianDpEvent", "noise_multiplier": 2.0},
                "delta": 1e-5,
                "relation": "add-or-remove",
            }
        )
    )
    assert asking_peers._read(
        "".join(f"{json.dumps(row)}\n" for row in found).encode() + b"{cut of"
    ) == [asking_peers.Answer(**row) for row in found]
    epsilons = {(row["peer"], row["kind"]): row["epsilon"] for row in found}
    exact = evr.estimate_epsilon(
        evr.dpsgd(noise_multiplier=2.0, sampling_probability=1.0, steps=1), 1e-5
    ).value
    assert epsilons["dp_accounting, privacy loss distributions", "upper bound"] == near(
        exact, rel=1e-3
    )
    assert epsilons["dp_accounting, RDP", "upper bound"] > exact


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2.0582e-10, "2.06 × 10⁻¹⁰"),
        (1e-9, "10⁻⁹"),
        (0.25, "0.25"),
        (0.0, "0"),
        (1.0, "1"),
        (1.5e20, "1.5 × 10²⁰"),
    ],
)
def test_numbers_as_people_write_them(value, shown):
    assert pictures.scientific(value).replace("\u00a0", " ") == shown


def test_at_most_never_rounds_down():
    assert pictures.at_most(1.21e-9) == "1.3\u00a0×\u00a010⁻⁹"
    assert pictures.at_most(0.0) == "0"
