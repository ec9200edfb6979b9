"""Figures: Axes in, Axes out. Every function draws on the axes it is given, or makes its own."""

from gpnode.render.plots.bands import paths, phase_portrait, residuals
from gpnode.render.plots.calibration import calibration
from gpnode.render.plots.chains import autocorrelation, geweke, traces
from gpnode.render.plots.estimates import coefficients, inclusion, parameters

trajectories = paths  # its old name

__all__ = [
    "autocorrelation",
    "calibration",
    "coefficients",
    "geweke",
    "inclusion",
    "parameters",
    "paths",
    "phase_portrait",
    "residuals",
    "traces",
    "trajectories",
]
