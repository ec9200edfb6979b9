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
from gpnode.inference.running.budget import Budget, OutOfTime
from gpnode.inference.running.chains import Chain, run_chains, start_chains
from gpnode.inference.samplers.base import Sampler
from gpnode.inference.starting.alternation import alternate
from gpnode.inference.starting.search import Candidate
from gpnode.inference.starting.settings import Piloting
from gpnode.inference.starting.start import share_chains
from gpnode.inference.stopping.modes import far_behind
from gpnode.model.priors.ordering import sort_numbers
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import log_densities


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

    def on(self, problem: Problem, settings: Piloting) -> Pilots:
        """The same places, but for those that only errors of the solver made: far behind where steps are accurate."""
        points = [np.stack([*place.ends, *place.draws]) for place in self.places]
        levels = np.array([np.median(log_densities(problem, there)[0]) for there in points])
        near = levels > levels.max() - settings.nearer * far_behind(problem.size)
        return Pilots([place for place, kept in zip(self.places, near, strict=True) if kept])

    def points(self, count: int) -> list[np.ndarray]:
        """Points for ``count`` chains to begin at, or more: each place has its share, as :func:`share_chains` says."""
        share = share_chains(count, len(self.places))
        more = count - share * len(self.places)
        return [point for i, place in enumerate(self.places) for point in place.points(share + (i < more))]


def run_pilots(
    problem: Problem,
    starts: list[Candidate],
    sampler: Sampler,
    key: Array,
    say: Callable[[str], None],
    budget: Budget,
) -> Pilots:
    """Send out a chain from each start; there are no places if no start has a path on this grid.

    Raises :class:`OutOfTime` if the budget is spent before they have shown anything.
    States of the sampler must have fields ``unconstrained`` and ``level``, the mean log density of late.
    """
    settings: Piloting = sampler.piloting  # type: ignore[attr-defined]
    quick = problem.with_solver(problem.solver.limited(settings.most_cuts * problem.nodes.shape[1]))
    setting_out: list[Maximum] = []
    kept_to: list[tuple[Problem, Maximum, Array]] = []
    for i, start in enumerate(starts):
        say(f"climbing from start {i + 1} of {len(starts)}")
        start_key = jax.random.fold_in(key, i)
        narrowed = None if start.left_alone is None else pinned(quick, start.left_alone, settings)
        target = quick if narrowed is None else narrowed
        approximation = approximation_at(target, alternate(target, start.unconstrained, start_key))
        if approximation is not None and narrowed is not None:
            kept_to.append((narrowed, approximation, start_key))
        elif approximation is not None:
            setting_out.append(approximation)
    if kept_to:
        say(f"{len(kept_to)} pilot chains that leave one variable each to its process")
        ends = _lead(kept_to, sampler, budget)
        setting_out += [a for a in (approximation_at(quick, u) for u in ends) if a is not None]
    if not setting_out:
        return Pilots([])
    say(f"{len(setting_out)} pilot chains: compiling the sampler")
    margin = far_behind(problem.size)
    centres = [np.zeros(problem.size) for _ in setting_out]
    chain_key = jax.random.fold_in(key, len(starts))
    racing = start_chains(quick, [a.whitening() for a in setting_out], centres, chain_key, sampler)
    for block in range(1, settings.most_blocks + 1):
        before = {chain.index: _level(chain) for chain in racing}
        _advance(quick, racing, sampler, block * settings.block, budget)
        if block > 1:  # until then a chain may still be falling from a spike
            racing = _ahead(racing, settings.hopeless * problem.size)
        say(f"{len(racing)} pilot chains, log density up to {max(map(_level, racing)):.0f}")
        good = {chain.index for chain in _ahead(racing, margin)}
        # Chains that are there go up and down.
        rising = [_level(c) > before[c.index] + settings.rising for c in racing if c.index not in good]
        rising.append(max(map(_level, racing)) > max(before.values()) + settings.rising)
        if not any(rising) and block * settings.block >= sampler.warmup + settings.block:
            break
    ahead = _ahead(racing, settings.nearer * margin)
    return Pilots([_place(chains, settings) for chains in _by_place(ahead, settings)])


