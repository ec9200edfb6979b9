"""An implicit integrator for stiff vector fields in native code.

The fields are those of :mod:`.fields`. The method is the implicit half of Kennedy and Carpenter's ARK4(3)6L[2]SA:
fourth order, L-stable, five implicit stages with the same diagonal, an embedded third-order solution. Steps follow the
error estimate, and end at the times of output. Sensitivities are those of the discrete solution: each stage's
derivative solves the stage's equation, linearised where Newton's method ended.
"""

# mypy: ignore-errors

import numpy as np
from numba import njit

from gpnode.solvers.native.availability import serve_under
from gpnode.solvers.native.explicit import (
    BLOW_UP,
    LANES,
    NOT_FINITE,
    OK,
    SENSITIVITIES,
    TOO_MANY_STEPS,
    copy,
    keep,
    leap,
    within_bound,
)
from gpnode.solvers.native.ffi import INNER, argument, is_registration
from gpnode.solvers.native.fields import (
    INPUTS,
    PARAMETER_ENTRIES,
    PARAMETERS,
    STATE_ENTRIES,
    STATES,
    act,
    derivatives,
    describe,
    part_of,
    push_forward,
    read_actions,
    read_batches,
    slope,
)

TARGET = "gpnode_solve_stiff"
STAGES = 6
DIAGONAL = 0.25
NODES = np.array([0.0, 1 / 2, 83 / 250, 31 / 50, 17 / 20, 1.0])
COUPLING = np.zeros((STAGES, STAGES))  # the last row is the solution: what is stiff has died out in it
COUPLING[1, :1] = 1 / 4
COUPLING[2, :2] = 8611 / 62500, -1743 / 31250
COUPLING[3, :3] = 5012029 / 34652500, -654441 / 2922500, 174375 / 388108
COUPLING[4, :4] = 15267082809 / 155376265600, -71443401 / 120774400, 730878875 / 902184768, 2285395 / 8070912
COUPLING[5, :5] = 82889 / 524892, 0.0, 15625 / 83664, 69875 / 102672, -2260 / 8211
COUPLING[1:] += DIAGONAL * np.eye(STAGES)[1:]
ERROR = COUPLING[5] - np.array(
    [4586570599 / 29645900160, 0.0, 178811875 / 945068544, 814220225 / 1159782912, -3700637 / 11593932, 61727 / 225920]
)
MOST_ITERATIONS = 12
SOLVED = 1e-3  # in units of the tolerances: how exactly the equations of a stage are solved
SHORTEST = 1e-12  # of the whole time


@njit(**INNER)
def factor(matrix, pivots):
    """In place, by rows with pivots: P matrix = L U. False if it is singular, or not finite."""
    n = matrix.shape[0]
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[best, k]):
                best = i
        pivots[k] = best
        if not abs(matrix[best, k]) > 0.0 or not np.isfinite(matrix[best, k]):
            return False
        for j in range(n):
            matrix[k, j], matrix[best, j] = matrix[best, j], matrix[k, j]
        for i in range(k + 1, n):
            ratio = matrix[i, k] / matrix[k, k]
            matrix[i, k] = ratio
            for j in range(k + 1, n):
                matrix[i, j] -= ratio * matrix[k, j]
    return True


@njit(**INNER)
def solve(matrix, pivots, b):
    """Solve in place for ``b`` (n, columns) with what :func:`factor` left."""
    n, columns = b.shape
    for k in range(n):
        other = pivots[k]
        if other != k:
            for q in range(columns):
                b[k, q], b[other, q] = b[other, q], b[k, q]
    for i in range(n):
        for k in range(i):
            for q in range(columns):
                b[i, q] -= matrix[i, k] * b[k, q]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            for q in range(columns):
                b[i, q] -= matrix[i, k] * b[k, q]
        for q in range(columns):
            b[i, q] /= matrix[i, i]


@njit(**INNER)
def stage_matrix(field, t, x, p, scale, by_state, by_parameter, room, matrix):
    """Fill the entries of both Jacobians at a state, and ``matrix`` with 1 - scale * (Jacobian by state).

    That Jacobian is its product with the identity, to which entries by parameter, taken as zero, are added. ``room``
    has the identity, the zeros and the product, with as much behind it as there are parameters.
    """
    unit, zeros, product = room
    derivatives(field, t, x, p, by_state, by_parameter)
    push_forward(field, x.size, by_state, zeros, unit, product)
    for i in range(x.size):
        for j in range(x.size):
            matrix[i, j] = (1.0 if i == j else 0.0) - scale * product[i * x.size + j]


