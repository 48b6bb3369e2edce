"""Writes vectors/: proof files, good, forged and damaged, each with the answer that every checker
has to give.

    python proofs/make_vectors.py

Forged files have the right SHA-256. Files called untrue-... list numbers that are not those of the
law that they name: their arithmetic is right, and only proofs/enclosures.py tells. Refutations,
which check_proof.py alone reads, are in a folder of their own.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from dp_accounting import dp_event

from evr._kernel.events import Composition
from evr._kernel.events.schemes import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact import exact_sampled
from evr._kernel.strict import prove_within
from evr._plan.directions import strict_delta_below
from evr._plan.strict import StrictCurve
from evr._proof import check_proof
from evr._proof.listing import packed as _packed
from evr._proof.writer import proof_file, refutation_file

FOLDER = Path(__file__).with_name("vectors")
REFUTATIONS = FOLDER / "refutations"
TOLERANCE = 0.02  # small files

GAUSSIAN, LAPLACE = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent


def times(event: dp_event.DpEvent, count: int) -> dp_event.DpEvent:
    return dp_event.SelfComposedDpEvent(event, count)


def poisson(q: float, event: dp_event.DpEvent) -> dp_event.DpEvent:
    return dp_event.PoissonSampledDpEvent(q, event)


def of_each(*events: dp_event.DpEvent) -> dp_event.DpEvent:
    return dp_event.ComposedDpEvent(list(events))


RESPONSE = dp_event.RandomizedResponseDpEvent(0.5, 3)


def sampled_answers(q: float, count: int) -> Composition:
    """The laws of two answers, seen through Poisson sampling, as a registered mechanism may have them."""
    answers = Composition.of(RESPONSE, "replace-one").remove[0]
    pairs = Pairs.each(lambda one: exact_sampled(answers.exact_law, Fraction(q), one))
    return Composition.from_counts([(pairs, count)])


MIXTURE = dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.9, 0.07, 0.03])
GOOD: dict[str, tuple[dp_event.DpEvent | Composition, float, str]] = {
    "gaussian": (times(GAUSSIAN(5.0), 10), 1.0, "add-or-remove"),
    "gaussian-replace": (times(GAUSSIAN(10.0), 5), 1.0, "replace-one"),
    "laplace-10": (times(LAPLACE(3.0), 10), 1.0, "add-or-remove"),
    "laplace-within": (times(LAPLACE(10.0), 3), 1.0, "add-or-remove"),
    "poisson-laplace": (times(poisson(0.1, LAPLACE(1.0)), 50), 1.0, "add-or-remove"),
    "poisson-one": (poisson(0.2, GAUSSIAN(1.3)), 0.7, "add-or-remove"),
    "poisson-2": (times(poisson(0.2, GAUSSIAN(1.3)), 2), 0.7, "add-or-remove"),
    "poisson-3": (times(poisson(0.5, GAUSSIAN(2.0)), 3), 0.5, "add-or-remove"),
    "laplace-one": (LAPLACE(2.0), 0.125, "add-or-remove"),
    "nothing": (of_each(), 1.0, "add-or-remove"),
    "poisson-7": (times(poisson(0.3, GAUSSIAN(1.7)), 7), 1.8, "add-or-remove"),
    "poisson-100": (times(poisson(0.01, GAUSSIAN(1.1)), 100), 0.5, "add-or-remove"),
    "poisson-1000": (times(poisson(0.001, GAUSSIAN(0.6)), 1000), 1.5, "add-or-remove"),
    "response": (times(RESPONSE, 5), 1.0, "replace-one"),
    "response-one": (RESPONSE, 0.2, "replace-one"),
    "poisson-response": (sampled_answers(0.25, 5), 0.25, "add-or-remove"),
    "epsilon-delta": (times(EpsilonDeltaDpEvent(0.125, 1e-6), 20), 1.0, "add-or-remove"),
    "epsilon-delta-0": (times(EpsilonDeltaDpEvent(0.1, 0.0), 20), 1.0, "add-or-remove"),
    "discrete-laplace": (times(dp_event.DiscreteLaplaceDpEvent(0.25, 2), 20), 3.0, "add-or-remove"),
    "discrete-gaussian": (times(DiscreteGaussianDpEvent(4.0, 1), 20), 1.0, "add-or-remove"),
    "poisson-discrete": (times(poisson(0.1, DiscreteGaussianDpEvent(2.0, 1)), 20), 1.0, "add-or-remove"),
    "mixture": (times(MIXTURE, 30), 1.0, "add-or-remove"),
    "without-replacement": (
        times(dp_event.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN(1.0)), 50),
        1.0,
        "replace-one",
    ),
    "poisson-replace": (times(poisson(0.1, GAUSSIAN(2.0)), 10), 0.5, "replace-one"),
    "truncated": (times(dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 30, 1.0), 20), 1.0, "add-or-remove"),
    "one-gaussian": (GAUSSIAN(1.3), 0.7, "add-or-remove"),
    "gaussians-of-a-square": (times(GAUSSIAN(6.0), 9), 1.0, "add-or-remove"),
    "one-gaussian-replace": (GAUSSIAN(4.0), 0.5, "replace-one"),
    "poisson-zero-out": (times(poisson(0.125, GAUSSIAN(1.5)), 12), 1.0, "zero-out"),
    "response-zero-out": (times(RESPONSE, 5), 1.0, "zero-out"),
    "two-own": (
        of_each(times(poisson(0.01, GAUSSIAN(1.0)), 50), times(poisson(0.05, GAUSSIAN(2.0)), 20)),
        1.0,
        "add-or-remove",
    ),
    "gaussian-and-laplace": (of_each(GAUSSIAN(4.0), LAPLACE(5.0)), 0.5, "add-or-remove"),
    "poisson-large-loss": (times(poisson(0.05, GAUSSIAN(0.3)), 20), 25.0, "add-or-remove"),
    "poisson-small-delta": (times(poisson(0.01, GAUSSIAN(2.0)), 16), 4.0, "add-or-remove"),
    "four-kinds": (
        of_each(
            times(poisson(0.01, GAUSSIAN(1.0)), 100),
            LAPLACE(4.0),
            times(GAUSSIAN(20.0), 3),
            times(EpsilonDeltaDpEvent(0.1, 1e-9), 3),
        ),
        1.0,
        "add-or-remove",
    ),
}


def made(event: dp_event.DpEvent, epsilon: float, relation: str) -> bytes:
    """The proof of what a loose plan shows."""
    composition, plans, delta = Composition.of(event, relation), {}, Fraction(0)
    for direction, steps in composition.exact_directions().items():
        curve = StrictCurve(steps)
        proof = prove_within(steps, Fraction(epsilon), curve.plans(epsilon, tolerance=TOLERANCE))
        plans[direction], delta = proof.plan, max(delta, proof.delta)
    return proof_file(composition, Fraction(epsilon), delta, plans)


def sealed(text: str) -> bytes:
    """A body with the SHA-256 that fits it."""
    body = text.encode()
    return body + f"sha256 {hashlib.sha256(body).hexdigest()}\n".encode()


def changed(pattern: str, to: str | Callable[[re.Match[str]], str], count: int = 1) -> Callable[[str], str]:
    def change(text: str) -> str:
        found = re.sub(pattern, to, text, count=count, flags=re.M)
        if found == text:
            raise ValueError(f"{pattern!r} changes nothing")
        return found

    return change


def sections(text: str) -> tuple[str, list[str]]:
    head, *found = text.removesuffix("end\n").split("direction ")
    return head, ["direction " + section for section in found]


def less(text: str) -> str:
    """A delta that is a little below what is proved."""
    answer = check_proof.check(sealed(text))
    found = max(
        Fraction(units, 1 << 2 * section.bits)
        for units, section in zip(answer.bounds, answer.file.sections, strict=True)
    )
    below = found * (1 - Fraction(1, 10**9)) if found else Fraction(0)
    return re.sub("^delta .*$", f"delta {below.numerator}/{below.denominator}", text, flags=re.M)


LAW = r"poisson\(1/100,gaussian\(11/10\)\)"


def listed(text: str) -> str:
    """A file that lists the numbers which a checker has to compute."""
    file = check_proof.Words(text.encode()).file()
    section, (_, law) = file.sections[0], file.steps[0]
    kind = section.kinds[0]
    values = check_proof.own_values(section, kind, law, up=True)
    assert all(d == 1 for _, d in values)
    runs, numbers = [], iter(v for v, _ in values)
    for _, number in kind.runs:
        runs.append(" ".join(_packed([next(numbers) for _ in range(number)])))
    return re.sub("^own (.*)$", lambda m: "\n".join([f"curve {m[1]} 1 0", *runs]), text, count=1, flags=re.M)


def only(text: str, keep: int) -> str:
    """One section of two, marked both."""
    head, found = sections(text)
    section = re.sub("^direction .*", "direction both", found[keep])
    return head.replace("directions 2", "directions 1") + section + "end\n"


FORGED_OWN: dict[str, Callable[[str], str]] = {
    "noise": changed(LAW, "poisson(1/100,gaussian(109/100))"),
    "rate": changed(LAW, "poisson(1/95,gaussian(11/10))"),
    "steps": changed("^100 ", "99 "),
    "epsilon": changed("^epsilon .*$", "epsilon 31/64"),
    "delta": less,
    "relation": changed("add-or-remove", "replace-one"),
    "no-relation": changed("add-or-remove", "none"),
    "listed": listed,
    "remove-as-both": lambda text: only(text, 0),
    "add-as-both": lambda text: only(text, 1),
    "unreduced": changed(LAW, "poisson(1/100,gaussian(22/20))"),
    "unreduced-rate": changed(LAW, "poisson(2/200,gaussian(11/10))"),
    "decimal": changed(LAW, "poisson(1/100,gaussian(1.1))"),
    "leading-zero": changed(LAW, "poisson(1/100,gaussian(011/10))"),
    "over-one": changed(LAW, "poisson(1/100,gaussian(11/1))"),
    "denominator-of-law-0": changed(LAW, "poisson(1/100,gaussian(1/0))"),
    "rate-0": changed(LAW, "poisson(0,gaussian(11/10))"),
    "two-noises": changed(LAW, "poisson(1/100,gaussian(11/10,11/10))"),
    "rate-above-1": changed(LAW, "poisson(11/10,gaussian(11/10))"),
    "noise-0": changed(LAW, "poisson(1/100,gaussian(0))"),
    "law-goes-on": changed(LAW, "poisson(1/100,gaussian(11/10))x"),
    "unknown-law": changed(LAW, "poisson(1/100,normal(11/10))"),
    "sampled-twice": changed(LAW, "poisson(1/10,poisson(1/10,gaussian(11/10)))"),
    "in-a-pair": changed(LAW, "pair(poisson(1/100,gaussian(11/10)),poisson(1/100,gaussian(11/10)))"),
    "few-vbits": changed(r"^(own .*) \d+$", r"\1 8"),
    "places-fall": changed(r"^own (-?\d+ \d+ -?\d+ \d+) -?\d+", r"own \1 99999"),
}
OTHER_RELATION = {
    "poisson-response": "zero-out",
    "poisson-laplace": "replace-one",
    "mixture": "replace-one",
    "truncated": "zero-out",
    "poisson-replace": "zero-out",
    "without-replacement": "add-or-remove",
    "response-zero-out": "user",
}
TOO_MUCH: dict[str, Callable[[str], str]] = {
    "places": changed(r"^own (-?\d+ \d+) -?\d+ \d+", r"own \1 -1000000 1000000"),
    "vbits": changed(r"^(own .*) \d+$", r"\1 20000"),
}
FORGED: dict[str, Callable[[str], str]] = {
    "delta": less,
    "delta-0": changed("^delta .*$", "delta 0/1"),
    "epsilon": changed("^epsilon .*$", "epsilon 1/1048576"),
    "epsilon-odd": changed("^epsilon .*$", "epsilon 1/1000000007"),
    "one-direction": lambda text: text.replace("directions 2", "directions 1").replace(sections(text)[1][1], ""),
    "twice-remove": lambda text: text.replace("direction add", "direction remove"),
    "exchanged": lambda text: (
        text.replace("direction add", "direction @")
        .replace("direction remove", "direction add")
        .replace("direction @", "direction remove")
    ),
    "no-direction": lambda text: sections(text)[0].replace("directions 2", "directions 0") + "end\n",
    "more-steps": lambda text: re.sub(
        r"^(\d+) (\w+\()", lambda m: f"{int(m[1]) + 1} {m[2]}", text, count=1, flags=re.M
    ),
    "fewer-steps": lambda text: re.sub(
        r"^(\d+) (\w+\()", lambda m: f"{int(m[1]) - 1} {m[2]}", text, count=1, flags=re.M
    ),
    "no-such-step": changed(r"^halves \d+ \d+$", "halves 0 999"),
    "negative-step": changed(r"^halves \d+ \d+$", "halves -1 0"),
    "half": changed(r"^halves (\d+) \d+$", r"halves \1 0"),
    "spacing-0": changed(r"^grid (\d+) (\d+) \d+$", r"grid \1 \2 0"),
    "denominator-0": changed(r"^grid (\d+) \d+ (\d+)$", r"grid \1 0 \2"),
    "bits-0": changed(r"^grid \d+ (\d+) (\d+)$", r"grid 0 \1 \2"),
}
BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "bit": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    "seal": lambda data: data[:-2] + (b"0\n" if data[-2:-1] != b"0" else b"1\n"),
    "cut": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"end\n",
    "no-seal": lambda data: data[:-72],
    "empty": lambda data: b"",
    "compressed": lambda data: gzip.compress(data, mtime=0),
    "version": lambda data: sealed(data[:-72].decode().replace("evr-proof 2", "evr-proof 1", 1)),
    "two-spaces": lambda data: sealed(data[:-72].decode().replace("relation ", "relation  ", 1)),
    "huge-cells": lambda data: sealed(re.sub(r"(?m)^curve (-?\d+) \d+", r"curve \1 26", data[:-72].decode(), count=1)),
    "no-end": lambda data: sealed(data[:-72].decode().removesuffix("end\n")),
    "letters": lambda data: data[:-72] + "ε\n".encode() + data[-72:],
    "packed": lambda data: sealed(data[:-72].decode().replace("o", "~", 1)),
    "float": lambda data: sealed(re.sub("(?m)^delta .*$", "delta 1e-5/1", data[:-72].decode())),
    "denominator": lambda data: sealed(re.sub("(?m)^delta .*$", "delta 1/0", data[:-72].decode())),
    "huge-place": lambda data: sealed(
        re.sub(r"(?m)^(\d+ \d+ \d+ -?\d+ -?\d+ -?\d+) -?\d+$", r"\1 999999999", data[:-72].decode(), count=1)
    ),
    "huge-bits": lambda data: sealed(re.sub(r"(?m)^grid \d+", "grid 6001", data[:-72].decode(), count=1)),
    "huge-count": lambda data: sealed(
        re.sub(r"(?m)^products \d+", "products 99999999999", data[:-72].decode(), count=1)
    ),
}
UNTRUE: dict[str, Callable[[str], str]] = {
    "noise": changed(r"laplace\([^)]*\)", "laplace(50)"),
    "both": lambda text: only(text, 1),
}


def answer_of(data: bytes) -> dict[str, object]:
    """What every checker has to say."""
    try:
        found = check_proof.check(data)
    except check_proof.NotReadError as why:
        return {"status": str(why).partition(":")[0], "bounds": []}
    rows = zip(found.file.sections, found.bounds, strict=bool(found.bounds))
    bounds = [[s.mark, "-" if units is None else str(units), s.bits] for s, units in rows]
    return {"status": found.word, "bounds": bounds}


EXPECTED = {
    "good": [
        *(check_proof.PROVED, check_proof.LISTED, check_proof.REPLACED),
        *(check_proof.REFUTED, check_proof.REFUTED_LISTED, check_proof.REFUTED_REPLACED),
    ],
    "forged": [check_proof.REFUSED],
    "untrue": [check_proof.LISTED],
    "damaged": ["damaged", "unreadable", "not version 2", "too large"],
}
REFUTED = [
    "poisson-100",
    "poisson-one",
    "gaussian",
    "poisson-zero-out",
    "one-gaussian-replace",
    "laplace-10",
    "response",
]
FORGED_REFUTATION: dict[str, Callable[[str], str]] = {
    "noise": changed(LAW, "poisson(1/100,gaussian(111/100))"),
    "rate": changed(LAW, "poisson(1/105,gaussian(11/10))"),
    "steps": changed("^100 ", "99 "),
    "epsilon": changed("^epsilon .*$", "epsilon 33/64"),
    "delta": lambda text: _delta(text, check_proof.Words(text.encode()).file().delta * Fraction(103, 100)),
    "relation": changed("add-or-remove", "replace-one"),
    "both": changed("^direction remove", "direction both"),
    "falling": changed("^(tests .*)\n.*\n.*$", lambda m: "\n".join([m[1], *_packed(_falling(m[1]))])),
    "listed": changed(
        r"^tests ((?:\S+ ){9})\S+\n.*\n.*$", lambda m: "\n".join([f"scores {m[1]}0", *2 * _packed(_zeros(m[1]))])
    ),
}


def refuted(event: dp_event.DpEvent, epsilon: float, relation: str) -> bytes:
    """The refutation of what is a percent below the bound of a loose plan."""
    composition = Composition.of(event, relation)
    (bound, plan), direction = strict_delta_below(composition, epsilon, None, TOLERANCE)
    return refutation_file(composition, Fraction(epsilon), bound * Fraction(99, 100), direction, plan)


def _delta(text: str, delta: Fraction) -> str:
    return changed("^delta .*$", f"delta {delta.numerator}/{delta.denominator}")(text)


def _zeros(grid: str) -> list[int]:
    return [0] * sum(map(int, grid.split()[3:8:2]))


def _falling(kind: str) -> list[int]:
    return [-i for i in range(len(_zeros(kind.removeprefix("tests "))) - 1)]


def refutations() -> dict[str, bytes]:
    """Those of some good files, and forged ones."""
    good = {name: refuted(*GOOD[name]) for name in REFUTED}
    files = {f"good-{name}": data for name, data in good.items()}
    own = changed("^100 .*$", "100 poisson(1/100,gaussian(11/10))")(good["poisson-100"][:-72].decode())
    for name, forge in FORGED_REFUTATION.items():
        files[f"forged-{name}"] = sealed(forge(own))
    listed, tests = good["laplace-10"][:-72].decode(), "tests 0 0 0 2 0 0 0 0 20 0\n0\n0"
    files["forged-of-laplace"] = sealed(re.sub(r"^scores .*\n(?:.*\n){3}.*$", tests, listed, flags=re.M))
    return files


def main() -> None:
    made_files(FOLDER, proofs())
    made_files(REFUTATIONS, refutations())


def made_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files of a folder, and the answers to them."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.proof"):
        old.unlink()
    answers = {}
    for name, data in files.items():
        (folder / f"{name}.proof").write_bytes(data)
        answers[name] = answer_of(data)
        if answers[name]["status"] not in EXPECTED[name.partition("-")[0]]:
            print(f"{name}: {answers[name]['status']}")
    (folder / "answers.json").write_text(json.dumps(answers, indent=0) + "\n")
    size = sum(len(data) for data in files.values())
    print(f"{len(files)} files, {size:,} bytes")


def proofs() -> dict[str, bytes]:
    """Proof files, good, forged and damaged."""
    good = {name: made(*about) for name, about in GOOD.items()}
    texts = {name: data[:-72].decode() for name, data in good.items()}
    files = {f"good-{name}": data for name, data in good.items()}
    own = _in_ratios(texts["poisson-100"])
    files["good-poisson-ratios"] = sealed(own)
    files["good-poisson-more-noise"] = sealed(changed(LAW, "poisson(1/100,gaussian(50))")(own))
    head, (remove, _) = sections(own)
    files["good-poisson-one-plan-twice"] = sealed(f"{head}{remove}{remove.replace('remove', 'add', 1)}end\n")
    for base in ("poisson-7", "poisson-response"):
        for name, forge in FORGED.items():
            files[f"forged-{base}-{name}"] = sealed(forge(texts[base]))
    for name, forge in FORGED_OWN.items():
        files[f"forged-own-{name}"] = sealed(forge(own))
    files["forged-own-of-laplace"] = sealed(_computed(texts["laplace-10"]))
    for base, relation in OTHER_RELATION.items():
        files[f"forged-relation-{base}"] = sealed(changed("^relation .*", f"relation {relation}")(texts[base]))
    for base in ("laplace-10", "poisson-laplace"):
        for name, harm in BROKEN.items():
            files[f"damaged-{base}-{name}"] = harm(good[base])
    for name, more in TOO_MUCH.items():
        files[f"damaged-own-{name}"] = sealed(more(own))
    for base, name in (("laplace-10", "noise"), ("poisson-laplace", "noise"), ("poisson-laplace", "both")):
        files[f"untrue-{base}-{name}"] = sealed(UNTRUE[name](texts[base]))
    return files


def _in_ratios(text: str) -> str:
    """The same training, its rate and noise as they are typed; delta is a little greater, so that it follows."""
    text = changed("^100 .*$", "100 poisson(1/100,gaussian(11/10))")(text)
    delta = check_proof.Words(text.encode()).file().delta * (1 + Fraction(1, 10**9))
    return changed("^delta .*$", f"delta {delta.numerator}/{delta.denominator}")(text)


def _computed(text: str) -> str:
    """A file without the numbers that have to be listed."""
    return re.sub(r"^curve ((?:-?\d+ ){8}\d+) .*\n(?:.*\n.*\n){3}", r"own \1\n", text, flags=re.M)


if __name__ == "__main__":
    main()
