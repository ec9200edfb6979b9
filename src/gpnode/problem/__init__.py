"""Where a model meets data: the posterior density as a pure function of one vector, and all it is made of.

Binding, layout, density, the solver grid, covariances, and compiled evaluation. May import :mod:`gpnode.model`,
:mod:`gpnode.data` and :mod:`gpnode.solvers`; knows no sampler.
"""
