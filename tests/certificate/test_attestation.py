"""Attestations: made, signed, checked by others' tools, and refused when anything in them is changed."""

from __future__ import annotations

import base64
import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dp_accounting import dp_event
from referencing import Registry, Resource

import evr
from attempts import certify_claim
from evr._certificate.attestation import PREDICATE_TYPE, Attestation
from evr._certificate.certificate import digest_of
from evr._kernel.verdict.settings import Claim, Settings
from evr.cli import main
from evr.errors import CertificateError

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "attestation.schema.json").read_text("utf-8"))


def pem(path: Path, key: Any) -> None:
    """A private key, and its public key beside it."""
    plain, text = serialization.NoEncryption(), serialization.Encoding.PEM
    path.write_bytes(key.private_bytes(text, serialization.PrivateFormat.PKCS8, plain))
    public = key.public_key().public_bytes(text, serialization.PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its certificate, two keys, and an attestation that is signed and one that is not."""
    folder = tmp_path_factory.mktemp("attested")
    (folder / "model.safetensors").write_bytes(b"weights" * 1000)
    (folder / "other.safetensors").write_bytes(b"others" * 1000)
    for name in ("ours.pem", "theirs.pem"):
        pem(folder / name, Ed25519PrivateKey.generate())
    evr.certify(
        dp_event.GaussianDpEvent(4.0), delta=1e-5, ledger=folder / "ledger.sqlite", path=folder / "c.certificate.json"
    )
    made = Attestation.of([folder / "model.safetensors"], folder / "c.certificate.json")
    made.save(folder / "unsigned.json")
    made.signed(folder / "ours.pem").save(folder / "signed.json")
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["evr", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return (int(left.value.code or 0), *capsys.readouterr())

    return command


def test_what_was_made_is_accepted(run: Callable[..., Any]) -> None:
    code, out, _ = run("replay", "--attestation", "signed.json", "model.safetensors", "--key", "ours.pub")
    assert code == 0
    assert "checked: the signature, by ours.pub\n" in out
    assert "The statement assumes that" in out
    code, out, _ = run("replay", "--attestation", "signed.json", "model.safetensors")
    assert (code, "not checked: the signature (no --key is given)" in out) == (0, True)
    code, out, _ = run("replay", "--attestation", "unsigned.json", "model.safetensors", "-q")
    assert (code, "not checked: who wrote it (nobody signed it)" in out) == (0, True)
    code, out, _ = run("replay", "--attestation", "unsigned.json", "model.safetensors", "--json")
    found = json.loads(out)
    assert found["agrees"] is True
    assert found["attestation"] == {
        "checked": ["the SHA-256 of model.safetensors"],
        "not_checked": ["who wrote it (nobody signed it)"],
    }


def test_a_file_by_another_name_is_the_same_file(folder: Path, run: Callable[..., Any]) -> None:
    shutil.copy(folder / "model.safetensors", folder / "renamed.bin")
    assert run("replay", "--attestation", "signed.json", "renamed.bin", "--key", "ours.pub")[0] == 0


def test_the_certificate_inside_is_the_certificate(folder: Path) -> None:
    certificate = evr.Certificate.load(folder / "c.certificate.json")
    for name in ("signed.json", "unsigned.json"):
        assert Attestation.load(folder / name).certificate == certificate
    statement = json.loads((folder / "unsigned.json").read_text("utf-8"))
    assert statement["predicate"] == json.loads((folder / "c.certificate.json").read_text("utf-8"))


def test_a_certificate_with_a_proof_file_is_the_same_in_any_order(folder: Path, run: Callable[..., Any]) -> None:
    event = evr.dpsgd(noise_multiplier=4, sampling_probability=0.01, steps=10)
    files: dict[str, Any] = {"path": folder / "p.certificate.json", "proof": folder / "p.proof"}
    certificate = evr.certify(event, delta=1e-6, ledger=folder / "ledger.sqlite", **files)
    assert [*certificate.verification.directions] == ["remove", "add"]
    Attestation.of([folder / "model.safetensors"], certificate).save(folder / "p.json")  # its keys are sorted
    assert run("replay", "model.safetensors", "--attestation", "p.json")[0] == 0


@pytest.mark.parametrize("place", [(), ("subject", 0), ("subject", 0, "digest"), ("predicate",)])
def test_keys_of_an_attestation_do_not_command_a_terminal(folder: Path, run: Callable[..., Any], place: Any) -> None:
    document = json.loads((folder / "unsigned.json").read_text("utf-8"))
    at = document
    for key in place:
        at = at[key]
    at["\x1b[2Jx"] = "1"
    (folder / "odd.json").write_text(json.dumps(document))
    code, told, wrong = run("replay", "model.safetensors", "--attestation", "odd.json")
    assert code == 2
    assert (told + wrong).replace("\n", "").isprintable()
    with pytest.raises(CertificateError) as refused:
        _ = Attestation.load(folder / "odd.json").certificate
    assert str(refused.value).isprintable()


def test_it_is_an_in_toto_statement_of_the_published_schema(folder: Path) -> None:
    certificate = (ROOT / "src" / "evr" / "_certificate" / "certificate.schema.json").read_text("utf-8")
    registry = Registry().with_resource("certificate.schema.json", Resource.from_contents(json.loads(certificate)))
    checker = jsonschema.Draft202012Validator(SCHEMA, registry=registry)
    statement = json.loads((folder / "unsigned.json").read_text("utf-8"))
    checker.validate(statement)
    assert SCHEMA["properties"]["predicateType"]["const"] == PREDICATE_TYPE == statement["predicateType"]
    for key, value in (("subject", []), ("predicateType", "urn:other"), ("more", 1)):
        assert list(checker.iter_errors({**statement, key: value}))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
@pytest.mark.parametrize(("kind", "accepted"), [("application/vnd.in-toto+json", True), ("application/json", False)])
def test_openssl_agrees_on_what_is_signed(folder: Path, tmp_path: Path, kind: str, accepted: bool) -> None:
    envelope = json.loads((folder / "signed.json").read_text("utf-8"))
    payload = base64.b64decode(envelope["payload"])
    told = " ".join(["DSSEv1", str(len(kind)), kind, str(len(payload)), ""]).encode() + payload  # as DSSE has it
    (tmp_path / "told").write_bytes(told)
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(folder / "ours.pub"), "-rawin"]
    files = ["-in", str(tmp_path / "told"), "-sigfile", str(tmp_path / "sig")]
    assert (subprocess.run([*command, *files], capture_output=True, check=False).returncode == 0) == accepted


def bit_flips(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    for place in rng.integers(0, len(content), 90):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(0, 8))
        yield bytes(changed)
    yield content[:-1]
    yield content[: len(content) // 2]
    yield content + b"{}"


def envelopes(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Envelopes whose parts were changed without a new signature, or with somebody else's."""
    envelope = json.loads(content)
    statement = json.loads(base64.b64decode(envelope["payload"]))
    signature = base64.b64decode(envelope["signatures"][0]["sig"])

    def wrapped(document: Any, sig: bytes = signature, **more: Any) -> bytes:
        payload = base64.b64encode(json.dumps(document).encode()).decode()
        sealed = [{"sig": base64.b64encode(sig).decode()}]
        return json.dumps({**envelope, "payload": payload, "signatures": sealed, **more}).encode()

    for place in range(0, 64, 2):
        changed = bytearray(signature)
        changed[place] ^= 1 << int(rng.integers(0, 8))
        yield wrapped(statement, bytes(changed))
    spelled = base64.b64encode(signature).decode()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    spare = letters[letters.index(spelled[-3]) + 1]  # the same bytes, spelled with bits that nothing reads
    yield content.replace(spelled.encode(), f"{spelled[:-3]}{spare}==".encode())
    yield wrapped(statement, signature[:-1])
    yield wrapped(statement, bytes(64))
    stranger = Ed25519PrivateKey.generate()
    yield wrapped(statement, stranger.sign(base64.b64decode(envelope["payload"])))
    yield wrapped(statement, signatures=[])
    yield wrapped(statement, payloadType="application/json")
    yield wrapped(statement, surprise=1)
    for place in range(40):
        changed = copy.deepcopy(statement)
        digest = changed["subject"][0]["digest"]["sha256"]
        changed["subject"][0]["digest"]["sha256"] = (
            digest[:place] + ("0" if digest[place] != "0" else "1") + digest[place + 1 :]
        )
        yield wrapped(changed)
    for path, value in leaves(statement["predicate"]):
        yield wrapped({**statement, "predicate": resealed(statement["predicate"], path, value)})


def leaves(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every field of a document, and another value for it."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        if isinstance(value, dict | list) and value:
            yield from leaves(value, (*path, key))
        elif isinstance(value, bool):
            yield (*path, key), not value
        elif isinstance(value, int):
            yield (*path, key), value + 1
        elif isinstance(value, float):
            yield (*path, key), value / 2 + 1e-7
        elif isinstance(value, str):
            yield (*path, key), value + "x"


def resealed(certificate: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A certificate with one field changed, and a digest that fits."""
    changed = copy.deepcopy(certificate)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed if path == ("digest",) else {**changed, "digest": digest_of(changed)}


def test_at_least_200_changed_attestations_are_refused(folder: Path, run: Callable[..., Any]) -> None:
    content, rng = (folder / "signed.json").read_bytes(), np.random.default_rng(3)
    changed = folder / "changed.json"
    number = 0
    for mutant in (*bit_flips(content, rng), *envelopes(content, rng)):
        if mutant == content:
            continue
        changed.write_bytes(mutant)
        code, out, err = run("replay", "--attestation", changed, "model.safetensors", "--key", "ours.pub")
        assert code in (2, 3), mutant
        assert "agrees" not in out
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        number += 1
    assert number >= 200


def test_another_model_or_another_key_is_refused(folder: Path, run: Callable[..., Any]) -> None:
    for name in ("signed.json", "unsigned.json"):
        code, _, err = run("replay", "--attestation", name, "other.safetensors")
        assert (code, "is not about this file" in err) == (3, True)
        code, _, err = run("replay", "--attestation", name, "model.safetensors", "other.safetensors")
        assert code == 3
        assert run("replay", "--attestation", name, "model.safetensors", "--key", "theirs.pub")[0] == 3
    assert (
        "nobody signed it"
        in run("replay", "--attestation", "unsigned.json", "model.safetensors", "--key", "ours.pub")[2]
    )
    both = Attestation.load(folder / "signed.json").signed(folder / "theirs.pem")
    both.save(folder / "both.json")
    for key in ("ours.pub", "theirs.pub"):
        assert run("replay", "--attestation", "both.json", "model.safetensors", "--key", key)[0] == 0


def test_without_a_signature_the_replay_finds_what_it_can(folder: Path, run: Callable[..., Any]) -> None:
    """Every field that a replay computes; what it cannot know, only a signature keeps."""
    statement = json.loads((folder / "unsigned.json").read_text("utf-8"))
    unknown = ("software", "times", "schema_version")
    number = 0
    for path, value in leaves(statement["predicate"]):
        if path[0] in unknown or path[-1] in ("seconds", "entropy"):
            continue
        changed = {**statement, "predicate": resealed(statement["predicate"], path, value)}
        (folder / "changed.json").write_text(json.dumps(changed))
        code, out, _ = run("replay", "--attestation", "changed.json", "model.safetensors")
        assert code in (2, 3), path
        assert "the verdict is accepted" not in out
        number += 1
    assert number > 20


def test_a_rejected_certificate_is_not_attested(folder: Path, run: Callable[..., Any]) -> None:
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=50)
    low = 0.6 * evr.estimate_delta(event, 0.5).value / 0.8
    rejected = certify_claim(event, Claim(0.5, low, 0.8), Settings(), seed=2, ledger=folder / "l.sqlite")
    rejected.save(folder / "rejected.json")
    code, out, err = run("attest", "model.safetensors", "rejected.json")
    assert (code, out, "guarantees nothing" in err) == (3, "", True)
    assert not (folder / "model.attestation.json").exists()
    with pytest.raises(ValueError, match="rejected"):
        Attestation.of([folder / "model.safetensors"], rejected)
    statement = json.loads((folder / "unsigned.json").read_text("utf-8"))
    statement["predicate"] = rejected.document()
    (folder / "forged.json").write_text(json.dumps(statement))
    with pytest.raises(CertificateError, match="rejected"):
        _ = Attestation.load(folder / "forged.json").certificate


def test_attest_says_what_it_did(folder: Path, run: Callable[..., Any]) -> None:
    arguments = ("attest", "model.safetensors", "c.certificate.json", "-o", "made.json")
    code, out, _ = run(*arguments, "--key", "ours.pem")
    assert (code, "signed with ours.pem" in out) == (0, True)
    assert "exists already" in run(*arguments)[2]
    code, out, _ = run(*arguments, "--force", "--json")
    assert json.loads(out)["signed"] is False
    assert Attestation.load(folder / "made.json").signatures == ()


def test_bad_input(folder: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> str:
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (out, err)
        return str(err)

    model, certificate = "model.safetensors", "c.certificate.json"
    pem(folder / "curve.pem", ec.generate_private_key(ec.SECP256R1()))
    assert "alone is not enough" in refused("attest", certificate)
    assert "No such file" in refused("attest", "nothing.bin", certificate)
    assert "have the same name" in refused("attest", model, model, certificate, "-o", "x.json")
    assert "not a regular file" in refused("attest", os.devnull, certificate, "-o", "x.json")  # others have no end
    assert "not valid JSON" in refused("attest", certificate, model)
    assert "not an Ed25519 private key" in refused("attest", model, certificate, "-o", "x.json", "--key", "ours.pub")
    assert "not an Ed25519 private key" in refused("attest", model, certificate, "-o", "x.json", "--key", "curve.pem")
    told = refused("replay", "--attestation", "signed.json", model, "--key", "ours.pem")
    assert "not an Ed25519 public key" in told
    assert "openssl pkey -in PRIVATE -pubout makes it" in told
    assert "neither an in-toto statement" in refused("replay", "--attestation", certificate, model)
    assert "cannot be read" in refused("replay", "--attestation", "nothing.json", model)
    assert "one certificate" in refused("replay", certificate, model)
    assert "one certificate" in refused("replay", certificate, "--key", "ours.pub")
    (folder / "say «hello».bin").write_bytes(b"")
    assert "rename it, in letters" in refused("attest", "say «hello».bin", certificate)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    assert "pip install 'evr-dp[attest]'" in refused("attest", model, certificate, "-o", "x.json", "--key", "ours.pem")
    assert not (folder / "x.json").exists()
