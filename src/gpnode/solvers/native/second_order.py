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
    act,
    derivatives,
    describe,
    entry_weights,
    part_of,
    pull_back,
    pull_back_matrix,
    push_forward,
    read_actions,
    slope,
    weighted_second_derivatives,
)

TARGET = "gpnode_jacobian_gradient"
LONGEST = 2.0  # rates that a step may span: the method is stable to 2.7
MOST_STEPS = 32  # in an interval


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
def between(a, b, h, slope_a, slope_b, part, out):
    """A ``part`` of the way along the cubic through ``a`` and, ``h`` later, ``b``."""
    rest = 1.0 - part
    to_b, bend_a, bend_b = part * part * (3.0 - 2.0 * part), h * part * rest * rest, h * part * part * rest
    for m in range(out.size):
        out[m] = a[m] + to_b * (b[m] - a[m]) + bend_a * slope_a[m] - bend_b * slope_b[m]


@njit(**INNER)
def linearise(field, width, t, x, sensitivity, p, f, by_state, by_parameter, moving):
    """Fill slopes ``f`` of the path, both Jacobians, and ``moving``, the slope of the ``sensitivity``."""
    slope(field, t, x, p, f)
    derivatives(field, t, x, p, by_state, by_parameter)
    push_forward(field, width, by_state, by_parameter, sensitivity, moving)


@njit(**INNER)
def steps_needed(h, by_state0, by_state2):
    """How many steps an interval takes: the norm of a Jacobian is at least the largest of its rates."""
    at_0, at_2 = 0.0, 0.0
    for m in range(by_state0.size):
        at_0 += by_state0[m] ** 2
        at_2 += by_state2[m] ** 2
    needed = np.ceil(h * np.sqrt(max(at_0, at_2)) / LONGEST)
    return int(max(needed, 1.0)) if needed <= MOST_STEPS else MOST_STEPS + 1


