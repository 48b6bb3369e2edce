"""Files that commands write: their names, and which are refused before any work is done."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evr._basics import atomic
from evr._basics.numbers import short_exponent

_FACTS = 8  # in the name of a file


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A CSV file, numbers in full precision, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic.write_text(path, text.getvalue())


def certificate_path(spec: Path | None, event: Any, **levels: float) -> Path:
    """Beside the file that says what ran, and by its name; else in the working folder, by what ran and the target.

    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    >>> print(certificate_path(None, event, delta=1e-5))
    dpsgd-noise1.1-steps3516-delta1e-5.certificate.json
    """
    if spec is not None:
        return spec.with_name(f"{spec.stem.removesuffix('.record')}.certificate.json")
    from evr._wording.description import phases_of

    phases = phases_of(event)
    facts = [("noise", one.noise_multiplier) for one in phases] + [("steps", one.steps) for one in phases]
    facts = [*dict.fromkeys(facts)]
    if len(facts) > _FACTS:
        facts = [("phases", len(phases))]
    rates = {"true_positive_rate": "tpr", "false_positive_rate": "fpr"}
    facts += [(rates.get(level, level), value) for level, value in levels.items()]
    words = [f"-{name}{value if isinstance(value, int) else short_exponent(f'{value:g}')}" for name, value in facts]
    return Path(f"dpsgd{''.join(words)}.certificate.json")


def new_certificate(path: Path, *others: Path | None, force: bool, **named: Path | None) -> Path:
    """A file to write a certificate to, refused now if it is there already or cannot be written; with other files."""
    if path.is_file() and not force:
        raise ValueError(f"{path} exists already: add --force to replace it, or name another file with --output")
    new_files(*others, output=path, **named)
    return path


def new_files(*others: Path | None, **named: Path | None) -> None:
    """Refuse now what cannot be written, or would replace a file that the command reads or writes; each by its flag."""
    taken = {os.path.realpath(path): "is read" for path in others if path is not None}
    for name, path in named.items():
        if path is None:
            continue
        told = f"--{name}={str(path)!r}"
        if name == "plot" and path.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"{told} does not end in .png, .svg or .pdf: name one of these")
        atomic.check_writable(**{f"--{name}": path})
        if name == "proof":
            taken[os.path.realpath(path.with_name("check_proof.py"))] = "is the checker, which is written beside it"
        if (used := taken.setdefault(os.path.realpath(path), f"is that of --{name}")) != f"is that of --{name}":
            raise ValueError(f"{told} {used}, too: name another file")
