"""The equations of motion in the user's units: as text, LaTeX, sympy and Python."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sympy
from sympy.printing.numpy import NumPyPrinter

from gpnode.errors import ModelError
from gpnode.results.equations.alternatives import Alternatives
from gpnode.results.equations.forms import Form, System
from gpnode.results.equations.representing import Representative
from gpnode.tracing.formulas import round_numbers

if TYPE_CHECKING:
    import pandas as pd

LIKELY = 0.5
"""A term that acts with this probability belongs into the equation as written."""


@dataclass(frozen=True)
class TermEstimate:
    """One term of one equation, in the user's units. ``probability`` is None for fixed coefficients.

    ``value`` is what the term is written with, ``overall`` the mean over all draws. Where equations are written in one
    form, the other estimates are given that form if it has the term.
    """

    term: str
    mean: float
    low: float
    high: float
    probability: float | None
    expression: sympy.Expr
    value: float
    overall: float
    is_written: bool | None = None

    @property
    def likely(self) -> bool:
        """Whether the term belongs into the equation as written: it is in its form, or more likely active than not."""
        if self.is_written is not None:
            return self.is_written
        return self.probability is None or self.probability >= LIKELY


class ParameterEstimate(NamedTuple):
    """A parameter of a known form: what it is written with, its 95 % interval, and its mean over all draws."""

    name: str
    value: float
    low: float
    high: float
    overall: float


@dataclass(frozen=True)
class Equation:
    """Right-hand side of one state: terms of a dictionary and, for a known form, an expression.

    ``forms`` lists the most probable sets of active terms, most probable first.
    """

    state: str
    terms: tuple[TermEstimate, ...]
    forms: tuple[Form, ...]
    known: sympy.Expr | None

    def expression(self, all_terms: bool = False) -> sympy.Expr:
        """Right-hand side as written, of likely terms; or all terms, with means over all draws."""
        total = sympy.Integer(0) if self.known is None else self.known
        for t in self.terms:
            if all_terms or t.likely:
                total += sympy.Float(t.overall if all_terms else t.value) * t.expression
        return total


@dataclass(frozen=True)
class Equations:
    """All equations, and the parameters of known forms.

    ``systems`` are the most probable forms of all equations together, where the prior tells which terms act.
    ``representative`` has the numbers that the equations are written with: means, or those of one draw.
    ``alternatives`` are forms that the data cannot tell from the most probable one. ``measured`` says how measured
    variables that are no states follow from them.
    """

    equations: tuple[Equation, ...]
    parameters: tuple[ParameterEstimate, ...]
    systems: tuple[System, ...]
    representative: Representative
    alternatives: Alternatives | None = None
    measured: dict[str, sympy.Expr] = field(default_factory=dict)

    @property
    def caption(self) -> str:
        """What the numbers are."""
        if self.representative.is_mean:
            return "mean, with 95 % intervals"
        return "of the most likely draw, because means miss the data; terms below with means and 95 % intervals"

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each term and parameter: what it is written with, mean, interval and probability of acting."""
        import pandas as pd

        terms = [
            (e.state, t.term, t.value if t.likely else 0.0, t.mean, t.low, t.high, t.probability)
            for e in self.equations
            for t in e.terms
        ]
        known = [("", p.name, p.value, p.overall, p.low, p.high, None) for p in self.parameters]
        return pd.DataFrame(
            [*terms, *known], columns=["state", "term", "value", "mean", "2.5%", "97.5%", "probability"]
        )

    def __str__(self) -> str:
        lines = [f"Equations of motion ({self.caption}):", ""]
        for equation in self.equations:
            lines += _equation_lines(equation)
        if self.systems and len(self.equations) > 1:
            lines.append("most probable forms of all equations together (coefficients above are given the first):")
            for system in self.systems:
                forms = "; ".join(f"d{state}/dt: {' + '.join(t) or 'none'}" for state, t in system.terms.items())
                lines.append(f"  {system.probability:6.1%}  {forms}")
            lines.append("")
        if self.alternatives is not None:
            lines += [*textwrap.wrap(str(self.alternatives), 100), ""]
        if self.measured:
            lines += ["measured is", *(f"  {name} = {formula}" for name, formula in self.measured.items()), ""]
        if self.parameters:
            lines.append("with")
            width = max(len(name) for name, *_ in self.parameters)
            lines += [f"  {name:<{width}} = {m:.4g}  [{a:.4g}, {b:.4g}]" for name, m, a, b, _ in self.parameters]
        return "\n".join(lines).rstrip()

    def _repr_html_(self) -> str:
        from gpnode.render import notebook

        return notebook.equations(self)

    def expressions(self, all_terms: bool = False) -> dict[str, sympy.Expr]:
        """Right-hand sides by state; parameters of known forms stay symbols."""
        return {e.state: e.expression(all_terms) for e in self.equations}

    def latex(self) -> str:
        """An ``aligned`` block: likely terms, then the parameters of known forms."""
        lines = []
        for state, right in self.expressions().items():
            left = rf"\frac{{d {sympy.latex(sympy.Symbol(state))}}}{{dt}}"
            lines.append(f"{left} &= {sympy.latex(round_numbers(right))}")
        for name, formula in self.measured.items():
            lines.append(f"{sympy.latex(sympy.Symbol(name))} &= {sympy.latex(formula)}")
        for name, value, low, high, _ in self.parameters:
            lines.append(f"{sympy.latex(sympy.Symbol(name))} &= {value:.4g} \\; [{low:.4g}, {high:.4g}]")
        body = " \\\\\n".join(lines)
        return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"

    def function(self, all_terms: bool = False) -> Callable[[float, Any], np.ndarray]:
        """``f(t, x) -> dx/dt`` on numpy arrays (states,), with the numbers of the equations as written.

        Ready for ``scipy.integrate.solve_ivp``.
        """
        values = {sympy.Symbol(p.name): p.overall if all_terms else p.value for p in self.parameters}
        t, states = sympy.Symbol("t"), [sympy.Symbol(e.state) for e in self.equations]
        right = [e.subs(values) for e in self.expressions(all_terms).values()]
        self._refuse_unwritten(right, {t, *states})
        compiled = sympy.lambdify([t, states], right, modules="numpy")
        return lambda t, x: np.array(compiled(t, x), dtype=float)

    def python(self, all_terms: bool = False, start: Mapping[str, float] | None = None) -> str:
        """Source of a module with that function, ``simulate(initial, times)``, and a picture from ``start`` if it runs.

        ``slopes`` needs numpy alone, ``simulate`` scipy, and the picture matplotlib.
        """
        printer = NumPyPrinter({"fully_qualified_modules": False})
        right = self.expressions(all_terms)
        self._refuse_unwritten(list(right.values()), None)
        safe = {sympy.Symbol(n): sympy.Symbol(_identifier(n)) for n in self._names()}
        slopes = [printer.doprint(e.subs(safe)) for e in right.values()]
        needed = sorted(printer.module_imports.get("numpy", ()))
        names = ", ".join(_identifier(e.state) for e in self.equations)
        lines = [
            f'"""Equations of motion of {", ".join(e.state for e in self.equations)}, as they were found."""',
            "",
            *_intervals(self.equations),
            "import numpy as np",
            *([f"from numpy import {', '.join(needed)}"] if needed else []),
            "",
            *[
                f"{_identifier(p.name)} = {p.overall if all_terms else p.value!r}  # 95 % interval "
                f"[{p.low:.4g}, {p.high:.4g}]"
                for p in self.parameters
            ],
            "",
            "",
            "def slopes(t, x):",
            f"    {names}{',' if len(self.equations) == 1 else ''} = x",
            "    return np.array([",
            *[f"        {s}," for s in slopes],
            "    ], dtype=float)",
            "",
            "",
            *_simulation([e.state for e in self.equations], start or {}),
        ]
        return "\n".join(lines) + "\n"

    def _names(self) -> list[str]:
        return [*(e.state for e in self.equations), *(n for n, *_ in self.parameters)]

    def _refuse_unwritten(self, right: list[sympy.Expr], allowed: set[sympy.Symbol] | None) -> None:
        """A vector field that could not be traced to formulas stands as a bare symbol, which cannot be computed."""
        known = allowed if allowed is not None else {sympy.Symbol(n) for n in ("t", *self._names())}
        foreign = sorted({str(s) for e in right for s in e.free_symbols - known})
        if foreign:
            raise ModelError(f"these equations cannot be written as a formula: {', '.join(foreign)}.")


