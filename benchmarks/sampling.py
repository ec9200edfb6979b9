"""Effective draws per second: ``fit`` from cold against numpyro's NUTS, on our posterior and on the paper's.

    python benchmarks/sampling.py [--only predator-prey SIR] [--most 300]

Our time is that of the whole fit, with compiling and the search. Each opponent (:mod:`opponents`) is given as long, 20
seconds at least, and our starting point. What counts is the worst number that the path depends on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from contests import CONTESTS, Contest
from opponents import ours_by_nuts, papers_by_nuts

import gpnode as gn
from gpnode.inference.stopping.statistics import bulk_ess, rank_rhat

SHORTEST, FEWEST = 20.0, 8  # seconds, and draws
OPPONENTS: dict[str, Callable[..., dict[str, np.ndarray]]] = {"NUTS": ours_by_nuts, "paper": papers_by_nuts}


def worst_ess(draws: dict[str, np.ndarray], names: tuple[str, ...]) -> tuple[float, float]:
    """Least bulk ESS, and largest R-hat, of numbers (chains, draws, ...); none where there are hardly any draws."""
    if draws[names[0]].shape[1] < FEWEST:
        return 0.0, np.inf
    numbers = [v for name in names for v in np.moveaxis(draws[name].reshape(*draws[name].shape[:2], -1), -1, 0)]
    return min(map(bulk_ess, numbers)), max(map(rank_rhat, numbers))


def hold(contest: Contest, most: float) -> dict[str, Any]:
    """All who take part, one after the other."""
    model, data = contest.make()
    begun = time.perf_counter()
    posterior = gn.fit(model, data, seed=0, progress=False, budget=most)
    seconds = time.perf_counter() - begun
    problem = posterior.problem
    assert problem is not None
    names = problem.path_names
    ess, rhat = worst_ess(dict(_values(posterior)), names)
    rows = {
        "gpnode": {
            "seconds": seconds,
            "draws": posterior.num_draws,
            "least_ess": ess,
            "worst_rhat": rhat,
            "headline": posterior.diagnose().headline,
        }
    }
    start = {name: v[0, -1] for name, v in _values(posterior)}
    for who, sample in OPPONENTS.items():
        allowed = max(seconds, SHORTEST)
        begun = time.perf_counter()
        draws = sample(model, data, start, allowed)
        ess, rhat = worst_ess(draws, names)
        spent = time.perf_counter() - begun
        rows[who] = {
            "seconds": spent,
            "draws": int(np.prod(draws[names[0]].shape[:2])),
            "least_ess": ess,
            "worst_rhat": rhat,
        }
    for row in rows.values():
        row["ess_per_second"] = row["least_ess"] / row["seconds"]
    best = max(rows[who]["ess_per_second"] for who in OPPONENTS)
    ratio = rows["gpnode"]["ess_per_second"] / best if best > 0 else np.inf
    return {"rows": rows, "times_more": ratio if np.isfinite(ratio) else None, "wanted": contest.wanted}


def _values(posterior: gn.Posterior) -> list[tuple[str, np.ndarray]]:
    """Constrained values by name (chains, draws, ...), in internal units."""
    import jax
    import jax.numpy as jnp

    problem = posterior.problem
    assert problem is not None
    values = jax.vmap(jax.vmap(problem.constrain))(jnp.asarray(posterior.unconstrained))
    return [(name, np.asarray(v)) for name, v in values.items()]


def run(only: list[str] | None = None, most: float = 600.0) -> dict[str, Any]:
    """Every contest, or those named; a fit may take ``most`` seconds."""
    found = {}
    for contest in CONTESTS:
        if only and contest.name not in only:
            continue
        found[contest.name] = result = hold(contest, most)
        for who, row in result["rows"].items():
            print(
                f"{contest.name:<14} {who:<7} {row['seconds']:6.0f} s {row['draws']:7d} draws  "
                f"least ESS {row['least_ess']:8.1f}  R-hat {row['worst_rhat']:6.3f}  "
                f"{row['ess_per_second']:9.4f} per second",
                flush=True,
            )
        times = "no draw of theirs" if result["times_more"] is None else f"{result['times_more']:.1f} times as many"
        print(f"{contest.name:<14} {times}, {contest.wanted:g} wanted", flush=True)
    return found


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--most", type=float, default=600.0, help="seconds that one of our fits may take")
    options = parser.parse_args()
    run(options.only, options.most)


if __name__ == "__main__":
    main()
