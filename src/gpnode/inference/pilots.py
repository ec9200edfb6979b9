"""Where the mass of a posterior is, found by short chains from every start the search came upon.

Where the equations alone cannot follow the data, the highest points of the density do not tell. With a horseshoe prior
the highest is where all coefficients are zero, a spike without mass; others lie at the edge of blowing up, on paths
forced through the data. Chains leave such places within some hundred steps, and those that find good ones show it.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..problem import Problem, log_density
from .chains import Chain, run_chains, start_chains
from .gibbs import Lifted, State
from .laplace import Mode, curvature
from .settle import settle

_BLOCK, _MOST_BLOCKS = 200, 10  # steps of a chain between comparisons, and how often they go on
# A chain stays in the race unless its log density is lower than the best by so much per parameter: a region that has
# the same mass all the same would have to be wider by a factor of e in every direction.
_HOPELESS = 1.0
_RISING = 3.0  # nats in a block
_MOST_CUTS = 4  # steps, for every one of the grid: places that need more are about to blow up


def run_pilots(
    problem: Problem, starts: list[np.ndarray], settings: Lifted, key: Array, say: Callable[[str], None]
) -> list[np.ndarray]:
    """Ends of the chains that got into good regions, best first; none if no start has a path on this grid."""
    quick = problem.with_solver(problem.solver.limited(_MOST_CUTS * problem.nodes.size))
    modes = []
    for i, begin in enumerate(starts):
        say(f"climbing from start {i + 1} of {len(starts)}")
        settled = settle(quick, begin, jax.random.fold_in(key, i))
        height = float(log_density(quick, jnp.asarray(settled))[0])
        if np.isfinite(height):
            modes.append(Mode(settled, curvature(quick, settled), height))
    if not modes:
        return []
    say(f"{len(modes)} pilot chains: compiling the sampler")
    centres = [np.zeros(problem.size) for _ in modes]
    racing = start_chains(quick, [m.frame() for m in modes], centres, jax.random.fold_in(key, len(starts)), settings)
    best = -np.inf
    for block in range(1, _MOST_BLOCKS + 1):
        run_chains(quick, racing, settings, block * _BLOCK, lambda chains: None)
        racing = _hopeful(racing, problem.size)
        say(f"{len(racing)} pilot chains, log density up to {_level(racing[0]):.0f}")
        if block > 1 and _level(racing[0]) < best + _RISING:
            break
        best = _level(racing[0])
    return [np.asarray(_state(chain).unconstrained) for chain in racing]


def _state(chain: Chain) -> State:
    assert isinstance(chain.state, State)
    return chain.state


def _level(chain: Chain) -> float:
    """Mean log density of late."""
    return float(_state(chain).level)


def _hopeful(chains: list[Chain], size: int) -> list[Chain]:
    """From best to worst, without those that are far behind."""
    ranked = sorted(chains, key=_level, reverse=True)
    return [chain for chain in ranked if _level(chain) > _level(ranked[0]) - _HOPELESS * size]
