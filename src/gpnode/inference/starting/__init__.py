"""Finding where chains begin: slopes, then paths, then maxima, then pilot chains where equations cannot follow.

May import samplers and the running of chains, which pilots need.
"""
