"""Rules of the house that no other tool checks. The order of imports is a contract of import-linter."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from support import ROOT

SOURCE = ROOT / "src"
MODULES = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
TREES = {path: ast.parse(text) for path, text in MODULES.items()}
TRANSPORT = SOURCE / "gpnode" / "inference" / "running" / "transport.py"
MOST_LINES, MOST_CONSTANTS = 350, 30


def shown(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def called(tree: ast.Module) -> set[str]:
    """Names that are called plainly, or as something of the built-ins."""
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    plain = {f.id for f in functions if isinstance(f, ast.Name)}
    return plain | {f.attr for f in functions if isinstance(f, ast.Attribute) and ast.unparse(f.value) == "builtins"}


def imported(tree: ast.Module) -> set[str]:
    """Packages that are imported anywhere in a module."""
    nodes = list(ast.walk(tree))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in plain | parts}


def constants(tree: ast.Module) -> Iterator[str]:
    """Names in capitals that a module defines at its top."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if hasattr(node, "target") else []
        for name in (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)):
            if re.fullmatch(r"_*[A-Z][A-Z0-9_]*", name):
                yield name


def test_there_is_a_house():
    assert TRANSPORT in MODULES
    assert len(MODULES) > 50


def test_nothing_evaluates_text():
    offenders = {shown(p): called(tree) & {"eval", "exec", "compile", "__import__"} for p, tree in TREES.items()}
    assert not {p: names for p, names in offenders.items() if names}
    assert not [shown(p) for p, text in MODULES.items() if "sympify" in text]


def test_nothing_is_unpickled_but_what_a_worker_is_sent():
    """Files are never read that way; the one module that packs tasks for workers opens none."""
    texts = {p: text.replace("allow_pickle=False", "") for p, text in MODULES.items() if p != TRANSPORT}
    assert not [shown(p) for p, text in texts.items() if re.search(r"pickle|\bdill\b|\bjoblib\b|\bmarshal\b", text)]
    assert imported(TREES[TRANSPORT]) <= {*sys.stdlib_module_names, "cloudpickle"}
    assert not imported(TREES[TRANSPORT]) & {"io", "os", "pathlib", "shelve", "shutil", "tempfile"}
    assert not re.search(r"\bopen\b|\bload\(", MODULES[TRANSPORT])


def test_modules_are_small():
    sizes = {shown(p): len(text.splitlines()) for p, text in MODULES.items()}
    assert not {p: size for p, size in sizes.items() if size > MOST_LINES}


def test_modules_have_few_constants():
    counts = {shown(p): len(set(constants(tree))) for p, tree in TREES.items()}
    assert not {p: count for p, count in counts.items() if count > MOST_CONSTANTS}


def test_every_folder_says_what_may_live_there():
    folders = {path.parent for path in MODULES} - {SOURCE}
    assert not [shown(f) for f in sorted(folders) if f / "__init__.py" not in TREES]
    said = {f: ast.get_docstring(TREES[f / "__init__.py"]) for f in folders}
    assert not [shown(f) for f in sorted(folders) if not said[f]]


def test_no_function_has_its_modules_name():
    def name_of(path: Path) -> str:
        return (path.parent.name if path.stem == "__init__" else path.stem).strip("_")

    functions = {p: {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} for p, tree in TREES.items()}
    assert not [shown(p) for p, names in functions.items() if name_of(p) in names]
