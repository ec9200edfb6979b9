"""Values of a TOML file, checked one by one, with errors that name the place and the remedy."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpnode.errors import DataError, ModelError
from gpnode.model import priors

_PRIORS = {
    name: getattr(priors, name)
    for name in ("Normal", "LogNormal", "HalfNormal", "HalfCauchy", "Uniform", "Exponential", "Gamma", "InverseGamma")
}


def read_prior(text: Any, where: str) -> Any:
    """A number, or a prior such as ``"LogNormal(0, 1)"``."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return number_of(text, where)
    if not isinstance(text, str) or len(text) > 200:
        raise ModelError(f'{where} must be a number or a prior such as "LogNormal(0, 1)"; got {text!r:.80}.')
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in _PRIORS:
        raise ModelError(f"{where} must be a number or one of {', '.join(_PRIORS)} with numbers; got {text!r}.")
    try:
        args = [float(ast.literal_eval(a)) for a in call.args]
        named = {str(k.arg): float(ast.literal_eval(k.value)) for k in call.keywords}
        _PRIORS[call.func.id](*args, **named, validate_args=True)
    except (TypeError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ModelError(f"{where}: {text!r} is not a prior: {str(error).splitlines()[0][:150]}") from None
    return _PRIORS[call.func.id](*args, **named)


def section_of(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of the file; empty if it is not there."""
    section = content.get(name, {})
    if not isinstance(section, Mapping):
        raise ModelError(f"[{name}] must be a section; got {section!r:.80}.")
    return section


def refuse_unknown(section: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """Refuse entries that nobody knows."""
    for name in section:
        if name not in known:
            raise ModelError(f"{where} has {name!r:.80}; it may have {', '.join(known)}.")


def choose(value: Any, among: Mapping[str, Any], where: str) -> Any:
    """What a name stands for, among those there are."""
    if not isinstance(value, str) or value not in among:
        raise ModelError(f"{where} must be one of {', '.join(among)}; got {value!r:.80}.")
    return among[value]


def texts_of(value: Any, where: str) -> list[str]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ModelError(f"{where} must be a list of texts; got {value!r:.80}.")
    return value


def list_of(value: Any, where: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ModelError(f"[model] {where} must be a list; got {value!r:.80}.")
    return value


def entries_of(value: Any, where: str) -> list[tuple[str, Any]]:
    """The entries of a table."""
    if not isinstance(value, Mapping):
        raise ModelError(f"[model] {where} must be a table; got {value!r:.80}.")
    return list(value.items())


def number_of(value: Any, where: str) -> float:
    """A finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise ModelError(f"{where} must be a finite number; got {value!r:.80}.")
    return float(value)


def read_text(file: Path, most: int) -> str:
    """The text of a file of at most ``most`` bytes."""
    if not file.is_file():
        raise DataError(f"there is no file {file}.")
    if file.stat().st_size > most:
        raise DataError(f"{file} has {file.stat().st_size} bytes; at most {most} are read.")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is not text in UTF-8.") from None