@njit(**INNER)
def base_of(x, h, i, slopes, base):
    """Fill ``base`` with ``x`` advanced by the slopes of the stages before the i-th; any shape."""
    for m in range(base.size):
        total = 0.0
        for j in range(i):
            total += COUPLING[i, j] * slopes[j, m]
        base[m] = x[m] + h * total


@njit(**INNER)
def length(gap, x, tolerances):
    """Largest entry of ``gap`` (states, 1) in units of what is tolerated at ``x``; infinite if one is not finite."""
    relative, absolute = tolerances
    largest = 0.0
    for d in range(x.size):
        if not abs(gap[d, 0]) < np.inf:
            return np.inf
        largest = max(largest, abs(gap[d, 0]) / (absolute + relative * abs(x[d])))
    return largest


@njit(**INNER)
def try_step(field, t, h, x, p, tolerances, matrix, pivots, slopes, points, gap):
    """Fill ``slopes`` (STAGES, states) but the first, and ``points``; returns the error in units of the tolerances.

    It is infinite if a stage fails, and NaN if it does because the field has no value where it should. ``matrix`` is
    factorised at ``x``; ``gap`` (states, 1) is room to work in. The last point is the solution.
    """
    states = x.size
    base = np.empty(states)
    f = np.empty(states)
    for i in range(1, STAGES):
        base_of(x, h, i, slopes, base)
        for d in range(states):
            points[i, d] = base[d] + h * DIAGONAL * slopes[i - 1, d]
        before = np.inf
        for iteration in range(MOST_ITERATIONS):
            if not within_bound(points[i]):
                return np.inf
            slope(field, t + NODES[i] * h, points[i], p, f)
            for d in range(states):
                if np.isnan(f[d]):
                    return np.nan
                gap[d, 0] = base[d] + h * DIAGONAL * f[d] - points[i, d]
            solve(matrix, pivots, gap)
            for d in range(states):
                points[i, d] += gap[d, 0]
            size = length(gap, points[i], tolerances)
            if size <= SOLVED:
                break
            if not size < 0.9 * before or iteration == MOST_ITERATIONS - 1:
                return np.inf
            before = size
        # By the equation of the stage: the field itself would magnify what Newton's method left over.
        for d in range(states):
            slopes[i, d] = (points[i, d] - base[d]) / (h * DIAGONAL)
    if not within_bound(points[STAGES - 1]):
        return np.inf
    for d in range(states):
        gap[d, 0] = 0.0
        for i in range(STAGES):
            gap[d, 0] += h * ERROR[i] * slopes[i, d]
    solve(matrix, pivots, gap)  # else the error of what is stiff would be overestimated
    return length(gap, points[STAGES - 1], tolerances)


@njit(**INNER)
def carry_sensitivity(
    field, t, h, x, p, points, by_state, by_parameter, room, matrix, pivots, width, moved, sensitivity
):
    """Carry the sensitivity (states * width) over one step; ``moved`` (STAGES, states * width) is room to work in.

    False if a stage's equation cannot be solved.
    """
    states = x.size
    nothing, base = np.zeros(states * width), np.empty(states * width)
    for i in range(STAGES):
        at = points[i] if i else x
        if i:
            stage_matrix(field, t + NODES[i] * h, at, p, h * DIAGONAL, by_state, by_parameter, room, matrix)
            if not factor(matrix, pivots):
                return False
            base_of(sensitivity, h, i, moved, base)
        else:
            derivatives(field, t, at, p, by_state, by_parameter)
        inner = nothing if i else sensitivity
        push_forward(field, width, by_state, by_parameter, inner, moved[i])
        if i:
            for m in range(base.size):
                moved[i, m] = base[m] + h * DIAGONAL * moved[i, m]
            solve(matrix, pivots, moved[i].reshape((states, width)))
            for m in range(base.size):
                moved[i, m] = (moved[i, m] - base[m]) / (h * DIAGONAL)
    base_of(sensitivity, h, STAGES - 1, moved, base)
    for m in range(base.size):
        sensitivity[m] = base[m] + h * DIAGONAL * moved[STAGES - 1, m]
    return True


