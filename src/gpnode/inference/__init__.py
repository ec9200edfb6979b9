"""From a model and data to a posterior: start ladder, sampler, chains, checkpoints, executors."""

from .assembly import Laplace
from .checkpoint import check_same, new_run, read_run
from .fit import default_method, fit, open_checkpoint
from .gibbs import Lifted
from .nuts import NUTS

__all__ = [
    "NUTS",
    "Laplace",
    "Lifted",
    "check_same",
    "default_method",
    "fit",
    "new_run",
    "open_checkpoint",
    "read_run",
]
