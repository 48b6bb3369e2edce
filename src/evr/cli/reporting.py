"""The story of one attempt, told as it happens: the forecast, the progress, the result."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import evr
from evr._basics.numbers import duration, stated
from evr.cli import REJECTED
from evr.cli.output import LASTS, as_json, number, pair, say, waiting

if TYPE_CHECKING:
    from evr._proving.choosing import Forecast
    from evr.cli.options import Out

_SOON = 0.8  # seconds until a first word is due
_LONG = 20.0  # seconds; who waits longer is told that Ctrl-C is safe


@dataclass(frozen=True)
class Reporting:
    """Tells the story of one attempt."""

    path: Path | None  # where the certificate goes
    ledger: str | None  # where the attempt is counted; None for the default
    out: "Out"
    dry_run: bool = False  # say what would be done, and stop

    @property
    def counted(self) -> str:
        """Where the attempt is counted."""
        from evr._release.databases import without_password
        from evr._release.ledger import DEFAULT_PATH

        return without_password(self.ledger or str(DEFAULT_PATH))

    @contextlib.contextmanager
    def ledger_to_ask(self) -> Iterator[str | None]:
        """The ledger. If there is none yet, a dry run asks an empty one, which is gone afterwards."""
        if not self.dry_run or "://" in self.counted or Path(self.counted).exists():
            yield self.ledger
            return
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "ledger.sqlite")

    @contextlib.contextmanager
    def working(self, doing: str) -> Iterator[Callable[["Forecast"], None]]:
        """Say what is being done, if it lasts, and whether it counts, if it is interrupted. Yields ``announce``."""
        start = time.monotonic()

        def words(seconds: float) -> str:
            return doing if seconds < LASTS else f"Still planning, after {seconds:.0f} s."

        with waiting(words, after=_SOON, silent=self.out.silent) as over:

            def announce(forecast: "Forecast") -> None:
                over.set()
                self._announce(forecast, time.monotonic() - start)

            try:
                yield announce
            except KeyboardInterrupt as stopped:
                for note in getattr(stopped, "__notes__", []):
                    print(note, file=sys.stderr)
                raise

    def _announce(self, forecast: "Forecast", planned: float) -> None:
        """Say what is to be proved, how, how long that takes, and planning took, and where files go."""
        claim, seconds, method = forecast.claim, forecast.total_seconds, forecast.settings.method
        if self.dry_run and self.out.json:
            levels = {"epsilon": claim.epsilon, "delta": claim.delta, "tau": claim.tau}
            as_json({**levels, "method": method, "samples": forecast.total_samples, "seconds": seconds, **self._files})
        elif self.dry_run or not self.out.silent:
            ways = ["in exact arithmetic"] if method in ("strict", "both") else []
            if method != "strict":
                count = f"{float(f'{forecast.total_samples:.2g}'):,.0f}"
                drawn = f"from about {count} samples" if forecast.total_samples else "without a sample"
                ways.append(f"{drawn} ({'Algorithm 2' if method == 'fixed' else 'sequential test'})")
            about = duration(float(f"{max(seconds, 1.0):.2g}"))
            goes = f" Certificate: {self.path}." if self.path is not None else ""
            safe = " Ctrl-C is safe, and `evr resume` continues." if seconds > _LONG else ""
            after = f" Planned in {duration(planned)}." if planned > LASTS else ""
            told = (
                f"Proving {pair(claim)} {' and '.join(ways)}, about {about}.{after}{goes} Ledger: {self.counted}.{safe}"
            )
            say(told, sys.stdout if self.dry_run else sys.stderr)
        if self.dry_run:
            raise typer.Exit

    @property
    def _files(self) -> dict[str, Any]:
        return {"certificate": None if self.path is None else str(self.path), "ledger": self.counted}

    def tell(self, certificate: "evr.Certificate", proof: Path | None = None, report: Path | None = None) -> None:
        """Print how the attempt ended, and write its page; leave with 3 unless it was accepted."""
        self._tell(certificate)
        data = None
        if proof is not None and certificate.proof is not None:
            self.out.wrote_proof(proof, data := proof.read_bytes())
        if report is not None:
            from evr._report.page import write_report

            write_report(certificate, report, source=str(self.path), proof=data)
            self.out.wrote(report)
        if not certificate.accepted:
            raise typer.Exit(REJECTED)

    def _tell(self, certificate: "evr.Certificate") -> None:
        held = certificate.guarantee is not None
        outcome = "-differentially private." if held else "-differential privacy was not verified."
        sentence = f"{pair(certificate.claim)}{outcome}"
        if self.out.json:
            keys = ("verdict", "guarantee", "statement", "claim", "release", "budget", "digest")
            document = certificate.document()
            found = {"short_statement": certificate.short_statement, "samples": certificate.verification.samples}
            as_json({key: document.get(key) for key in keys} | found | self._files)
        elif self.out.quiet:
            print(sentence)
        else:
            say(f"{certificate.verdict.capitalize()}: {sentence}\n\n{certificate.short_statement}\n")
            if held:
                print("It is assumed that")
                say(";\n".join(f"- {clause}" for clause in certificate.assumptions) + ".\n")
            else:
                for name, one in certificate.verification.directions.items():
                    if not one.accepted:
                        about = getattr(one, "estimate", None)
                        mean = "" if about is None else f" (delta is about {number(about, 4)})"
                        say(f"{name} direction: {one.reason}{mean}")
                print()
            self._tell_where(certificate)

    def _tell_where(self, certificate: "evr.Certificate") -> None:
        """Where the certificate is, and where the attempt was counted."""
        from evr._certificate.certificate import aside

        if self.path is not None:
            print(f"certificate: {self.path}")
            if not certificate.accepted and (kept := aside(self.path)).exists():
                print(f"the one that was accepted before: {kept}")
        release, spent = certificate.release, "an exact proof uses no false-positive allowance"
        if release.allowance is not None and release.total_allowance is not None:
            of_all = f"{stated(release.allowance, 2)} of {stated(release.total_allowance, 2)}"
            spent = f"false-positive allowance spent on it: {of_all}"
        say(f"ledger: {self.counted} (attempt {release.attempt}; {spent})")
        if (budget := certificate.budget) is not None:
            level = f"({number(budget.epsilon)}, {number(budget.delta)})"
            say(f"budget: {budget.name}, {level} (spending {budget.spending}, by {budget.by})")
