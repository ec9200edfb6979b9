"""One call from a model and measurements to a posterior: the conductor of problem, inference and results."""
