"""The gradient of a weighted sum of sensitivities, by a sweep back along the path.

What it takes of a field (:mod:`.fields`) besides slopes and Jacobians are their second derivatives.
"""

# mypy: ignore-errors
# ruff: noqa: D103

import numpy as np
from numba import njit

from gpnode.solvers.native.availability import serve_under
from gpnode.solvers.native.explicit import copy
from gpnode.solvers.native.ffi import INNER, argument, is_registration, last_dimension, result
from gpnode.solvers.native.fields import (
    INPUTS,
    PARAMETER_ENTRIES,
    PARAMETERS,
    STATE_ENTRIES,
    STATES,
    derivatives,
    describe,
    entry_weights,
    pull_back,
    pull_back_matrix,
    push_forward,
    slope,
    weighted_second_derivatives,
)

TARGET = "gpnode_jacobian_gradient"


@njit(**INNER)
def through_sensitivity(field, t, x, p, adjoint, sensitivity, weights, out):
    """Fill ``out`` (states + parameters) with derivatives of sum(adjoint * d(sensitivity)/dt)."""
    entry_weights(field, sensitivity.size // x.size, adjoint, sensitivity, weights)
    weighted_second_derivatives(field, t, x, p, weights, out)


@njit(**INNER)
def through_path(field, by_state, by_parameter, adjoint, out):
    """Fill ``out`` (states + parameters) with derivatives of sum(adjoint * d(path)/dt)."""
    out[:] = 0.0
    pull_back(field, by_state, by_parameter, adjoint, out)


@njit(**INNER)
def advance(start, step, change, out):
    for m in range(out.size):
        out[m] = start[m] + step * change[m]


@njit(**INNER)
def halfway(a, b, h, slope_a, slope_b, out):
    """The middle of the cubic through ``a`` and, ``h`` later, ``b``."""
    for m in range(out.size):
        out[m] = 0.5 * (a[m] + b[m]) + 0.125 * h * (slope_a[m] - slope_b[m])


@njit(**INNER)
def differentiate_sensitivities(field, p, ts, xs, sensitivities, weights, free, gradient):
    """Fill ``gradient`` (columns,), about that of sum(weights * sensitivities), both (times, states * columns).

    The adjoint equations of path and sensitivities, by fourth-order steps back over the intervals of ``ts``. Names
    end in 2 at the end of an interval, in 1 in its middle, in 0 at its beginning.
    """
    times, states = xs.shape
    size = sensitivities.shape[1]
    width = size // states
    inputs = states + field[PARAMETERS]
    x1, f0, f2 = np.zeros(states), np.zeros(states), np.zeros(states)
    s1, ds0, ds2 = np.zeros(size), np.zeros(size), np.zeros(size)  # the sensitivity, and its slopes
    jx0, jx1, jx2 = np.zeros(field[STATE_ENTRIES]), np.zeros(field[STATE_ENTRIES]), np.zeros(field[STATE_ENTRIES])
    jp0, jp1 = np.zeros(field[PARAMETER_ENTRIES]), np.zeros(field[PARAMETER_ENTRIES])
    jp2 = np.zeros(field[PARAMETER_ENTRIES])
    adjoint, adjoint1, trial = np.zeros(size), np.zeros(size), np.zeros(size)  # of the sensitivity
    a, b, c, d = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)  # its slopes
    path, path1, path_trial = np.zeros(states), np.zeros(states), np.zeros(states)  # adjoint of the path
    onto_path0, onto_path1, onto_path2 = np.zeros(inputs), np.zeros(inputs), np.zeros(inputs)
    pa, pb, pc, pd = np.zeros(inputs), np.zeros(inputs), np.zeros(inputs), np.zeros(inputs)
    entries = np.zeros(jx0.size + jp0.size)
    gradient[:] = 0.0
    slope(field, ts[-1], xs[-1], p, f2)
    derivatives(field, ts[-1], xs[-1], p, jx2, jp2)
    push_forward(field, width, jx2, jp2, sensitivities[-1], ds2)
    has_new_weights = False
    for k in range(times - 2, -1, -1):
        for m in range(size):
            adjoint[m] += weights[k + 1, m]
            has_new_weights = has_new_weights or weights[k + 1, m] != 0.0
        h = ts[k + 1] - ts[k]
        if h <= 0.0:
            continue
        x0, x2 = xs[k], xs[k + 1]
        # The path and its sensitivity.
        slope(field, ts[k], x0, p, f0)
        derivatives(field, ts[k], x0, p, jx0, jp0)
        push_forward(field, width, jx0, jp0, sensitivities[k], ds0)
        halfway(x0, x2, h, f0, f2, x1)
        halfway(sensitivities[k], sensitivities[k + 1], h, ds0, ds2, s1)
        derivatives(field, ts[k] + 0.5 * h, x1, p, jx1, jp1)
        # The sensitivity's adjoint, and what it adds to the path's.
        if has_new_weights:
            through_sensitivity(field, ts[k + 1], x2, p, adjoint, sensitivities[k + 1], entries, onto_path2)
            has_new_weights = False
        pull_back_matrix(field, width, jx2, adjoint, a)
        advance(adjoint, 0.5 * h, a, trial)
        pull_back_matrix(field, width, jx1, trial, b)
        advance(adjoint, 0.5 * h, b, trial)
        pull_back_matrix(field, width, jx1, trial, c)
        advance(adjoint, h, c, trial)
        pull_back_matrix(field, width, jx0, trial, d)
        copy(adjoint, trial)
        for m in range(size):
            adjoint[m] += h / 6.0 * (a[m] + 2.0 * (b[m] + c[m]) + d[m])
        halfway(trial, adjoint, h, a, d, adjoint1)
        through_sensitivity(field, ts[k] + 0.5 * h, x1, p, adjoint1, s1, entries, onto_path1)
        through_sensitivity(field, ts[k], x0, p, adjoint, sensitivities[k], entries, onto_path0)
        # The path's adjoint, and the gradient.
        through_path(field, jx2, jp2, path, pa)
        for q in range(inputs):
            pa[q] += onto_path2[q]
        advance(path, 0.5 * h, pa, path_trial)
        through_path(field, jx1, jp1, path_trial, pb)
        for q in range(states):
            path_trial[q] = path[q] + 0.5 * h * (pb[q] + onto_path1[q])
        through_path(field, jx1, jp1, path_trial, pc)
        for q in range(states):
            path_trial[q] = path[q] + h * (pc[q] + onto_path1[q])
        through_path(field, jx0, jp0, path_trial, pd)
        copy(path, path_trial)
        for q in range(states):
            pd[q] += onto_path0[q]
            path[q] += h / 6.0 * (pa[q] + 2.0 * (pb[q] + pc[q] + 2.0 * onto_path1[q]) + pd[q])
        halfway(path_trial, path, h, pa, pd, path1)
        through_path(field, jx1, jp1, path1, pb)
        through_path(field, jx0, jp0, path, pc)
        for q in range(inputs - states):
            m = states + q
            gradient[q] += h / 6.0 * (pa[m] + 4.0 * (pb[m] + onto_path1[m]) + pc[m] + onto_path0[m])
        copy(f0, f2)
        copy(ds0, ds2)
        copy(jx0, jx2)
        copy(jp0, jp2)
        copy(onto_path0, onto_path2)
    for q in range(free.size):
        gradient[inputs - states + q] = path[int(free[q])]


