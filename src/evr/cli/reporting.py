"""Messages of the commands that make attempts: the forecast, the progress, the result."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evr.cli.output import as_json, number, say
from evr.numbers import duration, stated

if TYPE_CHECKING:
    from evr.certification import Certificate
    from evr.proving import Forecast

_SOON = 0.8  # seconds, after which a first word is due
_LONG = 20.0  # seconds, from which on it helps to know that one may interrupt


@dataclass(frozen=True)
class Reporting:
    """Tells the story of one attempt."""

    path: Path | None  # where the certificate goes
    ledger: str | None  # where the attempt is counted, by default where evr does
    json: bool
    quiet: bool
    dry_run: bool = False  # say what would be done, and stop

    @property
    def silent(self) -> bool:
        """Whether nothing but the result is wanted."""
        return self.json or self.quiet

    @property
    def counted(self) -> str:
        """Where the attempt is counted."""
        from evr.certification.databases import without_password
        from evr.certification.ledger import DEFAULT_PATH

        return without_password(self.ledger or str(DEFAULT_PATH))

    @contextlib.contextmanager
    def ledger_to_ask(self) -> Iterator[str | None]:
        """The ledger; where a dry run would make one, an empty one that is gone afterwards."""
        if not self.dry_run or "://" in self.counted or Path(self.counted).exists():
            yield self.ledger
            return
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "ledger.sqlite")

    @contextlib.contextmanager
    def working(self, doing: str) -> Iterator[Callable[[Forecast], None]]:
        """Say what is being done unless it is over at once; yields what ``announce`` of ``evr.certify`` calls. Where it
        is interrupted, whether an attempt counts is told.
        """
        timer = threading.Timer(_SOON, lambda: say(doing, sys.stderr))
        timer.daemon = True
        if not self.silent:
            timer.start()

        def announce(forecast: Forecast) -> None:
            timer.cancel()
            self._announce(forecast)

        try:
            yield announce
        except KeyboardInterrupt as stopped:
            for note in getattr(stopped, "__notes__", []):
                print(note, file=sys.stderr)
            raise
        finally:
            timer.cancel()

    def _announce(self, forecast: Forecast) -> None:
        """Say what is to be proved, how, how long that takes and where files go."""
        claim, seconds = forecast.claim, forecast.total_seconds
        if self.dry_run and self.json:
            levels = {"epsilon": claim.epsilon, "delta": claim.delta, "tau": claim.tau}
            how = {"method": forecast.settings.method, "samples": forecast.total_samples, "seconds": seconds}
            as_json(levels | how | self._files)
        elif self.dry_run or not self.silent:
            about = duration(float(f"{max(seconds, 1.0):.2g}"))
            goes = f" Certificate: {self.path}." if self.path is not None else ""
            safe = " Ctrl-C is safe, and `evr resume` continues." if seconds > _LONG else ""
            told = f"Proving {pair(claim)} {_how(forecast)}, about {about}.{goes} Ledger: {self.counted}.{safe}"
            say(told, sys.stdout if self.dry_run else sys.stderr)
        if self.dry_run:
            raise typer.Exit

    @property
    def _files(self) -> dict[str, Any]:
        return {"certificate": None if self.path is None else str(self.path), "ledger": self.counted}

    def tell(self, certificate: Certificate) -> None:
        """Print how the attempt ended."""
        held = certificate.guarantee is not None
        outcome = "-differentially private." if held else "-differential privacy was not verified."
        sentence = f"{pair(certificate.claim)}{outcome}"
        if self.json:
            keys = ("verdict", "guarantee", "statement", "claim", "release", "budget", "digest")
            document = certificate.document()
            found = {"short_statement": certificate.short_statement, "samples": certificate.verification.samples}
            as_json({key: document.get(key) for key in keys} | found | self._files)
        elif self.quiet:
            print(sentence)
        else:
            say(f"{certificate.verdict.capitalize()}: {sentence}\n\n{certificate.short_statement}\n")
            if held:
                print("It is assumed that")
                say(";\n".join(f"- {clause}" for clause in certificate.assumptions) + ".\n")
            else:
                say(f"{_why_rejected(certificate)}\n")
            self._tell_where(certificate)

    def _tell_where(self, certificate: Certificate) -> None:
        """Where the certificate is, and where the attempt was counted."""
        from evr.certification.certificate import aside

        if self.path is not None:
            print(f"certificate: {self.path}")
            if not certificate.accepted and (kept := aside(self.path)).exists():
                print(f"the one that was accepted before: {kept}")
        release, spent = certificate.release, "an exact proof uses no false-positive allowance"
        if release.budget:
            of_all = f"{stated(release.budget, 2)} of {stated(release.total_budget, 2)}"
            spent = f"false-positive allowance spent on it: {of_all}"
        say(f"ledger: {self.counted} (attempt {release.attempt}; {spent})")
        if (budget := certificate.budget) is not None:
            level = f"({number(budget.epsilon)}, {number(budget.delta)})"
            say(f"budget: {budget.name}, {level} (spending {budget.spending}, by {budget.by})")


def _how(forecast: Forecast) -> str:
    method = forecast.settings.method
    words = ["in exact arithmetic"] if method in ("strict", "both") else []
    if method != "strict":
        count = f"{float(f'{forecast.total_samples:.2g}'):,.0f}"
        drawn = f"from about {count} samples" if forecast.total_samples else "without a sample"
        words.append(f"{drawn} ({'Algorithm 2' if method == 'fixed' else 'sequential test'})")
    return " and ".join(words)


def _why_rejected(certificate: Certificate) -> str:
    """Which direction stopped it, a line each, and the delta that its samples came to."""
    return "\n".join(
        f"{name} direction: {one.reason}" + (f" (delta is about {number(one.estimate, 4)})" if one.samples else "")
        for name, one in certificate.verification.directions.items()
        if not one.accepted
    )


def who_drew(certificate: Certificate) -> str:
    """Say which device ``--device auto`` chose."""
    from evr.sampling.cuda import why_not

    sections = certificate.verification.directions.values()
    drew = {one.plan["device"] for one in sections if one.plan is not None}
    if "cpu" not in drew:
        return "device: cuda" if drew else "device: none, for nothing was drawn"
    return f"device: cpu, for {why_not() or 'a GPU does not draw these steps'}"


def pair(claim: Any) -> str:
    """The epsilon and the delta of a claim or an attempt, as a statement rounds them."""
    return f"({stated(claim.epsilon)}, {stated(claim.delta)})"
