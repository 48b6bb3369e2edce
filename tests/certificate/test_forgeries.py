"""Forged files, resealed: none passes any command with exit code 0 whose words are not true.

Every field of several kinds of certificates is altered in turn, once with the digest alone mended, and once with all
that follows from the rest made to fit (``forging.consistent``). A command may end with 0 only where nothing but the
word of whoever wrote the file can tell: ``ON_TRUST`` names these fields, and ``DRAWN`` those that only samples tell.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from dp_accounting import dp_event

import evr
from attempts import certify_claim
from evr._certificate.attestation import PREDICATE_TYPE, STATEMENT_TYPE, Attestation, sha256_of
from evr._kernel.verdict.settings import Claim, Settings
from evr._proof import check_proof
from evr._proof.writer import seal_of
from evr._records import Recorder
from evr._records.chain import Chain, _sealed
from evr.cli import main
from evr.errors import FalseCertificateError, RecordError
from forging import altered, at, consistent, dotted, leaves, text

SGD = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.1, steps=3)
USERS = evr.dpsgd(noise_multiplier=4.0, sampling_probability=0.1, steps=2, records_per_user=3)
GAUSSIAN = dp_event.GaussianDpEvent(2.0)
CONSTANTS = {"divisor": 20, "sampling_probability": 0.1, "steps": 3}

ON_TRUST = re.compile(
    r"""digest                                  # which is mended
    | software\.\w+ | times\.\w+                # who made it, and when
    | verification\.directions\.\w+\.seconds
    | description\.(title|epochs)               # the author's words, as far as they fit the event
    | release\.(name|attempt) | claim\.(tau|kappa)  # what the ledger knows; a plan for samples of the first attempt
    | verification\.directions\.\w+\.plan\.(variance|.*\.(cap|floor))  # another plan for the same samples
    | budget\.\w+                               # what the ledger knows
    | record\.seals\.\d+ | record\.constants\.divisor  # what the record knows: ``is_certified_by`` compares
    """,
    re.VERBOSE,
)
DRAWN = re.compile(
    r"""verification\.(entropy(_is_fresh)?|samples|directions\.\w+\.(samples|estimate|standard_error|log_wealth|trace))
    (\.\d+)*
    | verification\.directions\.\w+\.plan\..*   # which samples were drawn: any plan proves what it proves
    """,
    re.VERBOSE,
)
COMMANDS: dict[str, list[str]] = {
    "replay": ["replay", "FILE"],
    "fresh": ["replay", "--fresh", "FILE"],
    "attested": ["replay", "--attestation", "ATTESTED", "model.bin"],
    "attested fresh": ["replay", "--attestation", "ATTESTED", "model.bin", "--fresh"],
    "show": ["show", "FILE"],
    "json": ["show", "FILE", "--json"],
    "html": ["show", "FILE", "--html", "page.html"],
    "card": ["show", "FILE", "--card"],
    "latex": ["show", "FILE", "--latex"],
    "proof": ["show", "FILE", "--proof", "forged.proof"],
    "risk": ["risk", "FILE"],
    "attest": ["attest", "model.bin", "FILE", "-o", "made.json", "--force"],
    "compose": ["budget", "compose", "FILE", "--delta", "1e-3"],
    "audit": ["audit", "scores.csv", "--certificate", "FILE"],
}
"""Every command that says something about a certificate."""
DRAWING = ("replay", "attested")  # these draw the recorded samples again
parsers = cache(typer.main.get_command)


SAMPLED = ("both", "sampled", "seeded", "fixed")
KINDS = ("strict", "users", "client", "record", "rejected", *SAMPLED)


class Forgery(NamedTuple):
    kind: str
    field: str
    document: dict[str, Any]


class Made(NamedTuple):
    """What the certificates were made of, and they themselves, as documents."""

    folder: Path
    documents: dict[str, dict[str, Any]]


def recorded(path: Path, **options: Any) -> evr.Record:
    with Recorder(path, **options) as one:
        for _ in range(3):
            one.step(noise_multiplier=2.0, clipping_norm=1.0, sampling_probability=0.1, divisor=20.0)
        one.find("note", "ghost", "clipped in the module")
    return evr.Record.load(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("forged")
    (folder / "model.bin").write_bytes(b"weights")
    scores = "".join(f"{index % 7},{index % 2}\n" for index in range(40))
    (folder / "scores.csv").write_text(f"score,included\n{scores}")
    kept: dict[str, Any] = {"ledger": folder / "ledger.sqlite"}
    evr.Budget.create("ours", epsilon=50.0, delta=0.01, unit="user", **kept)
    low = 0.5 * evr.estimate_delta(SGD, 0.5).value
    described = {"title": "A training", "epochs": 0.3}
    bins = evr.events.BallsInBinsDpEvent(2.0, iterations=4, cycle_length=4, strategy=(1.0, 0.5))
    found = {
        "strict": evr.certify(SGD, delta=1e-4, proof=folder / "a.proof", description=described, **kept),
        "users": evr.certify(USERS, delta=1e-4, budget="ours", **kept),
        "client": evr.certify(SGD, delta=1e-3, unit="client", neighboring_relation="zero-out", **kept),
        "record": recorded(folder / "a.record.jsonl", constants=CONSTANTS).certify(delta=1e-4, **kept),
        "rejected": certify_claim(SGD, Claim(0.5, low, 0.9), Settings("strict"), **kept),
        "both": evr.certify(SGD, epsilon=1.0, tau=0.5, method="both", **kept),
        "sampled": evr.certify(GAUSSIAN, epsilon=1.0, tau=0.5, method="sequential", **kept),
        "seeded": evr.certify(bins, epsilon=1.0, tau=0.5, seed=7, name="paper", **kept),
        "fixed": evr.certify(GAUSSIAN, epsilon=1.0, tau=0.5, method="fixed", **kept),
    }
    assert tuple(found) == KINDS
    assert [name for name, one in found.items() if not one.accepted] == ["rejected"]
    assert found["users"].per_record is not None
    return Made(folder, {name: one.document() for name, one in found.items()})


@pytest.fixture
def run(made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A command about a document: its exit code, and what it printed."""
    monkeypatch.chdir(made.folder)
    monkeypatch.setattr(typer.main, "get_command", parsers)  # made once, and not for each command line
    sha256 = sha256_of("model.bin")

    def command(name: str, document: dict[str, Any]) -> tuple[int, str]:
        Path("FILE").write_text(json.dumps(document))
        subject = [{"name": "model.bin", "digest": {"sha256": sha256}}]
        statement = {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": PREDICATE_TYPE}
        Path("ATTESTED").write_text(json.dumps({**statement, "predicate": document}))
        monkeypatch.setattr(sys, "argv", ["evr", *COMMANDS[name], *([] if name == "latex" else ["-q"])])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(left.value.code or 0), out + err

    return command


def other(value: Any) -> Any:
    """Another value that a forger would like, of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.9 if value else 1e-3
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return "1" if value is None else [0.5]


def forgeries(kind: str, document: dict[str, Any]) -> Iterator[Forgery]:
    """Each field altered, with the digest mended; and with everything mended that can be."""
    for path in leaves(document):
        changed = altered(document, path, other)
        yield Forgery(kind, dotted(path), json.loads(text(changed)))
        try:
            fitting = consistent(changed)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            continue  # nothing can make it fit
        if fitting != document:
            yield Forgery(kind, dotted(path), fitting)


def may_pass(forgery: Forgery, command: str) -> bool:
    drawn = forgery.kind in SAMPLED and DRAWN.fullmatch(forgery.field) and command not in DRAWING
    # a claim of less: nobody can tell fresh entropy from a seed that was kept
    less = forgery.field == "verification.entropy_is_fresh" and not forgery.document["verification"]["entropy_is_fresh"]
    # a smaller delta than one that was rejected: to reject it is right, too
    smaller = forgery.kind == "rejected" and forgery.field == "claim.delta"
    return ON_TRUST.fullmatch(forgery.field) is not None or bool(drawn) or less or smaller


def test_the_genuine_ones_pass(made: Made, run: Callable[..., Any]) -> None:
    """So that what follows refuses what was forged, and nothing else."""
    for kind, document in made.documents.items():
        for command in COMMANDS if kind == "strict" else ("replay", "fresh", "json"):
            wanted = 3 if kind == "rejected" and command != "json" else 0
            assert run(command, document)[0] == wanted, (kind, command)


def test_no_forgery_passes(made: Made, run: Callable[..., Any]) -> None:
    """Each through one of the commands, in turn."""
    tried: dict[str, int] = dict.fromkeys(COMMANDS, 0)
    names, passed = list(COMMANDS), []
    every = [one for kind, document in made.documents.items() for one in forgeries(kind, document)]
    for number, forgery in enumerate(every):
        command = names[number % len(names)]
        if not may_pass(forgery, command):
            tried[command] += 1
            if run(command, forgery.document)[0] == 0:
                passed.append((forgery.kind, forgery.field, command))
    assert passed == []
    assert min(tried.values()) > 30, tried
    assert sum(tried.values()) > 500, tried


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_no_forgery_passes_any_command(made: Made, run: Callable[..., Any], kind: str) -> None:
    """Each through all of the commands."""
    tried: dict[str, int] = dict.fromkeys(COMMANDS, 0)
    for forgery in forgeries(kind, made.documents[kind]):
        for command in COMMANDS:
            if not may_pass(forgery, command):
                tried[command] += 1
                assert run(command, forgery.document)[0] != 0, (forgery.field, command)
    print(tried)


def test_what_is_on_trust_passes(made: Made, run: Callable[..., Any]) -> None:
    """The list of fields that nothing checks is not longer than it has to be."""
    unseen = {"title", "epochs", "attempt", "seals", "divisor", "simd", "seconds", "spending"}
    for kind in ("strict", "users", "record"):
        for forgery in forgeries(kind, made.documents[kind]):
            word = forgery.field.removesuffix(".0").split(".")[-1]
            if word in unseen and ON_TRUST.fullmatch(forgery.field) and run("json", forgery.document)[0] == 0:
                unseen.discard(word)
    assert unseen == set()


def test_fields_too_many_and_too_few(made: Made, run: Callable[..., Any]) -> None:
    document = made.documents["strict"]
    objects = {path[:-1] for path in leaves(document)}
    names = list(COMMANDS)
    for number, path in enumerate(sorted(objects, key=str)):
        if not isinstance(at(document, path), dict):
            continue
        more, less = json.loads(json.dumps(document)), json.loads(json.dumps(document))
        at(more, path)["remark"] = 1
        at(less, path).popitem()
        for forged in (more, less):
            if forged is more or path:
                assert run(names[number % len(names)], json.loads(text(forged)))[0] in (2, 3), path


LIES: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "another guarantee": ("strict", lambda d: d | {"guarantee": {"epsilon": 0.01, "delta": 1e-12}}),
    "another statement": ("strict", lambda d: d | {"statement": d["statement"].replace("(", "(0.01, 1e-12)-(", 1)}),
    "a false claim": ("strict", lambda d: consistent(d | {"claim": d["claim"] | {"epsilon": 0.01, "delta": 1e-12}})),
    "a rejected one with a guarantee": (
        "rejected",
        lambda d: d | {"guarantee": {key: d["claim"][key] for key in ("epsilon", "delta")}},
    ),
    "another version": (
        "strict",
        lambda d: d | {"software": d["software"] | {"evr": "0.0.9"}, "statement": "It is (0.01, 1e-12)-private."},
    ),
    "a better bound": ("strict", lambda d: with_bounds(d, "1/1000000000000")),
    "a number per record": ("users", lambda d: consistent(d | {"per_record": 0.001})),
    "a number per record of records": ("strict", lambda d: d | {"per_record": 0.001}),
    "another relation": ("client", lambda d: consistent(d | {"neighboring_relation": "replace-one"})),
    "less noise": ("users", lambda d: consistent(altered(d, ("event", "event", "noise_multiplier"), lambda x: x / 2))),
    "a false claim of samples": ("seeded", lambda d: with_wealth(d, {"epsilon": 0.001, "delta": 1e-6})),
    "a guarantee of samples": ("seeded", lambda d: d | {"guarantee": {"epsilon": 0.001, "delta": 1e-12}}),
    "another unit": ("strict", lambda d: d | {"description": d["description"] | {"unit": "user"}}),
    "another record": ("record", lambda d: consistent(d | {"record": d["record"] | {"steps": 2}})),
    "a record without constants": ("record", lambda d: consistent(d | {"record": d["record"] | {"constants": None}})),
    "a proof file": ("strict", lambda d: d | {"proof": "0" * 64}),
    "spelled otherwise": ("strict", lambda d: d | {"per_record": None}),
}
"""What a forger would do who knows the format, by the kind of certificate."""


def with_bounds(document: dict[str, Any], bound: str) -> dict[str, Any]:
    changed = json.loads(json.dumps(document))
    for part in changed["verification"]["directions"].values():
        part["strict"]["bound"] = bound
    return consistent(changed)


def with_wealth(document: dict[str, Any], claim: dict[str, float]) -> dict[str, Any]:
    """A false claim, and samples that would show it."""
    changed = json.loads(json.dumps(document))
    changed["claim"] |= claim
    changed["release"] |= {"floor": claim["delta"], "attempt": 1}
    for part in changed["verification"]["directions"].values():
        part["log_wealth"] = 1000.0
    return consistent(changed)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_passes_no_command(made: Made, run: Callable[..., Any], lie: str) -> None:
    kind, forge = LIES[lie]
    forged = json.loads(text(forge(made.documents[kind])))
    assert forged != made.documents[kind]
    for command in COMMANDS:
        code, said = run(command, forged)
        assert code in (2, 3), command
        assert said.startswith("error: ") or "does NOT agree" in said, (command, said)
        assert not re.match(r"(The|DP-SGD|composed)", said)


def test_a_contradiction_is_told_by_its_field(made: Made, run: Callable[..., Any]) -> None:
    document = made.documents["strict"]
    for field in ("guarantee.epsilon", "claim.threshold", "verdict", "statement"):
        forged = altered(document, tuple(field.split(".")), lambda x: "rejected" if x == "accepted" else other(x))
        with pytest.raises(FalseCertificateError, match=f"do not rely on it.*{re.escape(field)}"):
            evr.Certificate.from_json(text(forged))
        code, said = run("show", json.loads(text(forged)))
        assert (code, field in said) == (3, True)


def test_an_event_that_evr_refuses_is_told_with_its_file(made: Made, run: Callable[..., Any]) -> None:
    forged = consistent(altered(made.documents["sampled"], ("event", "noise_multiplier"), lambda _: "nan"))
    code, said = run("show", forged)
    assert (code, "FILE: the certificate is false" in said, "noise_multiplier=nan" in said) == (3, True, True)


def test_an_attestation_of_a_forgery_is_not_made(made: Made) -> None:
    forged = made.folder / "forged.json"
    forged.write_text(text(made.documents["strict"] | {"guarantee": {"epsilon": 0.01, "delta": 1e-12}}))
    with pytest.raises(FalseCertificateError, match=r"guarantee\.epsilon"):
        Attestation.of([made.folder / "model.bin"], forged)
    built = evr.Certificate.sealed(made.documents["strict"] | {"guarantee": {"epsilon": 0.01, "delta": 1e-12}})
    with pytest.raises(FalseCertificateError, match=r"guarantee\.epsilon"):
        Attestation.of([made.folder / "model.bin"], built)


# -- records ---------------------------------------------------------------------------------------


def resealed(lines: list[dict[str, Any]]) -> bytes:
    """The file of a record whose chain of seals is right."""
    seals: list[str] = []
    texts = []
    for line in lines:
        seals.append(_sealed(line, seals))
        texts.append(json.dumps({**line, "seal": seals[-1]}, ensure_ascii=False))
    return "".join(f"{one}\n" for one in texts).encode()


def lines_of(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(one) for one in path.read_text().splitlines()]
    for line in lines:
        del line["seal"]
    return lines


def test_no_forged_record_is_certified(made: Made, tmp_path: Path) -> None:
    """Each value of each line altered, each key dropped, doubled and added: refused, or another record."""
    certificate = evr.Certificate.from_document(made.documents["record"])
    genuine = made.folder / "a.record.jsonl"
    assert evr.Record.load(genuine).is_certified_by(certificate)
    lines = lines_of(genuine)
    assert resealed(lines) == genuine.read_bytes()
    path, tried, read = tmp_path / "forged.record.jsonl", 0, 0
    for number, line in enumerate(lines):
        changes: list[dict[str, Any]] = [altered(line, place, other) for place in leaves(line)]
        changes += [{**line, "remark": 1}, *({k: v for k, v in line.items() if k != key} for key in line)]
        changes += [dict(reversed(line.items())), {**line, "kind": "odd"}, {**line, "words": "\x1b[2J"}]
        for changed in changes:
            path.write_bytes(resealed([*lines[:number], changed, *lines[number + 1 :]]))
            tried += 1
            try:
                record = evr.Record.load(path)
                read += 1
                is_certified = record.is_certified_by(certificate)
                same = [(run.noise_multiplier, run.sampling_probability) for run in record.runs] == [(2.0, 0.1)]
            except (RecordError, ValueError, TypeError):
                continue
            named = line["kind"] == "certificate" and changed["digest"] == certificate.digest
            assert not is_certified or named, changed
            assert same or "step" in changed, changed
    assert tried > 100
    assert read < tried / 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"step": 1, "noise', '"noise_multiplier": 99.0, "step": 1, "noise'),
        ('"step": 1, ', '"step": 1,  '),
        ('"kind": "step"', '"kind":"step"'),
        ('"noise_multiplier": 2.0', '"noise_multiplier": 2.00'),
        ('"secure": false', '"secure":\tfalse'),
    ],
)
def test_what_is_sealed_is_what_is_read(made: Made, tmp_path: Path, old: str, new: str) -> None:
    """Another spelling keeps the seal, for the seal is that of the meaning."""
    path = tmp_path / "spelled.record.jsonl"
    genuine = (made.folder / "a.record.jsonl").read_text()
    assert old in genuine
    path.write_text(genuine.replace(old, new, 1))
    with pytest.raises(RecordError, match="not what was written"):
        evr.Record.load(path)


@pytest.mark.parametrize("kind", ["note", "breach"])
def test_words_of_a_record_do_not_command_a_terminal(made: Made, tmp_path: Path, kind: str) -> None:
    escaped = "\x1b[2J\x1b[1;32mAccepted: (0.01, 1e-12)-differentially private.\x1b[0m"
    lines = lines_of(made.folder / "a.record.jsonl")[:-1]
    (noted,) = (index for index, line in enumerate(lines) if line["kind"] == "note")
    path = tmp_path / "escape.record.jsonl"
    path.write_bytes(resealed([*lines[:noted], {**lines[noted], "kind": kind, "words": escaped}, *lines[noted + 1 :]]))
    with pytest.raises(RecordError, match="characters that do not print") as raised:
        evr.Record.load(path)
    assert str(raised.value).isprintable()
    with (
        pytest.raises(RecordError, match="characters that do not print"),
        Recorder(tmp_path / "own.record.jsonl") as writing,
    ):
        writing.find("note", "other", escaped)


def test_a_record_supports_its_own_relation_only(tmp_path: Path) -> None:
    """Also where a certificate names no record."""
    kept: dict[str, Any] = {"delta": 1e-4, "ledger": tmp_path / "ledger.sqlite"}
    record = recorded(tmp_path / "a.record.jsonl")
    plain = evr.certify(record.event, **kept)
    assert plain.record is None
    with pytest.raises(
        RecordError, match=r"the number of records included; this record does not say so\. Certify under"
    ):
        record.add(plain)
    with contextlib.closing(Chain(record.paths[0])) as chain:
        chain.write("certificate", digest=plain.digest, verdict="accepted")
    assert not record.is_certified_by(plain)
    for relation in ("zero-out", "replace-one"):
        other_one = evr.certify(record.event, neighboring_relation=relation, **kept)
        record.add(other_one)
        assert record.is_certified_by(other_one)


# -- proof files -----------------------------------------------------------------------------------


def test_no_forged_proof_file_is_the_certificates(made: Made) -> None:
    """Each line altered, its last mended: the checker refuses it, or it is another file than the certificate names."""
    data, named = (made.folder / "a.proof").read_bytes(), made.documents["strict"]["proof"]
    assert seal_of(data) == named
    body = data[: data.rindex(b"sha256 ")]
    lines = body.decode().splitlines(keepends=True)
    refused = 0
    for number, line in enumerate(lines):
        digits = re.search(r"[1-9]", line)
        changed = line.replace(digits[0], str(int(digits[0]) - 1), 1) if digits else f"x{line}"
        forged = "".join([*lines[:number], changed, *lines[number + 1 :]]).encode()
        sealed = forged + f"sha256 {hashlib.sha256(forged).hexdigest()}\n".encode()
        assert seal_of(sealed) != named
        try:
            refused += not check_proof.check(sealed).accepted
        except ValueError:
            refused += 1
    assert refused > 10
