"""Text and files in and out: formulas through an allow-list, problems in TOML.

A new format of problem files is one module here, which reads a model and its observations from a file, and one line in
``registry``. No text is ever evaluated. May import :mod:`gpnode.fitting` and the rooms below it.
"""