def _lead(setting_out: list[tuple[Problem, Maximum, Array]], sampler: Sampler, budget: Budget) -> list[np.ndarray]:
    """Where chains end after some blocks, each on its own problem and with its own key."""
    settings: Piloting = sampler.piloting  # type: ignore[attr-defined]
    problems = [problem for problem, _, _ in setting_out]
    chains = [
        chain
        for problem, approximation, key in setting_out
        for chain in start_chains(problem, [approximation.whitening()], [np.zeros(problem.size)], key, sampler)
    ]
    _advance(problems, chains, sampler, settings.pinned_blocks * settings.block, budget)
    return [np.asarray(chain.state.unconstrained) for chain in chains]


def pinned(problem: Problem, alone: int, settings: Piloting) -> Problem | None:
    """The same problem with a prior that wants a short process for the observable ``alone``, and long ones for others.

    None if there are observables without a length scale of their own, or with a known one.
    """
    scales = [getattr(observable.kernel, "length_scale", None) for observable in problem.observables]
    if not all(isinstance(s, dist.Distribution) and s.support is dist.constraints.positive for s in scales):
        return None
    short, long = settings.pinned_lengths
    wanted = [short if i == alone else long for i in range(len(scales))]
    priors = [sort_numbers(dist.LogNormal(jnp.log(w), jnp.asarray(settings.pinned_std))) for w in wanted]
    return eqx.tree_at(lambda p: [observable.kernel.length_scale for observable in p.observables], problem, priors)


def _place(chains: list[Chain], settings: Piloting) -> Place:
    draws = [
        row["draw"]
        for chain in chains
        if chain.trace.count
        for row in chain.trace.read()[-settings.block :: settings.thinned]
    ]
    return Place([np.asarray(chain.state.unconstrained) for chain in chains], draws)


def _advance(
    problem: Problem | list[Problem], chains: list[Chain], sampler: Sampler, steps: int, budget: Budget
) -> None:
    """Until chains have made so many steps."""

    def left(chain: Chain) -> int:
        return 0 if budget.is_spent else steps - chain.done

    run_chains(problem, chains, sampler, left, lambda chains: None)
    if budget.is_spent:
        raise OutOfTime


def _level(chain: Chain) -> float:
    """Mean log density of late."""
    return float(chain.state.level)


def _by_place(chains: list[Chain], settings: Piloting) -> list[list[Chain]]:
    """The same chains, those together that ended in one place: around the first, and around those far from it.

    Distances, not densities, say which places are kept if there are many: one that is left out is never found again.
    """
    if min(chain.trace.count for chain in chains) < settings.block:
        return [chains]
    draws = [chain.trace.read()["draw"][-settings.block :] for chain in chains]
    means, variances = (np.stack([f(late, axis=0) for late in draws]) for f in (np.mean, np.var))
    widths = np.sqrt(variances[:, None] + variances)
    apart = np.max(np.abs(means[:, None] - means) / np.maximum(widths, 1e-300), axis=-1)
    leaders = [0]
    while len(leaders) < settings.most_places and apart[leaders].min(axis=0).max() > settings.apart:
        leaders.append(int(apart[leaders].min(axis=0).argmax()))
    nearest = apart[leaders].argmin(axis=0)
    groups = [np.flatnonzero(nearest == i) for i in range(len(leaders))]
    # Chains begin at the first of a place: at those nearest to the leader that it was kept for. But the leader of the
    # first is only the one of highest density, which may sit in a narrow spot: there, at the most central ones.
    first = groups[0]
    leaders[0] = int(first[np.maximum(settings.apart - apart[np.ix_(first, first)], 0.0).sum(axis=0).argmax()])
    return [
        [chains[j] for j in members[np.argsort(apart[i, members])]] for i, members in zip(leaders, groups, strict=True)
    ]


def _ahead(chains: list[Chain], margin: float) -> list[Chain]:
    """From best to worst, without those that are farther behind than ``margin``."""
    ranked = sorted(chains, key=_level, reverse=True)
    return [chain for chain in ranked if _level(chain) > _level(ranked[0]) - margin]
