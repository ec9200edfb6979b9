"""What a fit leaves behind: named draws in user units, how they were made, and from what."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from gpnode.data.observations import Observations
from gpnode.errors import PosteriorError
from gpnode.inference.stopping.modes import Modes, find_modes
from gpnode.inference.stopping.statistics import bulk_ess, rank_rhat, tail_ess
from gpnode.inference.stopping.weighing import Weights, draws_by_weight, weights_of
from gpnode.model.model import Model
from gpnode.problem.density import Problem
from gpnode.results.record import Record

if TYPE_CHECKING:
    from gpnode.results.diagnostics.verdict import Verdict
    from gpnode.results.equations.written import Equations


def _renumbered(dataset: xr.Dataset) -> xr.Dataset:
    """With chains and draws counted from zero."""
    return dataset.assign_coords({name: np.arange(dataset.sizes[name]) for name in ("chain", "draw")})


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws from the posterior, or from an approximation to it.

    Attributes
    ----------
    draws
        Parameters in the user's units; dimensions ``chain``, ``draw`` and, for coefficients,
        ``coef.state`` and ``coef.term``.
    stats
        Sampler statistics per draw.
    unconstrained
        The draws as the sampler saw them (chain, draw, size).
    data
        The measurements.
    record
        Method, settings, seed, draws made by each chain, counts of failed solves, versions and the model's description.
    model, problem
        What the draws came from; None if the posterior was loaded without its model.

    >>> posterior.draws["rate"].shape
    (1, 200)
    >>> posterior.save("decay.nc")
    >>> gn.Posterior.load("decay.nc", model).num_draws
    200
    """

    draws: xr.Dataset
    stats: xr.Dataset
    unconstrained: np.ndarray
    data: Observations
    record: Record
    model: Model | None = None
    problem: Problem | None = None

    @property
    def is_sample(self) -> bool:
        """True for Markov chains, False for an approximation."""
        return self.record.sampler().is_sample

    @property
    def solved(self) -> Posterior:
        """Without draws whose path could not be solved, of which an approximation may have some."""
        sound = np.isfinite(self.stats["log_density"].to_numpy()).all(axis=0)
        if sound.all():
            return self
        keep = {"draw": np.flatnonzero(sound)}
        return dataclasses.replace(
            self, draws=self.draws.isel(keep), stats=self.stats.isel(keep), unconstrained=self.unconstrained[:, sound]
        )

    @property
    def num_draws(self) -> int:
        """Draws over all chains."""
        return int(self.draws.sizes["chain"] * self.draws.sizes["draw"])

    def scalars(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every inferred number by name, such as ``coef[x1, x1*x2]``, with its draws (chain, draw)."""
        for label, name, index in self.entries():
            values: Any = self.draws[name].transpose("chain", "draw", ...).to_numpy()
            yield label, values[(..., *index)]

    def entries(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Label, variable and position of every inferred number; fixed coefficients are left out."""
        constants = self.record.constants
        for key, array in self.draws.data_vars.items():
            name = str(key)
            labels = [array.coords[d].to_numpy() for d in array.dims if d not in ("chain", "draw")]
            shape = tuple(len(names) for names in labels)
            fixed = np.asarray(constants.get(name, np.zeros(shape, dtype=bool)))
            for index in np.ndindex(*shape):
                if not fixed[index]:
                    where = ", ".join(str(names[i]) for names, i in zip(labels, index, strict=True))
                    yield (f"{name}[{where}]" if where else name), name, index

    def summary(self) -> pd.DataFrame:
        """One row per number: mean, sd, quantiles; for chains R-hat and effective sample sizes.

        An approximation also has ``map``, the values at the highest density of the unconstrained vector.
        """
        rows = {}
        for name, values in self.scalars():
            low, median, high = np.quantile(values, [0.025, 0.5, 0.975])
            row = {"mean": values.mean(), "sd": values.std(ddof=1), "2.5%": low, "50%": median, "97.5%": high}
            if self.is_sample:
                row |= {"r_hat": rank_rhat(values), "ess_bulk": bulk_ess(values), "ess_tail": tail_ess(values)}
            rows[name] = row
        table = pd.DataFrame.from_dict(rows, orient="index")
        if not self.is_sample:
            peak = (self.record.laplace or {})["map"]
            table.insert(0, "map", [float(np.asarray(peak[name])[index]) for _, name, index in self.entries()])
        return table

    @cached_property
    def visits(self) -> Modes:
        """Which mode each draw belongs to: one for all if the chains agree."""
        if not self.is_sample:
            return Modes(np.zeros(self.unconstrained.shape[:2], dtype=int))
        return find_modes(np.asarray(self.unconstrained), self.stats["log_density"].to_numpy())

    def modes(self) -> list[Posterior]:
        """The posterior by modes, the most visited first; itself alone if its chains agree.

        A mode's draws are cut into equally long pieces that take the place of chains.
        """
        visits = self.visits
        return [self] if visits.count == 1 else [self._at(*visits.positions(mode)) for mode in range(visits.count)]

    @property
    def mode_weights(self) -> Weights:
        """What part of the posterior each of :meth:`modes` holds, with standard errors, infinite where unknown.

        By the time chains spent in them if they changed often, else by bridge sampling, which does not need that.
        """
        bridged = self.record.bridged
        if bridged is None:
            return weights_of(self.visits, None)
        errors = [np.inf if error is None else error for error in bridged["errors"]]
        return weights_of(self.visits, Weights(np.array(bridged["values"], float), np.array(errors)))

    def reweighted(self) -> Posterior:
        """The same posterior with as many draws of each mode as its weight says, evenly chosen; itself if there is one.

        Draws are cut into pieces that take the place of chains; there are fewer of them, for none is used twice.
        """
        if self.visits.count == 1:
            return self
        if not np.isfinite(self.mode_weights.errors).all():
            raise PosteriorError("how much each mode weighs is not known: see diagnose(). More draws may tell.")
        chain, draw = draws_by_weight(self.visits, self.mode_weights.values)
        return self._at(chain, draw)

    def _at(self, chain: np.ndarray, draw: np.ndarray) -> Posterior:
        """The draws at these positions (pieces, draws)."""
        where = {
            name: xr.DataArray(positions, dims=("chain", "draw"))
            for name, positions in (("chain", chain), ("draw", draw))
        }
        return dataclasses.replace(
            self,
            draws=_renumbered(self.draws.isel(where)),
            stats=_renumbered(self.stats.isel(where)),
            unconstrained=self.unconstrained[chain, draw],
            record=dataclasses.replace(self.record, draws_made=None),  # by other chains
        )

    def first_values(self) -> dict[str, float]:
        """Where each state starts: as inferred on average, or as measured first."""
        start = {}
        for equation in self.equations().equations:
            measured, inferred = self.data.of(equation.state), self.draws.get(f"{equation.state}.initial")
            if inferred is not None:
                start[equation.state] = float(inferred.mean())
            elif measured:
                start[equation.state] = float(measured[0].values[0])
        return start

    def diagnose(self) -> Verdict:
        """Whether to trust these draws, and what to do if not."""
        from gpnode.results.diagnostics.verdict import diagnose

        return diagnose(self)

    def equations(self) -> Equations:
        """The equations of motion in the user's units."""
        return self._equations

    @cached_property
    def _equations(self) -> Equations:
        from gpnode.results.equations.reading import equations

        return equations(self)

    def to_arviz(self) -> Any:
        """The draws, statistics and data as arviz ``InferenceData``, or as an xarray ``DataTree`` for arviz 1.x."""
        from gpnode.results.storage import to_arviz

        return to_arviz(self)

    def save(self, path: Any) -> None:
        """Write to a NetCDF file, all or nothing."""
        from gpnode.results.storage import save

        save(self, path)

    @staticmethod
    def load(path: Any, model: Model | None = None, data: Observations | None = None) -> Posterior:
        """Read a file written by :meth:`save`. No code in the file is run.

        Forecasts need the model, which a file cannot hold: pass the one that was fitted. The file holds measurements,
        not what was done in experiments: with doses, inputs or events pass the data that were fitted, too.
        """
        from gpnode.results.storage import load

        return load(path, model, data)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        table = self.summary().to_string(float_format=lambda x: f"{x:.4g}")
        return f"{self.headline}\n\n{table}\n\n{self.diagnose()}"

    def _repr_html_(self) -> str:
        from gpnode.render import notebook

        return notebook.posterior(self)

    @property
    def headline(self) -> str:
        """What these draws are, in one line."""
        chains, draws = self.draws.sizes["chain"], self.draws.sizes["draw"]
        made = max(self.record.draws_made or [draws])
        some = f" (of up to {made} made)" if made > draws else ""
        kind = f"{chains} chains of {draws} draws{some}" if self.is_sample else f"Laplace approximation, {draws} draws"
        return f"Posterior: {kind}, {self.data.size} measurements"
