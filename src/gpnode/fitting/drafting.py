"""A first look at a fit, made beside the chains while these begin."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from types import TracebackType

import jax

from gpnode.data.observations import Observations
from gpnode.fitting.assembly import assemble
from gpnode.inference.samplers.laplace import Laplace
from gpnode.inference.starting.start import Start
from gpnode.model.model import Model
from gpnode.results.posterior import Posterior

Show = Callable[[Posterior], None]


class Drafting:
    """The normal approximation at the best maximum, handed to ``show`` in a thread that lasts as long as the context.

    Chains know nothing of it. What goes wrong is a warning: the fit itself goes on.
    """

    def __init__(self, show: Show | None, model: Model, data: Observations, seed: int, start: Start) -> None:
        self._show, self._described, self._start = show, (model, data), start
        self._seed, self._begun = seed, time.perf_counter()
        self._thread = threading.Thread(target=self._draft, name="draft")
        self._error: Exception | None = None

    def __enter__(self) -> Drafting:
        if self._show is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._show is not None:
            self._thread.join()
        if self._error is not None:
            warnings.warn(f"there is no first look at this fit: {self._error}", stacklevel=2)

    def _draft(self) -> None:
        assert self._show is not None
        method = Laplace()
        try:
            start, sampled = method.draw_approximation(self._start, jax.random.key(self._seed))
            seconds = time.perf_counter() - self._begun
            self._show(assemble(*self._described, method, self._seed, start, sampled, seconds))
        except Exception as error:  # of any kind: it is a thread of its own, and the chains are what matters
            self._error = error
