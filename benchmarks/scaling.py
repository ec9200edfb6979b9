"""How cost grows: log density with gradient, time and peak memory, with all that a problem can have more of.

Every row runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

OBSERVATIONS = (100, 1_000, 10_000, 100_000)
STATES = (2, 10, 50, 200)
TERMS = (10, 50, 200, 500)
COEFFICIENTS = {60: 3, 140: 4, 280: 5}
"""Of a cubic dictionary with all products, by the number of its states."""
EXPERIMENTS = (1, 10, 100)
PARAMETERS = (30, 100, 200)
"""Of a network of reversible reactions, three for every species."""


def peak_memory() -> int:
    """Of this process so far, in kB. What the system calls the largest resident set is inherited from a parent."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(kind: str, size: int) -> dict[str, float]:
    """Seconds of one evaluation after compilation, seconds to compile, peak memory in MB above that of the imports."""
    import equinox as eqx
    import jax.numpy as jnp
    import numpy as np

    import gpnode as gn
    from gpnode.problem.density import Problem

    base = peak_memory()
    rng = np.random.default_rng(0)
    if kind == "observations":
        t = np.linspace(0.0, 10.0, size)
        model = gn.Model(
            gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)}),
            initial={"x": 1.0},
            kernel=gn.kernels.Matern32(),
        )
        data = gn.Observations({"x": (t, np.exp(-0.3 * t) + 0.01 * rng.normal(size=size))})
    elif kind == "states":
        names = [f"x{i}" for i in range(size)]

        def ring(t: Any, x: Any, p: Any) -> dict[str, Any]:
            return {n: p.k * (x[names[i - 1]] - x[n]) for i, n in enumerate(names)}

        t = np.linspace(0.0, 5.0, 30)
        model = gn.Model(
            gn.KnownForm(names, ring, {"k": gn.LogNormal(0.0, 1.0)}),
            initial={n: float(i % 2) for i, n in enumerate(names)},
            kernel=None,
        )
        data = gn.Observations({"x0": (t, rng.normal(size=30)), "x1": (t, rng.normal(size=30))})
    elif kind == "coefficients":
        names = [f"x{i}" for i in range(COEFFICIENTS[size])]
        t = np.linspace(0.0, 10.0, 75)
        waves = {n: (t, np.cos(t + i) + 0.05 * rng.normal(size=t.size)) for i, n in enumerate(names)}
        model, data = gn.Model(gn.Dictionary(names, gn.polynomial(3))), gn.Observations(waves)
    elif kind == "experiments":
        t = np.linspace(0.0, 5.0, 20)
        form = gn.KnownForm(["x"], lambda t, x, p: {"x": -p.k * x.x}, {"k": gn.LogNormal(-1.0, 1.0)})
        model = gn.Model(form, initial={"x": 1.0})
        data = gn.Observations.from_experiments(
            {str(i): {"x": (t, np.exp(-0.3 * t) + 0.01 * rng.normal(size=20))} for i in range(size)}
        )
    elif kind == "parameters":
        model, data = _network(size // 3, rng)
    else:
        library = gn.term("f0", lambda x: jnp.sin(x.x))
        for i in range(1, size):
            library = library + gn.term(f"f{i}", lambda x, i=i: jnp.sin((1.0 + 0.1 * i) * x.x))
        t = np.linspace(0.0, 5.0, 50)
        model = gn.Model(gn.Dictionary(["x"], library), initial={"x": 1.0}, kernel=None)
        data = gn.Observations({"x": (t, np.exp(-t) + 0.01 * rng.normal(size=50))})
    begun = time.perf_counter()
    problem = gn.bind(model, data)
    at = jnp.zeros(problem.size)
    value_and_grad = eqx.filter_jit(Problem.value_and_grad)
    value_and_grad(problem, at)[0].block_until_ready()
    compiled = time.perf_counter() - begun
    count = 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < 1.0:
        value_and_grad(problem, at)[0].block_until_ready()
        count += 1
    each = (time.perf_counter() - begun) / count
    peak = peak_memory()
    return {
        "seconds": each,
        "compile_seconds": compiled,
        "peak_mb": peak / 1024,
        "above_imports_mb": (peak - base) / 1024,
    }


def _network(species: int, rng: Any) -> tuple[Any, Any]:
    """A chain of species that turn into the next one and back, and are lost; every third one is measured."""
    import numpy as np

    import gpnode as gn

    names = [f"x{i}" for i in range(species)]
    priors = {f"{what}{i}": gn.LogNormal(-1.0, 1.0) for what in ("there", "back", "loss") for i in range(species)}

    def slopes(t: Any, x: Any, p: Any) -> dict[str, Any]:
        flux = [p[f"there{i}"] * x[names[i - 1]] - p[f"back{i}"] * x[n] for i, n in enumerate(names)]
        return {n: flux[i] - flux[(i + 1) % species] - p[f"loss{i}"] * x[n] for i, n in enumerate(names)}

    t = np.linspace(0.0, 10.0, 30)
    model = gn.Model(
        gn.KnownForm(names, slopes, priors), initial={n: float(i == 0) for i, n in enumerate(names)}, kernel=None
    )
    return model, gn.Observations({n: (t, np.abs(rng.normal(size=30))) for n in names[::3]})


def run() -> dict[str, dict[str, dict[str, float]]]:
    """Every row."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for kind, sizes in (
        ("observations", OBSERVATIONS),
        ("states", STATES),
        ("terms", TERMS),
        ("coefficients", tuple(COEFFICIENTS)),
        ("experiments", EXPERIMENTS),
        ("parameters", PARAMETERS),
    ):
        found[kind] = {}
        for size in sizes:
            command = [sys.executable, __file__, kind, str(size)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found[kind][str(size)] = json.loads(done.stdout) if done.returncode == 0 else {"failed": 1.0}
            print_row(kind, size, found[kind][str(size)])
    return found


def print_row(kind: str, size: int, row: dict[str, float]) -> None:
    """Print one row as soon as it is there."""
    if "failed" in row:
        print(f"{kind:<14}{size:>8}  failed", flush=True)
        return
    print(
        f"{kind:<14}{size:>8}{1e3 * row['seconds']:>11.2f} ms{row['compile_seconds']:>9.1f} s to compile"
        f"{row['peak_mb']:>9.0f} MB peak",
        flush=True,
    )


def main() -> None:
    """Measure one row in this process, or all in their own."""
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        run()


if __name__ == "__main__":
    main()
