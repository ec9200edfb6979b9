"""Digests of every array of six small fits: what a change that is to change no result leaves equal, bit for bit.

    python tests/robustness/golden_draws.py before.json     # at the old code, twice: the second run has a warm cache
    python tests/robustness/golden_draws.py after.json      # at the new code, likewise
    diff before.json after.json

Together the fits touch every kind of dynamics, coefficient prior, kernel, noise, transform, solver and sampler, several
experiments, a checkpoint that is gone on with, and a pool of spawned processes. Bits depend on the processor, so no
digests are kept with the code.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import jax.numpy as jnp
import numpy as np

import gpnode as gn

K = gn.kernels


def decay(t, x, p):
    return {"a": -p.rate * x.a, "b": p.rate * x.a - 0.3 * x.b}


def indexed(t, x, p):
    table = jnp.asarray([1.0, 1.0, 1.0])
    return {"a": -p.rate * table[jnp.asarray(jnp.abs(x.a), int) % 3] * x.a}


def decay_data(n: int = 14, experiments: int = 1) -> gn.Observations:
    rng = np.random.default_rng(1)
    t = np.linspace(0.0, 4.0, n)
    series = {}
    for r in range(experiments):
        a = (2.0 + r) * np.exp(-0.7 * t)
        b = (2.0 + r) * 0.7 / 0.4 * (np.exp(-0.3 * t) - np.exp(-0.7 * t)) + 0.5
        noise = rng.normal(size=(2, n))
        series[f"run{r}"] = {"a": (t, a * np.exp(0.03 * noise[0])), "b": (t[2:], (b * np.exp(0.03 * noise[1]))[2:])}
    if experiments == 1:
        return gn.Observations(series["run0"])
    return gn.Observations.from_trajectories(series)


def oscillation(n: int = 26) -> gn.Observations:
    rng = np.random.default_rng(2)
    t = np.linspace(0.0, 8.0, n)
    noise = 0.05 * rng.normal(size=(2, n))
    return gn.Observations({"x": (t, np.cos(t) + noise[0]), "y": (t, -np.sin(t) + noise[1])})


def pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def known_form_of_two_experiments() -> gn.Posterior:
    model = gn.Model(
        gn.KnownForm(["a", "b"], decay, {"rate": gn.LogNormal(0.0, 1.0)}),
        kernel={"a": K.SquaredExponential(), "b": None},
        noise={"a": gn.Noise(), "b": gn.Noise(std=0.1, relative=False)},
    )
    return gn.fit(
        model, decay_data(experiments=2), seed=1, method=gn.Lifted(draws=60, warmup=60, chains=2), progress=False
    )


def dictionary_gone_on_with() -> gn.Posterior:
    model = gn.Model(
        gn.Dictionary(["a", "b"], gn.polynomial(degree=1), prior=gn.FinnishHorseshoe()),
        transform={"a": gn.Log(), "b": gn.Identity()},
        kernel=K.Matern32(),
        noise=gn.Noise(std=gn.LogNormal(-3.0, 1.0)),
    )
    with tempfile.TemporaryDirectory() as folder:
        for draws in (30, 70):
            method = gn.Lifted(draws=draws, warmup=60, chains=2)
            found = gn.fit(model, decay_data(), seed=2, method=method, progress=False, checkpoint=folder)
        return found


def sum_on_spawned_processes() -> gn.Posterior:
    known = gn.KnownForm(["x", "y"], lambda t, x, p: {"x": p.w * x.y, "y": -p.w * x.x}, {"w": gn.LogNormal(0.0, 0.5)})
    missing = gn.Dictionary(["y"], gn.polynomial(degree=1), prior=gn.Horseshoe())
    model = gn.Model(
        gn.Sum(known=known, missing=missing), kernel=K.Periodic(period=0.4), solver=gn.FixedGrid(), initial={"x": 1.0}
    )
    method = gn.NUTS(draws=30, warmup=40, chains=2, max_depth=5)
    return gn.fit(model, oscillation(), seed=3, method=method, progress=False, executor=pool)


def laplace_of_fourier_terms() -> gn.Posterior:
    terms = gn.fourier() + gn.term("pull", lambda x: x.x / (1.0 + x.x**2)) + gn.polynomial(degree=1, constant=False)
    model = gn.Model(
        gn.Dictionary(["x", "y"], terms, prior=gn.priors.Gaussian(1.0)),
        kernel=K.Matern12() + K.RationalQuadratic(),
        solver=gn.Adaptive(),
    )
    return gn.fit(model, oscillation(), seed=4, method=gn.Laplace(draws=60), progress=False)


def stiff_by_native_code() -> gn.Posterior:
    model = gn.Model(
        gn.KnownForm(["a", "b"], decay, {"rate": gn.Gamma(2.0, 2.0)}),
        kernel=K.Matern52(variance=0.5) * K.SquaredExponential(variance=1.0, halved=False),
        solver=gn.Stiff(),
        initial={"b": gn.Normal(0.5, 0.2)},
    )
    return gn.fit(model, decay_data(), seed=5, method=gn.Lifted(draws=40, warmup=60, chains=2), progress=False)


def long_series_by_array_code() -> gn.Posterior:
    t = np.linspace(0.0, 3.0, 320)
    a = 2.0 * np.exp(-0.7 * t) + 0.05 * np.random.default_rng(3).normal(size=t.size)
    model = gn.Model(
        gn.Sum(
            one=gn.KnownForm(["a"], indexed, {"rate": gn.LogNormal(0.0, 1.0)}),
            two=gn.Dictionary(["a"], gn.polynomial(degree=1), prior=gn.priors.Laplace(0.3)),
        ),
        kernel=K.Matern32() + K.Matern12(),
        solver=gn.Stiff(),
    )
    method = gn.NUTS(draws=10, warmup=20, chains=2, max_depth=3)
    return gn.fit(model, gn.Observations({"a": (t, a)}), seed=6, method=method, progress=False)


FITS = (
    known_form_of_two_experiments,
    dictionary_gone_on_with,
    sum_on_spawned_processes,
    laplace_of_fourier_terms,
    stiff_by_native_code,
    long_series_by_array_code,
)


def digests(posterior: gn.Posterior) -> dict[str, str]:
    """A digest of every array of draws and of their statistics, by name."""
    arrays = {f"draws/{n}": posterior.draws[n].values for n in posterior.draws.data_vars}
    arrays |= {f"stats/{n}": posterior.stats[n].values for n in posterior.stats.data_vars}
    arrays["unconstrained"] = posterior.unconstrained
    forecast = gn.forecast(posterior, np.linspace(*_span(posterior), 7), trajectory=posterior.data.trajectories[-1])
    arrays |= {f"forecast/{part}": np.asarray(getattr(forecast, part)) for part in ("states", "ode", "expected")}
    return {n: hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:16] for n, a in sorted(arrays.items())}


def _span(posterior: gn.Posterior) -> tuple[float, float]:
    return min(s.times[0] for s in posterior.data.series), 1.2 * max(s.times[-1] for s in posterior.data.series)


def main() -> None:
    chosen = sys.argv[2:] or [f.__name__ for f in FITS]
    found = {}
    for fit in FITS:
        if fit.__name__ in chosen:
            begun = time.perf_counter()
            found[fit.__name__] = digests(fit())
            print(f"{fit.__name__}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