@njit(**INNER)
def differentiate_sensitivities(field, p, jump, jump_p, actions, ts, xs, sensitivities, weights, free, gradient):
    """Fill ``gradient`` (columns,), about that of sum(weights * sensitivities), both (times, states * columns).

    The adjoint equations of path and sensitivities, by fourth-order steps back over the intervals of ``ts``, cut where
    steps would not be stable; ``nan`` where that takes too many. Over intervals without length the state jumps, if
    there are ``actions`` (intervals, numbers). Names end in 2 at the end of a step, in 1 in its
    middle, in 0 at its beginning.
    """
    times, states = xs.shape
    size = sensitivities.shape[1]
    width = size // states
    inputs = states + field[PARAMETERS]
    x0, x1, x2, f0, f2 = np.zeros(states), np.zeros(states), np.zeros(states), np.zeros(states), np.zeros(states)
    s0, s1, s2, ds0, ds2 = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
    jx0, jx1, jx2 = np.zeros(field[STATE_ENTRIES]), np.zeros(field[STATE_ENTRIES]), np.zeros(field[STATE_ENTRIES])
    jp0, jp1 = np.zeros(field[PARAMETER_ENTRIES]), np.zeros(field[PARAMETER_ENTRIES])
    jp2 = np.zeros(field[PARAMETER_ENTRIES])
    f_begin, ds_begin, f_end, ds_end = np.zeros(states), np.zeros(size), np.zeros(states), np.zeros(size)
    jx_begin, jp_begin = np.zeros(jx0.size), np.zeros(jp0.size)
    adjoint, adjoint1, trial = np.zeros(size), np.zeros(size), np.zeros(size)  # of the sensitivity
    a, b, c, d = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)  # its slopes
    path, path1, path_trial = np.zeros(states), np.zeros(states), np.zeros(states)  # adjoint of the path
    onto_path0, onto_path1, onto_path2 = np.zeros(inputs), np.zeros(inputs), np.zeros(inputs)
    pa, pb, pc, pd = np.zeros(inputs), np.zeros(inputs), np.zeros(inputs), np.zeros(inputs)
    entries = np.zeros(jx0.size + jp0.size)
    acted_on = actions.shape[1] > 0
    jump_by_state, jump_by_parameter = np.zeros(jump[STATE_ENTRIES]), np.zeros(jump[PARAMETER_ENTRIES])
    jump_entries = np.zeros(jump_by_state.size + jump_by_parameter.size)
    gradient[:] = 0.0
    copy(xs[-1], x2)
    copy(sensitivities[-1], s2)
    linearise(field, width, ts[-1], x2, s2, p, f2, jx2, jp2, ds2)
    has_new_weights = False
    for k in range(times - 2, -1, -1):
        for m in range(size):
            adjoint[m] += weights[k + 1, m]
            has_new_weights = has_new_weights or weights[k + 1, m] != 0.0
        length = ts[k + 1] - ts[k]
        if length <= 0.0:
            if acted_on:
                act(jump, jump_p, actions[k])
                derivatives(jump, ts[k], xs[k], jump_p, jump_by_state, jump_by_parameter)
                pa[:] = 0.0
                through_sensitivity(jump, ts[k], xs[k], jump_p, adjoint, sensitivities[k], jump_entries, pa)
                pull_back(jump, jump_by_state, jump_by_parameter, path, pa)
                pull_back_matrix(jump, width, jump_by_state, adjoint, trial)
                copy(trial, adjoint)
                copy(pa, path)
                for q in range(inputs - states):
                    gradient[q] += pa[states + q]
            continue
        if acted_on:  # what acted after this interval did not act on it
            act(field, p, actions[k])
            copy(xs[k + 1], x2)
            copy(sensitivities[k + 1], s2)
            linearise(field, width, ts[k + 1], x2, s2, p, f2, jx2, jp2, ds2)
            has_new_weights = True
        linearise(field, width, ts[k], xs[k], sensitivities[k], p, f_begin, jx_begin, jp_begin, ds_begin)
        steps = steps_needed(length, jx_begin, jx2)
        if steps > MOST_STEPS:
            gradient[:] = np.nan
            return
        copy(f2, f_end)
        copy(ds2, ds_end)
        h = length / steps
        for step in range(steps - 1, -1, -1):
            # The path and its sensitivity.
            t0 = ts[k] + step * h
            if step:
                part = step / steps
                between(xs[k], xs[k + 1], length, f_begin, f_end, part, x0)
                between(sensitivities[k], sensitivities[k + 1], length, ds_begin, ds_end, part, s0)
                linearise(field, width, t0, x0, s0, p, f0, jx0, jp0, ds0)
            else:
                copy(xs[k], x0)
                copy(sensitivities[k], s0)
                copy(f_begin, f0)
                copy(ds_begin, ds0)
                copy(jx_begin, jx0)
                copy(jp_begin, jp0)
            between(x0, x2, h, f0, f2, 0.5, x1)
            between(s0, s2, h, ds0, ds2, 0.5, s1)
            derivatives(field, t0 + 0.5 * h, x1, p, jx1, jp1)
            # The sensitivity's adjoint, and what it adds to the path's.
            if has_new_weights:
                through_sensitivity(field, t0 + h, x2, p, adjoint, s2, entries, onto_path2)
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
            between(trial, adjoint, h, a, d, 0.5, adjoint1)
            through_sensitivity(field, t0 + 0.5 * h, x1, p, adjoint1, s1, entries, onto_path1)
            through_sensitivity(field, t0, x0, p, adjoint, s0, entries, onto_path0)
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
            between(path_trial, path, h, pa, pd, 0.5, path1)
            through_path(field, jx1, jp1, path1, pb)
            through_path(field, jx0, jp0, path, pc)
            for q in range(inputs - states):
                m = states + q
                gradient[q] += h / 6.0 * (pa[m] + 4.0 * (pb[m] + onto_path1[m]) + pc[m] + onto_path0[m])
            copy(x0, x2)
            copy(s0, s2)
            copy(f0, f2)
            copy(ds0, ds2)
            copy(jx0, jx2)
            copy(jp0, jp2)
            copy(onto_path0, onto_path2)
    for q in range(free.size):
        gradient[inputs - states + q] = path[int(free[q])]


def serve(call_frame):
    """:func:`differentiate_sensitivities` for every member of the batch.

    Arguments (batch, ...): settings (the names of the field and of its jump, free states ...), parameters, ts, xs
    (times, states), sensitivities and weights (times, states, columns), actions (intervals, numbers), parameters of the
    jump. Result: the gradient (columns,).
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
        matrix = times * states * columns
        actions, jump, jump_p = read_actions(
            argument(call_frame, 6), argument(call_frame, 7), int(setting[1]), field, times - 1, b
        )
        differentiate_sensitivities(
            field,
            part_of(ps, inputs, b).copy(),
            jump,
            jump_p,
            actions,
            part_of(ts, times, b),
            part_of(xs, times * states, b).reshape((times, states)),
            part_of(sensitivities, matrix, b).reshape((times, states * columns)),
            part_of(weights, matrix, b).reshape((times, states * columns)),
            setting[2:],
            part_of(gradients, columns, b),
        )
    return 0


def register_once():
    """Make the sweep callable from XLA."""
    serve_under(TARGET, serve)
