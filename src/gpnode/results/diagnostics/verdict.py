"""A verdict in plain words: can these draws be used, do the equations explain the data, and if not, what helps?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpnode.inference.checks import Check
from gpnode.inference.samplers.base import Method
from gpnode.inference.starting.accuracy import SHIFT_LIMIT
from gpnode.inference.stopping.modes import Modes
from gpnode.inference.stopping.statistics import (
    ESS_LIMIT,
    RHAT_LIMIT,
    bulk_ess,
    gelman_rubin,
    geweke,
    rank_rhat,
    tail_ess,
)
from gpnode.inference.stopping.weighing import Weights
from gpnode.results.diagnostics.audit import widths_against_prior
from gpnode.results.diagnostics.explaining import adequacy_checks
from gpnode.results.posterior import Posterior
from gpnode.results.record import Record

DIVERGENCE_LIMIT = 0.01
WEIGHT_ERROR_LIMIT = 0.1
GEWEKE_LIMIT = 0.25
"""Part of Geweke's z-scores beyond two; of a chain that has forgotten its start a twentieth is."""
UNINFORMED = 0.9
"""A posterior this wide compared with its prior was not informed by the data."""


@dataclass(frozen=True)
class Verdict:
    """All findings, in two halves: whether the draws can be used, and whether the equations explain the data."""

    checks: tuple[Check, ...]
    is_sample: bool

    @property
    def converged(self) -> bool:
        """Whether no check of the sampling failed."""
        return not any(check.half == "sampling" for check in self.failed)

    @property
    def explains(self) -> bool:
        """Whether no check of the model failed. Without the model, as in a file that was loaded alone, none is made."""
        return not any(check.half == "model" for check in self.failed)

    @property
    def judges_model(self) -> bool:
        """Whether there are checks of the model."""
        return any(check.half == "model" and check.passed is not None for check in self.checks)

    @property
    def recommended(self) -> bool:
        """Whether the equations can be used: the draws can, and the equations explain the data."""
        return self.is_sample and self.converged and self.judges_model and self.explains

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.passed is False)

    @property
    def headline(self) -> str:
        """The verdict in one sentence, on both halves."""
        reason = next((check.reason for check in self.failed if check.half == "model"), "")
        if self.is_sample and self.converged:
            if not self.judges_model:
                return "CONVERGED: the draws can be used. Whether the equations explain the data needs the model."
            if self.explains:
                return "CONVERGED, AND THE EQUATIONS EXPLAIN THE DATA."
            return f"CONVERGED, BUT {reason}: do not use the equations as they are."
        sampling = self._sampling
        return sampling if self.explains else f"{sampling} Besides, {reason}."

    @property
    def _sampling(self) -> str:
        """What is to be said of draws that are not all well."""
        if not self.is_sample and self.converged:
            return "APPROXIMATE: a normal approximation at the highest density; it agrees with the density around it."
        if not self.is_sample:
            return "APPROXIMATE, AND POORLY: the normal approximation misses the shape of the posterior."
        failed = {check.name for check in self.failed if check.half == "sampling"}
        if failed == {"one mode"}:
            return "SEVERAL MODES: the main ones are sampled well, and how they weigh up is an estimate."
        if failed == {"one mode", "weights of modes"}:
            return "SEVERAL MODES: the main ones are sampled well, but how they weigh up is not settled."
        return "NOT CONVERGED: do not use these draws yet."

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to do about the checks that failed."""
        return tuple(dict.fromkeys(c.remedy for c in self.failed if c.remedy))

    def __str__(self) -> str:
        marks = {True: "ok  ", False: "FAIL", None: "note"}
        halves = [[c for c in self.checks if c.half == half] for half in ("sampling", "model")]
        lines = []
        for title, checks in zip(("the sampling", "the model"), halves, strict=True):
            lines += [f" {title}", *(f"  {marks[c.passed]} {c.name}: {c.finding}" for c in checks)] if checks else []
        return "\n".join([f"Verdict: {self.headline}", *lines, *(f"  -> {remedy}" for remedy in self.remedies)])

    def _repr_html_(self) -> str:
        from gpnode.render import notebook

        return notebook.verdict(self)


def diagnose(posterior: Posterior) -> Verdict:
    """Check a posterior. NaN counts as failure.

    >>> gn.diagnose(posterior).explains
    True
    """
    method, record = posterior.record.sampler(), posterior.record
    checks = [
        *(_sample_checks(posterior, method) if method.is_sample else []),
        *method.checks(posterior.stats, record.as_dict()),
        *_common_checks(record),
        *adequacy_checks(posterior),
        *_audit_remarks(posterior),
    ]
    return Verdict(tuple(checks), method.is_sample)


def _sample_checks(posterior: Posterior, method: Method) -> list[Check]:
    scalars = dict(posterior.scalars())
    modes = posterior.visits
    apart = modes.count > 1
    parts = [(modes.of(v, mode), n) for n, v in scalars.items() for mode in modes.main]
    diverging = posterior.stats["diverging"].to_numpy()
    worst_rhat, at_rhat = max((rank_rhat(v), n) for v, n in parts)
    bulk, at_bulk, size = min((bulk_ess(v), n, v.size) for v, n in parts)
    tail, at_tail = min((tail_ess(v), n) for v, n in parts)
    classic, at_classic = max((gelman_rubin(v), n) for v, n in parts)
    scores = np.concatenate([geweke(v).ravel() for v, _ in parts])
    drifting = float(np.mean(~(np.abs(scores) <= 2.0)))  # NaN counts as drift
    fraction = float(diverging.mean())
    draws = 2 * max(posterior.record.draws_made or [posterior.draws.sizes["draw"]])
    more = f"Run longer: method={type(method).__name__}(draws={draws})."
    chains = posterior.draws.sizes["chain"]
    within = ", within each mode" if apart else ""
    return [
        *(_modes_checks(modes, posterior.mode_weights) if apart else []),
        Check(
            "chains agree",
            worst_rhat <= RHAT_LIMIT,
            f"worst R-hat {worst_rhat:.3f} ({at_rhat}){within}, limit {RHAT_LIMIT}",
            more if chains > 1 else "Run at least two chains, so that they can be compared.",
        ),
        Check(
            "enough independent draws",
            bulk >= ESS_LIMIT and tail >= ESS_LIMIT,
            f"smallest effective sample size {bulk:.0f} in the bulk ({at_bulk}), {tail:.0f} in the tails ({at_tail})"
            f"{within}, limit {ESS_LIMIT}; one in {size / max(bulk, 1.0):.0f} of the draws kept is independent where "
            "it is slowest",
            more,
        ),
        Check(
            "no drift",
            drifting <= GEWEKE_LIMIT,
            f"{drifting:.0%} of Geweke's z-scores beyond two, limit {GEWEKE_LIMIT:.0%}; "
            f"classic Gelman-Rubin at most {classic:.3f} ({at_classic})",
            more,
        ),
        Check(
            "no region left out",
            fraction < DIVERGENCE_LIMIT,
            f"{int(diverging.sum())} of {diverging.size} draws diverged ({fraction:.1%}), limit {DIVERGENCE_LIMIT:.0%}",
            "Divergences mark places the sampler cannot follow, and R-hat does not see what it missed. "
            f"Try {method.alternative}narrower priors, or fewer candidate terms.",
        ),
    ]


def _modes_checks(modes: Modes, weights: Weights) -> list[Check]:
    """What there is to say of several modes, and of their weights."""
    by_time = np.array_equal(weights.values, modes.weights)
    spent = ", ".join(f"{w:.0%}" for w in modes.weights)
    shares = ", ".join(f"{w:.1%} ± {e:.1%}" for w, e in zip(weights.values, weights.errors, strict=True))
    how = "by the time spent in them" if by_time else f"by bridge sampling, not by the time spent in them ({spent}),"
    detail = f"{how} {shares}, standard errors at most {WEIGHT_ERROR_LIMIT:.0%} wanted"
    if np.isinf(weights.errors).any():
        few = "too few ways from one mode to another" if modes.switches else "no way from one mode to another"
        detail = (
            f"{few} for the time spent in them ({spent}) to tell their weights, and none is known by bridge sampling: "
            "no simple density is like a mode"
        )
    left_out = modes.count - len(modes.main)
    rare = f"; {left_out} of them too rarely visited to be judged" if left_out else ""
    return [
        Check(
            "one mode",
            False,
            f"draws fall into {modes.count} modes between which chains went {modes.switches} times{rare}",
            "Look at each mode by itself, posterior.modes(), at all with their weights, posterior.reweighted(), or "
            "tell them apart by a narrower prior.",
        ),
        Check(
            "weights of modes",
            bool(weights.errors.max() <= WEIGHT_ERROR_LIMIT),
            detail,
            "Run longer for the weights of the modes, or look at each by itself.",
        ),
    ]


def _common_checks(record: Record) -> list[Check]:
    counted = ", ".join(f"{n} {cause}" for cause, n in record.solver_failures.items() if n) or "none"
    checks = [Check("failed solves while sampling", None, counted)]
    accuracy = record.accuracy
    if accuracy is not None:
        error, shift = accuracy.largest_error, accuracy.largest_shift
        checks.append(
            Check(
                "solver accurate",
                shift < SHIFT_LIMIT,
                f"against a tight solve the log density of {accuracy.draws} draws is off by at most {error:.2g}, "
                f"which shifts means by at most {shift:.2g} standard deviations, limit {SHIFT_LIMIT}",
                "The solver's steps are too coarse for some draws: pass solver=Adaptive().",
            )
        )
    if record.out_of_time and record.budget is not None:
        made = f"{min(record.draws_made)} draws a chain" if record.draws_made else "no draw"
        checks.append(Check("time", None, f"the budget of {record.budget:.0f} s ended the run, with {made}"))
    if record.interrupted:
        checks.append(
            Check(
                "run complete",
                False,
                "the run was interrupted",
                "Go on with it: gpnode resume, or the same fit with its checkpoint.",
            )
        )
    return checks


def _audit_remarks(posterior: Posterior) -> list[Check]:
    """What the data left open: a remark, which decides nothing."""
    idle = [name for name, ratio in widths_against_prior(posterior).items() if ratio > UNINFORMED]
    if idle:
        finding = f"{', '.join(idle)}: as wide as the prior, so the data say next to nothing about it"
        return [Check("not informed by the data", None, finding, half="model")]
    return []
