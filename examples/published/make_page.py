"""What published trainings really cost: certifies every spec file of this folder and writes
docs/published.md.

    python examples/published/make_page.py [--from-results]

``make published`` runs it. Numbers go from the certificates into ``results.json``, and from there
into the page; ``--from-results`` only writes the page again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import evr
from evr import _spec as spec
from evr._basics import atomic
from evr._basics.version import __version__

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "published.md"


def sources() -> dict[str, dict[str, Any]]:
    """What was published of each training, by the name of its spec file."""
    return tomllib.loads((HERE / "sources.toml").read_text("utf-8"))


def certified(name: str, folder: Path) -> dict[str, Any]:
    """Exact and certified epsilon, what the proof cost, and whether the published pair is proved, refuted or open."""
    described = spec.load(HERE / f"{name}.toml")
    event, claim = described.event(), described.claim
    exact = evr.estimate_epsilon(event, claim.delta)
    start = time.process_time()
    certificate = evr.certify(event, delta=claim.delta, ledger=folder / f"{name}.sqlite", workers=2)
    seconds = time.process_time() - start
    published, guarantee = sources()[name]["published_epsilon"], certificate.guarantee
    if guarantee is not None and guarantee.epsilon <= published:
        verdict = "proved"
    else:
        verdict = "refuted" if evr.refute(event, epsilon=published, delta=claim.delta).refuted else "open"
    return {
        "published_pair": verdict,
        "delta": claim.delta,
        "exact_epsilon": exact.value,
        "direction": exact.direction,
        "verdict": certificate.verdict,
        "certified_epsilon": None if guarantee is None else guarantee.epsilon,
        "method": certificate.verification.method,
        "samples": certificate.verification.samples,
        "processor_seconds": seconds,
        "digest": certificate.digest,
    }


def page(results: dict[str, Any]) -> str:
    """The page, from the results and the sources alone."""
    trainings, published = results["trainings"], sources()
    rows, notes = [], []
    for number, (name, source) in enumerate(published.items(), start=1):
        found = trainings[name]
        certificate = "rejected" if found["certified_epsilon"] is None else f"{found['certified_epsilon']:.4g}"
        rows.append(
            f"| [{number}](#{number}) | {source['title']} | {found['delta']:.0e} | "
            f"{source['published_epsilon']:g}, {found['published_pair']} | {found['exact_epsilon']:.4f} | "
            f"{certificate} | {_proof(found)} | {source['sampling']} |".replace("e-0", "e-")
        )
        notes.append(_note(number, name, source))
    total = sum(found["processor_seconds"] for found in trainings.values())
    less = sorted(1 - trainings[name]["exact_epsilon"] / published[name]["published_epsilon"] for name in published)
    shuffled = sum(source["sampling"] == "shuffled" for source in published.values())
    pairs = Counter(found["published_pair"] for found in trainings.values())
    return _PAGE.format(
        count=len(rows),
        verdicts=", ".join(f"{pairs[word]} {word}" for word in ("proved", "refuted", "open")),
        rows="\n".join(rows),
        notes="\n\n".join(notes),
        version=results["evr"],
        total=total,
        median=100 * less[len(less) // 2],
        shuffled=shuffled,
    )


def _proof(found: dict[str, Any]) -> str:
    """How a training was proved, and for how many processor seconds."""
    sampled = f", {found['samples']:,} samples" if found["samples"] else ""
    return f"{found['method']}{sampled}, {found['processor_seconds']:.1f} s"


def _note(number: int, name: str, source: dict[str, Any]) -> str:
    facts = [
        f"published by {source['accountant']}"
        if source["accountant"] != "not said"
        else "published without its accountant"
    ]
    if "batch_size" in source:
        facts.append(f"batches of {source['batch_size']:,} of {source['dataset_size']:,}")
    if "epochs" in source:
        facts.append(f"{source['epochs']} epochs")
    words = f'<a id="{number}"></a>**{number}.** [{source["title"]}]({source["source"]}): {", ".join(facts)}. '
    checked = "" if source["checked"] == "the source named here" else "The numbers were " + source["checked"] + ". "
    return f"{words}{checked}{source.get('note', '')}".rstrip() + f" Spec: `examples/published/{name}.toml`."


_PAGE = """# What published trainings really cost

This page is made by `make published`; no number on it was typed. Each of {count} published
trainings is a spec file in `examples/published`, and `evr certify` takes any of them.

- **published** is the epsilon that its authors gave, at the delta of the row. The pair is *proved*
  by the certificate, *refuted* by [a lower bound](guide/refute.md), or *open*, for Poisson sampling:
  {verdicts};
- **exact** is evr's near-exact estimate for the same noise, sampling probability and steps, in the
  direction that costs more;
- **certified** is the epsilon of a certificate at that delta, rounded up to three digits, by evr
  {version};
- **the proof** is how it was proved ([which proof](guide/which_proof.md)), and what that took in
  processor seconds ({total:.0f} in all);
- **sampling** is how the code that the source names forms its batches.

| | training | delta | published | exact | certified | the proof | sampling |
|---|---|---|---|---|---|---|---|
{rows}

Nobody was careless: most of these numbers come from Rényi accounting, with the conversion to
epsilon of their day, which is a valid bound that is not tight. Exact accounting takes {median:.0f}%
off the published epsilon in the median, for the same training.

## Shuffled, and accounted for as Poisson

All of these numbers, the published ones and evr's, are for *Poisson sampling*: each record is in
each batch by a coin of its own. {shuffled} of the {count} trainings shuffle the data and cut it
into batches of one size instead. This is common practice, for fixed sizes are faster on the
hardware, and the authors of the libraries say so in their documentation. But there is no proof that
an epsilon for Poisson batches holds for shuffled ones, and there are examples where it does not.
For these rows the certificate is about a training with the same noise, rate and steps that samples
by Poisson. If you train today: Opacus and JAX Privacy sample by Poisson out of the box, and [a
record](guide/record_a_training.md) tells what ran.

## Where the numbers come from

{notes}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from-results", action="store_true", help="write the page again, without certifying")
    chosen = parser.parse_args()
    if not chosen.from_results:
        trainings = {}
        with tempfile.TemporaryDirectory() as folder:
            for name in sources():
                trainings[name] = certified(name, Path(folder))
                found = trainings[name]
                print(f"{name}: {found['verdict']}, {found['certified_epsilon']}, {_proof(found)}", flush=True)
        results = {"evr": __version__, "trainings": trainings}
        atomic.write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    atomic.write_text(PAGE, page(json.loads(RESULTS.read_text("utf-8"))))
    print(f"wrote {PAGE.relative_to(HERE.parents[1])}")


if __name__ == "__main__":
    main()