def _intervals(equations: tuple[Equation, ...]) -> list[str]:
    """Comments with the terms of each equation and their 95 % intervals."""
    lines = [
        f"# d{equation.state}/dt, {t.term}: {t.value:.4g}, 95 % interval [{t.low:.4g}, {t.high:.4g}]"
        for equation in equations
        for t in equation.terms
        if t.likely and t.low < t.high
    ]
    return [*lines, ""] if lines else []


_SIMULATION = """

def simulate(initial, times):
    \"\"\"States (times, states) from ``initial``, a value for each state by name, at the first of ``times``.\"\"\"
    from scipy.integrate import solve_ivp

    x = [initial[state] for state in STATES]
    solved = solve_ivp(slopes, (times[0], times[-1]), x, "LSODA", times, rtol=1e-8, atol=1e-10)
    if not solved.success:
        raise RuntimeError(solved.message)
    return solved.y.T


def main():
    times = np.linspace(0.0, 10.0, 200)
    path = simulate(START, times)
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print(np.column_stack([times, path]))
        return
    plt.plot(times, path, label=STATES)
    plt.legend()
    plt.show()


if __name__ == "__main__":
    main()"""


def _simulation(states: list[str], start: Mapping[str, float]) -> list[str]:
    """Lines of ``simulate`` and ``main``."""
    initial = ", ".join(f"{state!r}: {start.get(state, 1.0):.6g}" for state in states)
    return [f"STATES = {states!r}", f"START = {{{initial}}}", *_SIMULATION.splitlines()]


