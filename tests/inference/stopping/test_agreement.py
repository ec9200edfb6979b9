"""How long to sample: when chains agree, and which of them may be inactive."""

from __future__ import annotations

import numpy as np

from gpnode.inference.stopping.agreement import find_agreement
from gpnode.inference.stopping.schedule import Stopping, thin_to_equal_length
from support.draws import as_chains, shifted


def kept_from(shift, first_goal, lower=0.0):
    """Where to begin with chains of which the first coordinate is shifted; the density is lower by ``lower`` there."""
    found = find_agreement(as_chains(shifted(shift), -lower * (shift != 0)), Stopping(first_goal=first_goal))
    if not found.reached:
        return None
    (first,) = {int(own["number"][0]) for own in found.rows}
    return first


def test_chains_that_agree_are_kept_whole():
    assert kept_from(np.zeros((4, 2000)), 2000) == 0


def test_draws_before_chains_forgot_their_start_are_left_out():
    late = np.zeros((4, 2000))
    late[0, :200] = 8.0
    assert kept_from(late, 2000, lower=20.0) == 250


def test_a_mode_that_a_chain_left_is_not_left_out():
    """A chain was as well off there as anywhere, and leaving these draws out would hide it."""
    late = np.zeros((4, 2000))
    late[0, :900] = 8.0
    assert kept_from(late, 2000, lower=20.0) == 1000
    assert kept_from(late, 2000, lower=0.5) is None
    assert kept_from(late, 200, lower=0.5) == 0  # two modes, and each is known well


def test_a_mode_visited_once_is_not_left_out():
    """Chains agree once the beginning is left out, and with it all that was seen of a mode."""
    late = np.zeros((4, 2000))
    late[0, 30:230] = 8.0
    assert kept_from(late, 200, lower=0.5) == 0
    draws = shifted(late)
    draws[1:3, :240, 1] += np.linspace(3.0, 0.0, 240)  # another reason to leave the beginning out
    assert not find_agreement(as_chains(draws, -0.5 * (late != 0)), Stopping(first_goal=200)).reached


def test_chains_that_never_meet_go_on_until_they_can_be_called_modes():
    apart = np.repeat([0.0, 0.0, 9.0, 9.0], 2000).reshape(4, 2000)
    assert kept_from(apart, 2000) is None
    assert kept_from(apart, 200) == 0
    apart[0] += np.linspace(0.0, 3.0, 2000)  # one of them has not settled
    assert kept_from(apart, 200) is None


def apart_and_one_unsettled():
    """Chains 0 and 2 in one mode, 1 and 3 in another, of which one has not settled."""
    apart = np.repeat([0.0, 9.0, 0.0, 9.0], 2000).reshape(4, 2000)
    apart[1] += np.linspace(0.0, 3.0, 2000)
    return shifted(apart)


def test_chains_whose_mode_is_known_well_rest_while_others_go_on():
    """They share no mode with the others, so what these find changes nothing for them."""
    rows = as_chains(apart_and_one_unsettled(), np.zeros((4, 2000)))
    found = find_agreement(rows, Stopping(first_goal=200))
    assert not found.reached
    assert found.inactive == {0, 2}
    # Twice as long, the second half climbed: that is what is kept of these two, and all of those that rested.
    longer = as_chains(shifted(np.full((4, 4000), 9.0), draws=4000), np.zeros((4, 4000)))
    longer[1]["draw"][:2000] = rows[1]["draw"]
    found = find_agreement([rows[0], longer[1], rows[2], longer[3]], Stopping(first_goal=200))
    assert found.reached
    assert [int(own["number"][0]) for own in found.rows] == [0, 2000, 0, 2000]
    assert [len(own) for own in found.rows] == [2000] * 4


def test_draws_before_a_chain_forgot_its_start_are_left_out_though_others_do_not_agree():
    draws = apart_and_one_unsettled()
    draws[0, :240, 1] += np.linspace(3.0, 0.0, 240)
    found = find_agreement(as_chains(draws, np.zeros((4, 2000))), Stopping(first_goal=200))
    assert not found.reached
    assert found.inactive == {0, 2}
    assert [int(own["number"][0]) for own in found.rows] == [250, 0, 250, 0]


def test_a_chain_that_has_just_come_elsewhere_does_not_rest():
    """Whether it stays there, nobody knows; its partner waits for it."""
    draws = apart_and_one_unsettled()
    draws[0, -60:, 2] += 9.0
    assert find_agreement(as_chains(draws, np.zeros((4, 2000))), Stopping(first_goal=200)).inactive == frozenset()


def test_chains_that_share_a_mode_do_not_rest_before_each_other():
    """One of the first three went to the other's mode, which is not climbed."""
    apart = np.repeat([0.0, 0.0, 0.0, 9.0], 2000).reshape(4, 2000)
    apart[0, 1000:] = 9.0
    apart[3] += np.linspace(0.0, 3.0, 2000)
    found = find_agreement(as_chains(shifted(apart), np.zeros((4, 2000))), Stopping(first_goal=200))
    assert not found.reached
    assert found.inactive == frozenset()


def test_rows_of_longer_chains_are_spread_over_them():
    short, long = np.arange(10), np.arange(25)
    assert [own.tolist() for own in thin_to_equal_length([short, long])] == [
        list(range(10)),
        [0, 2, 5, 7, 10, 12, 15, 17, 20, 22],
    ]
