"""Ready problems: tables, simulated or from the literature, and what a problem file says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """``files`` by name, the table of measurements among them as data.csv, and the content of problem.toml."""

    files: dict[str, str]
    content: dict[str, Any]


def _csv(header: str, rows: Iterable[Iterable[Any]]) -> str:
    def cell(value: Any) -> str:
        return value if isinstance(value, str) else f"{value:.6g}"

    return "\n".join([header, *(",".join(map(cell, row)) for row in rows)]) + "\n"


def _solve(field: Callable[..., list[float]], start: list[float], times: Any) -> Any:
    """States (times, states) of a system that starts at the first of ``times``."""
    from scipy.integrate import solve_ivp

    span = (float(times[0]), float(times[-1]))
    return solve_ivp(field, span, start, t_eval=times, rtol=1e-9, atol=1e-9, max_step=0.5).y.T


# Pelts traded by the Hudson's Bay Company, in thousands.
_PELTS = """year,hare,lynx
1900,30,4
1901,47.2,6.1
1902,70.2,9.8
1903,77.4,35.2
1904,36.3,59.4
1905,20.6,41.7
1906,18.1,19
1907,21.4,13
1908,22,8.3
1909,25.4,9.1
1910,27.1,7.4
1911,40.3,8
1912,57,12.3
1913,76.6,19.5
1914,52.3,45.7
1915,19.5,51.1
1916,11.2,29.7
1917,7.6,15.8
1918,14.6,9.7
1919,16.2,10.1
1920,24.7,8.6"""


def lynx_hare() -> Example:
    """Known equations, two species, a century ago."""
    content = {
        "data": {"file": "data.csv", "time": "year", "time_unit": "year"},
        "model": {"equations": ["dhare/dt = alpha*hare - beta*hare*lynx", "dlynx/dt = delta*hare*lynx - gamma*lynx"]},
        "parameters": {
            "alpha": "Normal(1, 0.5)",
            "beta": "Normal(0.05, 0.05)",
            "gamma": "Normal(1, 0.5)",
            "delta": "Normal(0.05, 0.05)",
        },
        "initial": {"hare": "LogNormal(2.3, 1)", "lynx": "LogNormal(2.3, 1)"},
        "kernel": {"kind": "none"},
        "noise": {"std": "LogNormal(-1, 1)"},
        "transform": {"kind": "log"},
        "sampler": {"seed": 0},
    }
    return Example({"data.csv": _PELTS + "\n"}, content)


def algae() -> Example:
    """A growth curve, and a dictionary."""
    import numpy as np

    rng = np.random.default_rng(1)
    days = np.arange(0.0, 15.0)
    cells = 8.0 / (1.0 + 15.0 * np.exp(-0.9 * days)) * np.exp(0.04 * rng.normal(size=days.size))
    table = "\n".join(["day,algae", *(f"{d:g},{c:.4g}" for d, c in zip(days, cells, strict=True))])
    content = {
        "data": {"file": "data.csv", "time": "day", "time_unit": "day"},
        "model": {"states": ["algae"], "degree": 3},
        "kernel": {"kind": "none"},
        "noise": {"std": "LogNormal(-3, 1)"},
        "sampler": {"seed": 0},
    }
    return Example({"data.csv": table + "\n"}, content)


def epidemic() -> Example:
    """Weekly counts of new cases, of which a part is reported."""
    import numpy as np

    rng = np.random.default_rng(2)
    weeks = np.arange(0.0, 21.0)
    size, beta, gamma, reported = 50_000.0, 1.6, 0.9, 0.3

    def field(t: float, x: Any) -> list[float]:
        new = beta * x[0] * x[1] / size
        return [-new, new - gamma * x[1], new]

    new = np.diff(_solve(field, [size - 20.0, 20.0, 0.0], weeks)[:, 2])
    mean = reported * new
    cases = rng.poisson(mean * rng.gamma(20.0, 1.0 / 20.0, size=mean.size))
    content = {
        "data": {"file": "data.csv", "time": "week", "time_unit": "week", "start": 0.0},
        "model": {
            "equations": [
                "dS/dt = -beta*S*I/50000",
                "dI/dt = beta*S*I/50000 - gamma*I",
                "dall/dt = beta*S*I/50000",
            ],
        },
        "parameters": {
            "beta": "LogNormal(0.5, 0.5)",
            "gamma": "LogNormal(-0.1, 0.1)",
            "reported": "Uniform(0, 1)",
        },
        "observables": {"cases": "since_last(reported*all)"},
        "initial": {"S": 50_000.0, "I": "LogNormal(3, 1)", "all": 0.0},
        "noise": {"kind": "negative-binomial", "dispersion": "HalfNormal(0.3)"},
        "sampler": {"seed": 0},
    }
    rows = zip(weeks[1:], map(str, cases), strict=True)
    return Example({"data.csv": _csv("week,cases", rows)}, content)


def twelve_people() -> Example:
    """A drug given by mouth to twelve people, who differ."""
    import numpy as np

    rng = np.random.default_rng(3)
    hours = np.array([0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 12.0, 24.0])
    rows, doses = [], []
    for person in range(1, 13):
        cl, v, ka = np.exp(rng.normal([-3.2, -0.8, 0.45], [0.3, 0.15, 0.6]))
        dose, ke = rng.uniform(3.0, 6.0), cl / v
        level = dose / v * ka / (ka - ke) * (np.exp(-ke * hours) - np.exp(-ka * hours))
        rows += [(person, h, c) for h, c in zip(hours, level + 0.5 * rng.normal(size=hours.size), strict=True)]
        doses.append((person, 0.0, dose))
    content = {
        "data": {"file": "data.csv", "experiment": "subject", "time_unit": "hour", "start": 0.0},
        "experiments": {"doses": "doses.csv"},
        "model": {
            "equations": ["dgut/dt = -ka*gut", "dbody/dt = ka*gut - cl/v*body"],
            "scales": {"body": 4.0, "gut": 4.0},
        },
        "parameters": {
            "cl": {"typical": "LogNormal(-3, 1)", "spread": "HalfNormal(0.5)"},
            "v": {"typical": "LogNormal(-1, 0.5)", "spread": "HalfNormal(0.5)"},
            "ka": {"typical": "LogNormal(0.5, 0.5)", "spread": "HalfNormal(0.5)"},
        },
        "observables": {"conc": "body/v"},
        "initial": {"gut": 0.0, "body": 0.0},
        "kernel": {"kind": "none"},
        "noise": {"std": "HalfNormal(1)", "relative": False},
        "sampler": {"seed": 0},
    }
    files = {"data.csv": _csv("subject,time,conc", rows), "doses.csv": _csv("subject,time,amount", doses)}
    return Example(files, content)


def fed_reactor() -> Example:
    """Cells that are fed from the eighth hour on, with a sensor that always reads and samples now and then."""
    import numpy as np

    rng = np.random.default_rng(4)
    hours = np.arange(0.0, 20.5, 0.5)

    def field(t: float, x: Any) -> list[float]:
        growth = 0.45 * x[1] / (0.4 + x[1]) * x[0]
        feed = 0.0 if t < 8.0 else (1.0 if t < 14.0 else 0.5)
        return [growth, feed - growth / 0.6]

    path = _solve(field, [0.2, 4.0], hours)
    glow = 130.0 * path[:, 0] + 8.0 + 4.0 * rng.normal(size=hours.size)
    sampled = hours % 4 == 0
    sugar = np.abs(path[:, 1] + 0.08 * rng.normal(size=hours.size))
    rows = [(h, g, f"{s:.4g}" if n else "") for h, g, s, n in zip(hours, glow, sugar, sampled, strict=True)]
    content = {
        "data": {"file": "data.csv", "time_unit": "hour"},
        "experiments": {"inputs": "feed.csv", "interpolation": "steps"},
        "model": {
            "equations": [
                "dcells/dt = mu*sugar/(K + sugar)*cells",
                "dsugar/dt = feed - mu*sugar/(K + sugar)*cells/yield_",
            ],
            "scales": {"cells": 5.0},
        },
        "parameters": {
            "mu": "LogNormal(-1, 0.5)",
            "K": "LogNormal(-1, 0.5)",
            "yield_": "LogNormal(-0.5, 0.3)",
            "gain": "LogNormal(5, 1)",
            "offset": "Normal(0, 20)",
        },
        "observables": {"glow": "gain*cells + offset"},
        "initial": {"cells": 0.2, "sugar": "LogNormal(1.4, 0.2)"},
        "kernel": {"kind": "none"},
        "sampler": {"seed": 0},
    }
    feed = _csv("time,feed", [(0.0, 0.0), (8.0, 1.0), (14.0, 0.5)])
    return Example({"data.csv": _csv("time,glow,sugar", rows), "feed.csv": feed}, content)


def gene_pulse() -> Example:
    """A gene that an inducer switches on for two hours."""
    import numpy as np

    rng = np.random.default_rng(5)
    hours = np.arange(0.0, 12.5, 0.5)

    def field(t: float, x: Any) -> list[float]:
        on = 1.0 if 1.0 <= t < 3.0 else 0.0
        return [0.1 + 4.0 * on - 1.5 * x[0], 2.0 * x[0] - 0.4 * x[1]]

    path = _solve(field, [0.1 / 1.5, 0.2 / 0.6], hours)
    protein = path[:, 1] * np.exp(0.05 * rng.normal(size=hours.size))
    content = {
        "data": {"file": "data.csv", "time_unit": "hour"},
        "experiments": {"inputs": "inducer.csv", "interpolation": "steps"},
        "model": {
            "equations": ["dmrna/dt = leak + strength*inducer - 1.5*mrna", "dprotein/dt = 2*mrna - loss*protein"],
            "scales": {"mrna": 2.0},
        },
        "parameters": {"leak": "LogNormal(-2, 1)", "strength": "LogNormal(1, 1)", "loss": "LogNormal(-1, 0.5)"},
        "initial": {"mrna": 0.067},
        "kernel": {"kind": "none"},
        "sampler": {"seed": 0},
    }
    inducer = _csv("time,inducer", [(0.0, 0.0), (1.0, 1.0), (3.0, 0.0)])
    rows = zip(hours, protein, strict=True)
    return Example({"data.csv": _csv("time,protein", rows), "inducer.csv": inducer}, content)


def washout() -> Example:
    """A substance that falls below what can be detected."""
    import numpy as np

    rng = np.random.default_rng(6)
    days = np.arange(0.0, 16.0)
    level = 20.0 * (0.7 * np.exp(-0.9 * days) + 0.3 * np.exp(-0.25 * days)) + 0.4 * rng.normal(size=days.size)
    rows = [(d, f"{c:.4g}" if c >= 1.0 else "<1.0") for d, c in zip(days, level, strict=True)]
    content = {
        "data": {"file": "data.csv", "time": "day", "time_unit": "day"},
        "model": {
            "equations": ["dblood/dt = -out*blood - into*blood + back*tissue", "dtissue/dt = into*blood - back*tissue"],
            "scales": {"tissue": 5.0},
        },
        "parameters": {"out": "LogNormal(-1, 0.7)", "into": "LogNormal(-1, 0.7)", "back": "LogNormal(-1, 0.7)"},
        "initial": {"tissue": 0.0, "blood": "LogNormal(3, 0.3)"},
        "noise": {"std": "HalfNormal(1)", "relative": False},
        "sampler": {"seed": 0},
    }
    return Example({"data.csv": _csv("day,blood", rows)}, content)


EXAMPLES: dict[str, Callable[[], Example]] = {
    "lynx-hare": lynx_hare,
    "algae": algae,
    "epidemic": epidemic,
    "twelve-people": twelve_people,
    "fed-reactor": fed_reactor,
    "gene-pulse": gene_pulse,
    "washout": washout,
}
"""Ready problems by name."""
