"""Chains from their start to the end of a run: run here and now, or read from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.errors import CheckpointError
from gpnode.inference.running.budget import Budget, OutOfTime
from gpnode.inference.running.chains import Chain, run_chains, start_chains
from gpnode.inference.running.checkpoint import Checkpoint, read_chain
from gpnode.inference.running.executors import ExecutorChoice
from gpnode.inference.running.progress import Display
from gpnode.inference.running.traces import Trace
from gpnode.inference.sampled import Sampled, from_chains, with_details
from gpnode.inference.samplers.base import Sampler
from gpnode.inference.starting.accuracy import with_finer_steps
from gpnode.inference.starting.start import Start
from gpnode.inference.stopping.agreement import Agreement, Report, find_agreement
from gpnode.inference.stopping.schedule import Goal, settled_rows, thin_to_equal_length, without_beginners
from gpnode.inference.stopping.statistics import disagreement
from gpnode.problem.density import Problem
from gpnode.problem.evaluation import report_draws


class LiveSession:
    """Runs chains until they agree or the budget is spent, keeping them in a checkpoint if there is one."""

    def __init__(
        self, display: Display, executor: ExecutorChoice, checkpoint: Checkpoint | None, budget: Budget | None = None
    ) -> None:
        self._display, self._executor, self._checkpoint = display, executor, checkpoint
        self._budget = budget or Budget()

    def run(self, sampler: Sampler, start: Start, points: Sequence[np.ndarray], key: Array) -> tuple[Start, Sampled]:
        """What chains leave behind, and the start they had: another one if the solver's steps had to be finer."""
        display, checkpoint = self._display, self._checkpoint
        display.say("compiling the sampler")
        chains = start_chains(start.problem, start.whitenings(sampler.chains), list(points), key, sampler)
        if checkpoint is not None:
            for chain in chains:
                checkpoint.restore(chain)
        keep = _forget if checkpoint is None else checkpoint.keep
        goals = sampler.stopping.goals(sampler.draws)
        traces = [chain.trace for chain in chains]
        out_of_time = False
        stops, inactive = [goals[0]] * len(chains), frozenset[int]()
        report = reporter(start.problem)
        try:
            for goal in (*sampler.stopping.checks_before(goals[0]), *goals):

                def show(_: list[Chain], goal: Goal = goal, inactive: frozenset[int] = inactive) -> None:
                    display.chains(chains, sampler, max(goal, goals[0]), inactive)

                active = [chain for i, chain in enumerate(chains) if i not in inactive]
                stops = [stop if i in inactive else goal for i, stop in enumerate(stops)]
                run_chains(start.problem, active, sampler, self._steps_to(goal, sampler), show, self._executor, keep)
                if any(chain.steps_to(goal, sampler.warmup) > 0 for chain in active):  # the budget is spent
                    rows, out_of_time = _rows_so_far(traces, inactive, goal, sampler), True
                    if not rows:
                        raise OutOfTime
                    agreement = Agreement(True, rows)
                    break
                rows = _rows_to(traces, stops)
                if goal < goals[-1]:
                    finer = self._finer(start, rows, sampler, early=goal not in goals)
                    if finer is not None:
                        display.say(
                            "the solver's steps are too coarse where the chains went: beginning there with finer ones"
                        )
                        if checkpoint is not None:
                            checkpoint.begin_again(*finer)
                        return self.run(sampler, *finer, key)
                if goal not in goals:
                    continue
                agreement = _agreement_at_goal(rows, sampler, report)
                if agreement.reached:
                    break
                inactive = agreement.inactive
                display.say(_going_on(goal, agreement, report))
        except KeyboardInterrupt:
            rows = _rows_so_far(traces, inactive, goal, sampler)
            if checkpoint is not None or not rows:
                raise
            agreement = Agreement(False, rows)
        failures = np.sum([c.warmup_failures for c in chains], axis=0)
        made = [len(goal.rows(trace.read())) for goal, trace in zip(stops, traces, strict=True) if trace.count]
        sampled = from_chains(agreement.rows, made, failures, interrupted=not agreement.reached)
        return start, with_details(sampled, budget=self._budget.seconds, out_of_time=out_of_time)

    def _finer(
        self, start: Start, rows: list[np.ndarray], sampler: Sampler, early: bool
    ) -> tuple[Start, list[np.ndarray]] | None:
        """Another start if the solver's steps are too coarse where chains are, and all of them have settled."""
        late = sampler.stopping.late(rows)
        if not all(map(len, late)):
            return None
        draws = np.stack([chain["draw"] for chain in thin_to_equal_length(late)])
        return with_finer_steps(start, draws, [chain["draw"][-1] for chain in rows], early)

    def _steps_to(self, goal: Goal, sampler: Sampler) -> Callable[[Chain], int]:
        return lambda chain: 0 if self._budget.is_spent else chain.steps_to(goal, sampler.warmup)


