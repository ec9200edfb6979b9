"""Ways to draw from a posterior, each behind the seam of :mod:`gpnode.inference.samplers.base`.

A new sampler is one file here and one line in the registry. A sampler knows the problem, not the run around it.
"""
