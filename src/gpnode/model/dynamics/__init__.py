"""Right-hand sides: known forms, dictionaries, and sums of both."""

from gpnode.model.dynamics.base import BoundDynamics, Dynamics, Named
from gpnode.model.dynamics.dictionary import BoundDictionary, Dictionary
from gpnode.model.dynamics.known_form import BoundKnownForm, KnownForm
from gpnode.model.dynamics.sum import BoundSum, Sum
from gpnode.model.dynamics.terms import Library, Term, fourier, polynomial, term

__all__ = [
    "BoundDictionary",
    "BoundDynamics",
    "BoundKnownForm",
    "BoundSum",
    "Dictionary",
    "Dynamics",
    "KnownForm",
    "Library",
    "Named",
    "Sum",
    "Term",
    "fourier",
    "polynomial",
    "term",
]
