"""What the user states: equations, priors, and how measurements scatter. No data, no sampling.

New kinds of dynamics, kernels, noise, transforms and priors live here; CONTRIBUTING says where each
goes. May import :mod:`gpnode.data`, :mod:`gpnode.solvers` and :mod:`gpnode.tracing`.
"""
