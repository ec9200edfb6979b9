"""Experiments on a model before real ones: data simulated from it, and calibration of its fits."""
