"""What JAX recorded of a function, run again on symbols: as straight-line code, and as formulas.

One interpreter (``interpreter``) runs traced functions; what arithmetic on symbols means is an algebra's: ``code``
writes statements, ``formulas`` makes sympy's expressions. Imports nothing of gpnode; only ``formulas`` imports sympy,
so it is imported where formulas are wanted.
"""
