"""From a model and data to a posterior: start ladder, sampler, chains, checkpoints, executors."""

from .assembly import Laplace
from .checkpoint import check_same, new_run, read_run
from .fit import default_method, fit, open_checkpoint
from .gibbs import Lifted
from .many import FitOutcome, FitTask, fit_many
from .nuts import NUTS

__all__ = [
    "NUTS",
    "FitOutcome",
    "FitTask",
    "Laplace",
    "Lifted",
    "check_same",
    "default_method",
    "fit",
    "fit_many",
    "new_run",
    "open_checkpoint",
    "read_run",
]
