"""When chains agree, and which of them may be inactive."""

from __future__ import annotations

import numpy as np
import pytest

from gpnode.inference.stopping.agreement import find_agreement
from gpnode.inference.stopping.schedule import Goal, Stopping, thin_to_equal_length, without_beginners
from support.draws import as_chains, shifted

SHORT, LONG = Stopping(first_goal=2000), Stopping(first_goal=125)  # 2000 draws are the first goal, or four doublings


def kept_from(shift, stopping, lower=0.0):
    """Where to begin with chains of which the first coordinate is shifted; the density is lower by ``lower`` there."""
    agreement = find_agreement(as_chains(shifted(shift), -lower * (shift != 0)), stopping)
    if not agreement.reached:
        return None
    (first,) = {int(chain["number"][0]) for chain in agreement.rows}
    return first


def test_goals_double_and_a_given_number_is_the_only_one():
    assert Stopping(first_goal=100, doublings=3).goals(None) == (Goal(100), Goal(200), Goal(400), Goal(800, 100))
    assert Stopping().goals(70) == (Goal(70, 70),)


def test_at_the_first_goal_all_draws_are_judged_later_the_second_half():
    assert kept_from(np.zeros((4, 2000)), SHORT) == 0
    assert kept_from(np.zeros((4, 2000)), LONG) == 1000


def test_no_two_looks_judge_the_same_draws():
    looks = [LONG.late([_numbered(goal.steps)])[0]["number"].tolist() for goal in LONG.goals(None)]
    assert all(set(a).isdisjoint(b) for i, a in enumerate(looks) for b in looks[:i])


def _numbered(count):
    rows = np.zeros(count, dtype=[("number", int), ("warming", bool)])
    rows["number"] = np.arange(count)
    return rows


def test_of_a_chain_that_warmed_up_again_what_came_after_is_kept():
    """In the first half it does not matter; while it goes on, chains do not agree."""
    rows = as_chains(shifted(np.zeros((4, 2000))), np.zeros((4, 2000)))
    for begun, ended, kept in ((200, 600, 1000), (900, 1300, 1300)):
        rows[0]["warming"] = False
        rows[0]["warming"][begun:ended] = True
        agreement = find_agreement(rows, LONG)
        assert agreement.reached
        assert [int(chain["number"][0]) for chain in agreement.rows] == [kept, 1000, 1000, 1000]
    rows[0]["warming"][1300:] = True
    assert not find_agreement(rows, LONG).reached


def test_a_goal_counts_steps_and_settled_ones():
    """From when the first warm-up ended; ``left`` is what a chain needs if it does not warm up again."""
    made = _numbered(50)
    made["warming"][10:20] = True
    for goal, reached in ((Goal(5), 5), (Goal(30), 30), (Goal(5, 15), 35), (Goal(8, 8), 8)):
        assert goal.is_reached(made)
        assert len(goal.rows(made)) == reached
    assert not Goal(5, 31).is_reached(made)
    assert len(Goal(5, 31).rows(made)) == 50
    assert Goal(30).left(0, 0, warmup=7) == 37
    assert Goal(30, 20).left(25, 4, warmup=0) == 16
    assert Goal(30, 20).left(25, 0, warmup=7) == 27
    assert Goal(30).left(40, 0, warmup=7) == 0


def test_chains_that_had_just_begun_anew_are_left_out_of_a_run_that_is_cut_short():
    assert list(map(len, without_beginners([_numbered(n) for n in (100, 24, 25, 0)]))) == [100, 25]


def test_draws_before_chains_forgot_their_start_are_left_out():
    late = np.zeros((4, 2000))
    late[0, :200] = 8.0
    assert kept_from(late, LONG) == 1000
    assert kept_from(late, SHORT) is None
    late[0, :1300] = 8.0
    assert kept_from(late, Stopping(first_goal=500), lower=20.0) is None


def test_chains_that_never_meet_go_on_until_they_can_be_called_modes():
    apart = np.repeat([0.0, 0.0, 9.0, 9.0], 2000).reshape(4, 2000)
    assert kept_from(apart, SHORT) is None
    assert kept_from(apart, Stopping(first_goal=500)) is None
    assert kept_from(apart, LONG) == 1000
    apart[0] += np.linspace(0.0, 6.0, 2000)  # one of them drifts
    assert kept_from(apart, LONG) is None


def apart_and_one_drifting():
    """Chains 0 and 2 in one mode, 1 and 3 in another, of which one drifts."""
    apart = np.repeat([0.0, 9.0, 0.0, 9.0], 2000).reshape(4, 2000)
    apart[1] += np.linspace(0.0, 2.0, 2000)
    return shifted(apart)


def test_chains_whose_mode_is_known_well_are_inactive_while_others_go_on():
    """They share no mode with the others, so what these find changes nothing for them."""
    rows = as_chains(apart_and_one_drifting(), np.zeros((4, 2000)))
    agreement = find_agreement(rows, LONG)
    assert not agreement.reached
    assert agreement.inactive == {0, 2}
    # Twice as long, the second half drifts no more: that is what is kept of these two.
    longer = as_chains(shifted(np.full((4, 4000), 9.0), draws=4000), np.zeros((4, 4000)))
    longer[1]["draw"][:2000] = rows[1]["draw"]
    agreement = find_agreement([rows[0], longer[1], rows[2], longer[3]], LONG)
    assert agreement.reached
    assert [int(chain["number"][0]) for chain in agreement.rows] == [1000, 2000, 1000, 2000]


def test_a_chain_that_has_just_come_elsewhere_goes_on():
    """Whether it stays there, nobody knows; its partner waits for it."""
    draws = apart_and_one_drifting()
    draws[0, -60:, 2] += 9.0
    assert find_agreement(as_chains(draws, np.zeros((4, 2000))), LONG).inactive == frozenset()


def test_chains_that_share_a_mode_are_not_inactive_before_each_other():
    """One of the first three went to the other's mode, which drifts."""
    apart = np.repeat([0.0, 0.0, 0.0, 9.0], 2000).reshape(4, 2000)
    apart[0, 1500:] = 9.0
    apart[3] += np.linspace(0.0, 6.0, 2000)
    agreement = find_agreement(as_chains(shifted(apart), np.zeros((4, 2000))), LONG)
    assert not agreement.reached
    assert agreement.inactive == frozenset()


@pytest.mark.parametrize(("short", "long"), [(10, 25)])
def test_rows_of_longer_chains_are_spread_over_them(short, long):
    thinned = [chain.tolist() for chain in thin_to_equal_length([np.arange(short), np.arange(long)])]
    assert thinned == [list(range(10)), [0, 2, 5, 7, 10, 12, 15, 17, 20, 22]]
