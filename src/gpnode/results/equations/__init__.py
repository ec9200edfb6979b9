"""The equations of motion in the user's units: read off a posterior, and written as text, LaTeX, sympy and Python.

Dynamics write their own right-hand sides (:mod:`gpnode.model.dynamics.writing`); nothing here knows their kinds.
"""
