"""A whole problem in one TOML file: data, equations or dictionary, priors, sampler."""

from __future__ import annotations

import ast
import datetime
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpnode._files import write_text
from gpnode.data.observations import Observations
from gpnode.errors import DataError, ModelError
from gpnode.formats.formula import Formula, parse, parse_equations
from gpnode.inference.samplers.laplace import Laplace
from gpnode.inference.samplers.lifted.sampler import Lifted
from gpnode.inference.samplers.nuts import NUTS
from gpnode.model import priors
from gpnode.model.dynamics import Dictionary, Dynamics, KnownForm, Named, Sum, polynomial, term
from gpnode.model.model import Around, Model
from gpnode.model.observation import kernels
from gpnode.model.observation.noise import Noise
from gpnode.model.observation.transforms import Identity, Log
from gpnode.solvers import Adaptive, Stiff

LARGEST_FILE = 200_000_000  # bytes of a table of measurements
_LARGEST_PROBLEM = 1_000_000
_MOST_TERMS = 2000
_PRIORS = {
    name: getattr(priors, name)
    for name in ("Normal", "LogNormal", "HalfNormal", "Uniform", "Exponential", "Gamma", "InverseGamma")
}
_KERNELS = {name: getattr(kernels, name) for name in ("SquaredExponential", "Matern12", "Matern32", "Matern52")}
_METHODS = {"lifted": Lifted, "nuts": NUTS, "laplace": Laplace}
_TRANSFORMS = {"none": Identity, "log": Log}
_SECTIONS = ("data", "model", "parameters", "initial", "kernel", "noise", "transform", "sampler")


@dataclass(frozen=True)
class ProblemFile:
    """What a file asks for. ``content`` is the file as read, to be kept with the results."""

    data: Observations
    model: Model
    method: Lifted | NUTS | Laplace | None
    seed: int
    content: dict[str, Any]
    data_file: Path


def read_problem(path: str | Path, content: dict[str, Any] | None = None) -> ProblemFile:
    """Read ``problem.toml`` and the table of measurements it names; or take ``content`` as if it stood there."""
    file = Path(path)
    if content is None:
        try:
            content = tomllib.loads(_read_text(file, _LARGEST_PROBLEM))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ModelError(f"{file} is not a TOML file: {str(error)[:200]}") from None
    _only(content, _SECTIONS, "the file")
    sections = {name: _section(content, name) for name in _SECTIONS}
    data = read_data(file.parent, sections["data"])
    model = read_model(data, sections)
    sampler = dict(sections["sampler"])
    seed = sampler.pop("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise ModelError(f"[sampler] seed must be a whole number from 0 up; got {seed!r:.80}.")
    return ProblemFile(data, model, _method(sampler), seed, content, file.parent / sections["data"]["file"])


def write_problem(content: Mapping[str, Any], path: Path) -> None:
    """Write sections as a TOML file that :func:`read_problem` reads back to the same content."""
    lines: list[str] = []
    for section, entries in content.items():
        lines += [f"[{section}]", *(f"{_key(name)} = {_toml(value)}" for name, value in entries.items()), ""]
    write_text(path, "\n".join(lines))


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float | int):
        return repr(value)
    return f"{value.isoformat()}"  # dates and times, the only other things TOML has


def read_data(folder: Path, section: Mapping[str, Any]) -> Observations:
    """The table of measurements that ``[data]`` names."""
    if "trajectory" in section:  # the old name
        section = {"experiment" if k == "trajectory" else k: v for k, v in section.items()}
    _only(section, ("file", "time", "variables", "variable", "value", "experiment", "start", "time_unit"), "[data]")
    if not isinstance(section.get("file"), str):
        raise ModelError('[data] needs file = "measurements.csv".')
    file = folder / section["file"]
    _read_size(file, LARGEST_FILE)
    for name in ("time", "variable", "value", "experiment", "time_unit"):
        if not isinstance(section.get(name, ""), str):
            raise ModelError(f"[data] {name} must be a text; got {section[name]!r:.80}.")
    _texts(section.get("variables", []), "[data] variables")
    given = {k: v for k, v in section.items() if k != "file"}
    if "start" in section:
        given["start"] = _start(section["start"])
    return Observations.from_csv(file, **given)


