"""Integrators around generated code. This file is the second half of every generated module.

The first half defines, for one vector field, the constants STATES, PARAMETERS (elements of the
flattened parameters), INPUTS (these and constants handed over with them), STATE_ENTRIES and
PARAMETER_ENTRIES (row and column of each non-zero entry of the Jacobians), and the functions
``slope(t, x, p, f)``, ``derivatives(t, x, p, by_state, by_parameter)`` and ``spread(by_state,
inner, width, out)`` (product of the Jacobian by state with a matrix (STATES, width)), which fill their
last arguments.

Sensitivities have one column per parameter and per *free* state, one whose initial value is to be
varied. While stepping, their number is rounded up to ``width`` for the sake of vector instructions.

The method is Dormand and Prince's fifth-order pair, one step per interval of ``ts``; an interval
whose error estimate exceeds the tolerance is cut into as many steps as it needs.
"""

# mypy: ignore-errors
# ruff: noqa: F821, D103, SIM110

import numpy as np
from numba import cfunc, njit

from gpnode.solvers.native.ffi import SIGNATURE, argument, is_registration, last_dimension, result
from gpnode.solvers.tableau import COUPLING, ERROR, NODES, STAGES, WEIGHTS

FAST = {"contract", "reassoc", "nsz", "arcp"}  # NaN and infinity keep their meaning
# -- generated code goes above this line --
SOLUTION, SENSITIVITIES, GRADIENT = 0.0, 1.0, 2.0  # what to compute
OK, BLOW_UP, TOO_MANY_STEPS, NOT_FINITE = 0, 1, 2, 3
LANES = 4  # float64 numbers a vector instruction works on
SHORTEST = 1e-4  # of an interval; a path that wants shorter steps is running away


@njit(error_model="numpy", fastmath=FAST)
def try_step(t, h, x, p, slopes, points):
    """Stages from ``x``: fills ``slopes`` (7, STATES) but the first, and ``points``; the last point is the solution."""
    for i in range(1, STAGES):
        for d in range(STATES):
            total = 0.0
            for j in range(i):
                total += COUPLING[i, j] * slopes[j, d]
            points[i, d] = x[d] + h * total
        slope(t + NODES[i] * h, points[i], p, slopes[i])
    for d in range(STATES):
        total = 0.0
        for i in range(STAGES):
            total += WEIGHTS[i] * slopes[i, d]
        points[STAGES, d] = x[d] + h * total
    slope(t + h, points[STAGES], p, slopes[STAGES])
    error = 0.0
    for d in range(STATES):
        total = 0.0
        for i in range(STAGES + 1):
            total += ERROR[i] * slopes[i, d]
        error = max(error, abs(h * total) / max(1.0, abs(points[STAGES, d])))
        if not abs(points[STAGES, d]) < BOUND:
            return np.inf
    return error


@njit(error_model="numpy")
def has_slope(x, slopes, points):
    """Whether the field has a value at every state within bounds that the step has met."""
    for i in range(STAGES + 1):
        inside = True
        undefined = False
        for d in range(STATES):
            inside = inside and abs(points[i, d] if i else x[d]) < BOUND
            undefined = undefined or np.isnan(slopes[i, d])
        if inside and undefined:
            return False
    return True


@njit(error_model="numpy", fastmath=FAST)
def push(t, h, x, p, points, by_state, by_parameter, width, inner, moved, sensitivity):
    """Carry the sensitivity (STATES * width) over one step.

    ``inner`` (STATES * width) and ``moved`` (STAGES, STATES * width) are room to work in.
    """
    for i in range(STAGES):
        derivatives(t + NODES[i] * h, points[i] if i else x, p, by_state, by_parameter)
        for m in range(STATES * width):
            inner[m] = sensitivity[m]
        for j in range(i):
            weight = h * COUPLING[i, j]
            for m in range(STATES * width):
                inner[m] += weight * moved[j, m]
        spread(by_state, inner, width, moved[i])
        for entry in range(NUM_PARAMETER_ENTRIES):
            moved[i, PARAMETER_ENTRIES[entry, 0] * width + PARAMETER_ENTRIES[entry, 1]] += by_parameter[entry]
    for i in range(STAGES):
        weight = h * WEIGHTS[i]
        for m in range(STATES * width):
            sensitivity[m] += weight * moved[i, m]


