"""Figures: Axes in, Axes out. Every function draws on the axes of its caller, or makes new ones.

May import data, results, design and statistics of chains; computes nothing that a result does not have already.
"""

from gpnode.render.plots.bands import paths, phase_portrait, predictive_check, residuals
from gpnode.render.plots.chains import autocorrelation, geweke, traces
from gpnode.render.plots.estimates import coefficients, inclusion, parameters
from gpnode.render.plots.ranks import calibration

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
    "predictive_check",
    "residuals",
    "traces",
    "trajectories",
]
