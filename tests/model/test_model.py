"""Models that make sense bind; others say what is missing."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import gpnode as gn
from gpnode.model.observation import kernels
from support.known import DATA, RATE, decay, known

WRONG = {
    "unknown variable": (
        lambda: gn.Model(known(["z"], lambda t, x, p: {"z": -p.rate * x.z})),
        "'x' that is not a state",
    ),
    "latent without start": (
        lambda: gn.Model(known(["x", "z"], lambda t, x, p: {"x": x.z, "z": -p.rate * x.x})),
        "'z' has no data and no initial value",
    ),
    "unknown parameter": (lambda: gn.Model(known(f=lambda t, x, p: {"x": -p.speed * x.x})), "'speed'"),
    "unknown state": (lambda: gn.Model(known(f=lambda t, x, p: {"x": -p.rate * x.y})), "'y'"),
    "missing slope": (lambda: gn.Model(known(f=lambda t, x, p: {})), "must return slopes for x"),
    "vector slope": (lambda: gn.Model(known(f=lambda t, x, p: {"x": jnp.ones(2) * x.x})), "must be one number"),
    "prior of a vector": (lambda: gn.Model(known(prior={"rate": gn.Normal(jnp.zeros(2), 1.0)})), "one number"),
    "prior of a string": (lambda: gn.Model(known(prior={"rate": "wide"})), "numpyro distribution or a number"),
    "initial of a stranger": (lambda: gn.Model(known(), initial={"y": 1.0}), "'y', which is not a state"),
    "initial of a string": (lambda: gn.Model(known(), initial={"x": "low"}), "must be a number"),
    "initial misses a experiment": (
        lambda: gn.Model(known(), initial={"x": {"other": 1.0}}),
        "names experiment 'other'",
    ),
    "kernel of a stranger": (lambda: gn.Model(known(), kernel={"y": None}), "'y', which is not observed"),
    "not dynamics": (lambda: gn.Model(decay), "dynamics must be"),
    "log of zero": (lambda: gn.Model(known(), transform=gn.Log()), "no logarithm"),
    "unknown term": (lambda: gn.Dictionary(["x"], gn.polynomial(2), forbidden=[("x", "x^9")]), "'x^9'"),
    "unknown equation": (lambda: gn.Dictionary(["x"], gn.polynomial(2), forbidden=[("y", "x")]), "'y'"),
    "twice the same term": (lambda: gn.Dictionary(["x"], gn.polynomial(2) + gn.polynomial(1)), "two terms named"),
    "library per equation": (lambda: gn.Dictionary(["x"], {"y": gn.polynomial(2)}), "one library for each"),
    "nothing free": (
        lambda: gn.Model(gn.Dictionary(["x"], gn.polynomial(1, constant=False), fixed={("x", "x"): -1.0})),
        "no free coefficient",
    ),
    "sum of one": (lambda: gn.Sum(only=known()), "at least two"),
    "negative variance": (lambda: kernels.Matern32(variance=-1.0), "must be positive"),
    "real length scale": (lambda: kernels.Matern32(length_scale=gn.Normal(0.0, 1.0)), "must be positive"),
    "class for a kernel": (lambda: gn.Model(known(), kernel=kernels.Matern32), "kernel must be an object"),
    "class for a solver": (lambda: gn.Model(known(), solver=gn.Stiff), "solver must be an object"),
    "number for noise": (lambda: gn.Model(known(), noise=0.1), "noise must be an object"),
    "method for a prior": (
        lambda: gn.Dictionary(["x"], gn.polynomial(1), prior=gn.Laplace()),
        "gpnode.priors",
    ),
    "list of slopes": (lambda: gn.Model(known(f=lambda t, x, p: [x.x])), "must return {state: slope}"),
    "if in the field": (lambda: gn.Model(known(f=lambda t, x, p: {"x": 1.0 if x.x > 0 else 0.0})), "jnp.where"),
    "vector start": (lambda: gn.Model(known(), initial={"x": gn.Normal(jnp.zeros(2), 1.0)}), "one number"),
    "zero scale": (lambda: gn.Model(known(), scales={"x": 0.0}), "must be positive"),
    "slash in a name": (lambda: gn.Model(known(prior={"rate": gn.LogNormal(0.0, 1.0), "a/b": RATE["rate"]})), "'a/b'"),
    "reserved name": (lambda: gn.Model(known(prior={**RATE, "chain": RATE["rate"]})), "'chain'"),
    "one name, two terms": (
        lambda: gn.Dictionary(["x", "y"], {"x": gn.term("g", lambda x: x.x), "y": gn.term("g", lambda x: x.y)}),
        "different terms named 'g'",
    ),
    "fixed and forbidden": (
        lambda: gn.Dictionary(["x"], gn.polynomial(1), fixed={("x", "x"): 1.0}, forbidden=[("x", "x")]),
        "both fixed and forbidden",
    ),
    "mask of the wrong shape": (lambda: gn.Dictionary(["x"], gn.polynomial(1), mask=[[True]]), "mask must be"),
    "too many expected terms": (
        lambda: gn.Model(gn.Dictionary(["x"], gn.polynomial(1), prior=gn.FinnishHorseshoe(9))),
        "expected_terms",
    ),
    "noise twice": (lambda: gn.Noise(var=1.0, std=1.0), "not both"),
    "negative noise": (lambda: gn.Noise(std=-0.1), "must be positive"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_models_say_why(case):
    make, words = WRONG[case]
    data = DATA if case != "log of zero" else gn.Observations({"x": ([0, 1, 2], [1.0, 0.0, 2.0])})
    with pytest.raises((gn.ModelError, gn.DataError)) as error:
        gn.bind(make(), data)
    assert words in str(error.value)
