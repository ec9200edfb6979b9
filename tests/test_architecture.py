"""Imports run in one direction, libraries stay in their rooms, modules stay small."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gpnode"

# From the ground up. A module may import from its own row and from rows above it in this list.
LAYERS = [
    ["_config", "_notebook", "errors", "orderly", "threads"],
    ["files", "formula"],
    ["_columns", "convergence", "smoothing", "scaling", "parameters"],
    ["data", "modes", "priors", "kernels"],
    ["dynamics", "solvers"],
    ["factorise"],
    ["likelihood"],
    ["model", "problem"],
    ["binding", "evaluation"],
    ["posterior"],
    ["symbolic", "typeset", "audit"],
    ["storage", "diagnostics", "equations", "loo"],
    ["forecast", "inference"],
    ["simulation"],
    ["calibration"],
    ["plots", "problem_file"],
    ["studies", "report"],
    ["cli", "__main__"],
]
ONLY_IN = {
    "pandas": {"cli", "_columns", "data", "loo", "posterior", "storage"},
    "diffrax": {"solvers"},
    "sympy": {"equations", "symbolic", "typeset"},
    "matplotlib": {"plots", "report", "studies", "cli"},
    "arviz": {"convergence", "posterior"},
    "rich": {"inference"},
    "numba": {"solvers", "factorise"},
    "scipy": {"smoothing", "inference", "plots", "studies"},
}


def modules():
    return sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


def room(path: Path) -> str:
    """Top-level module or package a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path, everywhere: bool):
    """(gpnode rooms, outside packages) imported at module level, or anywhere in the file."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if everywhere else tree.body
    own, outside = set(), set()
    depth = len(path.relative_to(SOURCE).parts)
    for node in nodes:
        if isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                outside.add((node.module or "").split(".")[0])
            elif node.level == depth:
                own |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return own, outside


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    rank = {name: i for i, row in enumerate(LAYERS) for name in row}
    assert room(path) in rank, f"add {room(path)} to LAYERS"
    own, _ = imports(path, everywhere=False)
    upwards = {name for name in own if rank[name] > rank[room(path)]}
    assert not upwards


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_libraries_stay_in_their_rooms(path):
    _, outside = imports(path, everywhere=True)
    for library in outside & set(ONLY_IN):
        assert room(path) in ONLY_IN[library], f"{library} belongs in {ONLY_IN[library]}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_are_small(path):
    assert len(path.read_text().splitlines()) <= 400


def test_only_the_posterior_reaches_up_when_called():
    """Convenience methods import lazily, and a study run as a module calls the command line; nobody else may."""
    rank = {name: i for i, row in enumerate(LAYERS) for name in row}
    for path in modules():
        hidden = imports(path, everywhere=True)[0] - imports(path, everywhere=False)[0]
        upwards = {name for name in hidden if rank[name] > rank[room(path)]}
        allowed = room(path) == "posterior" or (room(path), upwards) == ("studies", {"cli"})
        assert not upwards or allowed, (path.name, upwards)


def test_nothing_evaluates_text():
    for path in modules():
        called = {
            n.func.id
            for n in ast.walk(ast.parse(path.read_text()))
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        assert not called & {"eval", "exec", "compile"}, path
        assert "sympify" not in path.read_text()


def test_nothing_is_unpickled_but_what_a_worker_is_sent():
    """Files are never read that way; the one module that packs tasks for workers opens no file."""
    for path in modules():
        text = path.read_text().replace("allow_pickle=False", "")
        if path.name != "parcels.py":
            assert "pickle" not in text, path
        else:
            assert imports(path, everywhere=True)[1] <= {*sys.stdlib_module_names, "cloudpickle"}
            assert "open" not in text