def _start(value: Any) -> Any:
    """A time: a number or a date; or one for each experiment."""
    if isinstance(value, Mapping):
        return {str(run): _start(own) for run, own in value.items()}
    if isinstance(value, str | datetime.date):
        return str(value)
    return _number(value, "[data] start")


def read_model(data: Observations, sections: Mapping[str, Mapping[str, Any]]) -> Model:
    """The model of ``[model]``, ``[parameters]``, ``[initial]``, ``[kernel]``, ``[noise]`` and ``[transform]``."""
    given, parameters = sections["model"], sections["parameters"]
    _only(
        given,
        ("equations", "states", "degree", "cross", "constant", "terms", "forbidden", "fixed", "solver", "scales"),
        "[model]",
    )
    parts: dict[str, Dynamics] = {}
    if "equations" in given:
        parts["known"] = _known_form(given["equations"], parameters)
    elif parameters:
        raise ModelError("[parameters] are for equations; this problem has none.")
    if "equations" not in given or any(k in given for k in ("degree", "terms")):
        states = tuple(_texts(given.get("states", list(data.variables)), "[model] states"))
        if "known" in parts:
            states = tuple(s for s in parts["known"].states if s in states or "states" not in given)
        parts["free"] = _dictionary(states, given)
    dynamics = next(iter(parts.values())) if len(parts) == 1 else Sum(**parts)
    initial = {str(s): _initial(v, f"[initial] {s}") for s, v in sections["initial"].items()}
    return Model(
        dynamics,
        initial=initial,
        kernel=_kernel(sections["kernel"]),
        noise=_noise(sections["noise"]),
        transform=_transform(sections["transform"]),
        solver=_solver(given.get("solver", "auto")),
        scales={str(s): _number(v, f"[model] scales {s}") for s, v in _mapping(given.get("scales", {}), "scales")},
    )


