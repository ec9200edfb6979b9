"""How measurements scatter about the path: transforms, noise, and kernels of the Gaussian process.

May import :mod:`gpnode.model.priors`.
"""
