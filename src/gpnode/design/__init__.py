"""Experiments on a model before real ones: data simulated from it, and calibration of its fits.

May import :mod:`gpnode.fitting`, :mod:`gpnode.results` and what is below them.
"""
