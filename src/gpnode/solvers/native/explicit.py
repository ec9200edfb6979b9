"""The explicit integrator for vector fields in native code, compiled once for all of them.

Sensitivities have one column per parameter and per *free* state, one whose initial value is to be
varied. While stepping, their number is rounded up to ``width`` for the sake of vector instructions.

The method is Dormand and Prince's fifth-order pair, one step per interval of ``ts``; an interval
whose error estimate exceeds the tolerance is cut into as many steps as it needs.
"""

# mypy: ignore-errors
# ruff: noqa: D103, SIM110

import numpy as np
from numba import njit

from gpnode.solvers.base import BLOW_UP_BOUND as BOUND
from gpnode.solvers.native.availability import serve_under
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
    pull_back,
    push_forward,
    read_actions,
    read_batches,
    slope,
)
from gpnode.solvers.tableau import COUPLING, ERROR, NODES, STAGES, WEIGHTS

TARGET = "gpnode_solve"
SOLUTION, SENSITIVITIES, GRADIENT, CORRECTION = 0.0, 1.0, 2.0, 3.0  # what to compute
OK, BLOW_UP, TOO_MANY_STEPS, NOT_FINITE = 0, 1, 2, 3
LANES = 4  # float64 numbers a vector instruction works on
SHORTEST = 1e-6  # of an interval; a path that wants shorter steps is running away


@njit(**INNER)
def try_step(field, t, h, x, p, slopes, points):
    """Stages from ``x``: fills ``slopes`` (7, states) but the first, and ``points``; the last point is the solution."""
    for i in range(1, STAGES):
        for d in range(x.size):
            total = 0.0
            for j in range(i):
                total += COUPLING[i, j] * slopes[j, d]
            points[i, d] = x[d] + h * total
        slope(field, t + NODES[i] * h, points[i], p, slopes[i])
    for d in range(x.size):
        total = 0.0
        for i in range(STAGES):
            total += WEIGHTS[i] * slopes[i, d]
        points[STAGES, d] = x[d] + h * total
    slope(field, t + h, points[STAGES], p, slopes[STAGES])
    error = 0.0
    for d in range(x.size):
        total = 0.0
        for i in range(STAGES + 1):
            total += ERROR[i] * slopes[i, d]
        error = max(error, abs(h * total) / max(1.0, abs(points[STAGES, d])))
        if not abs(points[STAGES, d]) < BOUND:
            return np.inf
    return error


@njit(**INNER)
def has_slope(x, slopes, points):
    """Whether the field has a value at every state within bounds that the step has met."""
    for i in range(STAGES + 1):
        inside = True
        undefined = False
        for d in range(x.size):
            inside = inside and abs(points[i, d] if i else x[d]) < BOUND
            undefined = undefined or np.isnan(slopes[i, d])
        if inside and undefined:
            return False
    return True


@njit(**INNER)
def carry_sensitivity(field, t, h, x, p, points, by_state, by_parameter, width, inner, moved, sensitivity):
    """Carry the sensitivity (states * width) over one step.

    ``inner`` (states * width) and ``moved`` (STAGES, states * width) are room to work in.
    """
    size = x.size * width
    for i in range(STAGES):
        derivatives(field, t + NODES[i] * h, points[i] if i else x, p, by_state, by_parameter)
        for m in range(size):
            inner[m] = sensitivity[m]
        for j in range(i):
            weight = h * COUPLING[i, j]
            for m in range(size):
                inner[m] += weight * moved[j, m]
        push_forward(field, width, by_state, by_parameter, inner, moved[i])
    for i in range(STAGES):
        weight = h * WEIGHTS[i]
        for m in range(size):
            sensitivity[m] += weight * moved[i, m]


@njit(**INNER)
def within_bound(x):
    for d in range(x.size):
        if not abs(x[d]) < BOUND:
            return False
    return True


@njit(**INNER)
def copy(source, target):
    for m in range(target.size):
        target[m] = source[m]


@njit(**INNER)
def keep(sensitivity, states, width, columns, target):
    """Copy without the columns that only fill up ``width``."""
    for d in range(states):
        for q in range(columns):
            target[d * columns + q] = sensitivity[d * width + q]


@njit(**INNER)
def carry_miss(x, guess, sensitivity, width, column):
    """Add to a column of the sensitivity how far the guess misses the end ``x`` of the interval before."""
    for d in range(x.size):
        sensitivity[d * width + column] += x[d] - guess[d]