@njit(error_model="numpy")
def within_bound(x):
    for d in range(STATES):
        if not abs(x[d]) < BOUND:
            return False
    return True


@njit(error_model="numpy")
def copy(source, target):
    for m in range(target.size):
        target[m] = source[m]


@njit(error_model="numpy")
def keep(sensitivity, width, columns, target):
    """Copy without the columns that only fill up ``width``."""
    for d in range(STATES):
        for q in range(columns):
            target[d * columns + q] = sensitivity[d * width + q]


@njit(error_model="numpy")
def integrate(p, x, ts, tolerance, most_steps, free, xs, sensitivities, steps):
    """Advance ``x`` (STATES,) over ``ts``, filling ``xs`` (times, STATES).

    ``sensitivities`` (times, STATES * columns) is filled unless empty; ``steps`` (most_steps,
    3 + STATES) takes, unless empty, each step's t, h, interval and state. Returns the status, the
    number of steps tried, and of those taken.
    """
    columns = PARAMETERS + free.size
    width = (columns + LANES - 1) // LANES * LANES
    slopes, points = np.zeros((STAGES + 1, STATES)), np.zeros((STAGES + 1, STATES))
    by_state, by_parameter = np.zeros(NUM_STATE_ENTRIES), np.zeros(NUM_PARAMETER_ENTRIES)
    inner, moved = np.zeros(STATES * width), np.zeros((STAGES, STATES * width))
    sensitivity = np.zeros(STATES * width)
    with_sensitivities, with_steps = sensitivities.shape[0] > 0, steps.shape[0] > 0
    tried = taken = 0
    for q in range(free.size):
        sensitivity[int(free[q]) * width + PARAMETERS + q] = 1.0
    copy(x, xs[0])
    if with_sensitivities:
        keep(sensitivity, width, columns, sensitivities[0])
    if not within_bound(x):
        return BLOW_UP, tried, taken
    slope(ts[0], x, p, slopes[0])
    for k in range(ts.size - 1):
        t, end = ts[k], ts[k + 1]
        whole = end - t
        h = whole
        while t < end:
            last = t + h >= end - 1e-12 * whole
            if last:
                h = end - t
            if tried >= most_steps:
                return TOO_MANY_STEPS, tried, taken
            error = try_step(t, h, x, p, slopes, points)
            tried += 1
            if not error <= tolerance:
                if h <= SHORTEST * whole:
                    return (BLOW_UP if has_slope(x, slopes, points) else NOT_FINITE), tried, taken
                h *= max(0.1, 0.9 * (tolerance / error) ** 0.2) if np.isfinite(error) else 0.1
                continue
            if with_sensitivities:
                push(t, h, x, p, points, by_state, by_parameter, width, inner, moved, sensitivity)
            if with_steps:
                steps[taken, 0], steps[taken, 1], steps[taken, 2] = t, h, k
                copy(x, steps[taken, 3:])
            taken += 1
            copy(points[STAGES], x)
            copy(slopes[STAGES], slopes[0])
            if last:
                break
            t += h
            h *= min(4.0, max(0.2, 0.9 * (tolerance / max(error, 1e-300)) ** 0.2))
        copy(x, xs[k + 1])
        if with_sensitivities:
            keep(sensitivity, width, columns, sensitivities[k + 1])
    return OK, tried, taken