def serve(call_frame):
    """:func:`differentiate_sensitivities` for every member of the batch.

    Arguments (batch, ...): settings (the name of the field, free states ...), parameters, ts, xs (times, states),
    sensitivities and weights (times, states, columns). Result: the gradient (columns,).
    """
    if is_registration(call_frame):
        return 0
    settings, ps, ts, xs = (
        argument(call_frame, 0),
        argument(call_frame, 1),
        argument(call_frame, 2),
        argument(call_frame, 3),
    )
    sensitivities, weights, gradients = argument(call_frame, 4), argument(call_frame, 5), result(call_frame, 0)
    num_settings, times, columns = (
        last_dimension(call_frame, 0),
        last_dimension(call_frame, 2),
        last_dimension(call_frame, 4),
    )
    for b in range(ts.size // times):
        setting = settings[b * num_settings : (b + 1) * num_settings]
        field = describe(int(setting[0]))
        states, inputs = field[STATES], field[INPUTS]
        path, matrix = slice(b * times * states, (b + 1) * times * states), times * states * columns
        block = slice(b * matrix, (b + 1) * matrix)
        differentiate_sensitivities(
            field,
            ps[b * inputs : (b + 1) * inputs],
            ts[b * times : (b + 1) * times],
            xs[path].reshape((times, states)),
            sensitivities[block].reshape((times, states * columns)),
            weights[block].reshape((times, states * columns)),
            setting[1:],
            gradients[b * columns : (b + 1) * columns],
        )
    return 0


def register_once():
    """Make the sweep callable from XLA."""
    serve_under(TARGET, serve)
