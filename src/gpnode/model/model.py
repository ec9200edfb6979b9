"""What the user states: dynamics, initial values, and how measurements scatter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from numbers import Real
from typing import Any, TypeVar

import numpyro.distributions as dist

from gpnode.errors import ModelError
from gpnode.model.dynamics import Dynamics
from gpnode.model.functions import check_priors, describe_prior
from gpnode.model.observation.formula_noise import FormulaNoise
from gpnode.model.observation.kernels import Kernel, SquaredExponential
from gpnode.model.observation.noise import CombinedNoise, Noise, NoiseModel
from gpnode.model.observation.observables import Observable
from gpnode.model.observation.transforms import Identity, Transform
from gpnode.model.priors.distributions import describe_hyper, write_prior
from gpnode.model.priors.given import Given
from gpnode.solvers import Solver

Spec = TypeVar("Spec")


@dataclass(frozen=True)
class Around:
    """Initial value inferred around the first measurement of its variable.

    The prior is normal, ``width`` times as wide as the standard deviation of all measurements of the
    variable; on the log scale it is log-normal with that ``width``.

    >>> free = gn.Model(model.dynamics, initial={"x": gn.Around(width=2.0)})
    """

    width: float = 1.0


@dataclass(frozen=True, repr=False)
class Model:
    """Equations of motion with everything that is uncertain about them.

    Parameters
    ----------
    dynamics
        :class:`KnownForm`, :class:`Dictionary`, or a :class:`Sum` of both.
    initial
        For each state its value at the start: a number (known), a numpyro distribution (in the
        user's units), a function of parameters ``p -> value``, or ``Around()``, which is the default for observed
        states. To tell experiments apart, give ``{experiment: ...}`` in its place.
    kernel
        Gaussian process for what the ODE leaves unexplained, for all observed variables or
        ``{variable: kernel}``. ``None`` leaves independent noise. Variables not named keep the default.
    noise
        Measurement noise, for all observed variables or ``{variable: noise}``. By default additive and proportional
        at once (:class:`CombinedNoise`), and :class:`Noise` on the log scale. :class:`StudentNoise` has outliers,
        :class:`PoissonNoise` and :class:`NegativeBinomialNoise` are for counts; these have no process on top.
    transform
        Scale on which measurements scatter: ``Identity()``, ``Log()``, or ``{variable: ...}``.
    observables
        Measured variables that are no states: ``{variable: Observable(function, priors)}``, or a function alone.
        Kernel, noise and transform are given for them as for states.
    parameters
        Priors, or known numbers, of further parameters that functions of initial values, inputs, observables and noise
        may use, and equations do not.
    at_rest
        True if each experiment begins at rest: at the steady state that the system, left alone, goes to from
        ``initial``. What acted on it then are the inputs of the start, or those of ``Experiment(before=...)``.
    solver
        Backend for the initial value problem: by default :class:`Native` code where the equations
        allow it, else array code (:class:`FixedGrid`). :class:`Stiff` is for stiff systems.
    scales
        Typical magnitude of states that have neither data nor a known initial value, and of observables.
    time_unit
        Characteristic time of the dynamics in the user's unit; by default read off the data.

    Examples
    --------
    >>> decay = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    >>> model = gn.Model(decay, noise=gn.Noise(std=0.1, relative=False), kernel=None)
    """

    dynamics: Dynamics
    initial: Mapping[str, Any] = field(default_factory=dict)
    kernel: Kernel | Mapping[str, Kernel | None] | None = field(default_factory=SquaredExponential)
    noise: NoiseModel | Mapping[str, NoiseModel] | None = None
    transform: Transform | Mapping[str, Transform] = field(default_factory=Identity)
    solver: Solver | None = None
    scales: Mapping[str, float] = field(default_factory=dict)
    time_unit: float | None = None
    observables: Mapping[str, Observable | Callable[..., Any]] = field(default_factory=dict)
    at_rest: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.dynamics, Dynamics):
            got = type(self.dynamics).__name__
            raise ModelError(f"dynamics must be such as KnownForm(...), Dictionary(...) or Sum(...); got {got}.")
        for what, more in (("initial", ()), ("scales", self.observables)):
            for name in getattr(self, what):
                if name not in self.states and name not in more:
                    raise ModelError(
                        f"{what} names {name!r}, which is not a state; states are {', '.join(self.states)}."
                    )
        check_priors(self.parameters, also=Real | Given)
        for name in self.observables:
            if name in self.states:
                raise ModelError(f"{name!r} is a state, which is measured as it is; call the observable otherwise.")
            self.observable_of(name)  # refuses what is no function
        seams: tuple[tuple[str, type, str], ...] = (
            ("kernel", Kernel, "kernels.Matern32()"),
            ("noise", NoiseModel, "Noise(std=0.1)"),
            ("transform", Transform, "Log()"),
        )
        for what, kind, example in seams:
            setting = getattr(self, what)
            for one in setting.values() if isinstance(setting, Mapping) else [setting]:
                if not isinstance(one, kind) and not (what != "transform" and one is None):
                    raise ModelError(f"{what} must be an object such as {example}; got {one!r}.")
        if self.solver is not None and not isinstance(self.solver, Solver):
            raise ModelError(f"solver must be an object such as Adaptive() or Stiff(); got {self.solver!r}.")
        for name, scale in self.scales.items():
            if not scale > 0:
                raise ModelError(f"the scale of {name!r} must be positive; got {scale}.")
        if self.time_unit is not None and not self.time_unit > 0:
            raise ModelError(f"time_unit must be positive; got {self.time_unit}.")

    def __repr__(self) -> str:
        """As one would write it: only what is not the default."""
        given = [f"{f.name}={_write(getattr(self, f.name))}" for f in fields(self)[1:] if not _is_default(self, f)]
        return f"Model({', '.join([repr(self.dynamics), *given])})"

    @property
    def states(self) -> tuple[str, ...]:
        return self.dynamics.states

    def observable_of(self, variable: str) -> Observable:
        """How a measured variable that is no state follows from the states."""
        found = self.observables[variable]
        return found if isinstance(found, Observable) else Observable(found)

    def measuring_priors(self) -> dict[str, Any]:
        """Priors, or known values, of the parameters of all observables, and those that equations do not use."""
        priors: dict[str, Any] = dict(self.parameters)
        for name in priors:
            if name in self.dynamics.numbers or name in self.states:
                raise ModelError(f"{name!r} in parameters is in the equations already; leave it out.")
        for variable in self.observables:
            for name, prior in self.observable_of(variable).priors.items():
                if name in self.dynamics.numbers or name in self.states:
                    raise ModelError(f"{name!r} in the observable {variable!r} has its prior already; leave it out.")
                if name in priors and describe_prior(prior) != describe_prior(priors[name]):
                    raise ModelError(f"{name!r} has another prior in {variable!r} than elsewhere. Give one for all.")
                priors[name] = prior
        return priors

    def given(self) -> dict[str, str]:
        """What experiments give: the names users know, by full name."""
        measuring = {n: n for n, p in self.measuring_priors().items() if isinstance(p, Given)}
        return self.dynamics.given("") | measuring

    def kernel_of(self, variable: str) -> Kernel | None:
        if not self.noise_of(variable).is_normal:
            if isinstance(self.kernel, Mapping) and self.kernel.get(variable) is not None:
                raise ModelError(f"{variable!r} has noise that is not normal, which no process can be added to.")
            return None
        return _pick(self.kernel, variable, SquaredExponential())

    def noise_of(self, variable: str) -> NoiseModel:
        noise = _pick(self.noise, variable, None)
        if noise is None:
            return CombinedNoise() if self.transform_of(variable).keeps_units else Noise()
        in_units = noise.follows_level or not (noise.is_normal or isinstance(noise, FormulaNoise))
        if in_units and not self.transform_of(variable).keeps_units:
            raise ModelError(
                f"{variable!r} is measured on a scale on which all noise is proportional; give Noise(std=...) for it."
            )
        return noise

    def transform_of(self, variable: str) -> Transform:
        return _pick(self.transform, variable, Identity())

    def describe(self) -> dict[str, Any]:
        """Everything that defines the posterior, in a form JSON can hold."""
        return {
            "dynamics": self.dynamics.describe(self.states),
            "initial": {s: _describe_initial(v) for s, v in self.initial.items()},
            "kernel": _describe_each(self.kernel, lambda k: None if k is None else k.describe()),
            "noise": _describe_each(self.noise, lambda n: None if n is None else n.describe()),
            "transform": _describe_each(self.transform, lambda t: type(t).__name__),
            "solver": None if self.solver is None else {"kind": type(self.solver).__name__, **vars(self.solver)},
            "scales": {s: float(v) for s, v in self.scales.items()},
            "time_unit": self.time_unit,
            **({"at_rest": True} if self.at_rest else {}),
            **({"parameters": {n: describe_prior(p) for n, p in self.parameters.items()}} if self.parameters else {}),
            **({"observables": described} if (described := self._describe_observables()) else {}),
        }

    def _describe_observables(self) -> dict[str, Any]:
        names = (*self.dynamics.numbers, *self.measuring_priors())
        return {name: self.observable_of(name).describe(self.states, names) for name in self.observables}


def _is_default(model: Model, setting: Any) -> bool:
    value = getattr(model, setting.name)
    default = setting.default if setting.default_factory is MISSING else setting.default_factory()
    return value is default or repr(value) == repr(default)


def _write(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {_write(one)}' for name, one in value.items())}}}"
    return write_prior(value) if isinstance(value, dist.Distribution) else repr(value)


def _pick(setting: Any, variable: str, default: Any) -> Any:
    """The setting of one variable, from one for all or one for each."""
    if not isinstance(setting, Mapping):
        return setting
    return setting.get(variable, default)


def _describe_each(setting: Any, describe: Any) -> Any:
    if isinstance(setting, Mapping):
        return {name: describe(one) for name, one in setting.items()}
    return describe(setting)


def _describe_initial(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(t): _describe_initial(v) for t, v in value.items()}
    if isinstance(value, Around):
        return {"around_first": value.width}
    if isinstance(value, dist.Distribution | Real):
        return describe_hyper(value)
    if callable(value):
        return "formula"  # whose digest is in the fingerprint
    raise ModelError(f"an initial value must be a number, a distribution or Around(); got {type(value).__name__}.")