@njit(**INNER)
def integrate(field, p, jump, jump_p, actions, x, ts, tolerances, most_steps, free, xs, sensitivities):
    """Advance ``x`` (states,) over ``ts``, filling ``xs`` (times, states); returns the status and the steps tried.

    ``tolerances`` are relative and absolute. ``actions`` (intervals, numbers) last over an interval each; over those
    without length the state jumps.
    ``sensitivities`` (times, states * columns) is filled unless empty.
    """
    states, parameters = x.size, field[PARAMETERS]
    columns = parameters + free.size
    width = (columns + LANES - 1) // LANES * LANES
    slopes, points = np.zeros((STAGES, states)), np.zeros((STAGES, states))
    by_state, by_parameter = np.zeros(field[STATE_ENTRIES]), np.zeros(field[PARAMETER_ENTRIES])
    room = (np.eye(states), np.zeros(field[PARAMETER_ENTRIES]), np.zeros(states * states + parameters))
    matrix, pivots, gap = np.zeros((states, states)), np.zeros(states, np.int64), np.zeros((states, 1))
    moved, sensitivity = np.zeros((STAGES, states * width)), np.zeros(states * width)
    with_sensitivities, acted_on = sensitivities.shape[0] > 0, actions.shape[1] > 0
    jump_by_state, jump_by_parameter = np.zeros(jump[STATE_ENTRIES]), np.zeros(jump[PARAMETER_ENTRIES])
    for q in range(free.size):
        sensitivity[int(free[q]) * width + parameters + q] = 1.0
    copy(x, xs[0])
    if with_sensitivities:
        keep(sensitivity, states, width, columns, sensitivities[0])
    if not within_bound(x):
        return BLOW_UP, 0
    whole = ts[-1] - ts[0]
    tried, h = 0, 1e-3 * whole
    for k in range(ts.size - 1):
        t, end = ts[k], ts[k + 1]
        if acted_on and end <= t:
            act(jump, jump_p, actions[k])
            leap(jump, t, x, jump_p, points[0], width, jump_by_state, jump_by_parameter, moved[0], sensitivity)
            if not within_bound(x):
                return BLOW_UP, tried
        if acted_on:
            act(field, p, actions[k])
        while t < end:
            slope(field, t, x, p, slopes[0])
            finite = True
            for d in range(states):
                finite = finite and np.isfinite(slopes[0, d])
            if not finite:
                return NOT_FINITE, tried
            last = t + h >= end - SHORTEST * whole
            taken = end - t if last else h
            if tried >= most_steps:
                return TOO_MANY_STEPS, tried
            tried += 1
            stage_matrix(field, t, x, p, taken * DIAGONAL, by_state, by_parameter, room, matrix)
            error = np.inf
            if factor(matrix, pivots):
                error = try_step(field, t, taken, x, p, tolerances, matrix, pivots, slopes, points, gap)
            if not error <= 1.0:
                h = taken * (max(0.1, 0.9 * error**-0.25) if np.isfinite(error) else 0.1)
                if h <= SHORTEST * whole:
                    return (NOT_FINITE if np.isnan(error) else BLOW_UP), tried
                continue
            if with_sensitivities and not carry_sensitivity(
                field, t, taken, x, p, points, by_state, by_parameter, room, matrix, pivots, width, moved, sensitivity
            ):
                return NOT_FINITE, tried
            copy(points[STAGES - 1], x)
            grown = taken * min(4.0, max(0.2, 0.9 * max(error, 1e-300) ** -0.25))
            # A step cut short by a time of output says little of how long the next may be.
            h = max(h, grown) if last else grown
            if last:
                break
            t += taken
        copy(x, xs[k + 1])
        if with_sensitivities:
            keep(sensitivity, states, width, columns, sensitivities[k + 1])
    return OK, tried


def serve(call_frame):
    """As the explicit integrator's, for a solution alone or with its sensitivities.

    The tolerance among the settings is the relative one; the absolute one follows the names of field and jump.
    """
    if is_registration(call_frame):
        return 0
    batches, settings, ps, x0s, ts, times, all_xs, report, extra, room = read_batches(call_frame)
    for b in range(batches):
        setting = settings[b]
        free = setting[6:]
        field = describe(int(setting[3]))
        states, inputs = field[STATES], field[INPUTS]
        x0 = part_of(x0s, states, b)
        actions, jump, jump_p = read_actions(
            argument(call_frame, 4), argument(call_frame, 5), int(setting[4]), field, times - 1, b
        )
        x = x0.copy()
        xs = all_xs[b * times * states : (b + 1) * times * states].reshape((times, states))
        derivative = extra[b * room : (b + 1) * room]
        sensitivities = derivative[: room if setting[0] == SENSITIVITIES else 0].reshape(
            (-1, states * (field[PARAMETERS] + free.size))
        )
        status, tried = integrate(
            field,
            part_of(ps, inputs, b).copy(),
            jump,
            jump_p,
            actions,
            x,
            part_of(ts, times, b),
            (setting[1], setting[5]),
            times + int(setting[2]),
            free,
            xs,
            sensitivities,
        )
        report[2 * b], report[2 * b + 1] = status, tried
        if status != OK:
            derivative[:] = 0.0
            for k in range(times):
                copy(x0, xs[k])
    return 0


def register_once():
    """Make the implicit integrator callable from XLA."""
    serve_under(TARGET, serve)
