"""Many textbook systems from scarce, noisy data: what is found by default, how sure it is, and whether that is right.

The protocol is that of ODEBench: 150 points on [0, 10] from the first start of a system, multiplicative noise, all of
the points or half of them (drawn at random, the first kept), cubic polynomials with cross terms (quadratic for four
states). What is judged is the path of the equations as written, from the first start and from a second one. Beside it
PySINDy, at the setting whose path fits the data best, which is what its user can see.

    python benchmarks/discovery.py systems.json -o results [--ids 3 27] [--noise 0.05] [--seed 0]

Systems that are done are not done again; one that was stopped goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sympy
from scipy.integrate import solve_ivp

import gpnode as gn
from gpnode._files import write_text
from gpnode.results.equations.written import Equations

END, POINTS = 10.0, 150
SUCCESS, FLAT, NEAR = 0.9, 0.25, 0.05
_BOUND = 1e6
Field = Callable[[float, Any], Any]


@dataclass(frozen=True)
class System:
    """A system of the collection, with numbers for its constants."""

    id: int
    name: str
    formulas: tuple[sympy.Expr, ...]
    starts: tuple[tuple[float, ...], ...]

    @classmethod
    def read(cls, entry: dict[str, Any]) -> System:
        values = {f"c_{i}": value for i, value in enumerate(entry["consts"][0])}
        formulas = [
            sympy.sympify(text.replace("^", "**"), locals=_SYMBOLS).subs(values) for text in entry["eq"].split("|")
        ]
        return cls(entry["id"], entry["eq_description"], tuple(formulas), tuple(map(tuple, entry["init"])))

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(len(self.formulas)))

    @property
    def degree(self) -> int:
        return 3 if len(self.formulas) < 4 else 2

    def field(self) -> Field:
        symbols = [sympy.Symbol(f"x_{i}") for i in range(len(self.formulas))]
        compiled = sympy.lambdify([symbols], list(self.formulas), modules="numpy")
        return lambda t, x: compiled(x)

    def truth(self) -> dict[str, dict[str, float]] | None:
        """True coefficients by state and by the names of terms; None if the dictionary does not hold them."""
        symbols = [sympy.Symbol(f"x_{i}") for i in range(len(self.formulas))]
        names = {s: sympy.Symbol(f"x{i}") for i, s in enumerate(symbols)}
        found = {}
        for state, formula in zip(self.states, self.formulas, strict=True):
            if not formula.is_polynomial(*symbols):
                return None
            polynomial = sympy.Poly(formula, *symbols)
            if polynomial.total_degree() > self.degree:
                return None
            found[state] = {
                _term_name([names[s] for s in symbols], powers): float(value)
                for powers, value in polynomial.terms()
                if abs(float(value)) > 0
            }
        return found


_SYMBOLS = {f"{letter}_{i}": sympy.Symbol(f"{letter}_{i}") for letter in "xc" for i in range(12)}


def _term_name(symbols: list[sympy.Symbol], powers: tuple[int, ...]) -> str:
    """As the library of polynomials calls it."""
    factors = [f"{s}^{p}" if p > 1 else str(s) for s, p in zip(symbols, powers, strict=True) if p]
    return "*".join(factors) or "1"


def path(field: Field, start: tuple[float, ...], times: np.ndarray) -> np.ndarray:
    """Tightly solved (times, states); infinite from where it runs away."""
    blown = lambda t, x: _BOUND - np.max(np.abs(x))  # noqa: E731
    blown.terminal = True  # type: ignore[attr-defined]
    values = np.full((times.size, len(start)), np.inf)
    try:
        with np.errstate(all="ignore"):
            solved = solve_ivp(field, (0.0, END), start, "LSODA", times, rtol=1e-9, atol=1e-9, events=blown)
    except ValueError:  # so fast that there is nothing between here and infinity
        return values
    values[: solved.y.shape[1]] = solved.y.T
    return values


def measure(system: System, noise: float, all_points: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and noisy values (n, states)."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0.0, END, POINTS)
    clean = path(system.field(), system.starts[0], times)
    noisy = clean * (1.0 + noise * rng.normal(size=clean.shape))
    kept = np.arange(POINTS)
    if not all_points:
        kept = np.sort(np.concatenate([[0], 1 + rng.permutation(POINTS - 1)[: POINTS // 2 - 1]]))
    return times[kept], noisy[kept]


def r_squared(truth: np.ndarray, found: np.ndarray) -> float:
    """Variance-weighted over states."""
    if not np.isfinite(found).all():
        return -np.inf
    return float(1.0 - np.sum((truth - found) ** 2) / np.sum((truth - truth.mean(axis=0)) ** 2))


def succeeds(fitted: np.ndarray, truth: np.ndarray, found: np.ndarray) -> bool:
    """Whether a path is as good as the true one, which may be nearly flat: then in units of the fitted one's range."""
    span = np.ptp(fitted, axis=0)
    if (np.ptp(truth, axis=0) < FLAT * span).all():
        return bool(np.isfinite(found).all() and (np.sqrt(np.mean((truth - found) ** 2, axis=0)) < NEAR * span).all())
    return r_squared(truth, found) > SUCCESS


