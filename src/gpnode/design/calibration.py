"""Simulation-based calibration: is the fitting of this model, on this design, right on average?

Parameters are drawn from the prior, data simulated and fitted. If all is well, the rank of the truth among the draws
of its posterior is uniform, and intervals cover as often as they say. A failure means that the sampler, or the
software, cannot be trusted with this model and this amount of data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincc

from gpnode.data.observations import Observations
from gpnode.design.simulation import Simulation, simulate, with_units_of
from gpnode.errors import ModelError
from gpnode.fitting.many import FitTask, fit_many
from gpnode.inference.running.executors import ExecutorChoice
from gpnode.inference.samplers.base import Method
from gpnode.inference.samplers.lifted.sampler import Lifted
from gpnode.inference.stopping.statistics import bulk_ess
from gpnode.model.model import Model
from gpnode.problem.evaluation import log_density
from gpnode.results.forecasts import forecast
from gpnode.results.posterior import Posterior

THINNED = 63  # draws among which the truth is ranked
BAND = 0.9
_SIGNIFICANT = 0.01  # chance of a false alarm, over all numbers together
_FEWEST_A_BIN = 12
_CHANCES = 20_000  # simulated outcomes that a p-value is counted from
_MOST_FAILED, _MOST_SLOW = 0.02, 0.1  # of all fits
_DENSITY = "log density"  # ranked like a parameter: sensitive to errors that leave each of them alone looking right


class Score(NamedTuple):
    """How one simulation compares with its fit.

    ``inside`` (times, states) is 1 where the truth lies within the forecast's band, 0 where not, NaN where there is
    none. ``acting`` has for each candidate term the probability that it acts: given the data, and given the truth.
    """

    ranks: dict[str, int]
    inside: np.ndarray
    fewest_effective: float
    acting: dict[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Calibration:
    """What many simulated fits say.

    ``ranks`` maps each number's name to ranks (fits,) from 0 to ``THINNED``; ``inside`` (fits, times, states) is 1
    where a true state lay within the 90 % band at ``times``, 0 where not, NaN where the path had ended; ``dropped``
    counts draws from the prior that could not be solved, ``errors`` are those of fits that failed, ``slow`` counts fits
    with fewer effective draws than ranks need. ``acting`` maps each candidate term to (fits, 2): the probability with
    which a fit says that it acts, and 1 where it does.

    >>> check = gn.calibrate(model, data)  # doctest: +SKIP
    >>> check.calibrated, check.p_values(), check.band_coverage()  # doctest: +SKIP
    """

    ranks: dict[str, np.ndarray]
    inside: np.ndarray
    times: np.ndarray
    states: tuple[str, ...]
    dropped: int
    errors: tuple[str, ...]
    slow: int
    acting: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def fits(self) -> int:
        """Fits that succeeded."""
        return len(self.inside)

    @property
    def bins(self) -> int:
        """Bins of a histogram of ranks: a power of two, with a dozen fits or more expected in each."""
        return int(2 ** np.clip(np.floor(np.log2(self.fits / _FEWEST_A_BIN)), 1, 6))

    def histogram(self, name: str) -> np.ndarray:
        """Number of fits in each bin of ranks (bins,)."""
        return np.bincount(self.ranks[name] * self.bins // (THINNED + 1), minlength=self.bins)

    def p_values(self) -> dict[str, float]:
        """For each number, the chance of ranks at least as uneven as these if all is well (chi-squared)."""
        p_values = {}
        for name in self.ranks:
            counts = self.histogram(name)
            excess = float(((counts - counts.mean()) ** 2).sum() / counts.mean())
            p_values[name] = float(gammaincc(0.5 * (self.bins - 1), 0.5 * excess))
        return p_values

    def coverage(self, probability: float = BAND) -> dict[str, float]:
        """Part of fits whose central interval of about this probability holds the truth, by number."""
        tail = round(0.5 * (1.0 - probability) * (THINNED + 1))
        return {n: float(np.mean((r >= tail) & (r <= THINNED - tail))) for n, r in self.ranks.items()}

    def band_coverage(self) -> dict[str, float]:
        """Part of true states, over fits and times, inside the 90 % bands of forecasts."""
        return {s: float(np.nanmean(self.inside[:, :, d])) for d, s in enumerate(self.states)}

    @cached_property
    def acting_p_values(self) -> dict[str, float]:
        """For each term, the chance of being as far off as this if the probabilities that it acts are right.

        Two things are looked at: whether it acts as often as said, and whether it does so more where more was said.
        Terms that act by chance with the probabilities that were said tell how far off both can be.
        """
        rng = np.random.default_rng(0)
        return {term: _acting_p_value(both[:, 0], both[:, 1], rng) for term, both in self.acting.items()}

    @property
    def off_terms(self) -> list[str]:
        """Terms that act more or less often than fits say, allowing for how many are looked at (Bonferroni)."""
        return [t for t, p in self.acting_p_values.items() if p < _SIGNIFICANT / len(self.acting)]

    @property
    def uneven(self) -> list[str]:
        """Numbers whose ranks are not uniform, allowing for how many are looked at (Bonferroni)."""
        return [n for n, p in self.p_values().items() if p < _SIGNIFICANT / len(self.ranks)]

    @property
    def off_bands(self) -> list[str]:
        """States whose bands cover too little or too much, taking times of one fit as one piece of evidence."""
        # 2.6 standard errors would be right for one state; somewhat more for several.
        most = (2.6 + 0.3 * np.log2(len(self.states))) * np.sqrt(BAND * (1.0 - BAND) / self.fits)
        return [s for s, c in self.band_coverage().items() if abs(c - BAND) > most]

    @property
    def calibrated(self) -> bool:
        few_failed = len(self.errors) <= _MOST_FAILED * (self.fits + len(self.errors))
        even = not (self.uneven or self.off_bands or self.off_terms)
        return few_failed and even and self.slow <= _MOST_SLOW * self.fits

    def _lines(self) -> Iterator[str]:
        yield (
            "CALIBRATED: fits of this model on this design can be trusted."
            if self.calibrated
            else ("NOT CALIBRATED: do not trust fits of this model on this design.")
        )
        worst = min(self.p_values().items(), key=lambda item: item[1])
        uneven = f"uneven for {', '.join(self.uneven)}" if self.uneven else "even"
        yield (
            f"  {'BAD ' if self.uneven else 'ok  '} ranks of the truth in {self.fits} fits: {uneven}; least p-value "
            f"{worst[1]:.2g} ({worst[0]}), limit {_SIGNIFICANT / len(self.ranks):.2g} for {len(self.ranks)} numbers"
        )
        bands = ", ".join(f"{s} {c:.1%}" for s, c in self.band_coverage().items())
        yield f"  {'BAD ' if self.off_bands else 'ok  '} 90 % bands of forecasts hold the truth: {bands}"
        if self.acting:
            off = f"wrong for {', '.join(self.off_terms)}" if self.off_terms else "right"
            least = min(self.acting_p_values.values())
            yield (
                f"  {'BAD ' if self.off_terms else 'ok  '} probabilities that terms act: {off}; least p-value "
                f"{least:.2g}, limit {_SIGNIFICANT / len(self.acting):.2g} for {len(self.acting)} terms"
            )
        failed = len(self.errors)
        yield f"  {'ok  ' if failed <= _MOST_FAILED * (self.fits + failed) else 'BAD '} {failed} fits failed" + (
            f" ({self.errors[0]:.100})" if failed else ""
        )
        yield f"  {'ok  ' if self.slow <= _MOST_SLOW * self.fits else 'BAD '} {self.slow} fits had fewer than " + (
            f"{THINNED} effective draws" + ("; that alone makes ranks uneven: ask for more draws" if self.slow else "")
        )
        yield f"  note {self.dropped} draws from the prior could not be solved and were drawn again"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def table(self) -> dict[str, dict[str, float]]:
        """For each number its p-value and the coverage of its 50 % and 90 % intervals."""
        half, most, p = self.coverage(0.5), self.coverage(BAND), self.p_values()
        return {n: {"p_value": p[n], "covered_50": half[n], "covered_90": most[n]} for n in self.ranks}


def calibrate(
    model: Model,
    data: Observations,
    *,
    fits: int = 200,
    method: Method | None = None,
    seed: int = 0,
    horizon: float = 1.25,
    executor: ExecutorChoice = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
) -> Calibration:
    """Fit ``fits`` data sets simulated from ``model``, measured when and how ``data`` were, and compare with the truth.

    The values of ``data`` matter only for units: see :mod:`gpnode.design.simulation`.

    Parameters
    ----------
    model, data
        The model to check, and a data set with the design to check it on.
    fits
        How many; 200 or more find errors of practical size.
    method
        Sampler of each fit; by default one that is shorter than for a single fit.
    seed
        Same seed, same result.
    horizon
        Forecasts are checked at ten times up to this many lengths of the first experiment.
    executor, progress
        As for :func:`gpnode.fit_many`.
    checkpoint
        A directory to keep the fits in; the same call goes on there.

    Examples
    --------
    >>> print(gn.calibrate(model, data, fits=100))  # doctest: +SKIP
    """
    if fits < 2 * _FEWEST_A_BIN:
        raise ModelError(f"fits must be at least {2 * _FEWEST_A_BIN}; got {fits}.")
    if not horizon > 0:
        raise ModelError(f"horizon must be positive; got {horizon}.")
    first = data.experiments[0]
    length = max(s.times[-1] for s in data.series if s.experiment == first) - data.start[first]
    times = data.start[first] + length * horizon * np.linspace(0.1, 1.0, 10)
    simulations, dropped = simulate(model, data, fits, seed=seed, times=times)
    return compare_simulations(
        with_units_of(model, data),
        simulations,
        times,
        method=method,
        seed=seed,
        dropped=dropped,
        executor=executor,
        checkpoint=checkpoint,
        progress=progress,
    )


def compare_simulations(
    model: Model,
    simulations: Sequence[Simulation],
    times: np.ndarray,
    *,
    method: Method | None = None,
    seed: int = 0,
    dropped: int = 0,
    executor: ExecutorChoice = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
) -> Calibration:
    """Fit each of ``simulations``, wherever they come from, and compare with its truth.

    ``model`` must not take its units from the data (:func:`gpnode.design.simulation.with_units_of`).
    """
    chosen = Lifted(draws=500, warmup=200, chains=2) if method is None else method
    tasks = [
        FitTask(
            model,
            simulation.data,
            chosen,
            seed=seed + i,
            checkpoint=None if checkpoint is None else Path(checkpoint) / f"{i:04d}",
            context=(simulation, times),
        )
        for i, simulation in enumerate(simulations)
    ]
    outcomes = fit_many(tasks, executor=executor, then=_score, progress=progress)
    scores: list[Score] = [o.result for o in outcomes if o.ok]
    errors = tuple(f"{type(o.error).__name__}: {o.error}" for o in outcomes if not o.ok)
    if len(scores) < _FEWEST_A_BIN:
        raise ModelError(f"only {len(scores)} of {len(simulations)} fits succeeded: {errors[0] if errors else ''}")
    return Calibration(
        ranks={n: np.array([s.ranks[n] for s in scores]) for n in scores[0].ranks},
        inside=np.stack([s.inside for s in scores]),
        times=times,
        states=(*model.states, *(v for v in simulations[0].data.variables if v in model.observables)),
        dropped=dropped,
        errors=errors,
        slow=sum(s.fewest_effective < THINNED for s in scores),
        acting=_acting(scores, np.random.default_rng(seed)),
    )


def _acting(scores: Sequence[Score], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """For each term (fits, 2) what fits said, and whether it acts, which the true coefficient tells up to chance."""
    found = {}
    for term in scores[0].acting:
        said, given_truth = np.array([s.acting[term] for s in scores]).T
        found[term] = np.stack([said, rng.random(len(scores)) < given_truth], axis=1)
    return found


def _score(posterior: Posterior, context: Any) -> Score:
    """Ranks of a simulation's truth among draws of its posterior, and which of its states the forecast's bands hold."""
    simulation, times = context
    ranks = {}
    fewest = np.inf
    for label, name, index in posterior.entries():
        values: Any = posterior.draws[name].transpose("chain", "draw", ...).to_numpy()
        draws = values[(..., *index)]
        ranks[label] = _rank(draws, float(simulation.truth[name][index]))
        fewest = min(fewest, bulk_ess(draws))
    if simulation.unconstrained is not None:
        assert posterior.problem is not None
        at_truth, _ = log_density(posterior.problem, simulation.unconstrained)
        ranks[_DENSITY] = _rank(posterior.stats["log_density"].to_numpy(), at_truth)
    return Score(ranks, _inside(posterior, simulation, times), float(fewest), _acting_terms(posterior, simulation))


def _acting_terms(posterior: Posterior, simulation: Simulation) -> dict[str, tuple[float, float]]:
    """Of each candidate term, the probability that it acts: given the data, and given the truth."""
    assert posterior.problem is not None
    found = {}
    for state, right in posterior.problem.dynamics.right_sides().items():
        for term in right.candidates:
            if term.free and term.acting is not None:
                draws: Any = posterior.draws[term.acting].transpose("chain", "draw", ...).to_numpy()
                given_truth = float(simulation.truth[term.acting][term.index])
                found[f"{term.array}[{state}, {term.name}]"] = float(draws[(..., *term.index)].mean()), given_truth
    return found


def _inside(posterior: Posterior, simulation: Simulation, times: np.ndarray) -> np.ndarray:
    if np.isnan(simulation.states).any():
        return np.full(simulation.states.shape, np.nan)
    low, high = (end.to_numpy() for end in forecast(posterior, times).interval(BAND))
    return ((simulation.states >= low) & (simulation.states <= high)).astype(float)


def _acting_p_value(said: np.ndarray, acts: np.ndarray, rng: np.random.Generator) -> float:
    """Chance of a term that is said to act with probabilities ``said`` (fits,) and does where ``acts`` is 1."""
    variance = said * (1.0 - said)
    if not variance.sum() > 0:  # all fits were certain
        return float(np.array_equal(acts, said))
    weights = np.stack([np.ones_like(said), said - (said * variance).sum() / variance.sum()])
    widths = np.sqrt(np.maximum((weights**2 * variance).sum(axis=1), 1e-300))

    def off(happened: np.ndarray) -> np.ndarray:
        """The larger of both scores (n,), of outcomes (n, fits)."""
        return np.abs((happened - said) @ weights.T / widths).max(axis=1)

    at_chance = off(rng.random((_CHANCES, said.size)) < said)
    return float((1 + (at_chance >= off(acts[None])).sum()) / (1 + _CHANCES))


def _rank(draws: np.ndarray, truth: float) -> int:
    flat = draws.ravel()
    # The middle of each of equal pieces: ends of chains are as far from one another as other draws are.
    chosen = flat[((np.arange(THINNED) + 0.5) * flat.size / THINNED).astype(int)]
    return int((chosen < truth).sum())
