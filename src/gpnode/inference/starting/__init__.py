"""Finding where chains begin: slopes are matched, then paths, then maxima climbed.

Where no equations can follow the data, short pilot chains show the way.

May import samplers and the running of chains, which pilots need.
"""
