"""What JAX recorded of a function, run again on symbols: as straight-line code, and as formulas."""
