"""The application object. Commands import the library when they run, so that `evr --help` is quick."""

import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any

import typer

import evr
from evr.cli import options
from evr.cli.attacks import audit, risk
from evr.cli.budget import budget
from evr.cli.calculator import calculator
from evr.cli.calibrate import calibrate
from evr.cli.certificates import attest, replay, show
from evr.cli.certify import certify, resume
from evr.cli.estimate import describe, estimate
from evr.cli.ledger import ledger
from evr.cli.refute import refute

app = typer.Typer(
    name="evr",
    help="Tight privacy accounting you can trust: estimate, verify, release.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes cut the names of options on narrow terminals
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class _Light(types.ModuleType):
    """dp_accounting, whose ``__init__`` runs when something is asked for that neither its submodules nor its interface
    of accountants have. It loads scipy.stats and scipy.signal, which takes longer than most commands.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if importlib.util.find_spec(f"{self.__name__}.{name}") is not None:
            return importlib.import_module(f"{self.__name__}.{name}")
        interface = importlib.import_module(f"{self.__name__}.privacy_accountant")
        if not hasattr(interface, name):
            self.__class__ = types.ModuleType  # type: ignore[assignment]
            self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
            interface = self
        return getattr(interface, name)


def _load_lightly(name: str) -> None:
    if name not in sys.modules and (spec := importlib.util.find_spec(name)) is not None:
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        module.__class__ = _Light


def _version(asked: bool) -> None:
    if asked:
        print(f"evr {evr.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    _load_lightly("dp_accounting")


COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "certify": (certify, "Estimate, verify, write a certificate."),
    "estimate": (estimate, "Epsilon at a delta, or delta at an epsilon; ranges."),
    "calibrate": (calibrate, "The smallest noise, or the largest number of steps."),
    "calculator": (calculator, "A page that proves an epsilon in the browser."),
    "describe": (describe, "How a specification is understood."),
    "replay": (replay, "Check a certificate."),
    "refute": (refute, "Try to prove that a pair is false."),
    "risk": (risk, "What an attacker can do at most."),
    "show": (show, "A certificate in words, as a page, as LaTeX."),
    "attest": (attest, "Bind a certificate to a model, signed or not."),
    "audit": (audit, "The scores of canaries against a certificate."),
    "ledger": (ledger, "Attempts, verdicts, allowances."),
    "resume": (resume, "Continue what was interrupted."),
}
"""Each command, and the few words that `evr --help` has for it."""

for name, (command, words) in COMMANDS.items():
    app.command(name, cls=options.Grouped, short_help=words)(options.unfolded(command))
app.add_typer(budget, name="budget", help="Budgets that several teams share.")
