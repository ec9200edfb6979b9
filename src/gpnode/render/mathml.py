"""Equations as MathML, which browsers typeset without any script."""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

import sympy
from sympy.printing.mathml import mathml

from gpnode.results.equations.written import rounded

_ELEMENTS = {
    *("mrow", "mi", "mn", "mo", "mfrac", "msup", "msub", "msubsup", "msqrt", "mroot", "mfenced", "mtext", "mspace"),
    *("mstyle", "mover", "munder", "mtable", "mtr", "mtd", "mpadded"),
}


def equation_mathml(state: str, right: sympy.Expr) -> str:
    """The equation ``dstate/dt = right`` with numbers of four digits. Names may hold any characters."""
    left = f"<mfrac><mrow><mi>d</mi><mi>{escape(state)}</mi></mrow><mrow><mi>d</mi><mi>t</mi></mrow></mfrac>"
    return f'<math display="block"><mrow>{left}<mo>=</mo>{_expression(right)}</mrow></math>'


def _expression(right: sympy.Expr) -> str:
    """sympy does not escape names: they are escaped here, and the result checked element by element."""
    short = rounded(right)
    safe = {s: sympy.Symbol(escape(s.name, quote=False)) for s in right.free_symbols}
    text = mathml(short.xreplace(safe), printer="presentation", mul_symbol="dot")
    try:
        known = all(
            e.tag in _ELEMENTS and not e.attrib.keys() - {"mathvariant"} for e in ElementTree.fromstring(text).iter()
        )
    except ElementTree.ParseError:
        known = False
    text = text.replace("<mo>-</mo>", "<mo>\u2212</mo>")  # a minus sign; sympy writes a hyphen
    return text if known else f"<mtext>{escape(str(short))}</mtext>"
