"""gpnode: equations of motion from scarce, noisy, irregular and partial measurements.

>>> import gpnode as gn
>>> data = gn.Observations.from_csv("pelts.csv", time="year")
>>> model = gn.Model(gn.Dictionary(["hare", "lynx"], gn.polynomial(degree=2)))
>>> posterior = gn.fit(model, data, seed=0)
>>> print(posterior.equations())
>>> print(posterior.diagnose())
"""

from importlib import import_module

from ._config import configure_jax

configure_jax()  # before anything below creates an array

from . import kernels, priors  # noqa: E402
from .binding import bind  # noqa: E402
from .calibration import Calibration, calibrate  # noqa: E402
from .data import Observations  # noqa: E402
from .diagnostics import diagnose  # noqa: E402
from .dynamics import Dictionary, KnownForm, Sum, fourier, polynomial, term  # noqa: E402
from .equations import equations  # noqa: E402
from .errors import (  # noqa: E402
    CheckpointError,
    DataError,
    FileFormatError,
    GpnodeError,
    ModelError,
    StartError,
    StorageError,
    WorkerError,
)
from .forecast import Forecast, forecast  # noqa: E402
from .inference import NUTS, FitOutcome, FitTask, Laplace, Lifted, fit, fit_many, open_checkpoint  # noqa: E402
from .likelihood import Identity, Log, Noise  # noqa: E402
from .loo import compare, loo  # noqa: E402
from .model import Around, Model  # noqa: E402
from .posterior import Posterior  # noqa: E402
from .priors import (  # noqa: E402
    Exponential,
    FinnishHorseshoe,
    Gamma,
    HalfNormal,
    Horseshoe,
    InverseGamma,
    LogNormal,
    Normal,
    TruncatedNormal,
    Uniform,
)
from .simulation import simulate  # noqa: E402
from .solvers import Adaptive, FixedGrid, Native, NativeStiff, Stiff  # noqa: E402

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """``gpnode.plots``, loaded when first used: figures are not wanted by all, and their library takes long to load."""
    if name == "plots":
        return import_module(".plots", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "NUTS",
    "Adaptive",
    "Around",
    "Calibration",
    "CheckpointError",
    "DataError",
    "Dictionary",
    "Exponential",
    "FileFormatError",
    "FinnishHorseshoe",
    "FitOutcome",
    "FitTask",
    "FixedGrid",
    "Forecast",
    "Gamma",
    "GpnodeError",
    "HalfNormal",
    "Horseshoe",
    "Identity",
    "InverseGamma",
    "KnownForm",
    "Laplace",
    "Lifted",
    "Log",
    "LogNormal",
    "Model",
    "ModelError",
    "Native",
    "NativeStiff",
    "Noise",
    "Normal",
    "Observations",
    "Posterior",
    "StartError",
    "Stiff",
    "StorageError",
    "Sum",
    "TruncatedNormal",
    "Uniform",
    "WorkerError",
    "bind",
    "calibrate",
    "compare",
    "diagnose",
    "equations",
    "fit",
    "fit_many",
    "forecast",
    "fourier",
    "kernels",
    "loo",
    "open_checkpoint",
    "plots",
    "polynomial",
    "priors",
    "simulate",
    "term",
]
