"""gpnode: equations of motion from scarce, noisy, irregular and partial measurements.

>>> import gpnode as gn
>>> data = gn.Observations.from_file("pelts.csv")
>>> model = gn.Model(gn.Dictionary(["hare", "lynx"], gn.polynomial(degree=2)))
>>> posterior = gn.fit(model, data, seed=0)
>>> print(posterior.equations())
>>> print(posterior.diagnose())

What importing changes for other code in the process is said in :mod:`gpnode._config`, and nowhere else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._config import configure_jax

configure_jax()  # before anything below creates an array

__version__ = "0.2.0"

if TYPE_CHECKING:  # the same names as below, for tools that read code without running it
    from .data.experiments import Dose, Event, Experiment, Lines, Smooth, Steps, Trigger
    from .data.observations import Observations
    from .data.protocols import read_experiments
    from .design.calibration import Calibration, calibrate
    from .design.simulation import simulate
    from .errors import (
        CheckpointError,
        DataError,
        FileFormatError,
        GpnodeError,
        ModelError,
        PosteriorError,
        SbmlError,
        StartError,
        StorageError,
        WorkerError,
    )
    from .fitting.many import FitOutcome, FitTask, fit_many
    from .fitting.single import fit, open_checkpoint
    from .formats.petab.reading import PetabProblem, read_petab
    from .formats.runs import load_run
    from .formats.sbml.file import read_sbml
    from .inference.samplers.laplace import Laplace
    from .inference.samplers.lifted.sampler import Lifted
    from .inference.samplers.nuts import NUTS
    from .model import priors
    from .model.dynamics import Dictionary, KnownForm, Sum, fourier, polynomial, term
    from .model.model import Around, Model
    from .model.observation import kernels
    from .model.observation.families import (
        BinomialNoise,
        LaplaceNoise,
        NegativeBinomialNoise,
        PoissonNoise,
        StudentNoise,
    )
    from .model.observation.formula_noise import FormulaNoise
    from .model.observation.noise import CombinedNoise, Noise
    from .model.observation.observables import Observable
    from .model.observation.transforms import Identity, Log
    from .model.paper import paper_priors
    from .model.priors import (
        Exponential,
        FinnishHorseshoe,
        Gamma,
        HalfCauchy,
        HalfNormal,
        Horseshoe,
        InverseGamma,
        LogNormal,
        Normal,
        SpikeAndSlab,
        TruncatedNormal,
        Uniform,
    )
    from .model.priors.given import Given
    from .model.priors.population import Each, Population
    from .problem.binding import bind
    from .render import plots
    from .results.comparison import compare, loo
    from .results.diagnostics.verdict import diagnose
    from .results.equations.reading import equations
    from .results.forecasts import Forecast, forecast
    from .results.posterior import Posterior
    from .solvers import Adaptive, FixedGrid, Native, NativeStiff, Stiff

_PUBLIC = {
    "data.experiments": ("Dose", "Event", "Experiment", "Lines", "Smooth", "Steps", "Trigger"),
    "data.observations": ("Observations",),
    "data.protocols": ("read_experiments",),
    "design.calibration": ("Calibration", "calibrate"),
    "design.simulation": ("simulate",),
    "errors": (
        "CheckpointError",
        "DataError",
        "FileFormatError",
        "GpnodeError",
        "ModelError",
        "PosteriorError",
        "SbmlError",
        "StartError",
        "StorageError",
        "WorkerError",
    ),
    "fitting.many": ("FitOutcome", "FitTask", "fit_many"),
    "fitting.single": ("fit", "open_checkpoint"),
    "formats.petab.reading": ("PetabProblem", "read_petab"),
    "formats.runs": ("load_run",),
    "formats.sbml.file": ("read_sbml",),
    "inference.samplers.laplace": ("Laplace",),
    "inference.samplers.lifted.sampler": ("Lifted",),
    "inference.samplers.nuts": ("NUTS",),
    "model": ("priors",),
    "model.dynamics": ("Dictionary", "KnownForm", "Sum", "fourier", "polynomial", "term"),
    "model.model": ("Around", "Model"),
    "model.paper": ("paper_priors",),
    "model.priors.given": ("Given",),
    "model.priors.population": ("Each", "Population"),
    "model.observation": ("kernels",),
    "model.observation.observables": ("Observable",),
    "model.observation.families": (
        "BinomialNoise",
        "LaplaceNoise",
        "NegativeBinomialNoise",
        "PoissonNoise",
        "StudentNoise",
    ),
    "model.observation.formula_noise": ("FormulaNoise",),
    "model.observation.noise": ("CombinedNoise", "Noise"),
    "model.observation.transforms": ("Identity", "Log"),
    "model.priors": (
        "Exponential",
        "FinnishHorseshoe",
        "Gamma",
        "HalfCauchy",
        "HalfNormal",
        "Horseshoe",
        "InverseGamma",
        "LogNormal",
        "Normal",
        "SpikeAndSlab",
        "TruncatedNormal",
        "Uniform",
    ),
    "problem.binding": ("bind",),
    "render": ("plots",),
    "results.comparison": ("compare", "loo"),
    "results.diagnostics.verdict": ("diagnose",),
    "results.equations.reading": ("equations",),
    "results.forecasts": ("Forecast", "forecast"),
    "results.posterior": ("Posterior",),
    "solvers": ("Adaptive", "FixedGrid", "Native", "NativeStiff", "Stiff"),
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [
    "NUTS",
    "Adaptive",
    "Around",
    "BinomialNoise",
    "Calibration",
    "CheckpointError",
    "CombinedNoise",
    "DataError",
    "Dictionary",
    "Dose",
    "Each",
    "Event",
    "Experiment",
    "Exponential",
    "FileFormatError",
    "FinnishHorseshoe",
    "FitOutcome",
    "FitTask",
    "FixedGrid",
    "Forecast",
    "FormulaNoise",
    "Gamma",
    "Given",
    "GpnodeError",
    "HalfCauchy",
    "HalfNormal",
    "Horseshoe",
    "Identity",
    "InverseGamma",
    "KnownForm",
    "Laplace",
    "LaplaceNoise",
    "Lifted",
    "Lines",
    "Log",
    "LogNormal",
    "Model",
    "ModelError",
    "Native",
    "NativeStiff",
    "NegativeBinomialNoise",
    "Noise",
    "Normal",
    "Observable",
    "Observations",
    "PetabProblem",
    "PoissonNoise",
    "Population",
    "Posterior",
    "PosteriorError",
    "SbmlError",
    "Smooth",
    "SpikeAndSlab",
    "StartError",
    "Steps",
    "Stiff",
    "StorageError",
    "StudentNoise",
    "Sum",
    "Trigger",
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
    "load_run",
    "loo",
    "open_checkpoint",
    "paper_priors",
    "plots",
    "polynomial",
    "priors",
    "read_experiments",
    "read_petab",
    "read_sbml",
    "simulate",
    "term",
]


def __getattr__(name: str) -> object:
    """A public name, loaded when it is first used: nobody waits for what he does not need."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f".{_HOMES[name]}", __name__)
    # A submodule that nobody has imported yet is no attribute of its package.
    value = getattr(home, name, None) or import_module(f".{name}", home.__name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