# -- one system ------------------------------------------------------------------------------


def judge(posterior: gn.Posterior, context: tuple[System, float, bool, int, Path]) -> dict[str, Any]:
    """One row of the table, written to its file."""
    system, noise, all_points, seed, file = context
    times = np.linspace(0.0, END, POINTS)
    truths = [path(system.field(), start, times) for start in system.starts[:2]]
    written = posterior.equations()
    found = [path(written.function(), start, times) for start in system.starts[:2]]
    second = gn.forecast(posterior, times, initial=dict(zip(system.states, system.starts[1], strict=True)))
    low, high = second.ode.quantile([0.025, 0.975], "draw").to_numpy()
    verdict = posterior.diagnose()
    row = {
        "id": system.id,
        "name": system.name,
        "headline": verdict.headline,
        "converged": verdict.converged,
        "recommended": verdict.recommended,
        "failed": [check.name for check in verdict.failed],
        "seconds": posterior.record.seconds,
        "nodes": int(posterior.problem.nodes.shape[1]),
        "draws": max(posterior.record.draws_made or [0]),
        "written": {e.state: str(e.expression()) for e in written.equations},
        **_form(system, written),
        "r2": [r_squared(t, f) for t, f in zip(truths, found, strict=True)],
        "success": [succeeds(truths[0], t, f) for t, f in zip(truths, found, strict=True)],
        "covered": float(((truths[1] >= low) & (truths[1] <= high)).mean()),
        "outside": list(second.outside),
        **_sindy(system, *measure(system, noise, all_points, seed), truths),
    }
    write_text(file, json.dumps(row, indent=1))
    return row


def _form(system: System, written: Equations) -> dict[str, Any]:
    """Rank of the true form among the most probable, its probability, and true values inside their intervals."""
    truth = system.truth()
    if truth is None:
        return {"rank": None}
    ranks = [
        i
        for i, s in enumerate(written.systems)
        if {x: set(t) for x, t in s.terms.items()} == {x: set(t) for x, t in truth.items()}
    ]
    inside = [
        term.low <= truth[e.state].get(term.term, 0.0) <= term.high
        for e in written.equations
        for term in e.terms
        if term.term in truth[e.state]
    ]
    probability = written.systems[ranks[0]].probability if ranks else 0.0
    return {
        "rank": ranks[0] + 1 if ranks else 0,
        "probability": float(probability),
        "inside": [int(sum(inside)), len(inside)],
    }


# -- the opponent ----------------------------------------------------------------------------


