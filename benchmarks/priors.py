"""The paper's priors beside the defaults, on predator and prey: widths of intervals, and errors of the mean path.

    python benchmarks/priors.py [--seeds 5]

Widths are those of 95 % intervals of the four coefficients that act, over all draws; errors are root mean squares of
the mean path, from t = 0 to 30, of which the second half was not measured.
"""

from __future__ import annotations

import argparse

import numpy as np

import gpnode as gn
from gpnode.studies import predator_prey as study
from gpnode.studies import results

COEFFICIENTS = study.SHOWN[:4]


def row(seed: int, paper: bool) -> str:
    """One line of the table."""
    posterior = gn.fit(study.dictionary(paper), study.simulate(seed), seed=seed)
    table = posterior.summary().loc[list(COEFFICIENTS)]
    widths = (table["97.5%"] - table["2.5%"]).to_numpy()
    inside = [
        low <= truth <= high
        for truth, low, high in zip(study.TRUTH.values(), table["2.5%"], table["97.5%"], strict=True)
    ]
    error = results.rmse(gn.forecast(posterior, study.TIMES).mean().to_numpy(), study.true_path(study.TIMES))
    return (
        f"{seed:4d}  {'paper' if paper else 'default':<8}"
        + "".join(f"{w:11.4f}" for w in widths)
        + f"  {sum(inside)}/4 "
        + "".join(f"{e:8.4f}" for e in np.ravel(error))
        + f" {posterior.record.seconds:7.0f}  {posterior.diagnose().headline}"
    )


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    print(
        "data  priors   " + "".join(f"{n[5:-1]:>11}" for n in COEFFICIENTS) + " inside rmse x1      x2 seconds  verdict"
    )
    for seed in range(seeds):
        for paper in (True, False):
            print(row(seed, paper), flush=True)


if __name__ == "__main__":
    main()
