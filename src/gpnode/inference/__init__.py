"""From a problem to draws: samplers, where they start, when they stop, and how their chains run.

May import :mod:`gpnode.problem` and what is below it; knows nothing of posteriors, reports or files of results.
"""
