"""The manners of a library: it leaves alone what belongs to whoever calls it."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "evr"
OTHERS = {"__class__", "__closure__", "__code__", "__globals__", "cell_contents", "getclosurevars"}
CALLERS = {"signal", "setitimer", "alarm", "settrace", "setprofile", "locals", "umask", "chdir", "putenv"}


def breaches(tree: ast.AST) -> list[str]:
    """Signals, timers, hooks, umask, folder and environment of the caller; modules that are put in the place of others;
    changed classes; closures that are looked into.
    """
    found = []
    for node in ast.walk(tree):
        names, line = [], getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [part.name.split(".")[0] for part in node.names] + [getattr(node, "module", None) or ""]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            names = [node.func.id if isinstance(node.func, ast.Name) else node.func.attr]
        found += [f"line {line}: {name}" for name in names if name in CALLERS | OTHERS]
        if isinstance(node, ast.Attribute) and node.attr in OTHERS:
            reads_own = isinstance(node.value, ast.Name) and node.value.id == "self" and isinstance(node.ctx, ast.Load)
            found += [] if reads_own else [f"line {line}: {node.attr}"]
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found += [f"line {line}: sys.modules"] if ast.unparse(node.value) == "sys.modules" else []
    return found


def test_no_library_function_touches_what_belongs_to_its_caller() -> None:
    """The command is apart: its process is its own."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if not name.startswith("cli/") and (wrong := breaches(ast.parse(path.read_text("utf-8")))):
            found[name] = wrong
    assert found == {}


def test_the_rule_sees_what_it_is_about() -> None:
    for code in (
        "import signal",
        "signal.setitimer(0, 1.0)",
        "os.umask(0)",
        "sys.modules['torch'] = fake",
        "sampler.__class__ = Observed",
        "hook.__closure__[0].cell_contents",
        "inspect.getclosurevars(function)",
        "asked = dict(locals())",
    ):
        assert breaches(ast.parse(code)), code
    assert not breaches(ast.parse("type(self).__name__; self.__class__.__name__; 'torch' in sys.modules"))
