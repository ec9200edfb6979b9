"""A whole problem in one TOML file: data, equations or dictionary, priors, sampler."""

from __future__ import annotations

import datetime
import inspect
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import tomli_w

from gpnode._files import copy_file, write_text
from gpnode.data.observations import Observations
from gpnode.errors import ModelError
from gpnode.formats.base import Format, ProblemFile
from gpnode.formats.formula import Formula, parse, parse_equations
from gpnode.formats.toml_experiments import FILES, delay_names, event_names, given_names, read_done
from gpnode.formats.toml_formulas import formulas_of, known_form, observable, since_last_of
from gpnode.formats.toml_values import (
    choose,
    entries_of,
    list_of,
    number_of,
    read_prior,
    read_text,
    refuse_unknown,
    section_of,
    texts_of,
)
from gpnode.inference.samplers.base import Method
from gpnode.inference.samplers.registry import METHODS
from gpnode.model.dynamics import Dictionary, Dynamics, Named, Sum, polynomial, term
from gpnode.model.model import Around, Model
from gpnode.model.observation.kernels import KERNELS
from gpnode.model.observation.noise import Noise, NoiseModel
from gpnode.model.observation.registry import NOISES
from gpnode.model.observation.transforms import TRANSFORMS, Identity
from gpnode.model.paper import paper_priors
from gpnode.model.priors.given import Given
from gpnode.model.priors.sparsity import COEFFICIENT_PRIORS, CoefficientPrior
from gpnode.model.priors.spike_and_slab import SpikeAndSlab
from gpnode.solvers import SOLVERS

_TABLE_TEXTS = ("time", "variable", "value", "experiment", "time_unit", "decimal", "separator", "sheet")
_LARGEST_PROBLEM = 1_000_000
_MOST_TERMS = 2000
_SECTIONS = (
    "data",
    "experiments",
    "model",
    "parameters",
    "observables",
    "initial",
    "kernel",
    "noise",
    "transform",
    "sampler",
)


class ProblemToml(Format):
    """``problem.toml`` beside a table of measurements."""

    name: ClassVar[str] = "toml"
    suffixes: ClassVar[tuple[str, ...]] = (".toml",)

    def read(self, path: Path) -> ProblemFile:
        return read_problem(path)

    def write(self, problem: ProblemFile, folder: Path) -> None:
        content = dict(problem.content)
        content["data"] = {**content["data"], "file": _kept(problem.folder / content["data"]["file"], folder)}
        if "experiments" in content:
            content["experiments"] = {
                name: _kept(problem.folder / value, folder) if name in FILES and isinstance(value, str) else value
                for name, value in content["experiments"].items()
            }
        write_problem(content, folder / "problem.toml")


def _kept(file: Path, folder: Path) -> str:
    """The name of a file in a folder it is copied to, unless it is there."""
    if (folder / file.name).resolve() != file.resolve():
        copy_file(file, folder / file.name)
    return file.name


