"""The main job, end to end: predator and prey from cold, known form and dictionary.

Run it with ``python -m gpnode.studies.demo -o DIR``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gpnode as gn
from gpnode.studies import predator_prey as study


def main() -> None:
    """Fit, print equations and verdicts, save posteriors and pictures."""
    plt.switch_backend("Agg")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("demo-output"), help="directory for results")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and of the fit")
    arguments = parser.parse_args()
    data = study.simulate(arguments.seed)
    print(data, "\n")

    print("1. Known form: four rate constants and the start of x1 are unknown.\n")
    known = gn.fit(study.known_form(paper=False), data, seed=arguments.seed)
    _show(known, arguments.output, "known-form")

    print("\n2. Unknown form: fourteen candidate terms, which of them act?\n")
    sparse = gn.fit(study.dictionary(paper=False), data, seed=arguments.seed)
    _show(sparse, arguments.output, "dictionary")

    _draw(known, sparse, data, arguments.output)
    print(f"\nPosteriors and pictures are in {arguments.output}/")


def _show(posterior: gn.Posterior, output: Path, name: str) -> None:
    print(posterior.equations(), "\n")
    print(posterior.diagnose())
    posterior.save(output / f"{name}.nc")


def _draw(known: gn.Posterior, sparse: gn.Posterior, data: gn.Observations, output: Path) -> None:
    times = np.linspace(0.0, 22.0, 300)
    truth = dict(zip(("x1", "x2"), study.true_path(times).T, strict=True))
    for posterior, name in ((known, "known-form"), (sparse, "dictionary")):
        gn.plots.paths(gn.forecast(posterior, times), data, truth=truth)
        plt.savefig(output / f"{name}-paths.png", dpi=130)
    gn.plots.parameters(known, list(study.TRUTH), truth=study.TRUTH)
    plt.savefig(output / "known-form-parameters.png", dpi=130)
    gn.plots.coefficients(sparse, truth=study.true_coefficients())
    plt.savefig(output / "dictionary-coefficients.png", dpi=130)


if __name__ == "__main__":
    main()
