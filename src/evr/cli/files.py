"""Where commands write: names made of what a file is about, and refusals before any work is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from evr import atomic


def certificate_path(spec: Path | None, event: Any, epsilon: float | None, delta: float | None) -> Path:
    """Beside the file that says what ran, and by its name; else in the working folder, by what ran and the target.

    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    >>> print(certificate_path(None, event, None, 1e-5))
    dpsgd-noise1.1-q0.00426667-steps3516-delta1e-5.certificate.json
    """
    if spec is not None:
        return spec.with_name(f"{spec.stem.removesuffix('.record')}.certificate.json")
    sampled = event.event
    drawn = (
        {"batch": sampled.sample_size, "of": sampled.source_dataset_size}
        if hasattr(sampled, "sample_size")
        else {"q": sampled.sampling_probability}
    )
    named = {
        "noise": getattr(sampled, "event", sampled).noise_multiplier,
        **drawn,
        "steps": event.count,
        "records": getattr(sampled, "records_per_user", None),
        "epsilon": epsilon,
        "delta": delta,
    }
    words = [f"{name}{_digits(value)}" for name, value in named.items() if value is not None]
    return Path(f"{'-'.join(['dpsgd', *words])}.certificate.json")


def _digits(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def new_certificate(path: Path, *, force: bool, option: str = "--output") -> Path:
    """A file to write a certificate to, refused now if it is there already or cannot be written."""
    if path.is_file() and not force:
        raise ValueError(f"{path} exists already: add --force to replace it, or name another file with {option}")
    atomic.check_writable(**{option: path})
    return path


def new_page(page: Path, certificate: Path, *, option: str = "--report") -> Path:
    """A file to write the page of a certificate to, refused now if it cannot be written or is the certificate's."""
    atomic.check_writable(**{option: page})
    if os.path.realpath(certificate) == os.path.realpath(page):
        raise ValueError(f"{option}={str(page)!r} is the certificate's file: name another one")
    return page


def new_files(**named: Path | None) -> None:
    """Refuse now what cannot be written, each file by its flag."""
    for name, path in named.items():
        if path is not None:
            atomic.check_writable(**{f"--{name}": path})