@njit(error_model="numpy", fastmath=FAST)
def pull(p, steps, taken, free, cotangent, gradient):
    """Add to ``gradient`` (columns,) that of sum(cotangent * xs), sweeping back over the steps taken."""
    slopes, points = np.zeros((STAGES + 1, STATES)), np.zeros((STAGES + 1, STATES))
    by_state, by_parameter = np.zeros((STAGES, NUM_STATE_ENTRIES)), np.zeros(NUM_PARAMETER_ENTRIES)
    onto_slope, onto_point = np.zeros((STAGES, STATES)), np.zeros((STAGES, STATES))
    adjoint = np.zeros(STATES)
    following = cotangent.shape[0] - 1
    for n in range(taken - 1, -1, -1):
        t, h, k, x = steps[n, 0], steps[n, 1], int(steps[n, 2]), steps[n, 3:]
        while following > k:  # the step ended at a node that has data, or at nodes of zero length after it
            for d in range(STATES):
                adjoint[d] += cotangent[following, d]
            following -= 1
        slope(t, x, p, slopes[0])
        try_step(t, h, x, p, slopes, points)
        copy(x, points[0])
        for i in range(STAGES - 1, -1, -1):
            derivatives(t + NODES[i] * h, points[i], p, by_state[i], by_parameter)
            for d in range(STATES):
                total = WEIGHTS[i] * adjoint[d]
                for j in range(i + 1, STAGES):
                    total += COUPLING[j, i] * onto_point[j, d]
                onto_slope[i, d] = h * total
                onto_point[i, d] = 0.0
            for entry in range(NUM_STATE_ENTRIES):
                onto_point[i, STATE_ENTRIES[entry, 1]] += by_state[i, entry] * onto_slope[i, STATE_ENTRIES[entry, 0]]
            for entry in range(NUM_PARAMETER_ENTRIES):
                gradient[PARAMETER_ENTRIES[entry, 1]] += (
                    by_parameter[entry] * onto_slope[i, PARAMETER_ENTRIES[entry, 0]]
                )
        for d in range(STATES):
            for i in range(STAGES):
                adjoint[d] += onto_point[i, d]
    for k in range(following, -1, -1):
        for d in range(STATES):
            adjoint[d] += cotangent[k, d]
    for q in range(free.size):
        gradient[PARAMETERS + q] += adjoint[int(free[q])]


@njit(error_model="numpy")
def serve(frame):
    """Solve for every member of the batch.

    Arguments (batch, ...): settings (what to compute, tolerance, steps beyond one per interval, free states ...),
    parameters, x0, ts, cotangent (times, STATES) or empty. Results: xs (times, STATES), report (status,
    steps), and the sensitivities (times, STATES, columns) or the gradient (columns,) of sum(cotangent * xs). A
    failed solve leaves its initial state everywhere, and derivatives of zero.
    """
    settings, ps, x0s, ts = argument(frame, 0), argument(frame, 1), argument(frame, 2), argument(frame, 3)
    times, num_settings = last_dimension(frame, 3), last_dimension(frame, 0)
    batches = ts.size // times
    all_xs, report, extra = result(frame, 0), result(frame, 1), result(frame, 2)
    room = extra.size // batches
    x = np.zeros(STATES)
    for b in range(batches):
        own = settings[b * num_settings : (b + 1) * num_settings]
        what, tolerance, most_steps, free = own[0], own[1], times + int(own[2]), own[3:]
        p, x0 = ps[b * INPUTS : (b + 1) * INPUTS], x0s[b * STATES : (b + 1) * STATES]
        xs = all_xs[b * times * STATES : (b + 1) * times * STATES].reshape((times, STATES))
        derivative = extra[b * room : (b + 1) * room]
        sensitivities = derivative[: room if what == SENSITIVITIES else 0].reshape(
            (-1, STATES * (PARAMETERS + free.size))
        )
        steps = np.zeros((most_steps if what == GRADIENT else 0, 3 + STATES))
        copy(x0, x)
        status, tried, taken = integrate(
            p, x, ts[b * times : (b + 1) * times], tolerance, most_steps, free, xs, sensitivities, steps
        )
        report[2 * b], report[2 * b + 1] = status, tried
        if status != OK:
            for k in range(times):
                copy(x0, xs[k])
        if status != OK or what == GRADIENT:
            for m in range(room):
                derivative[m] = 0.0
        if status == OK and what == GRADIENT:
            size = times * STATES
            cotangent = argument(frame, 4)[b * size : (b + 1) * size].reshape((times, STATES))
            pull(p, steps, taken, free, cotangent, derivative)


@cfunc(SIGNATURE)
def handler(frame):
    """What XLA calls."""
    if not is_registration(frame):
        serve(frame)
    return 0
