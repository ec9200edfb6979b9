"""Text and files in and out: formulas through an allow-list, problems in TOML.

A new file format is one module here that reads a path to a model with its observations. No text is ever evaluated.
"""
