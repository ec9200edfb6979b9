"""Tables of what is done: conditions, inputs and doses, in the forms people keep them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpnode as gn


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_doses_by_plain_names(tmp_path):
    path = write(tmp_path, "experiment,time,amount,state,duration\na,0,320,gut,\na,24,100,blood,2\nb,1.5,80,gut,0\n")
    done = gn.read_experiments(["a", "b"], doses=path, states=["gut", "blood"])
    assert done["a"].doses == (gn.Dose("gut", 320.0), gn.Dose("blood", 100.0, time=24.0, duration=2.0))
    assert done["b"].doses == (gn.Dose("gut", 80.0, time=1.5),)


def test_doses_as_pharmacologists_keep_them(tmp_path):
    text = "ID;TIME;AMT;RATE;CMT;II;ADDL;EVID\n1;0;100;.;1;12;5;1\n1;0,5;.;.;2;.;.;0\n1;72;60;30;2;0;0;1\n"
    done = gn.read_experiments(["1"], doses=write(tmp_path, text), states=["gut", "blood"])
    first, second = done["1"].doses
    assert first == gn.Dose("gut", 100.0, every=12.0, count=6)
    assert second == gn.Dose("blood", 60.0, time=72.0, duration=2.0)
    assert np.allclose(first.times, [0, 12, 24, 36, 48, 60])


def test_doses_with_a_delay(tmp_path):
    path = write(tmp_path, "time,amount,delay\n0,320,lag\n8,100,\n")
    first, second = gn.read_experiments(["a"], doses=path, states=["gut"])["a"].doses
    assert (first.delay, second.delay) == ("lag", None)


def test_conditions_and_inputs(tmp_path):
    conditions = write(tmp_path, "run,temperature\na,20\nb,37.5\n")
    inputs = write(tmp_path, "time,light,feed\n0,1,0.5\n12,0,\n24,1,0.7\n", "inputs.csv")
    done = gn.read_experiments(["a", "b"], conditions=conditions, inputs=inputs, interpolation="lines")
    assert done["b"].inputs["temperature"] == 37.5
    assert np.allclose(done["a"].inputs["light"].at(np.array([-1.0, 6.0, 18.0, 30.0])), [1.0, 0.5, 0.5, 1.0])
    assert np.allclose(done["a"].inputs["feed"].at(np.array([12.0])), [0.6])  # an empty cell is no value


@pytest.mark.parametrize(
    ("what", "text", "words"),
    [
        ("doses", "time,dosis\n0,1\n", "needs columns time and amount"),
        ("doses", "time,amount\n,1\n", "row 1 of table.csv has an amount and no time"),
        ("doses", "time,amount,cmt\n0,1,3\n", "doses compartment 3; there are 2 states: gut, blood"),
        ("doses", "time,amount,rate,duration\n0,1,2,3\n", "both a rate and a duration"),
        ("doses", "time,amount,rate\n0,1,-2\n", "has the rate -2"),
        ("doses", "time,amount,addl\n0,1,2\n", "needs every"),
        ("doses", "time,amount,evid\n0,1,4\n", "resets the system"),
        ("doses", "id,time,amount\nz,0,1\n", "'id' in row 1 of table.csv is 'z'; the data have experiments a"),
        ("doses", "time,amount\n0,much\n", "'amount' in row 1 of table.csv is 'much'"),
        ("conditions", "run,temperature\n", "no rows|no row|empty"),
        ("conditions", "run,temperature\na,\n", "'temperature' in row 1 of table.csv is empty"),
        ("conditions", "run,temperature\na,1\na,2\n", "has 2 rows for experiment 'a'"),
        ("inputs", "when,light\n0,1\n", "no column of times"),
        ("inputs", "time,light\n1,1\n1,2\n", "times of Steps must increase"),
        ("inputs", "time,light\n1,\n2,\n", "no value for experiment 'a'"),
    ],
)
def test_mistakes_are_named(tmp_path, what, text, words):
    with pytest.raises(gn.DataError, match=words):
        gn.read_experiments(["a"], states=["gut", "blood"], **{what: write(tmp_path, text)})


CELLS = st.sampled_from(["", ".", "0", "1", "2.5", "-1", "1e400", "nan", "a", "b", "gut", "1,5", "x" * 30, "320", "12"])
HEADERS = st.sampled_from(
    ["time", "TIME", "amount", "AMT", "state", "cmt", "rate", "II", "ADDL", "EVID", "experiment", "ID", "light", "dur"]
)


@settings(max_examples=150, deadline=None)
@given(
    what=st.sampled_from(["doses", "conditions", "inputs"]),
    interpolation=st.sampled_from(["steps", "lines", "smooth"]),
    header=st.lists(HEADERS, min_size=1, max_size=6, unique=True),
    rows=st.lists(st.lists(CELLS, min_size=6, max_size=6), min_size=0, max_size=5),
)
def test_any_table_gives_a_result_or_a_clear_error(tmp_path_factory, what, interpolation, header, rows):
    text = "\n".join([",".join(header), *(",".join(row[: len(header)]) for row in rows)])
    path = write(tmp_path_factory.mktemp("tables"), text)
    try:
        done = gn.read_experiments(["a", "b"], states=["gut"], interpolation=interpolation, **{what: path})
    except gn.GpnodeError as error:
        assert len(str(error)) > 10
        return
    assert set(done) == {"a", "b"}
    for one in done.values():
        assert np.isfinite(one.break_times()).all()
        assert all(
            np.isfinite(i.at(np.array([-1e3, 0.0, 1.7, 1e3]))).all() for i in one.inputs.values() if hasattr(i, "at")
        )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: gn.Dose("x", float("nan")),
        lambda: gn.Dose("x", 1.0, duration=-1.0),
        lambda: gn.Dose("x", 1.0, count=2),
        lambda: gn.Dose("x", 1.0, every=1.0, count=0),
        lambda: gn.Event(1.0, {}),
        lambda: gn.Event(1.0, {"x": "half"}),  # type: ignore[dict-item]
        lambda: gn.Steps([0.0, 1.0], [1.0]),
        lambda: gn.Lines([1.0, 0.0], [1.0, 2.0]),
        lambda: gn.Smooth([], []),
        lambda: gn.Experiment(inputs={"u": "high"}),  # type: ignore[dict-item]
        lambda: gn.Experiment(doses=gn.Dose("x", 1.0)),
        lambda: gn.Experiment(events=[gn.Dose("x", 1.0)]),  # type: ignore[list-item]
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(gn.DataError):
        wrong()


def test_experiments_that_are_not_there_are_refused():
    data = gn.Observations({"x": (np.arange(3.0), [1.0, 2.0, 3.0])})
    with pytest.raises(gn.DataError, match="no experiment 'b'"):
        data.with_experiments({"b": gn.Experiment()})
