"""The tables that studies print."""

from __future__ import annotations

import pytest

from gpnode.studies import glycolysis, human_motion, predator_prey


@pytest.mark.parametrize(
    "sindy", ["pysindy is not installed", [{"case": "case 1", "variant": "plain", "rmse": [9.0, 8.0]}]]
)
def test_the_table_of_predator_and_prey_sets_errors_side_by_side(sindy):
    held = {"pointwise": {"x1": 0.79, "x2": 1.0}, "whole_path": {"x1": 1.0, "x2": 0.5}}
    run = {"seed": 3, "rmse_mean_path_0_30": [0.25, 0.5], "coverage_95_0_30": held, "sindy": sindy}
    summary = {"median_rmse_mean_path": [0.125, 0.75], "sindy_case_1_median_rmse": {"plain": [7.0, 6.0]}}
    one, two = (predator_prey._table({"runs": [run] * n, "summary": summary}) for n in (1, 2))
    rows = [line.split() for line in one.splitlines()]
    assert ["gpnode,", "mean", "path", "0.250", "0.500"] in rows
    assert ["data", "3,", "x1", "79%", "100%"] in rows
    assert ["data", "3,", "x2", "100%", "50%"] in rows
    shown = "pysindy is not installed" if isinstance(sindy, str) else "SINDy, case 1, plain 9.000 8.000"
    assert shown in [" ".join(row) for row in rows]
    assert "median" not in one
    assert ["SINDy,", "case", "1,", "plain", "7.000", "6.000"] in [line.split() for line in two.splitlines()]


def test_the_table_of_glycolysis_names_values_that_are_not_inside():
    held = {"pointwise": {"S1": 1.0, "N2": 0.85}, "whole_path": {"S1": 1.0, "N2": 1.0}}
    ahead = {"coverage_95": held, "rmse_mean_path": {"S1": 0.02, "N2": 0.03}}
    run = {"seed": 0, "true_values_inside_95": {"J0": True, "k1": False}, **dict.fromkeys(glycolysis.STARTS, ahead)}
    rows = [line.split() for line in glycolysis._table([run]).splitlines()]
    assert ["data", "0", "1", "of", "2", "k1"] in rows
    assert ["data", "0,", "unseen", "start,", "N2", "85%", "100%", "0.0300"] in rows


def test_the_table_of_human_motion_has_a_row_for_each_mode():
    def figures(mean_path):
        return {
            "rmse_per_draw": {"mean": 4.5, "std": 0.6},
            "rmse_mean_path": mean_path,
            "rmse_ode_alone": 4.25,
            "coverage_95_with_noise": 0.8667,
            "coverage_95_whole_path_with_noise": 1.0,
        }

    modes = [{"weight": w, "seen": figures(3.1 + w), "missing": figures(3.8 + w)} for w in (0.75, 0.25)]
    text = human_motion._table({"all": {"seen": figures(3.1), "missing": figures(3.8)}, "modes": modes})
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "all draws 4.50 ± 0.60 3.800 4.250 87% 100%" in rows
    assert "mode 2, 25.0% of the draws 4.50 ± 0.60 4.050 4.250 87% 100%" in rows
    assert sum(row.startswith("mode") for row in rows) == 4
