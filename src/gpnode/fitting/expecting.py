"""How long a fit will take, by making a few of its steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gpnode.data.observations import Observations
from gpnode.fitting.single import default_method, run_fit
from gpnode.inference.running.progress import Display
from gpnode.inference.samplers.base import Method, Sampler
from gpnode.model.model import Model

_WARMUP, _FEW, _MORE = 100, 10, 60  # of the steps made; the pace is that of the last ones
_GOALS = 2  # times the first goal: where about half of the fits end


def expected_seconds(
    model: Model, data: Observations, method: Method | None, seed: int, say: Callable[[str], None] = lambda what: None
) -> float:
    """Seconds a fit takes on this machine, about: those of its start, and as many steps as fits mostly need.

    Nobody knows beforehand how many draws it will take until chains agree; half as long, or twice, is usual.
    """
    method = method or default_method(model, data)
    if not isinstance(method, Sampler):
        return _seconds_of(lambda: run_fit(model, data, method, seed, Display(False), None, None))
    say("making a few steps, to see how long a fit takes")
    with TemporaryDirectory() as folder:

        def take(steps: int) -> float:
            short = replace(method, warmup=_WARMUP, draws=steps)  # type: ignore[type-var]
            return _seconds_of(lambda: run_fit(model, data, short, seed, Display(False), None, Path(folder)))

        start, longer = take(_FEW), take(_MORE)
        overhead = take(_MORE)  # nothing is left to do
    pace = max(0.0, longer - overhead) / (_MORE - _FEW)
    draws = method.draws or _GOALS * method.stopping.first_goal
    return start + pace * (method.warmup - _WARMUP + draws)


def _seconds_of(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun
