"""Figures: Axes in, Axes out. Every function draws on the axes it is given, or makes its own."""

from .calibration import calibration
from .chains import autocorrelation, geweke, traces
from .estimates import coefficients, inclusion, parameters
from .paths import phase_portrait, residuals, trajectories

__all__ = [
    "autocorrelation",
    "calibration",
    "coefficients",
    "geweke",
    "inclusion",
    "parameters",
    "phase_portrait",
    "residuals",
    "traces",
    "trajectories",
]
