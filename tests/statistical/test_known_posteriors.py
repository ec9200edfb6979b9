"""Sampled posteriors against what is known about them by other means."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn
from gpnode.inference.samplers.nuts import NUTS
from gpnode.inference.stopping.statistics import bulk_ess
from gpnode.model.observation import kernels


def monte_carlo_errors(draws: np.ndarray) -> tuple[float, float]:
    """Standard errors of the mean and (relative) of the standard deviation."""
    n = bulk_ess(draws)
    spread = bulk_ess((draws - draws.mean()) ** 2)
    return draws.std() / np.sqrt(n), 1.0 / np.sqrt(2.0 * spread)


def predator_prey(t, x, p):
    return {"hare": (p.alpha - p.beta * x.lynx) * x.hare, "lynx": (-p.gamma + p.delta * x.hare) * x.lynx}


def test_lynx_and_hare_match_the_public_reference(lynx_hare):
    half_normal = gn.TruncatedNormal
    model = gn.Model(
        gn.KnownForm(
            ["hare", "lynx"],
            predator_prey,
            {
                "alpha": half_normal(1.0, 0.5, low=0.0),
                "beta": half_normal(0.05, 0.05, low=0.0),
                "gamma": half_normal(1.0, 0.5, low=0.0),
                "delta": half_normal(0.05, 0.05, low=0.0),
            },
        ),
        initial={s: gn.LogNormal(np.log(10.0), 1.0) for s in ("hare", "lynx")},
        kernel=None,
        noise=gn.Noise(std=gn.LogNormal(-1.0, 1.0)),
        transform=gn.Log(),
    )
    years = lynx_hare["year"]
    data = gn.Observations({s: (years, lynx_hare[s]) for s in ("hare", "lynx")}, time_unit="year")
    posterior = gn.fit(model, data, method=gn.NUTS(warmup=500, draws=1000), seed=1, progress=False)
    assert posterior.diagnose().converged, str(posterior.diagnose())
    names = {"u0": "hare.initial", "v0": "lynx.initial", "sigma_hare": "hare.noise_std", "sigma_lynx": "lynx.noise_std"}
    reference = lynx_hare["reference"]
    for name, (mean, sd) in reference["mean_sd"].items():
        draws = posterior.draws[names.get(name, name)].to_numpy()
        own_error, _ = monte_carlo_errors(draws)
        combined = np.hypot(own_error, sd / np.sqrt(reference["draws"]))
        assert abs(draws.mean() - mean) < 4.0 * combined, name
        assert draws.std() == pytest.approx(sd, rel=0.10), name


@pytest.mark.parametrize(
    "process", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["noise", "gaussian-process"]
)
def test_linear_system_with_closed_form_posterior(process):
    """dx/dt = a + b t with normal priors: the path is linear in (a, b, x0), so the posterior is normal.

    The two runs start at different times, neither of them zero, and the field depends on time.
    """
    rng = np.random.default_rng(8)
    begin = {"one": 5.0, "two": 7.5}
    times = {"one": 5.0 + np.sort(rng.uniform(0.0, 4.0, 12)), "two": 7.5 + np.sort(rng.uniform(0.0, 3.0, 7))}
    first, noise = {"one": 1.0, "two": -2.0}, 0.7

    def effects(run: str) -> tuple[np.ndarray, np.ndarray]:
        """What one unit of a and of b adds to the path."""
        return times[run] - begin[run], (times[run] ** 2 - begin[run] ** 2) / 2

    values = {}
    for run in times:
        by_a, by_b = effects(run)
        values[run] = first[run] + 2.5 * by_a - 0.4 * by_b + noise * rng.normal(size=by_a.size)
    data = gn.Observations.from_experiments({r: {"x": (times[r], values[r])} for r in times}, start=begin)
    scale = np.abs(np.concatenate(list(values.values()))).max()
    length = max(t[-1] - begin[run] for run, t in times.items())
    kernel = kernels.Matern52(variance=0.05, length_scale=0.3) if process else None
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": p.a + p.b * t}, {"a": gn.Normal(1.0, 2.0), "b": gn.Normal(0.0, 1.0)}),
        initial={"x": gn.Normal(0.5, 3.0)},
        kernel=kernel,
        noise=gn.Noise(std=noise, relative=False),
    )
    posterior = gn.fit(model, data, method=gn.NUTS(warmup=400, draws=1500), seed=2, progress=False)
    assert posterior.diagnose().converged, str(posterior.diagnose())

    prior_mean, prior_var = np.array([1.0, 0.0, 0.5, 0.5]), np.array([4.0, 1.0, 9.0, 9.0])
    precision, shift = np.diag(1 / prior_var), prior_mean / prior_var
    for i, (run, t) in enumerate(times.items()):
        design = np.zeros((t.size, 4))
        design[:, 0], design[:, 1] = effects(run)
        design[:, 2 + i] = 1.0
        lag = np.abs(np.subtract.outer(t, t)) / length * np.sqrt(5.0) / 0.3
        process_cov = 0.05 * scale**2 * (1 + lag + lag**2 / 3) * np.exp(-lag) if process else 0.0
        inverse = np.linalg.inv(process_cov + noise**2 * np.eye(t.size))
        precision = precision + design.T @ inverse @ design
        shift = shift + design.T @ inverse @ values[run]
    cov = np.linalg.inv(precision)
    mean = cov @ shift

    names = ["a", "b", "x.initial.one", "x.initial.two"]
    draws = np.stack([posterior.draws[n].to_numpy() for n in names])
    for k in range(4):
        error, relative = monte_carlo_errors(draws[k])
        assert abs(draws[k].mean() - mean[k]) < 4.5 * error, names[k]
        assert draws[k].std() == pytest.approx(np.sqrt(cov[k, k]), rel=4.5 * relative), names[k]
    correlation = np.corrcoef(draws.reshape(4, -1))
    wanted = cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    assert np.abs(correlation - wanted).max() < 4.5 / np.sqrt(min(bulk_ess(d) for d in draws))

    quick = gn.fit(model, data, method=gn.Laplace(draws=4000), seed=2, progress=False)
    assert quick.diagnose().converged  # a normal posterior is its own Laplace approximation
    assert quick.summary().loc[names, "map"].tolist() == pytest.approx(mean.tolist(), abs=1e-3)


_METHODS = [pytest.param(NUTS(warmup=100, draws=1000), marks=pytest.mark.slow), gn.Lifted(warmup=100, draws=1000)]


@pytest.mark.parametrize("method", _METHODS, ids=["nuts", "lifted"])
def test_chains_on_a_normal_density_are_right(method):
    """A path linear in its parameters: both samplers against the exact mean and spread."""
    t = np.linspace(0.0, 3.0, 10)
    y = 1.0 + 2.0 * t + 0.3 * np.random.default_rng(1).normal(size=t.size)
    model = gn.Model(
        gn.KnownForm(["x"], lambda t, x, p: {"x": p.a}, {"a": gn.Normal(0.0, 5.0)}),
        initial={"x": 1.0},
        kernel=None,
        noise=gn.Noise(std=0.3, relative=False),
    )
    posterior = gn.fit(model, gn.Observations({"x": (t, y)}), method=method, progress=False)
    var = 1.0 / (1 / 25 + (t**2).sum() / 0.09)
    mean = var * (t * (y - 1.0)).sum() / 0.09
    draws = posterior.draws["a"].to_numpy()
    assert draws.mean() == pytest.approx(mean, abs=4 * np.sqrt(var / 800))
    assert draws.std() == pytest.approx(np.sqrt(var), rel=0.1)
