"""The calculator: one page that estimates the epsilon of DP-SGD and proves it in the browser, without a network."""

from html import escape
from pathlib import Path

from evr._dpsgd import dpsgd
from evr._kernel.events.meaning import hypotheses_of
from evr._kernel.events.relations import ADD_OR_REMOVE
from evr._wording.statement import CHOICE, NOISE

_HERE = Path(__file__).parent


def page() -> str:
    """The page's text. ``verifier.js`` judges, as it is; the words of what is assumed are those of the meanings."""

    def text(*names: str) -> str:
        return ";\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in names)

    judge, planner = text("../verifier", "../checking"), text("estimate", "plan", "file", "prove", "worker")
    event = dpsgd(noise_multiplier=1.0, sampling_probability=0.5, steps=2)
    sentences = [assumption.sentence for assumption in hypotheses_of(event, ADD_OR_REMOVE)]
    sentences += [CHOICE, f"{NOISE} (a floating-point sampler only approximates it)"]
    assumed = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    parts = {"HYPOTHESES": assumed, "JUDGE": judge, "PLANNER": planner, "UI": text("file", "ui")}
    whole = (_HERE / "page.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        whole = whole.replace(f"@{name}@", part)
    return whole
