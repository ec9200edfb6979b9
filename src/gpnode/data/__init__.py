"""What was measured and what was done: observations, the tables they come from, and the scales they set.

Every check of user input is made here, once; the rooms above trust what they are given. Imports nothing of gpnode
but the ground floor (modules of the package itself, such as :mod:`gpnode.errors`).
"""
