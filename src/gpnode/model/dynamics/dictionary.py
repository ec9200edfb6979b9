"""Unknown equations as sparse combinations of candidate terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.data.scaling import Scaling
from gpnode.errors import ModelError
from gpnode.model.dynamics.base import BoundDynamics, Dynamics, Named, traced_digest
from gpnode.model.dynamics.terms import Library, Term
from gpnode.model.dynamics.writing import CandidateTerm, RightSide
from gpnode.model.priors.parameters import Block, Values
from gpnode.model.priors.sparsity import CoefficientPrior
from gpnode.model.priors.spike_and_slab import SpikeAndSlab

_NAMES_SHOWN = 8


class Dictionary(Dynamics):
    """Each equation is a combination of candidate terms with unknown, mostly zero, coefficients.

    Parameters
    ----------
    states
        Names of the states whose equations are sought.
    library
        Candidate terms for all equations, or ``{state: library}``.
    prior
        Prior of the coefficients on scaled states and time; by default :class:`SpikeAndSlab`.
    inputs
        States the terms may use; by default ``states``.
    fixed
        ``{(state, term name): value}``: coefficients known in the user's units.
    forbidden
        ``[(state, term name), ...]``: coefficients known to be zero.
    mask
        The same as an array (states, terms): False where a coefficient is known to be zero.

    Examples
    --------
    >>> sought = gn.Dictionary(["x", "y"], gn.polynomial(degree=2), forbidden=[("y", "x^2")])
    """

    states: tuple[str, ...] = eqx.field(static=True)
    libraries: tuple[Library, ...] = eqx.field(static=True)
    inputs: tuple[str, ...] = eqx.field(static=True)
    fixed: tuple[tuple[str, str, float], ...] = eqx.field(static=True)
    forbidden: tuple[tuple[str, str], ...] = eqx.field(static=True)
    prior: CoefficientPrior | None

    def __init__(
        self,
        states: Sequence[str],
        library: Library | Mapping[str, Library],
        *,
        prior: CoefficientPrior | None = None,
        inputs: Sequence[str] | None = None,
        fixed: Mapping[tuple[str, str], float] | None = None,
        forbidden: Sequence[tuple[str, str]] = (),
        mask: Any = None,
    ) -> None:
        self.states = tuple(states)
        self.inputs = tuple(inputs) if inputs is not None else self.states
        if isinstance(library, Mapping):
            if set(library) != set(self.states):
                raise ModelError(
                    f"give one library for each of {', '.join(self.states)}; got libraries for {', '.join(library)}."
                )
            self.libraries = tuple(library[s] for s in self.states)
        else:
            self.libraries = (library,) * len(self.states)
        self.prior = prior
        if prior is not None and not isinstance(prior, CoefficientPrior):
            raise ModelError(
                f"prior must come from gpnode.priors, such as FinnishHorseshoe() or priors.Laplace(); got {prior!r}."
            )
        self.fixed = tuple((s, t, float(v)) for (s, t), v in (fixed or {}).items())
        self.forbidden = tuple((str(s), str(t)) for s, t in forbidden)
        if mask is not None:
            self.forbidden += self._forbidden_by(mask)
        self._check_named()

    def __repr__(self) -> str:
        names = list(dict.fromkeys(t.name for library in self.libraries for t in library.terms(self.inputs)))
        more = f", ... ({len(names)} terms)" if len(names) > _NAMES_SHOWN else ""
        prior = "" if self.prior is None else f", prior={self.prior!r}"
        return f"Dictionary({', '.join(self.states)}; {', '.join(names[:_NAMES_SHOWN])}{more}{prior})"

    @property
    def _prior(self) -> CoefficientPrior:
        return SpikeAndSlab() if self.prior is None else self.prior

    def completed(self, prior: CoefficientPrior) -> Dictionary:
        return self if self.prior is not None else eqx.tree_at(lambda d: d.prior, self, prior, is_leaf=_is_none)

    @property
    def terms(self) -> tuple[Term, ...]:
        """All candidate terms, over equations."""
        by_name: dict[str, Term] = {}
        for library in self.libraries:
            for term in library.terms(self.inputs):
                if by_name.setdefault(term.name, term) != term:
                    raise ModelError(f"two equations use different terms named {term.name!r}. Rename one of them.")
        return tuple(by_name.values())

    def masks(self) -> tuple[np.ndarray, np.ndarray]:
        """``free`` (states, terms) marks inferred coefficients; ``known`` holds the others, in user units."""
        names = [t.name for t in self.terms]
        free = np.zeros((len(self.states), len(names)), dtype=bool)
        for i, library in enumerate(self.libraries):
            free[i, [names.index(t.name) for t in library.terms(self.inputs)]] = True
        known = np.zeros(free.shape)
        for state, term, value in self.fixed:
            known[self.states.index(state), names.index(term)] = value
            free[self.states.index(state), names.index(term)] = False
        for state, term in self.forbidden:
            free[self.states.index(state), names.index(term)] = False
        return free, known

    def _forbidden_by(self, mask: Any) -> tuple[tuple[str, str], ...]:
        names = [t.name for t in self.terms]
        allowed = np.asarray(mask)
        if allowed.shape != (len(self.states), len(names)) or allowed.dtype != bool:
            raise ModelError(
                f"mask must be true or false for each of {len(self.states)} equations and {len(names)} terms "
                f"({', '.join(names)}); got an array of shape {allowed.shape} and type {allowed.dtype}."
            )
        return tuple((self.states[i], names[k]) for i, k in np.argwhere(~allowed))

    def bind(self, states: tuple[str, ...], scaling: Scaling, num_observations: int, prefix: str) -> BoundDictionary:
        for name in self.inputs:
            if name not in states:
                raise ModelError(f"the dictionary uses {name!r}, which is not a state; states are {', '.join(states)}.")
        terms = self.terms
        scale = {s: float(scaling.state_scale[i]) for i, s in enumerate(states)}
        size = np.array([t.magnitude(scale) for t in terms])
        # One unit of scaled coefficient is this much in the user's units.
        unit = np.array([[scale[s] / float(scaling.time_unit) / g for g in size] for s in self.states])
        free, known = self.masks()
        if not free.any():
            raise ModelError("the dictionary has no free coefficient. Use KnownForm, or free some terms.")
        where = np.argwhere(free)
        name = f"{prefix}coef"
        return BoundDictionary(
            block=self._prior.bind(name, tuple(int(i) for i in where[:, 0]), num_observations),
            scaling=scaling,
            magnitude=jnp.asarray(size),
            unit=jnp.asarray(unit),
            known=jnp.asarray(known),
            name=name,
            all_states=states,
            states=self.states,
            inputs=self.inputs,
            terms=tuple(t.shared(self.inputs) for t in terms),
            free=tuple((int(i), int(k)) for i, k in where),
            fixed=tuple((int(i), int(k)) for i, k in np.argwhere(known != 0)),
        )

    def describe(self, states: tuple[str, ...]) -> dict[str, Any]:
        free, known = self.masks()
        return {
            "kind": "dictionary",
            "states": list(self.states),
            "inputs": list(self.inputs),
            "terms": [t.name for t in self.terms],
            "digest": traced_digest(lambda x: {t.name: t(x) for t in self.terms}, self.inputs),
            "free": free.tolist(),
            "known": known.tolist(),
            "prior": self._prior.describe(),
        }

    def _check_named(self) -> None:
        names = [t.name for t in self.terms]
        for state, term in [*((s, t) for s, t, _ in self.fixed), *self.forbidden]:
            if state not in self.states:
                raise ModelError(f"{state!r} has no equation in this dictionary; it has {', '.join(self.states)}.")
            if term not in names:
                raise ModelError(f"there is no term {term!r}; the library has: {', '.join(names)}.")
        for state, term, _ in self.fixed:
            if (state, term) in self.forbidden:
                raise ModelError(f"the coefficient of {term!r} in {state!r} is both fixed and forbidden. Choose one.")


def _is_none(leaf: Any) -> bool:
    return leaf is None


class BoundDictionary(BoundDynamics):
    """``block`` holds the free coefficients as one vector, ordered like ``free`` (equation, term)."""

    block: Block
    scaling: Scaling
    magnitude: Array
    unit: Array
    known: Array
    name: str = eqx.field(static=True)
    all_states: tuple[str, ...] = eqx.field(static=True)
    states: tuple[str, ...] = eqx.field(static=True)
    inputs: tuple[str, ...] = eqx.field(static=True)
    terms: tuple[Term, ...] = eqx.field(static=True)
    free: tuple[tuple[int, int], ...] = eqx.field(static=True)
    fixed: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.block,)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return (self.name,)

    def features(self, x: Array) -> list[Array]:
        """Each term over its magnitude, at scaled states ``x`` (states,)."""
        named = Named({s: x[self.all_states.index(s)] for s in self.inputs})
        scale = {s: self.scaling.state_scale[self.all_states.index(s)] for s in self.inputs}
        return [jnp.asarray(t.scaled(named, scale, self.magnitude[k])) for k, t in enumerate(self.terms)]

    def vector_field(self, t: Array, x: Array, values: Values) -> Array:
        features, coef = self.features(x), values[self.name]
        known = self.known / self.unit
        slopes = {s: jnp.zeros(()) for s in self.all_states}
        for i, s in enumerate(self.states):
            for k, feature in enumerate(features):
                if (i, k) in self.free:
                    slopes[s] = slopes[s] + coef[self.free.index((i, k))] * feature
                elif (i, k) in self.fixed:
                    slopes[s] = slopes[s] + known[i, k] * feature
        return jnp.stack([slopes[s] for s in self.all_states])

    def right_sides(self) -> dict[str, RightSide]:
        formulas = [term.formula(self.inputs) for term in self.terms]
        unit = np.asarray(self.unit)
        acting = f"{self.name}.acting" if self.block.tells_acting else None

        def candidate(i: int, k: int) -> CandidateTerm:
            position = self.free.index((i, k)) if (i, k) in self.free else None
            return CandidateTerm(
                self.terms[k].name, formulas[k], self.name, (i, k), float(unit[i, k]), position, acting
            )

        return {
            state: RightSide(
                candidates=tuple(
                    candidate(i, k) for k in range(len(self.terms)) if (i, k) in self.free or (i, k) in self.fixed
                )
            )
            for i, state in enumerate(self.states)
        }

    def report(self, values: Values) -> Values:
        where = tuple(np.array(self.free).T)
        matrix = self.known.at[where].set(values[self.name] * self.unit[where])
        reported = {self.name: matrix}
        for parameter in self.block.parameters():
            if parameter.name != self.name:
                reported[parameter.name] = values[parameter.name]
        if self.block.tells_acting:
            fixed = jnp.asarray(self.known != 0, dtype=float)
            reported[f"{self.name}.acting"] = fixed.at[where].set(self.block.acting(values))
        return reported

    def dims(self) -> dict[str, dict[str, tuple[str, ...]]]:
        dims: dict[str, dict[str, tuple[str, ...]]] = {
            self.name: {f"{self.name}.state": self.states, f"{self.name}.term": tuple(t.name for t in self.terms)}
        }
        for parameter in self.block.parameters():
            if parameter.name != self.name:
                labels = (
                    self.states if parameter.shape == (len(self.states),) else tuple(map(str, range(parameter.size)))
                )
                dims[parameter.name] = {f"{parameter.name}.group": labels} if parameter.shape else {}
        if self.block.tells_acting:
            dims[f"{self.name}.acting"] = dims[self.name]
        return dims

    def constants(self) -> dict[str, Array]:
        mask = np.ones((len(self.states), len(self.terms)), dtype=bool)
        mask[tuple(np.array(self.free).T)] = False
        # Probabilities follow from what is inferred, and are not inferred themselves.
        follows = {f"{self.name}.acting": jnp.ones(mask.shape, dtype=bool)} if self.block.tells_acting else {}
        return {self.name: jnp.asarray(mask)} | follows
