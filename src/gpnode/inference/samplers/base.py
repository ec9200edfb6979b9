"""The seam of samplers: what every method of a fit provides, and what chains ask of a sampler.

A method is one frozen dataclass: its fields are its settings. :class:`Sampler` is a method that runs Markov chains,
``init`` and ``step`` being pure functions of a state; how chains run, where they are kept and when they stop is
not its business.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.inference.checks import Check
from gpnode.inference.starting.settings import Search
from gpnode.inference.stopping.schedule import Stopping
from gpnode.inference.whitening import Whitening
from gpnode.problem.density import Problem

if TYPE_CHECKING:
    import xarray as xr

    from gpnode.inference.sampled import Sampled
    from gpnode.inference.starting.start import Start


class ChainRunner(Protocol):
    """Runs the chains of a sampler, or reads what they left behind."""

    def run(self, sampler: Sampler, start: Start, points: Sequence[np.ndarray], key: Array) -> tuple[Start, Sampled]:
        """What the chains made from ``points``, and the start they had: another one if steps had to be finer."""
        ...


class Method(ABC):
    """A way to get draws from a posterior. Subclasses are frozen dataclasses; registered, files can name them."""

    name: ClassVar[str]
    """How problem files call it."""
    is_sample: ClassVar[bool] = True
    """True for Markov chains, False for an approximation."""
    needs_normal_noise: ClassVar[bool] = False
    """True if it cannot do without."""
    alternative: ClassVar[str] = ""
    """What else to try where it cannot follow the posterior, as the beginning of a list."""
    draws: Any
    """How many draws to make, in all or of each chain; None for as many as it takes."""
    search: Any
    """Settings of the search for a start."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # else dataclasses would make one that shows every setting
            cls.__repr__ = Method.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """As one would write it: only what is not the default."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        shown = [(f.name, getattr(self, f.name)) for f in fields if getattr(self, f.name) != _default_of(f)]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown)})"

    @abstractmethod
    def draw(
        self, start: Start, points: Sequence[np.ndarray], key: Array, chains: ChainRunner
    ) -> tuple[Start, Sampled]:
        """Draws from ``start``, and the start they came from; ``points`` are one for each chain."""

    def pilot(self) -> Sampler | None:
        """The sampler of short chains that show the way where equations cannot follow the data; None for none.

        It has settings :class:`~gpnode.inference.starting.settings.Piloting` as its field ``piloting``.
        """
        return None

    @property
    def num_chains(self) -> int:
        """How many chains it runs; zero for an approximation."""
        return 0

    def checks(self, stats: xr.Dataset, details: Mapping[str, Any]) -> list[Check]:
        """What only this method knows about its draws, for the verdict. ``details`` are those of its record."""
        return []

    def same_but_for_length(self, other: Method) -> bool:
        """Whether the other makes the same draws, perhaps more or fewer of them."""
        return type(self) is type(other) and dataclasses.replace(self, draws=other.draws) == other  # type: ignore[type-var]

    def describe(self) -> dict[str, Any]:
        """Settings in a form JSON can hold; groups of settings only where they are not the default."""
        described: dict[str, Any] = {}
        for setting in dataclasses.fields(self):  # type: ignore[arg-type]
            value: Any = getattr(self, setting.name)
            if not dataclasses.is_dataclass(value):
                described[setting.name] = value
            elif value != _default_of(setting):
                described[setting.name] = dataclasses.asdict(value)  # type: ignore[arg-type]
        return described

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Method:
        """The method that :meth:`describe` described."""
        groups = {f.name: f.default_factory for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return cls(**{k: _read_group(groups.get(k), v) for k, v in settings.items()})


def _default_of(setting: dataclasses.Field[Any]) -> Any:
    return setting.default if setting.default_factory is dataclasses.MISSING else setting.default_factory()


def _read_group(kind: Any, value: Any) -> Any:
    return kind(**{k: _as_tuple(v) for k, v in value.items()}) if isinstance(value, Mapping) else value


def _as_tuple(value: Any) -> Any:
    """Lists, as files have them, as the tuples that settings are."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


class Transition(NamedTuple):
    """The least that a step leaves behind; samplers may have tuples with more fields.

    ``draw`` (size,) is unconstrained, ``failure`` the status of a failed solve that stopped the step. No draw is
    kept from before the last step that was ``warming`` up: a sampler that begins to adapt again begins anew.
    """

    draw: Array
    log_density: Array
    diverging: Array
    failure: Array
    warming: Array


@dataclass(frozen=True)
class Chunking:
    """How chains are cut into chunks. It changes when progress shows, and no bit of the draws."""

    most_steps: int = 100
    """Room for the draws of a chunk."""
    first_steps: int = 5
    """In the first chunk, before the speed is known."""
    seconds: float = 1.5
    """Aim for a chunk, so that progress shows and an interrupt is answered."""


@dataclass(frozen=True)
class Sampler(Method):
    """A method that runs Markov chains.

    ``draws`` per chain are kept; by default those of ``stopping``: as many as it takes for chains to agree.
    """

    draws: int | None = None
    warmup: int = 400
    chains: int = 4
    search: Search = field(default_factory=Search)
    stopping: Stopping = field(default_factory=Stopping)
    chunking: Chunking = field(default_factory=Chunking)

    least: ClassVar[Mapping[str, int]] = {"draws": 4, "warmup": 20, "chains": 1}
    """Smallest values of settings."""

    def __post_init__(self) -> None:
        for name, least in self.least.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}.")

    @property
    def num_chains(self) -> int:
        return self.chains

    @abstractmethod
    def init(self, problem: Problem, whitening: Whitening, z: Array, key: Array) -> Any:
        """The state, a tuple of arrays, before the first step from ``z`` (size,), in coordinates of ``whitening``."""

    @abstractmethod
    def step(self, problem: Problem, whitening: Whitening, state: Any) -> tuple[Any, Any]:
        """One step: the state after it, and a :class:`Transition` or a tuple with its fields and more."""

    def blank(self, size: int) -> Any:
        """The transition of a step not yet taken, with a draw (size,)."""
        no = jnp.asarray(False)
        return Transition(jnp.zeros(size), jnp.zeros(()), no, jnp.zeros((), dtype=int), no)

    def same_but_for_length(self, other: Method) -> bool:
        chunking = getattr(other, "chunking", self.chunking)
        return Method.same_but_for_length(dataclasses.replace(self, chunking=chunking), other)

    def for_steps(self) -> Sampler:
        """The same sampler without what does not enter a step: code is not compiled anew for each value of that."""
        changed = {"draws": None, "chains": 1, "search": Search(), "stopping": Stopping(), "chunking": Chunking()}
        return dataclasses.replace(self, **changed)  # type: ignore[arg-type]

    def draw(
        self, start: Start, points: Sequence[np.ndarray], key: Array, chains: ChainRunner
    ) -> tuple[Start, Sampled]:
        return chains.run(self, start, points, key)
