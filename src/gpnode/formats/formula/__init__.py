"""Formulas: trees of known operations, what they mean, and the text in which problem files write them.

Readers of every format make the same trees (:mod:`.tree`) out of their own texts, and one evaluator
(:mod:`.evaluation`) gives them values. Nothing that a file says is ever evaluated as code. It may import errors alone.
"""

from gpnode.formats.formula.evaluation import evaluate, scalar_function
from gpnode.formats.formula.text import CONSTANTS, FUNCTIONS, Formula, parse, parse_equations
from gpnode.formats.formula.tree import Call, Name, Number, Tree, names_in, replace_names

__all__ = [
    "CONSTANTS",
    "FUNCTIONS",
    "Call",
    "Formula",
    "Name",
    "Number",
    "Tree",
    "evaluate",
    "names_in",
    "parse",
    "parse_equations",
    "replace_names",
    "scalar_function",
]