@njit(**INNER)
def leap(jump, t, x, p, after, width, by_state, by_parameter, inner, sensitivity):
    """Let the state jump, and its sensitivity (states * width) with it.

    ``after`` (states,) and ``inner`` (states * width) are room to work in.
    """
    derivatives(jump, t, x, p, by_state, by_parameter)
    slope(jump, t, x, p, after)
    push_forward(jump, width, by_state, by_parameter, sensitivity, inner)
    copy(after, x)
    copy(inner, sensitivity)


@njit(**INNER)
def integrate(field, p, jump, jump_p, actions, x, ts, tolerance, most_steps, free, guess, xs, sensitivities, steps):
    """Advance ``x`` (states,) over ``ts``, filling ``xs`` (times, states).

    ``actions`` (intervals, numbers) last over an interval each; over those without length the state jumps.

    ``sensitivities`` (times, states * columns) is filled unless empty; ``steps`` (most_steps,
    3 + states) takes, unless empty, each step's t, h, interval and state. Returns the status, the
    number of steps tried, and of those taken.

    With a ``guess`` (times, states) that is not empty, every interval starts from it, and ``xs`` becomes
    the path that has no jumps where intervals meet, to first order in the jumps. They are carried along
    as one more column of the sensitivities.
    """
    states, parameters = x.size, field[PARAMETERS]
    columns = parameters + free.size
    correcting = guess.shape[0] > 0
    width = (columns + correcting + LANES - 1) // LANES * LANES
    slopes, points = np.zeros((STAGES + 1, states)), np.zeros((STAGES + 1, states))
    by_state, by_parameter = np.zeros(field[STATE_ENTRIES]), np.zeros(field[PARAMETER_ENTRIES])
    inner, moved = np.zeros(states * width), np.zeros((STAGES, states * width))
    sensitivity = np.zeros(states * width)
    with_sensitivities, with_steps = sensitivities.shape[0] > 0, steps.shape[0] > 0
    acted_on = actions.shape[1] > 0
    jump_by_state, jump_by_parameter = np.zeros(jump[STATE_ENTRIES]), np.zeros(jump[PARAMETER_ENTRIES])
    tried = taken = 0
    for q in range(free.size):
        sensitivity[int(free[q]) * width + parameters + q] = 1.0
    copy(x, xs[0])
    if with_sensitivities:
        keep(sensitivity, states, width, columns, sensitivities[0])
    if not within_bound(x):
        return BLOW_UP, tried, taken
    slope(field, ts[0], x, p, slopes[0])
    for k in range(ts.size - 1):
        t, end = ts[k], ts[k + 1]
        whole = end - t
        if correcting:
            carry_miss(x, guess[k], sensitivity, width, columns)
            copy(guess[k], x)
        if acted_on and whole <= 0.0:
            if with_steps:
                steps[taken, 0], steps[taken, 1], steps[taken, 2] = t, 0.0, k
                copy(x, steps[taken, 3:])
            taken += 1
            act(jump, jump_p, actions[k])
            leap(jump, t, x, jump_p, points[0], width, jump_by_state, jump_by_parameter, inner, sensitivity)
            if not within_bound(x):
                return BLOW_UP, tried, taken
        if acted_on:
            act(field, p, actions[k])
        if correcting or acted_on:
            slope(field, t, x, p, slopes[0])
        h = whole
        while t < end:
            last = t + h >= end - 1e-12 * whole
            if last:
                h = end - t
            if tried >= most_steps:
                return TOO_MANY_STEPS, tried, taken
            error = try_step(field, t, h, x, p, slopes, points)
            tried += 1
            if not error <= tolerance:
                if h <= SHORTEST * whole:
                    return (BLOW_UP if has_slope(x, slopes, points) else NOT_FINITE), tried, taken
                h *= max(0.1, 0.9 * (tolerance / error) ** 0.2) if np.isfinite(error) else 0.1
                continue
            if with_sensitivities:
                carry_sensitivity(field, t, h, x, p, points, by_state, by_parameter, width, inner, moved, sensitivity)
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
        if correcting:
            for d in range(states):
                xs[k + 1, d] += sensitivity[d * width + columns]
        if with_sensitivities:
            keep(sensitivity, states, width, columns, sensitivities[k + 1])
    return OK, tried, taken


