"""From a model and data to a posterior: start ladder, sampler, chains."""

from .fit import Laplace, fit
from .nuts import NUTS

__all__ = ["NUTS", "Laplace", "fit"]
