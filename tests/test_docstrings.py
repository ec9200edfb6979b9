"""Every public class and function has a docstring with an example, and the example runs."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import gpnode as gn


def is_ours(name):
    """Neither a module, nor an error, nor one of numpyro's distributions, which have documentation of their own."""
    thing = getattr(gn, name)
    return not (inspect.ismodule(thing) or name.endswith("Error") or thing.__module__.startswith("numpyro"))


DOCUMENTED = [name for name in gn.__all__ if is_ours(name)]


@pytest.fixture(scope="module")
def names():
    """What the examples take for granted: a decay, measured and fitted (once)."""
    times = np.linspace(0.0, 5.0, 12)
    noise = 0.05 * np.random.default_rng(0).normal(size=times.size)
    data = gn.Observations({"x": (times, 3.0 * np.exp(-0.7 * times) + noise)})
    decay = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.rate * x.x}, {"rate": gn.LogNormal(0.0, 1.0)})
    model = gn.Model(decay)
    return {"gn": gn, "np": np, "data": data, "model": model}


@pytest.fixture(scope="module")
def posterior(names):
    return gn.fit(names["model"], names["data"], method=gn.Laplace(draws=200), progress=False)


def marked(name):
    """Examples that fit or sample take their time."""
    text = inspect.getdoc(getattr(gn, name)) or ""
    takes_long = any(call in text for call in ("gn.fit(", "gn.fit_many(", "gn.calibrate(", "posterior", "gn.simulate("))
    return pytest.param(name, marks=pytest.mark.slow) if takes_long else name


@pytest.mark.parametrize("name", list(map(marked, DOCUMENTED)))
def test_the_example_of_a_public_name_runs(name, names, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(getattr(gn, name)) or ""
    known = dict(names)
    if "posterior" in text:
        known["posterior"] = request.getfixturevalue("posterior")
    example = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    assert example.examples, f"{name} has no example"
    said: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert found.failed == 0, "".join(said)
