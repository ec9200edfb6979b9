"""Equations as MathML, which browsers typeset without any script."""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

import sympy
from markupsafe import Markup
from sympy.printing.mathml import mathml

from gpnode.render.html.environment import render_template
from gpnode.tracing.formulas import round_numbers

_ELEMENTS = {
    *("mrow", "mi", "mn", "mo", "mfrac", "msup", "msub", "msubsup", "msqrt", "mroot", "mfenced", "mtext", "mspace"),
    *("mstyle", "mover", "munder", "mtable", "mtr", "mtd", "mpadded"),
}


def equation_mathml(state: str, right: sympy.Expr) -> Markup:
    """The equation ``dstate/dt = right`` with numbers of four digits. Names may hold any characters."""
    short = round_numbers(right)
    return render_template("equation.html", state=state, right=_typeset(short), plain=str(short))


def _typeset(expression: sympy.Expr) -> Markup | None:
    """MathML of an expression, or None where sympy writes something that is not plain MathML."""
    # sympy does not escape names: they are escaped here, and the result is checked element by element.
    escaped = {s: sympy.Symbol(escape(s.name, quote=False)) for s in expression.free_symbols}
    text = mathml(expression.xreplace(escaped), printer="presentation", mul_symbol="dot")
    try:
        elements = list(ElementTree.fromstring(text).iter())
    except ElementTree.ParseError:
        return None
    if any(e.tag not in _ELEMENTS or e.attrib.keys() - {"mathvariant"} for e in elements):
        return None
    return Markup(text.replace("<mo>-</mo>", "<mo>\u2212</mo>"))  # a minus sign; sympy writes a hyphen