def _sindy(system: System, times: np.ndarray, values: np.ndarray, truths: list[np.ndarray]) -> dict[str, Any]:
    """R² from both starts of the setting whose path fits the data best."""
    even = np.linspace(0.0, END, POINTS)
    best, fitted = None, -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for field in _sindy_fields(system, times, values):
            own = path(field, tuple(values[0]), times)
            fit = r_squared(values, own)
            if fit > fitted:
                best, fitted = field, fit
    if best is None:
        return {"sindy_r2": [-np.inf, -np.inf]}
    return {"sindy_r2": [r_squared(t, path(best, s, even)) for t, s in zip(truths, system.starts, strict=False)]}


def _sindy_fields(system: System, times: np.ndarray, values: np.ndarray) -> Iterator[Field]:
    """Fifteen settings: five thresholds, in units of the data, and three ways to take slopes."""
    import pysindy as ps

    scale = np.abs(values).max(axis=0)
    even = np.linspace(0.0, END, times.size)
    between = np.stack([np.interp(even, times, v) for v in (values / scale).T], axis=1)
    ways: list[tuple[Any, np.ndarray, np.ndarray]] = [
        (ps.FiniteDifference(), times, values / scale),
        (ps.SmoothedFiniteDifference(smoother_kws={"window_length": 11}), even, between),
        (ps.SmoothedFiniteDifference(smoother_kws={"window_length": 21}), even, between),
    ]
    for threshold, (slopes, t, x) in itertools.product((0.003, 0.01, 0.03, 0.1, 0.3), ways):
        model = ps.SINDy(ps.STLSQ(threshold=threshold), ps.PolynomialLibrary(system.degree), slopes)
        try:
            model.fit(x, t=t)
        except (ValueError, np.linalg.LinAlgError):
            continue
        coefficients, powers = model.coefficients(), model.feature_library.powers_

        def field(t: float, x: Any, c: np.ndarray = coefficients, p: np.ndarray = powers) -> np.ndarray:
            return scale * (c @ np.prod((np.asarray(x) / scale) ** p, axis=1))

        yield field


# -- all systems -----------------------------------------------------------------------------


