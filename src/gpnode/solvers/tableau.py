"""Dormand and Prince's fifth-order pair of Runge–Kutta methods.

Stage i is taken at time ``NODES[i]`` of the step, from the state advanced by the earlier slopes
weighted with ``COUPLING[i]``. ``WEIGHTS`` give the solution, and ``ERROR`` (which counts the
slope at the end of the step as a seventh stage) its difference to the embedded fourth-order one.
"""

import numpy as np

STAGES = 6
NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0)
COUPLING = np.array(
    [
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [1 / 5, 0.0, 0.0, 0.0, 0.0],
        [3 / 40, 9 / 40, 0.0, 0.0, 0.0],
        [44 / 45, -56 / 15, 32 / 9, 0.0, 0.0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0.0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    ]
)
WEIGHTS = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
