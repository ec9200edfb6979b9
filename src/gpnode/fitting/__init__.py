"""One call from a model and measurements to a posterior: the conductor of problem, inference and results.

May import these three and what is below them.
"""