def read_prior(text: Any, where: str) -> Any:
    """A number, or a prior such as ``"LogNormal(0, 1)"``."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _number(text, where)
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


# -- parts -----------------------------------------------------------------------------------


def _known_form(lines: Any, parameters: Mapping[str, Any]) -> KnownForm:
    formulas = parse_equations(_texts(lines, "[model] equations"))
    given = {str(n): read_prior(v, f"[parameters] {n}") for n, v in parameters.items()}
    known = {*formulas, *given, "t"}
    for state, formula in formulas.items():
        for name in sorted(formula.names - known):
            raise ModelError(f"the equation of {state!r} uses {name!r}; give it a prior or a number in [parameters].")
    idle = [n for n in given if not any(n in f.names for f in formulas.values())]
    if idle:
        raise ModelError(f"[parameters] has {idle[0]!r}, which no equation uses.")
    for name in given:
        if name in formulas:
            raise ModelError(f"{name!r} is both a state and a parameter.")

    def slopes(t: Any, x: Named, p: Named) -> dict[str, Any]:
        values = {"t": t, **{s: x[s] for s in x}, **{n: p[n] for n in p}}
        return {state: formula(values) for state, formula in formulas.items()}

    return KnownForm(tuple(formulas), slopes, given)


def _dictionary(states: tuple[str, ...], given: Mapping[str, Any]) -> Dictionary:
    degree, cross = given.get("degree", 2), given.get("cross")
    for name, value in (("degree", degree), ("cross", cross if cross is not None else 0)):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 10:
            raise ModelError(f"[model] {name} must be a whole number up to 10; got {value!r:.80}.")
    if len(states) ** max(degree, 1) > _MOST_TERMS:
        raise ModelError(f"a library of degree {degree} in {len(states)} states is too large.")
    constant = given.get("constant", True)
    if not isinstance(constant, bool):
        raise ModelError(f"[model] constant must be true or false; got {constant!r:.80}.")
    library = polynomial(max(degree, 1), cross=cross, constant=constant)
    for text in _texts(given.get("terms", []), "[model] terms"):
        formula = parse(text)
        for name in sorted(formula.names - set(states)):
            raise ModelError(f"the term {text!r} uses {name!r}, which is not a state.")
        library = library + term(text, partial(_term_value, formula))
    forbidden = [tuple(_texts(pair, "[model] forbidden")) for pair in _list(given.get("forbidden", []), "forbidden")]
    if any(len(pair) != 2 for pair in forbidden):
        raise ModelError('[model] forbidden must be pairs such as ["hare", "1"].')
    fixed = {}
    for entry in _list(given.get("fixed", []), "fixed"):
        if not isinstance(entry, list) or len(entry) != 3:
            raise ModelError('[model] fixed must be triples such as ["hare", "hare", 0.5].')
        fixed[str(entry[0]), str(entry[1])] = _number(entry[2], "[model] fixed")
    return Dictionary(states, library, forbidden=forbidden, fixed=fixed)  # type: ignore[arg-type]


def _term_value(formula: Formula, x: Named) -> Any:
    return formula({s: x[s] for s in x})


def _initial(value: Any, where: str) -> Any:
    if isinstance(value, str) and value.strip() == "around first":
        return Around()
    if isinstance(value, Mapping):
        return {str(run): _initial(v, f"{where} {run}") for run, v in value.items()}
    return read_prior(value, where)


def _kernel(section: Mapping[str, Any]) -> Any:
    _only(section, ("kind", "variance", "length_scale"), "[kernel]")
    kind = _choice(section.get("kind", "SquaredExponential"), {"none": None, **_KERNELS}, "[kernel] kind")
    given = {k: read_prior(v, f"[kernel] {k}") for k, v in section.items() if k != "kind"}
    return None if kind is None else kind(**given)


def _noise(section: Mapping[str, Any]) -> Noise:
    _only(section, ("std", "var", "relative"), "[noise]")
    relative = section.get("relative", True)
    if not isinstance(relative, bool):
        raise ModelError(f"[noise] relative must be true or false; got {relative!r:.80}.")
    given = {k: read_prior(v, f"[noise] {k}") for k, v in section.items() if k != "relative"}
    return Noise(relative=relative, **given)


def _transform(section: Mapping[str, Any]) -> Any:
    """``kind`` for all variables, or one for each by its name."""
    found = {name: _choice(kind, _TRANSFORMS, f"[transform] {name}")() for name, kind in section.items()}
    if "kind" in found:
        _only(section, ("kind",), "[transform]")
        return found["kind"]
    return found or Identity()


def _solver(kind: Any) -> Any:
    return _choice(kind, {"auto": None, "adaptive": Adaptive(), "stiff": Stiff()}, "[model] solver")


def _method(section: dict[str, Any]) -> Lifted | NUTS | Laplace | None:
    name = section.pop("method", None)
    if name is None and not section:
        return None
    kind = _choice("lifted" if name is None else name, _METHODS, "[sampler] method")
    for setting, value in section.items():
        _number(value, f"[sampler] {setting}")
    try:
        return kind(**section)
    except (TypeError, ValueError) as error:
        raise ModelError(f"[sampler] {error}") from None


# -- checks ------------------------------------------------------------------------------------


def _section(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, Mapping):
        raise ModelError(f"[{name}] must be a section; got {found!r:.80}.")
    return found


def _only(section: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in section:
        if name not in known:
            raise ModelError(f"{where} has {name!r:.80}; it may have {', '.join(known)}.")


def _choice(value: Any, among: Mapping[str, Any], where: str) -> Any:
    if not isinstance(value, str) or value not in among:
        raise ModelError(f"{where} must be one of {', '.join(among)}; got {value!r:.80}.")
    return among[value]


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ModelError(f"{where} must be a list of texts; got {value!r:.80}.")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ModelError(f"[model] {where} must be a list; got {value!r:.80}.")
    return value


def _mapping(value: Any, where: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise ModelError(f"[model] {where} must be a table; got {value!r:.80}.")
    return list(value.items())


def _number(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value or abs(value) == float("inf"):
        raise ModelError(f"{where} must be a finite number; got {value!r:.80}.")
    return float(value)


def _read_size(file: Path, most: int) -> None:
    if not file.is_file():
        raise DataError(f"there is no file {file}.")
    if file.stat().st_size > most:
        raise DataError(f"{file} has {file.stat().st_size} bytes; at most {most} are read.")


def _read_text(file: Path, most: int) -> str:
    _read_size(file, most)
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is not text in UTF-8.") from None
