"""Right-hand sides: known forms, dictionaries, and sums of both."""

from .base import BoundDynamics, Dynamics, Named
from .dictionary import BoundDictionary, Dictionary
from .gray_box import BoundSum, Sum
from .known_form import BoundKnownForm, KnownForm
from .library import Library, Term, fourier, polynomial, term

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
