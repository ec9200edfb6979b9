"""From the user's units to order one and back.

Inside, each state is divided by its largest magnitude, Gaussian-process inputs are times on
[0, 1], and the ODE runs in the data's own characteristic time (how long a state takes to
move by its own standard deviation). In these units coefficients of a dictionary are of order one, so
that one prior suits them all. Users never see them.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array


class Scaling(eqx.Module):
    """Scales of one data set.

    ``state_scale`` (states,) in user units; ``time_origin`` the earliest start;
    ``time_unit`` the characteristic time; ``record_length`` the longest experiment's duration.
    """

    state_scale: Array
    time_origin: Array
    time_unit: Array
    record_length: Array

    def user_time(self, scaled_time: Array) -> Array:
        """The user's time of a time inside the solver."""
        return self.time_origin + self.time_unit * scaled_time

    def solver_time(self, user_time: Array | np.ndarray) -> Array:
        """Time inside the solver of a user's time.

        Of arrays of NumPy to the last bit the same for equal times, in whatever array they are: XLA may multiply by the
        inverse instead of dividing.
        """
        if isinstance(user_time, np.ndarray):
            return jnp.asarray((user_time - np.asarray(self.time_origin)) / np.asarray(self.time_unit))
        return (jnp.asarray(user_time) - self.time_origin) / self.time_unit

    def user_time_of_process(self, gp_time: Array) -> Array:
        """The user's time of an input of the Gaussian process."""
        return self.time_origin + self.record_length * gp_time

    def gp_time(self, user_time: Array) -> Array:
        """Input of the Gaussian process: one unit is the longest experiment. Kernels see differences only."""
        return (jnp.asarray(user_time) - self.time_origin) / self.record_length