def summary(rows: list[dict[str, Any]]) -> str:
    """A table, and what it amounts to."""
    lines = [
        "  id  verdict                seconds nodes  form    p  inside   R2 fit R2 other  covered  SINDy fit   other"
        "  system"
    ]
    for r in rows:
        word = ("recommended" if r["recommended"] else "converged") if r["converged"] else "not converged"
        form = "-" if r["rank"] is None else (f"#{r['rank']}" if r["rank"] else "no")
        p = "" if r["rank"] is None else f"{r['probability']:.2f}"
        inside = "" if r["rank"] is None else "{}/{}".format(*r["inside"])
        far = " out" if r["outside"] else ""
        lines.append(
            f"{r['id']:4d}  {word + far:<22} {r['seconds']:7.0f} {r['nodes']:5d} {form:>5} {p:>5} {inside:>6} "
            f"{r['r2'][0]:8.3f} {_short(r['r2'][1]):>8} {r['covered']:8.2f} {_short(r['sindy_r2'][0]):>9} "
            f"{_short(r['sindy_r2'][1]):>8}  {r['name'][:40]}"
        )
    inside = [r for r in rows if r["rank"] is not None]
    recommended = [r for r in rows if r["recommended"]]
    found = [r for r in inside if r["rank"] == 1]
    honest = [r for r in recommended if r["covered"] >= 0.9 or r["outside"]]
    lines += [
        "",
        f"truth in the dictionary: {len(inside)}; success from the other start {sum(r['success'][1] for r in inside)}, "
        f"true form most probable {len(found)}, among five {sum(r['rank'] > 0 for r in inside)}, "
        f"SINDy beaten from the other start {sum(r['r2'][1] > r['sindy_r2'][1] for r in inside)}",
        f"all: {len(rows)}; R2 > {SUCCESS} where fitted {sum(r['r2'][0] > SUCCESS for r in rows)}, "
        f"success from the other start {sum(r['success'][1] for r in rows)}",
        f"recommended: {len(recommended)}; bands of the equations hold 90 % of the path, or the start is said to be "
        f"outside: {len(honest)}; of {len(found)} whose form was found {sum(r['recommended'] for r in found)} are "
        "recommended",
    ]
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """R2 from both starts beside the opponent's, one system above the other."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9, 1 + 0.24 * len(rows)), sharey=True, layout="constrained")
    height = np.arange(len(rows))[::-1]
    for start, ax in enumerate(axes):
        ours, theirs = ([max(r[key][start], -0.05) for r in rows] for key in ("r2", "sindy_r2"))
        ax.plot(theirs, height, "o", color="0.65", label="PySINDy, best setting")
        colours = ["C0" if r["recommended"] else "C1" for r in rows]
        ax.scatter(ours, height, c=colours, zorder=3)
        ax.axvline(SUCCESS, color="0.8", lw=1)
        ax.set(xlim=(-0.1, 1.05), xlabel="R² of the noise-free path (below 0: drawn left of 0)")
        ax.set_title(("from the start that was fitted", "from another start")[start], fontsize="medium")
    axes[0].set_yticks(height, [f"{r['id']}  {r['name'][:38]}" for r in rows], fontsize=7)
    axes[1].scatter([], [], c="C0", label="gpnode, recommended")
    axes[1].scatter([], [], c="C1", label="gpnode, not recommended")
    axes[1].legend(fontsize=7, loc="lower left")
    fig.savefig(file, dpi=150)


def _short(value: float) -> str:
    return f"{value:.3f}" if value > -100 else "-inf" if value == -np.inf else f"{value:.0f}"


def main() -> None:
    """Fit what is not done yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", type=Path, help="systems.json of ODEBench")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--ids", type=int, nargs="*")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--all-points", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--other-start", type=float, nargs="*", help="in place of the system's second start")
    parser.add_argument("--budget", default="5 min", help="time for each fit")
    options = parser.parse_args()
    systems = [System.read(entry) for entry in json.loads(options.systems.read_text())]
    systems = [s for s in systems if not options.ids or s.id in options.ids]
    if options.other_start:
        systems = [replace(s, starts=(s.starts[0], tuple(options.other_start))) for s in systems]
    options.output.mkdir(parents=True, exist_ok=True)
    points = "all" if options.all_points else "half"
    other = "".join(f"-{value:g}" for value in options.other_start or ())
    setting = f"{options.noise:g}-{points}-{options.seed}{other}"
    files = {s.id: options.output / f"{s.id:02d}-{setting}.json" for s in systems}
    tasks = []
    for system in systems:
        if files[system.id].exists():
            continue
        times, values = measure(system, options.noise, options.all_points, options.seed)
        model = gn.Model(gn.Dictionary(system.states, gn.polynomial(degree=system.degree)))
        data = gn.Observations({name: (times, values[:, i]) for i, name in enumerate(system.states)})
        context = (system, options.noise, options.all_points, options.seed, files[system.id])
        kept = files[system.id].with_suffix(".checkpoint")
        tasks.append(
            gn.FitTask(
                model, data, seed=0, checkpoint=kept, budget=options.budget, name=str(system.id), context=context
            )
        )
    begun = time.perf_counter()
    for outcome in gn.fit_many(tasks, then=judge):
        if not outcome.ok:
            print(f"{outcome.name}: {type(outcome.error).__name__}: {outcome.error}")
    rows = [json.loads(file.read_text()) for file in sorted(options.output.glob(f"[0-9][0-9]-{setting}.json"))]
    write_text(options.output / f"summary-{setting}.txt", summary(rows) + "\n")
    print(summary(rows))
    if rows:
        draw(rows, options.output / f"summary-{setting}.png")
    print(f"{len(tasks)} fits in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
