"""Attestations: in-toto statements that bind a certificate to files by their digests, in a DSSE envelope where somebody
signs them (docs/attestation.md). A signature proves nothing about privacy: a replay of the certificate inside does.
"""

import base64
import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from evr._basics import atomic, validate
from evr._certificate.certificate import Certificate
from evr._certificate.event_json import canonical, parsed
from evr._certificate.sections import Section, validated
from evr.errors import CertificateError

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:evr-dp:attestation:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


_FILE = "[0-9A-Za-z_][0-9A-Za-z_.+=@ -]{0,199}"


def _decoded(text: Any) -> bytes:
    """Base64, of either alphabet, in its one spelling."""
    found = base64.b64decode(str(text).translate(str.maketrans("-_", "+/")), validate=True)
    if text not in (base64.b64encode(found).decode(), base64.urlsafe_b64encode(found).decode()):
        raise ValueError("this is not base64 as it is usually spelled")
    return found


Base64 = Annotated[bytes, BeforeValidator(_decoded)]


class _Subject(Section):
    name: Annotated[str, Field(pattern=f"^{_FILE}$")]
    digest: Annotated[dict[Literal["sha256"], Annotated[str, Field(pattern="^[0-9a-f]{64}$")]], Field(min_length=1)]


class _Statement(Section):
    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    subject: Annotated[list[_Subject], Field(min_length=1)]
    predicateType: Literal["urn:evr-dp:attestation:v1"]
    predicate: dict[str, Any]


class _Signature(Section):
    sig: Base64
    keyid: str = ""  # a hint that nothing rests on


class _Envelope(Section):
    payload: Base64
    payloadType: Literal["application/vnd.in-toto+json"]
    signatures: Annotated[list[_Signature], Field(min_length=1)]


@dataclass(frozen=True)
class Attestation:
    """A statement about files, signed or not.

    Attributes
    ----------
    payload
        The statement as JSON: the bytes that are signed.
    signatures
        One for each signer; none if nobody signed.

    Examples
    --------
    >>> import evr, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = Path(folder, "model.safetensors")
    ...     _ = model.write_bytes(b"weights")
    ...     event = evr.dpsgd(noise_multiplier=4, sampling_probability=0.01, steps=10)
    ...     certificate = evr.certify(event, delta=1e-5, ledger=f"{folder}/ledger.sqlite")
    ...     attestation = Attestation.of([model], certificate)
    >>> [*attestation.subjects], evr.replay(attestation.certificate).agrees
    (['model.safetensors'], True)
    """

    payload: bytes
    signatures: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, files: Sequence[str | Path], certificate: Certificate | str | Path) -> Self:
        """Attest that the training of an accepted certificate made these files."""
        paths = [validate.path(file=file) for file in files]
        for path in paths:
            if not re.fullmatch(_FILE, path.name):
                allowed = "letters, digits, spaces and _ . + = @ -, up to 200 characters"
                raise CertificateError(f"file={str(path)!r} has a name that is not attested: rename it, in {allowed}")
        statement = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": path.name, "digest": {"sha256": sha256_of(path)}} for path in paths],
            "predicateType": PREDICATE_TYPE,
            "predicate": Certificate.of(certificate).document(),
        }
        made = cls(canonical(statement).encode())
        _ = made.certificate  # refused now, if it would be refused when it is read
        return made

    @cached_property
    def _statement(self) -> _Statement:
        found = validated(_Statement, parsed(self.payload.decode("utf-8", "replace")))
        if len({one.name for one in found.subject}) < len(found.subject):
            raise CertificateError("two files have the same name: rename one")
        return found

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate inside. Raises ``CertificateError`` if it is damaged, altered, or was rejected."""
        found = Certificate.from_document(self._statement.predicate)
        if not found.accepted:
            raise CertificateError("the certificate was rejected: it guarantees nothing that could be attested")
        return found

    @property
    def subjects(self) -> dict[str, str]:
        """The SHA-256 of each file, by the name that it had."""
        return {one.name: one.digest["sha256"] for one in self._statement.subject}

    def signed(self, key: str | Path) -> Self:
        """The same with one more signature, by the Ed25519 private key in a PEM file."""
        return replace(self, signatures=(*self.signatures, _key(key, "private").sign(_encoded(self.payload))))

    def is_signed_by(self, key: str | Path) -> bool:
        """Whether the Ed25519 public key in a PEM file fits one of the signatures."""
        public = _key(key, "public")
        from cryptography.exceptions import InvalidSignature

        for signature in self.signatures:
            with contextlib.suppress(InvalidSignature):
                public.verify(signature, _encoded(self.payload))
                return True
        return False

    def save(self, path: str | Path) -> None:
        """Write it, whole or not at all: as a DSSE envelope, or as the statement alone where nobody signed."""
        payload, *signed = (base64.b64encode(one).decode() for one in (self.payload, *self.signatures))
        envelope = {"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": [{"sig": one} for one in signed]}
        atomic.write_bytes(path, canonical(envelope).encode() if signed else self.payload)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an envelope or a statement; ``CertificateError`` if it is neither. Nothing inside is believed yet."""
        what, most = "not an attestation: ", 2 * atomic.MOST_BYTES
        with atomic.reading(validate.path(attestation=path), CertificateError, what, most) as content:
            document = parsed(content.decode("utf-8"))
            if not {"payload", "_type"} & document.keys():
                raise CertificateError("neither an in-toto statement nor a DSSE envelope")
            if "_type" in document:
                return cls(content)
            envelope = validated(_Envelope, document)
            return cls(envelope.payload, tuple(one.sig for one in envelope.signatures))


def sha256_of(file: str | Path) -> str:
    """The SHA-256 of a file of any size; others may have no end."""
    if Path(file).exists() and not Path(file).is_file():
        raise CertificateError(f"{file}: not a regular file")
    with Path(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding.

    >>> _encoded(b"{}")
    b'DSSEv1 28 application/vnd.in-toto+json 2 {}'
    """
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def _key(path: str | Path, kind: str) -> Any:
    """The Ed25519 key in a PEM file, or an error."""
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    except ImportError:
        raise ValueError("signatures need the package cryptography: pip install 'evr-dp[attest]'") from None
    text, found = validate.path(key=path).read_bytes(), None
    with contextlib.suppress(ValueError, TypeError):
        found = load_pem_private_key(text, None) if kind == "private" else load_pem_public_key(text)
    if "Ed25519" not in type(found).__name__:
        made = "genpkey -algorithm ed25519 makes one" if kind == "private" else "pkey -in PRIVATE -pubout makes it"
        raise ValueError(f"{path}: not an Ed25519 {kind} key in PEM that needs no password: openssl {made}")
    return found
