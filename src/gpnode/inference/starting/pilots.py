"""Where the mass of a posterior is, found by short chains from every start the search came upon.

Where the equations alone cannot follow the data, the highest points of the density do not tell. With a horseshoe prior
the highest is where all coefficients are zero, a spike without mass; others lie at the edge of blowing up, on paths
forced through the data. Chains leave such places within some hundred steps, and those that find good ones show it.

Left to themselves, most chains end in the same mode, and others as good are found by chance. What tells them apart is
which variables are left to their Gaussian processes, so for each there is a pilot that is first kept to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from gpnode.inference.maximum import Maximum, approximation_at
from gpnode.inference.running.chains import Chain, run_chains, start_chains
from gpnode.inference.samplers.lifted.sampler import Lifted, State
from gpnode.inference.starting.alternation import alternate
from gpnode.inference.starting.search import Candidate
from gpnode.inference.stopping.modes import far_behind
from gpnode.model.priors.ordering import sort_numbers
from gpnode.problem.density import Problem

_BLOCK, _MOST_BLOCKS = 200, 10  # steps of a chain between comparisons, and how often they go on
# A chain stays in the race unless its log density is lower than the best by so much per parameter: a region that has
# the same mass all the same would have to be wider by a factor of e in every direction.
_HOPELESS = 1.0
# Chains begin nearer yet: on human motion, the second mode of case A is half of what is far behind, and a place that
# holds up chains of case B for long is nine tenths of it.
_NEARER = 2 / 3
_RISING = 3.0  # nats in a block
_THINNED = 10
# Places differ if in some coordinate means are so many standard deviations apart. On human motion, case B, chains in
# one mode have 1, those in the two modes 7.
_APART, _MOST_PLACES = 3.0, 3
# Length scales of processes, in records, for a pilot that is to leave one variable to a short one; and how closely.
_SHORT, _LONG, _PINNED_STD = 0.04, 1.0, 0.25
_PINNED_BLOCKS = 3
_MOST_CUTS = 4  # steps, for every one of the grid: places that need more are about to blow up


class Place(NamedTuple):
    """Of the chains in one region: their ends, that of the leader first, and some of the draws they made there.

    Draws of a warm-up that is longer than the race are not kept.
    """

    ends: list[np.ndarray]
    draws: list[np.ndarray]

    def points(self, count: int) -> list[np.ndarray]:
        """So many points for chains to begin at: ends, and where there are not enough, draws far from each other."""
        missing = count - len(self.ends)
        others = self.draws or self.ends
        return [*self.ends[:count], *(others[(i * len(others)) // missing] for i in range(missing))]


class Pilots(NamedTuple):
    """The good regions that chains got into: that of the highest density, then those farthest from the ones before."""

    places: list[Place]

    def everywhere(self) -> list[np.ndarray]:
        """All ends and draws."""
        return [point for place in self.places for point in (*place.ends, *place.draws)]

    def points(self, count: int) -> list[np.ndarray]:
        """Points for ``count`` chains to begin at, or more: each place has its share, as :func:`chains_each` says."""
        share = chains_each(count, len(self.places))
        more = count - share * len(self.places)
        return [point for i, place in enumerate(self.places) for point in place.points(share + (i < more))]


def chains_each(chains: int, places: int) -> int:
    """Places share the ``chains`` asked for, but each has two at least, to be compared, unless one was asked for."""
    return max(min(chains, 2), chains // places)


def run_pilots(
    problem: Problem, starts: list[Candidate], settings: Lifted, key: Array, say: Callable[[str], None]
) -> Pilots:
    """Send out a chain from each start; there are no places if no start has a path on this grid."""
    quick = problem.with_solver(problem.solver.limited(_MOST_CUTS * problem.nodes.shape[1]))
    modes: list[Maximum] = []
    kept_to: list[tuple[Problem, Maximum, Array]] = []
    for i, begin in enumerate(starts):
        say(f"climbing from start {i + 1} of {len(starts)}")
        own = jax.random.fold_in(key, i)
        narrowed = None if begin.left is None else pinned(quick, begin.left)
        here = quick if narrowed is None else narrowed
        mode = approximation_at(here, alternate(here, begin.unconstrained, own))
        if mode is not None and narrowed is not None:
            kept_to.append((narrowed, mode, own))
        elif mode is not None:
            modes.append(mode)
    if kept_to:
        say(f"{len(kept_to)} pilot chains that leave one variable each to its process")
        ends = _lead(kept_to, settings)
        modes += [mode for mode in (approximation_at(quick, u) for u in ends) if mode is not None]
    if not modes:
        return Pilots([])
    say(f"{len(modes)} pilot chains: compiling the sampler")
    margin = far_behind(problem.size)
    centres = [np.zeros(problem.size) for _ in modes]
    racing = start_chains(
        quick, [m.whitening() for m in modes], centres, jax.random.fold_in(key, len(starts)), settings
    )
    for block in range(1, _MOST_BLOCKS + 1):
        before = {chain.index: _level(chain) for chain in racing}
        run_chains(quick, racing, settings, block * _BLOCK, lambda chains: None)
        if block > 1:  # until then a chain may still be falling from a spike
            racing = _ahead(racing, _HOPELESS * problem.size)
        say(f"{len(racing)} pilot chains, log density up to {max(map(_level, racing)):.0f}")
        good = {chain.index for chain in _ahead(racing, margin)}
        # Chains that are there go up and down.
        rising = [_level(c) > before[c.index] + _RISING for c in racing if c.index not in good]
        rising.append(max(map(_level, racing)) > max(before.values()) + _RISING)
        if not any(rising) and block * _BLOCK >= settings.warmup + _BLOCK:
            break
    return Pilots([_place(chains) for chains in _by_place(_ahead(racing, _NEARER * margin))])


def _lead(setting_out: list[tuple[Problem, Maximum, Array]], settings: Lifted) -> list[np.ndarray]:
    """Where chains end after some blocks, each on its own problem and with its own key."""
    problems = [problem for problem, _, _ in setting_out]
    chains = [
        chain
        for problem, mode, key in setting_out
        for chain in start_chains(problem, [mode.whitening()], [np.zeros(problem.size)], key, settings)
    ]
    run_chains(problems, chains, settings, _PINNED_BLOCKS * _BLOCK, lambda chains: None)
    return [np.asarray(_state(chain).unconstrained) for chain in chains]


def pinned(problem: Problem, left: int) -> Problem | None:
    """The same problem with a prior that wants a short process for the observable ``left``, and long ones for others.

    None if there are observables without a length scale of their own, or with a known one.
    """
    scales = [getattr(observable.kernel, "length_scale", None) for observable in problem.observables]
    if not all(isinstance(s, dist.Distribution) and s.support is dist.constraints.positive for s in scales):
        return None
    wanted = [_SHORT if i == left else _LONG for i in range(len(scales))]
    priors = [sort_numbers(dist.LogNormal(jnp.log(length), jnp.asarray(_PINNED_STD))) for length in wanted]
    return eqx.tree_at(lambda p: [observable.kernel.length_scale for observable in p.observables], problem, priors)


def _place(chains: list[Chain]) -> Place:
    draws = [row["draw"] for chain in chains if chain.trace.count for row in chain.trace.read()[-_BLOCK::_THINNED]]
    return Place([np.asarray(_state(chain).unconstrained) for chain in chains], draws)


def _state(chain: Chain) -> State:
    assert isinstance(chain.state, State)
    return chain.state


def _level(chain: Chain) -> float:
    """Mean log density of late."""
    return float(_state(chain).level)


def _by_place(chains: list[Chain]) -> list[list[Chain]]:
    """The same chains, those together that ended in one place: around the first, and around those far from it.

    Distances, not densities, say which places are kept if there are many: one that is left out is never found again.
    """
    if min(chain.trace.count for chain in chains) < _BLOCK:
        return [chains]
    draws = [chain.trace.read()["draw"][-_BLOCK:] for chain in chains]
    means, variances = (np.stack([f(own, axis=0) for own in draws]) for f in (np.mean, np.var))
    widths = np.sqrt(variances[:, None] + variances)
    apart = np.max(np.abs(means[:, None] - means) / np.maximum(widths, 1e-300), axis=-1)
    leaders = [0]
    while len(leaders) < _MOST_PLACES and apart[leaders].min(axis=0).max() > _APART:
        leaders.append(int(apart[leaders].min(axis=0).argmax()))
    nearest = apart[leaders].argmin(axis=0)
    groups = [np.flatnonzero(nearest == i) for i in range(len(leaders))]
    # Chains begin at the first of a place: at those nearest to the leader that it was kept for. But the leader of the
    # first is only the one of highest density, which may sit in a narrow spot: there, at the most central ones.
    first = groups[0]
    leaders[0] = int(first[np.maximum(_APART - apart[np.ix_(first, first)], 0.0).sum(axis=0).argmax()])
    return [[chains[j] for j in own[np.argsort(apart[i, own])]] for i, own in zip(leaders, groups, strict=True)]


def _ahead(chains: list[Chain], margin: float) -> list[Chain]:
    """From best to worst, without those that are farther behind than ``margin``."""
    ranked = sorted(chains, key=_level, reverse=True)
    return [chain for chain in ranked if _level(chain) > _level(ranked[0]) - margin]