# -- text ----------------------------------------------------------------------------------


def _equation_lines(equation: Equation) -> list[str]:
    pieces = [f"{'-' if t.value < 0 else '+'} {abs(t.value):.4g} {_times(t.term)}" for t in equation.terms if t.likely]
    known = [] if equation.known is None else [f"+ {equation.known}"]
    right = " ".join(known + pieces).removeprefix("+ ") or "0"
    lines = [f"  d{equation.state}/dt = {right}"]
    if equation.terms:
        rows = [(t.term, f"{t.mean:.4g}", f"[{t.low:.4g}, {t.high:.4g}]", _chance(t)) for t in equation.terms]
        term, mean, interval, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines += [f"      {a:<{term}}  {b:>{mean}}  {c:<{interval}}  {d}" for a, b, c, d in rows]
    if equation.forms:
        lines.append("      most probable forms:")
        lines += [f"        {f.probability:6.1%}  {' + '.join(f.terms) or 'no free term'}" for f in equation.forms[:3]]
    return [*lines, ""]


def _chance(term: TermEstimate) -> str:
    return "fixed" if term.probability is None else f"active with probability {term.probability:.2f}"


def _times(term: str) -> str:
    return "" if term == "1" else term


def _identifier(name: str) -> str:
    """A Python name for a state or parameter, whatever characters its own name has."""
    identifier = re.sub(r"\W", "_", name)
    identifier = f"_{identifier}" if not identifier or identifier[0].isdigit() else identifier
    return f"{identifier}_" if keyword.iskeyword(identifier) or identifier in ("t", "x", "np", "slopes") else identifier
