"""Vector fields in native code, as compiled integrators call them.

A field comes as functions of its own, generated and compiled by :mod:`.generate` and called by
their addresses, all with the signature (number, four arrays):

- ``slope(t; x, p, f, -)`` fills the slopes ``f`` (states,); ``p`` are the parameters, the numbers of the action that
  lasts, and what else the field depends on;
- ``derivatives(t; x, p, by_state, by_parameter)`` fills the non-zero entries of both Jacobians;
- ``push_forward(width; by_state, by_parameter, inner, out)`` multiplies the Jacobian by state with a matrix (states,
  width) and adds that by parameter;
- ``pull_back(-; by_state, by_parameter, onto_slope, out)`` adds the products of their transposes with ``onto_slope`` to
  ``out``, which has the states first and then the parameters;
- ``pull_back_matrix(width; by_state, inner, -, out)`` multiplies the transposed Jacobian by state with a matrix
  (states, width);
- ``entry_weights(width; adjoint, sensitivity, -, weights)`` fills the derivatives of
  sum(adjoint * push_forward(sensitivity)) by the entries of both Jacobians;
- ``weighted_second_derivatives(t; x, p, weights, out)`` fills those of sum(weights * entries) by states and parameters,
  or leaves ``out`` as it is where writing that down would take too long.

XLA's code knows a field by its name, a number that depends on its source alone: code with addresses in it could not be
kept for another process.
"""

# mypy: ignore-errors
# ruff: noqa: D103

import threading

import numpy as np
from numba import njit

from gpnode.solvers.native.ffi import INNER, argument, call_field, last_dimension, result, shared_address, words

FUNCTIONS = (
    "slope",
    "derivatives",
    "push_forward",
    "pull_back",
    "pull_back_matrix",
    "entry_weights",
    "weighted_second_derivatives",
)
"""Of a field, in the order of their addresses in its description; sizes follow."""
SLOPE, DERIVATIVES, PUSH_FORWARD, PULL_BACK, PULL_BACK_MATRIX, ENTRY_WEIGHTS, WEIGHTED_SECOND_DERIVATIVES = range(7)
STATES, PARAMETERS, INPUTS, STATE_ENTRIES, PARAMETER_ENTRIES, ACTIONS = range(7, 13)

ROWS = 1 << 14
WORDS = 1 + ACTIONS + 1  # the name, and the description
_entering = threading.Lock()
_table = np.zeros((ROWS, WORDS), np.int64)
_table_address = shared_address("gpnode_fields", _table)


def enter(name, description):
    """Keep a field's description under its ``name``, a positive number."""
    with _entering:
        for probe in range(ROWS):
            row = _table[(name + probe) % ROWS]
            if row[0] in (0, name):
                row[1:] = description
                row[0] = name
                return
    raise MemoryError(f"more than {ROWS} vector fields in one process.")


@njit(**INNER)
def describe(name):
    """The description that was entered under ``name``."""
    rows = words(_table_address(), ROWS * WORDS)
    at = name % ROWS
    while rows[at * WORDS] != name:
        at = (at + 1) % ROWS
    return rows[at * WORDS + 1 : (at + 1) * WORDS]


@njit(**INNER)
def slope(field, t, x, p, f):
    call_field(field[SLOPE], t, x.ctypes.data, p.ctypes.data, f.ctypes.data, 0)


@njit(**INNER)
def derivatives(field, t, x, p, by_state, by_parameter):
    call_field(field[DERIVATIVES], t, x.ctypes.data, p.ctypes.data, by_state.ctypes.data, by_parameter.ctypes.data)


@njit(**INNER)
def push_forward(field, width, by_state, by_parameter, inner, out):
    call_field(
        field[PUSH_FORWARD],
        float(width),
        by_state.ctypes.data,
        by_parameter.ctypes.data,
        inner.ctypes.data,
        out.ctypes.data,
    )


@njit(**INNER)
def pull_back(field, by_state, by_parameter, onto_slope, out):
    call_field(
        field[PULL_BACK], 0.0, by_state.ctypes.data, by_parameter.ctypes.data, onto_slope.ctypes.data, out.ctypes.data
    )


@njit(**INNER)
def pull_back_matrix(field, width, by_state, inner, out):
    call_field(field[PULL_BACK_MATRIX], float(width), by_state.ctypes.data, inner.ctypes.data, 0, out.ctypes.data)


@njit(**INNER)
def entry_weights(field, width, adjoint, sensitivity, weights):
    call_field(field[ENTRY_WEIGHTS], float(width), adjoint.ctypes.data, sensitivity.ctypes.data, 0, weights.ctypes.data)


@njit(**INNER)
def weighted_second_derivatives(field, t, x, p, weights, out):
    call_field(
        field[WEIGHTED_SECOND_DERIVATIVES], t, x.ctypes.data, p.ctypes.data, weights.ctypes.data, out.ctypes.data
    )


@njit(**INNER)
def act(field, p, action):
    """Put the numbers of an ``action`` where the field looks for them."""
    for i in range(action.size):
        p[field[PARAMETERS] + i] = action[i]


@njit(**INNER)
def part_of(array, size, b):
    """What belongs to member ``b`` of a batch, ``size`` numbers each."""
    return array[b * size : (b + 1) * size]


@njit(**INNER)
def read_actions(actions, jump_inputs, name, field, intervals, b):
    """Of member ``b`` of a batch: its actions (intervals, numbers), the jump and the inputs of that.

    ``name`` is that of the jump; zero, as for a field that nothing acts on, gives the field itself, and no actions.
    """
    numbers = field[ACTIONS]
    acting = part_of(actions, intervals * numbers, b).reshape((intervals, numbers))
    if name == 0:
        return acting, field, np.zeros(0)
    jump = describe(name)
    return acting, jump, part_of(jump_inputs, jump[INPUTS], b).copy()


@njit(**INNER)
def read_batches(call_frame):
    """What an integrator is called with, and what it fills.

    How many solves, their settings (solves, ...), parameters, initial states and times, and how many times each has;
    then paths, reports, derivatives, and the room for those of one solve.
    """
    ts, times = argument(call_frame, 3), last_dimension(call_frame, 3)
    batches = ts.size // times
    settings = argument(call_frame, 0).reshape((batches, last_dimension(call_frame, 0)))
    parameters, x0s = argument(call_frame, 1), argument(call_frame, 2)
    xs, report, extra = result(call_frame, 0), result(call_frame, 1), result(call_frame, 2)
    return batches, settings, parameters, x0s, ts, times, xs, report, extra, extra.size // batches
