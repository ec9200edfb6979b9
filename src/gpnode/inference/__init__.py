"""From a model and data to a posterior: start ladder, sampler, chains."""

from .fit import Laplace, fit
from .gibbs import Lifted
from .nuts import NUTS

__all__ = ["NUTS", "Laplace", "Lifted", "fit"]