def read_problem(
    path: str | Path, content: dict[str, Any] | None = None, data: Observations | None = None
) -> ProblemFile:
    """Read ``problem.toml`` and the table of measurements it names; or take ``content`` as if it stood there.

    ``data`` is the table, if it was read already.
    """
    file = Path(path)
    if content is None:
        try:
            content = tomllib.loads(read_text(file, _LARGEST_PROBLEM))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ModelError(f"{file} is not a TOML file: {str(error)[:200]}") from None
    refuse_unknown(content, _SECTIONS, "the file")
    sections = {name: section_of(content, name) for name in _SECTIONS}
    data = read_data(file.parent, sections["data"]) if data is None else data
    if sections["experiments"]:
        states = states_of(sections["model"], data)
        data = data.with_experiments(read_done(file.parent, sections["experiments"], data.experiments, states))
    model = read_model(data, sections)
    sampler = dict(sections["sampler"])
    seed = sampler.pop("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise ModelError(f"[sampler] seed must be a whole number from 0 up; got {seed!r:.80}.")
    return ProblemFile(data, model, ProblemToml(), _method(sampler), seed, content, file.parent)


def write_problem(content: Mapping[str, Any], path: Path) -> None:
    """Write sections as a TOML file that :func:`read_problem` reads back to the same content."""
    write_text(path, tomli_w.dumps(content))


def read_data(folder: Path, section: Mapping[str, Any]) -> Observations:
    """The table of measurements that ``[data]`` names."""
    if "trajectory" in section:  # the old name
        section = {"experiment" if k == "trajectory" else k: v for k, v in section.items()}
    refuse_unknown(section, ("file", *_TABLE_TEXTS, "variables", "start", "replicates"), "[data]")
    if not isinstance(section.get("file"), str):
        raise ModelError('[data] needs file = "measurements.csv".')
    file = folder / section["file"]
    for name in _TABLE_TEXTS:
        if not isinstance(section.get(name, ""), str):
            raise ModelError(f"[data] {name} must be a text; got {section[name]!r:.80}.")
    if not isinstance(section.get("replicates", False), bool):
        raise ModelError(f"[data] replicates must be true or false; got {section['replicates']!r:.80}.")
    texts_of(section.get("variables", []), "[data] variables")
    options = {k: v for k, v in section.items() if k != "file"}
    if "start" in section:
        options["start"] = _start(section["start"])
    return Observations.from_file(file, **options)


def _start(value: Any) -> Any:
    """A time: a number or a date; or one for each experiment."""
    if isinstance(value, Mapping):
        return {str(run): _start(time) for run, time in value.items()}
    if isinstance(value, str | datetime.date):
        return str(value)
    return number_of(value, "[data] start")


def states_of(section: Mapping[str, Any], data: Observations) -> tuple[str, ...]:
    """States in the order of the file."""
    if "equations" in section:
        return tuple(parse_equations(texts_of(section["equations"], "[model] equations")))
    return tuple(texts_of(section.get("states", list(data.variables)), "[model] states"))


def read_model(data: Observations, sections: Mapping[str, Mapping[str, Any]]) -> Model:
    """The model of all sections but ``[data]``, ``[experiments]`` and ``[sampler]``."""
    section, parameters = sections["model"], sections["parameters"]
    refuse_unknown(
        section,
        (
            "equations",
            "states",
            "degree",
            "cross",
            "constant",
            "terms",
            "forbidden",
            "fixed",
            "prior",
            "priors",
            "solver",
            "scales",
            "at_rest",
        ),
        "[model]",
    )
    if not isinstance(section.get("at_rest", False), bool):
        raise ModelError(f"[model] at_rest must be true or false; got {section['at_rest']!r:.80}.")
    parts: dict[str, Dynamics] = {}
    given = given_names(data.done)
    observed = formulas_of(sections["observables"])
    growing = since_last_of(sections["observables"])
    own = {n: v for n, v in parameters.items() if any(n in formula.names for formula in observed.values())}
    if "equations" in section:
        delays, happening = delay_names(data.done), event_names(sections["experiments"])
        parts["known"] = known_form(section["equations"], parameters, set(own), given, delays, happening)
    elif set(parameters) - set(own):
        raise ModelError("[parameters] are for equations; this problem has none.")
    if "equations" not in section or any(k in section for k in ("degree", "terms")):
        measured = [variable for variable in data.variables if variable not in observed]
        states = tuple(texts_of(section.get("states", measured), "[model] states"))
        if "known" in parts:
            states = tuple(s for s in parts["known"].states if s in states or "states" not in section)
        parts["free"] = _dictionary(states, section)
    dynamics = next(iter(parts.values())) if len(parts) == 1 else Sum(**parts)
    named = choose(section.get("priors", "default"), {"default": None, "paper": paper_priors}, "[model] priors")
    initial = {str(s): _initial(v, f"[initial] {s}") for s, v in sections["initial"].items()}
    own = {n: read_prior(v, f"[parameters] {n}") for n, v in own.items() if n not in dynamics.numbers}
    own |= {n: Given() for n in sorted(given) if n not in dynamics.numbers}
    model = Model(
        dynamics,
        observables={v: observable(v, f, own, dynamics, v in growing) for v, f in observed.items()},
        initial=initial,
        kernel=_kernel(sections["kernel"]),
        noise=_noise(sections["noise"]),
        transform=_transform(sections["transform"]),
        solver=_solver(section.get("solver", "auto")),
        at_rest=section.get("at_rest", False),
        scales={
            str(s): number_of(v, f"[model] scales {s}") for s, v in entries_of(section.get("scales", {}), "scales")
        },
    )
    return model if named is None else named(model)


# -- parts -----------------------------------------------------------------------------------


def _dictionary(states: tuple[str, ...], section: Mapping[str, Any]) -> Dictionary:
    degree, cross = section.get("degree", 2), section.get("cross")
    for name, value in (("degree", degree), ("cross", cross if cross is not None else 0)):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 10:
            raise ModelError(f"[model] {name} must be a whole number up to 10; got {value!r:.80}.")
    if len(states) ** max(degree, 1) > _MOST_TERMS:
        raise ModelError(f"a library of degree {degree} in {len(states)} states is too large.")
    constant = section.get("constant", True)
    if not isinstance(constant, bool):
        raise ModelError(f"[model] constant must be true or false; got {constant!r:.80}.")
    library = polynomial(max(degree, 1), cross=cross, constant=constant)
    for text in texts_of(section.get("terms", []), "[model] terms"):
        formula = parse(text)
        for name in sorted(formula.names - set(states)):
            raise ModelError(f"the term {text!r} uses {name!r}, which is not a state.")
        library = library + term(text, partial(_term_value, formula))
    forbidden = [
        tuple(texts_of(pair, "[model] forbidden")) for pair in list_of(section.get("forbidden", []), "forbidden")
    ]
    if any(len(pair) != 2 for pair in forbidden):
        raise ModelError('[model] forbidden must be pairs such as ["hare", "1"].')
    fixed = {}
    for entry in list_of(section.get("fixed", []), "fixed"):
        if not isinstance(entry, list) or len(entry) != 3:
            raise ModelError('[model] fixed must be triples such as ["hare", "hare", 0.5].')
        fixed[str(entry[0]), str(entry[1])] = number_of(entry[2], "[model] fixed")
    prior = _coefficient_prior(section.get("prior"))
    return Dictionary(states, library, prior=prior, forbidden=forbidden, fixed=fixed)  # type: ignore[arg-type]


def _term_value(formula: Formula, x: Named) -> Any:
    return formula({s: x[s] for s in x})


def _initial(value: Any, where: str) -> Any:
    if isinstance(value, str) and value.strip() == "around first":
        return Around()
    if isinstance(value, Mapping):
        return {str(run): _initial(v, f"{where} {run}") for run, v in value.items()}
    return read_prior(value, where)


def _kernel(section: Mapping[str, Any]) -> Any:
    kind = choose(section.get("kind", "SquaredExponential"), {"none": None, **KERNELS}, "[kernel] kind")
    if kind is None:
        refuse_unknown(section, ("kind",), "[kernel] without a kernel")
        return None
    hyper = {k: v for k, v in section.items() if k != "kind"}
    refuse_unknown(hyper, _settings_of(kind), f"[kernel] of kind {kind.name}")
    return kind(**{k: _setting(v, f"[kernel] {k}") for k, v in hyper.items()})


def _noise(section: Mapping[str, Any]) -> NoiseModel | None:
    if not section:
        return None
    kind = choose(section.get("kind", Noise.name), NOISES, "[noise] kind")
    settings = {k: v for k, v in section.items() if k != "kind"}
    refuse_unknown(settings, _settings_of(kind), "[noise]")
    if not isinstance(settings.get("relative", True), bool):
        raise ModelError(f"[noise] relative must be true or false; got {settings['relative']!r:.80}.")
    return kind(**{k: _setting(v, f"[noise] {k}") for k, v in settings.items()})


def _coefficient_prior(value: Any) -> CoefficientPrior | None:
    """``"horseshoe"``, or a table with its ``kind`` and settings."""
    if value is None:
        return None
    section = value if isinstance(value, Mapping) else {"kind": value}
    kind = choose(section.get("kind", SpikeAndSlab.name), COEFFICIENT_PRIORS, "[model] prior")
    settings = {k: v for k, v in section.items() if k != "kind"}
    refuse_unknown(settings, _settings_of(kind), f"[model] prior of kind {kind.name}")
    return kind(**{k: _setting(v, f"[model] prior {k}") for k, v in settings.items()})


def _setting(value: Any, where: str) -> Any:
    """True or false, a number, or a prior."""
    return value if isinstance(value, bool) else read_prior(value, where)


def _settings_of(kind: type) -> tuple[str, ...]:
    """Names of what the constructor of a kind takes."""
    return tuple(inspect.signature(kind).parameters)


def _transform(section: Mapping[str, Any]) -> Any:
    """``kind`` for all variables, or one for each by its name."""
    transforms = {name: choose(kind, TRANSFORMS, f"[transform] {name}")() for name, kind in section.items()}
    if "kind" in transforms:
        refuse_unknown(section, ("kind",), "[transform]")
        return transforms["kind"]
    return transforms or Identity()


def _solver(kind: Any) -> Any:
    if kind == "auto":
        return None
    return choose(kind, {"auto": None, **SOLVERS}, "[model] solver")()


def _method(section: dict[str, Any]) -> Method | None:
    """The sampler with its settings; groups of settings are tables, such as ``[sampler.stopping]``."""
    name = section.pop("method", None)
    if name is None and not section:
        return None
    kind = choose("lifted" if name is None else name, METHODS, "[sampler] method")
    for setting, value in section.items():
        _refuse_text(value, f"[sampler] {setting}")
    try:
        return kind.from_settings(section)
    except (TypeError, ValueError) as error:
        raise ModelError(f"[sampler] {error}") from None


def _refuse_text(value: Any, where: str) -> None:
    """Settings are numbers, and lists and tables of numbers."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            _refuse_text(part, f"{where} {name}")
    elif isinstance(value, list):
        for part in value:
            _refuse_text(part, where)
    else:
        number_of(value, where)
