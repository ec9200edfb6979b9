"""What a fit leaves behind: the posterior and its record, files, forecasts, equations, comparison, the verdict.

Functions of a :class:`~gpnode.results.posterior.Posterior`. May import :mod:`gpnode.inference` and what is below it.
"""