@njit(**INNER)
def sweep_back(field, p, jump, jump_p, actions, steps, taken, free, cotangent, gradient):
    """Add to ``gradient`` (columns,) that of sum(cotangent * xs), sweeping back over the steps and jumps taken."""
    states, parameters = cotangent.shape[1], field[PARAMETERS]
    slopes, points = np.zeros((STAGES + 1, states)), np.zeros((STAGES + 1, states))
    by_state, by_parameter = np.zeros(field[STATE_ENTRIES]), np.zeros(field[PARAMETER_ENTRIES])
    onto_slope, onto_point = np.zeros(states), np.zeros((STAGES, states))
    both = np.zeros(states + parameters)  # sums by state of one stage, and by parameter of all
    adjoint = np.zeros(states)
    jump_by_state, jump_by_parameter = np.zeros(jump[STATE_ENTRIES]), np.zeros(jump[PARAMETER_ENTRIES])
    following = cotangent.shape[0] - 1
    for n in range(taken - 1, -1, -1):
        t, h, k, x = steps[n, 0], steps[n, 1], int(steps[n, 2]), steps[n, 3:]
        while following > k:  # the step ended at a node that has data, or at nodes of zero length after it
            for d in range(states):
                adjoint[d] += cotangent[following, d]
            following -= 1
        if h == 0.0:
            act(jump, jump_p, actions[k])
            derivatives(jump, t, x, jump_p, jump_by_state, jump_by_parameter)
            both[:states] = 0.0
            pull_back(jump, jump_by_state, jump_by_parameter, adjoint, both)
            copy(both, adjoint)
            continue
        act(field, p, actions[k])
        slope(field, t, x, p, slopes[0])
        try_step(field, t, h, x, p, slopes, points)
        copy(x, points[0])
        for i in range(STAGES - 1, -1, -1):
            derivatives(field, t + NODES[i] * h, points[i], p, by_state, by_parameter)
            for d in range(states):
                total = WEIGHTS[i] * adjoint[d]
                for j in range(i + 1, STAGES):
                    total += COUPLING[j, i] * onto_point[j, d]
                onto_slope[d] = h * total
                both[d] = 0.0
            pull_back(field, by_state, by_parameter, onto_slope, both)
            for d in range(states):
                onto_point[i, d] = both[d]
        for d in range(states):
            for i in range(STAGES):
                adjoint[d] += onto_point[i, d]
    for k in range(following, -1, -1):
        for d in range(states):
            adjoint[d] += cotangent[k, d]
    for q in range(parameters):
        gradient[q] += both[states + q]
    for q in range(free.size):
        gradient[parameters + q] += adjoint[int(free[q])]


def serve(call_frame):
    """Solve for every member of the batch.

    Arguments (batch, ...): settings (what to compute, tolerance, steps beyond one per interval, the names of the
    field and of its jump, free states ...), parameters, x0, ts, actions (intervals, numbers), parameters of the jump,
    companion (times, states): cotangent, guess, or empty. Results: xs
    (times, states), report (status, steps), and the sensitivities (times, states, columns) or the gradient (columns,)
    of sum(cotangent * xs). A failed solve leaves its initial state everywhere, and derivatives of zero.
    """
    if is_registration(call_frame):
        return 0
    batches, settings, ps, x0s, ts, times, all_xs, report, extra, room = read_batches(call_frame)
    for b in range(batches):
        setting = settings[b]
        what, tolerance, most_steps, free = setting[0], setting[1], times + int(setting[2]), setting[5:]
        field = describe(int(setting[3]))
        states, inputs = field[STATES], field[INPUTS]
        p, x0 = part_of(ps, inputs, b).copy(), part_of(x0s, states, b)
        actions, jump, jump_p = read_actions(
            argument(call_frame, 4), argument(call_frame, 5), int(setting[4]), field, times - 1, b
        )
        x = np.zeros(states)
        xs = part_of(all_xs, times * states, b).reshape((times, states))
        derivative = part_of(extra, room, b)
        sensitivities = derivative[: room if what in (SENSITIVITIES, CORRECTION) else 0].reshape(
            (-1, states * (field[PARAMETERS] + free.size))
        )
        size = times * states if what in (GRADIENT, CORRECTION) else 0
        companion = part_of(argument(call_frame, 6), size, b)
        guess = companion[: size if what == CORRECTION else 0].reshape((-1, states))
        steps = np.zeros((most_steps + times if what == GRADIENT else 0, 3 + states))  # jumps are no steps tried
        copy(x0, x)
        status, tried, taken = integrate(
            field,
            p,
            jump,
            jump_p,
            actions,
            x,
            part_of(ts, times, b),
            tolerance,
            most_steps,
            free,
            guess,
            xs,
            sensitivities,
            steps,
        )
        report[2 * b], report[2 * b + 1] = status, tried
        if status != OK:
            for k in range(times):
                copy(x0, xs[k])
        if status != OK or what == GRADIENT:
            derivative[:] = 0.0
        if status == OK and what == GRADIENT:
            onto = companion.reshape((times, states))
            sweep_back(field, p, jump, jump_p, actions, steps, taken, free, onto, derivative)
    return 0


def register_once():
    """Make the explicit integrator callable from XLA."""
    serve_under(TARGET, serve)
