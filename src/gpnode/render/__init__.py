"""Results for the eye: plots, the report, and what objects show of themselves in a notebook.

May import anything but the command line and the studies; computes no statistics of its own. What is HTML goes
through :mod:`gpnode.render.html`, whose templates escape every text.
"""
