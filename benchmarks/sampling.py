"""Effective draws per second: ``fit`` against numpyro's NUTS on the paper's parameterisation, at equal wall time.

The opponent is the paper's model of predator and prey as its authors run it: explicit horseshoe scales
(centred), Gaussian-process and noise parameters, ``odeint`` with reverse mode, one dense covariance, NUTS
with numpyro's defaults. It is given as many seconds as our whole fit took, compilation included for both.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.experimental.ode import odeint
from numpyro.infer import MCMC, NUTS, init_to_value

import gpnode as gn
from gpnode.inference.stopping.statistics import bulk_ess, rank_rhat
from gpnode.studies import predator_prey as study

CHUNK = 25


def paper_model(t1: Any, y1: Any, t2: Any, y2: Any, grid: Any, rows: Any) -> None:
    """The paper's posterior in its own parameterisation, in units of the data's largest values."""
    terms, states, observations = 7, 2, y1.size + y2.size
    tau0 = 1.0 / (states * terms - 1.0) / jnp.sqrt(observations)
    with numpyro.plate("equations", states):
        tau = numpyro.sample("tau", dist.HalfCauchy(tau0))
    slab = numpyro.sample("slab", dist.InverseGamma(2.0, 2.0))
    lam = numpyro.sample("lam", dist.HalfCauchy(jnp.ones((states, terms))).to_event(2))
    width = jnp.sqrt(slab) * tau[:, None] * lam / jnp.sqrt(slab + (tau[:, None] * lam) ** 2)
    coef = numpyro.sample("coef", dist.Normal(jnp.zeros((states, terms)), width).to_event(2))
    start = numpyro.sample("start", dist.Uniform(4.0, 6.0))
    variance = numpyro.sample("variance", dist.LogNormal(jnp.zeros(2), 1.0).to_event(1))
    length = numpyro.sample("length", dist.Gamma(jnp.ones(2), 0.5).to_event(1))
    noise = numpyro.sample("noise", dist.LogNormal(jnp.zeros(2), 1.0).to_event(1))
    scale = jnp.array([jnp.abs(y1).max(), jnp.abs(y2).max()])

    def field(x: Any, t: Any) -> Any:
        a, b = x
        return coef @ jnp.stack([a, b, a * b, a**2, b**2, a**3, b**3])

    path = odeint(field, jnp.stack([start, study.START[1]]) / scale, grid)
    residual = jnp.concatenate([y1 / scale[0] - path[rows[0], 0], y2 / scale[1] - path[rows[1], 1]])

    def block(t: Any, i: int) -> Any:
        lag = (t[:, None] - t[None]) / study.END
        return variance[i] * jnp.exp(-0.5 * (lag / length[i]) ** 2) + (noise[i] + 1e-8) * jnp.eye(t.size)

    cov = jax.scipy.linalg.block_diag(block(t1, 0), block(t2, 1))
    sound = jnp.all(jnp.isfinite(path))
    density = dist.MultivariateNormal(jnp.zeros(residual.size), cov).log_prob(jnp.where(sound, residual, 0.0))
    numpyro.factor("data", jnp.where(sound, density, -jnp.inf))


def paper_rate(data: gn.Observations, seconds: float, seed: int) -> dict[str, float]:
    """Smallest effective sample size per second of the paper's way within ``seconds``, from a good start."""
    (one,), (two,) = data.of("x1"), data.of("x2")
    grid = np.unique(np.concatenate([[0.0], one.times, two.times]))
    rows = [np.searchsorted(grid, s.times) for s in (one, two)]
    arguments = (one.times, one.values, two.times, two.values, grid, rows)
    scale = np.array([np.abs(one.values).max(), np.abs(two.values).max()])
    unit = np.array([[scale[i] / m for m in _magnitudes(scale)] for i in range(2)])
    start = {
        "coef": study.true_coefficients() / unit + 1e-3,
        "start": 5.0,
        "lam": np.ones((2, 7)),
        "tau": np.full(2, 0.1),
        "slab": 1.0,
        "variance": np.full(2, 0.1),
        "length": np.ones(2),
        "noise": np.full(2, 0.01),
    }
    begun = time.perf_counter()
    chain = MCMC(
        NUTS(paper_model, init_strategy=init_to_value(values=start)),
        num_warmup=100,
        num_samples=CHUNK,
        progress_bar=False,
    )
    chain.run(jax.random.key(seed), *arguments)
    kept = [chain.get_samples()["coef"]]
    while time.perf_counter() - begun < seconds:
        chain.post_warmup_state = chain.last_state
        chain.run(chain.post_warmup_state.rng_key, *arguments)
        kept.append(chain.get_samples()["coef"])
    spent = time.perf_counter() - begun
    draws = np.concatenate(kept).reshape(-1, 14)
    ess = min(bulk_ess(draws[None, :, i]) for i in range(14))
    return {"seconds": spent, "draws": len(draws), "least_ess": ess, "ess_per_second": ess / spent}


def _magnitudes(scale: np.ndarray) -> list[float]:
    a, b = scale
    return [a, b, a * b, a**2, b**2, a**3, b**3]


def run() -> dict[str, Any]:
    """Both, on the study's first data set."""
    data = study.simulate(0)
    begun = time.perf_counter()
    posterior = gn.fit(study.dictionary(), data, seed=0, progress=False)
    spent = time.perf_counter() - begun
    coefficients = [v for n, v in posterior.scalars() if n.startswith("coef[")]
    ess = min(bulk_ess(v) for v in coefficients)
    ours = {
        "seconds": spent,
        "draws": posterior.num_draws,
        "least_ess": ess,
        "ess_per_second": ess / spent,
        "worst_rhat": max(rank_rhat(v) for v in coefficients),
    }
    theirs = paper_rate(data, spent, 0)
    return {"gpnode": ours, "paper": theirs, "times_more": ours["ess_per_second"] / theirs["ess_per_second"]}


def main() -> None:
    """Print the comparison."""
    found = run()
    for who in ("gpnode", "paper"):
        f = found[who]
        print(
            f"{who:<8} {f['seconds']:6.0f} s  {f['draws']:6.0f} draws  least ESS {f['least_ess']:7.1f}  "
            f"{f['ess_per_second']:8.4f} per second"
        )
    print(f"gpnode has {found['times_more']:.0f} times the effective draws per second")


if __name__ == "__main__":
    main()
