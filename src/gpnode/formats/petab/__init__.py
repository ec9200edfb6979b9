"""PEtab problems, versions 1 and 2: their tables, their mathematics, and the model and data they state.

It may import the rooms of formats, data, model and problem.
"""
