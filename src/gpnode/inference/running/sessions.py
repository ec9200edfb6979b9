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
from gpnode.inference.stopping.schedule import thin_to_equal_length
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
        stops, inactive = [0] * len(chains), frozenset[int]()
        try:
            for goal in (*sampler.stopping.checks_before(goals[0]), *goals):

                def show(_: list[Chain], goal: int = goal, inactive: frozenset[int] = inactive) -> None:
                    display.chains(chains, sampler, max(goal, goals[0]), inactive)

                active = [chain for i, chain in enumerate(chains) if i not in inactive]
                stops = [stop if i in inactive else goal for i, stop in enumerate(stops)]
                run_chains(start.problem, active, sampler, self._steps_to(goal, sampler), show, self._executor, keep)
                if any(chain.trace.count < goal for chain in active):  # the budget is spent
                    if not all(trace.count for trace in traces):
                        raise OutOfTime
                    rows, out_of_time = _rows_so_far(traces, inactive, goal), True
                    agreement = Agreement(True, sampler.stopping.late(rows) if sampler.draws is None else rows)
                    break
                rows = _first_rows(traces, stops)
                if goal < goals[-1]:
                    draws = np.stack([r["draw"] for r in thin_to_equal_length(rows)])
                    finer = with_finer_steps(start, draws, sampler.chains, early=goal not in goals)
                    if finer is not None:
                        display.say(
                            "the solver's steps are too coarse where the chains went: beginning there with finer ones"
                        )
                        if checkpoint is not None:
                            checkpoint.begin_again(*finer)
                        return self.run(sampler, *finer, key)
                if goal not in goals:
                    continue
                agreement = _agreement_at_goal(rows, sampler, reporter(start.problem))
                if agreement.reached:
                    break
                inactive = agreement.inactive
                display.say(_going_on(rows, inactive))
        except KeyboardInterrupt:
            if checkpoint is not None or not all(trace.count for trace in traces):
                raise
            rows = _rows_so_far(traces, inactive, goal)
            agreement = Agreement(False, rows)
        failures = np.sum([c.warmup_failures for c in chains], axis=0)
        made = [len(r) for r in rows]
        sampled = from_chains(agreement.rows, made, failures, interrupted=not agreement.reached)
        return start, with_details(sampled, budget=self._budget.seconds, out_of_time=out_of_time)

    def _steps_to(self, draws: int, sampler: Sampler) -> Callable[[Chain], int]:
        return lambda chain: 0 if self._budget.is_spent else chain.steps_to(draws, sampler.warmup)


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
        goals = sampler.stopping.goals(sampler.draws)
        traces = [trace for _, trace in chains]
        rows = _rows_so_far(traces, _inactive(traces, sampler, reporter(start.problem)), goals[-1])
        self.seconds = sum(float(arrays["seconds"]) for arrays, _ in chains)
        at_a_goal = max(map(len, rows)) in goals
        agreement = _agreement_at_goal(rows, sampler, reporter(start.problem)) if at_a_goal else Agreement(False, rows)
        failures = np.sum([arrays["warmup_failures"] for arrays, _ in chains], axis=0)
        made = [len(r) for r in rows]
        return start, from_chains(agreement.rows, made, failures, interrupted=not agreement.reached)


def _inactive(traces: Sequence[Trace], sampler: Sampler, report: Report) -> frozenset[int]:
    """Which chains were inactive since the last goal that some have passed."""
    longest = max(trace.count for trace in traces)
    passed = [goal for goal in sampler.stopping.goals(sampler.draws) if goal < longest]
    if not passed or len({trace.count for trace in traces}) == 1:
        return frozenset()
    rows = [trace.read()[: passed[-1]] for trace in traces]
    return find_agreement(rows, sampler.stopping, report).inactive


def _rows_so_far(traces: Sequence[Trace], inactive: frozenset[int], most: int) -> list[np.ndarray]:
    """Rows of each chain, equally many but for those that are inactive, and at most so many."""
    others = min(trace.count for i, trace in enumerate(traces) if i not in inactive)
    stops = [trace.count if i in inactive else others for i, trace in enumerate(traces)]
    return _first_rows(traces, [min(stop, most) for stop in stops])


def _first_rows(traces: Sequence[Trace], stops: Sequence[int]) -> list[np.ndarray]:
    return [trace.read()[:stop] for trace, stop in zip(traces, stops, strict=True)]


def _agreement_at_goal(rows: list[np.ndarray], sampler: Sampler, report: Report) -> Agreement:
    """Whether to stop at a goal; at the last one in any case."""
    goals = sampler.stopping.goals(sampler.draws)
    at_the_end = max(map(len, rows)) == goals[-1]
    if len(goals) == 1:
        return Agreement(at_the_end, rows)
    agreement = find_agreement(rows, sampler.stopping, report)
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


def _going_on(rows: list[np.ndarray], inactive: frozenset[int]) -> str:
    """What to say at a goal that is not the end."""
    active = [chain for i, chain in enumerate(rows) if i not in inactive]
    worst = disagreement(np.stack([chain["draw"] for chain in thin_to_equal_length(active)]))
    some = f" with {len(active)} of {len(rows)} chains, for the others know their modes well" if inactive else ""
    return f"after {max(map(len, active))} draws each, {worst}: going on{some}"


def _forget(chain: Chain) -> None:
    """Without a checkpoint, draws are in memory only."""