class KeptSession:
    """Reads what chains have left in a checkpoint so far; the run may go on meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seconds = 0.0

    def run(self, sampler: Sampler, start: Start, points: Sequence[np.ndarray], key: Array) -> tuple[Start, Sampled]:
        """The draws so far, marked as interrupted if there are more to come."""
        kept = [read_chain(self._folder, i) for i in range(len(points))]
        chains = [chain for chain in kept if chain is not None and chain[1].count > 0]
        if len(chains) < len(kept):
            done = min(0 if chain is None else int(chain[0]["warm"]) for chain in kept)
            raise CheckpointError(
                f"the run in {self._folder} has no draws yet: {done} of {sampler.warmup} steps of the warm-up are done."
            )
        traces = [trace for _, trace in chains]
        stops, agreement = _replay(traces, sampler, reporter(start.problem))
        if not agreement.rows:
            raise CheckpointError(f"most chains of the run in {self._folder} are warming up again: wait a little.")
        self.seconds = sum(float(arrays["seconds"]) for arrays, _ in chains)
        failures = np.sum([arrays["warmup_failures"] for arrays, _ in chains], axis=0)
        made = [len(goal.rows(trace.read())) for goal, trace in zip(stops, traces, strict=True)]
        return start, from_chains(agreement.rows, made, failures, interrupted=not agreement.reached)


def _replay(traces: Sequence[Trace], sampler: Sampler, report: Report) -> tuple[list[Goal], Agreement]:
    """How far a run has come: the last goals of its chains, and what it found there, or has so far."""
    goals = sampler.stopping.goals(sampler.draws)
    stops, inactive = [goals[0]] * len(traces), frozenset[int]()
    for goal in goals:
        stops = [stop if i in inactive else goal for i, stop in enumerate(stops)]
        if not all(stop.is_reached(trace.read()) for stop, trace in zip(stops, traces, strict=True)):
            return stops, Agreement(False, _rows_so_far(traces, inactive, goal, sampler))
        agreement = _agreement_at_goal(_rows_to(traces, stops), sampler, report)
        if agreement.reached:
            break
        inactive = agreement.inactive
    return stops, agreement


def _rows_to(traces: Sequence[Trace], stops: Sequence[Goal]) -> list[np.ndarray]:
    """Rows of each chain up to its goal."""
    return [stop.rows(trace.read()) for trace, stop in zip(traces, stops, strict=True)]


def _rows_so_far(traces: Sequence[Trace], inactive: frozenset[int], goal: Goal, sampler: Sampler) -> list[np.ndarray]:
    """What to keep of a run that is cut short on the way to a ``goal``; nothing if hardly any chain has draws."""
    made = {i: trace.read() for i, trace in enumerate(traces) if trace.count}
    if sampler.draws is None:
        others = min([len(rows) for i, rows in made.items() if i not in inactive], default=0)
        stops = {i: len(rows) if i in inactive else others for i, rows in made.items()}
        kept = sampler.stopping.late([rows[: min(stops[i], goal.steps)] for i, rows in made.items()])
    else:
        kept = [settled_rows(goal.rows(rows)) for rows in made.values()]
    kept = without_beginners(kept) if kept else []
    if len(kept) < min(2, len(traces)) or not all(map(len, kept)):
        return []
    return kept if sampler.draws is None else [rows[: min(map(len, kept))] for rows in kept]


def _agreement_at_goal(rows: list[np.ndarray], sampler: Sampler, report: Report) -> Agreement:
    """Whether to stop at a goal; at the last one in any case."""
    if sampler.draws is not None:
        return Agreement(True, [settled_rows(chain) for chain in rows])
    agreement = find_agreement(rows, sampler.stopping, report)
    at_the_end = sampler.stopping.goals(None)[-1].is_reached(max(rows, key=len))
    return agreement._replace(reached=agreement.reached or at_the_end)


def reporter(problem: Problem) -> Report:
    """Draws, and beside them the numbers that a user sees, but for those that never change."""

    def report(draws: np.ndarray) -> np.ndarray:
        values = [
            np.asarray(v).reshape(*draws.shape[:2], -1) for v in report_draws(problem, jnp.asarray(draws)).values()
        ]
        numbers = np.concatenate(values, axis=-1)
        return np.concatenate([draws, numbers[..., np.ptp(numbers, axis=(0, 1)) > 0]], axis=-1)

    return report


def _going_on(goal: Goal, agreement: Agreement, report: Report) -> str:
    """What to say at a goal that is not the end."""
    inactive = agreement.inactive
    active = [chain for i, chain in enumerate(agreement.rows) if i not in inactive]
    some = f" with {len(active)} of {len(agreement.rows)} chains, for the others know their modes well"
    begun = f"after {goal.steps} draws each, "
    if not all(map(len, active)):
        return f"{begun}a chain is warming up again: going on{some if inactive else ''}"
    worst = disagreement(report(np.stack([chain["draw"] for chain in thin_to_equal_length(active)])))
    return f"{begun}{worst} in what is kept: going on{some if inactive else ''}"


def _forget(chain: Chain) -> None:
    """Without a checkpoint, draws are in memory only."""
