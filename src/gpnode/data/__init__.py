"""What was measured: observations, the tables they come from, and the scales they set.

Every check of measurements is made here, once; other packages trust what they are given. Imports nothing of gpnode
but the ground floor (modules of the package itself, such as :mod:`gpnode.errors`).
"""
