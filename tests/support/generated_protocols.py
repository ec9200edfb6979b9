"""Tables of what is done, made by chance, and a second reader of them that knows nothing of the package's.

A table is written from what is meant, in one of the forms people keep, and may then be damaged. The package must read
what the second reader reads, or refuse it; what the second reader cannot make sense of it must refuse.
"""

from __future__ import annotations

import itertools
import re
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gpnode as gn
from gpnode.formats.problem_toml import read_problem, write_problem
from gpnode.problem.planning import driving_of

STATES = ("gut", "blood")
EXPERIMENTS = ("a", "b")
NAMES = {
    "experiment": ("experiment", "ID", "subject"),
    "time": ("time", "TIME", "t"),
    "amount": ("amount", "AMT", "dose"),
    "state": ("state", "CMT", "compartment"),
    "rate": ("rate", "RATE"),
    "duration": ("duration", "dur", "TINF"),
    "every": ("every", "II", "interval"),
    "additional": ("ADDL", "additional"),
    "count": ("count", "COUNT"),
    "kind": ("EVID", "evid"),
    "delay": ("delay", "Delay"),
}
BY_NAME = {name.lower(): what for what, names in NAMES.items() for name in names}
EMPTY = ("", ".", "NA", "-")
TOKENS = (
    *("", ".", "NA", "nan", "inf", "-inf", "1e400", "1e-320", "0", "-1", "1", "2", "3", "0.5", "-2.5", "1e9", "1,5"),
    *(
        "1.234",
        "much",
        "a",
        "b",
        "c",
        "gut",
        "blood",
        "ear",
        "lag",
        "<3",
        "2020-01-01",
        "12:30",
        "'",
        '"',
        "=1+1",
        "1 ",
    ),
    *("0x10", "1_000", "true", "é", "9" * 40, "−2"),
)


class Senseless(Exception):
    """What no reader can make sense of."""


class Unsure(Exception):
    """What one may read in several ways: only that it gives a result or a clear error is asked."""


@dataclass
class Table:
    """Rows of cells under a header, and how they are written."""

    what: str
    header: list[str]
    rows: list[list[str]]
    separator: str = ","
    decimal: str = "."

    def text(self) -> str:
        return "\n".join(self.separator.join(row) for row in [self.header, *self.rows]) + "\n"


# -- from what is meant to a table -------------------------------------------------------------------


def write_number(rng: np.random.Generator, value: float, decimal: str) -> str:
    value = float(value)
    text = str(rng.choice([f"{value:g}", f"{value:.2f}", f"{value!r}", f"{value:.6e}"]))
    if decimal == "." and re.fullmatch(r"[+-]?\d{1,3}\.\d{3}", text):
        text = f"{value:g}"
    return text.replace(".", decimal)


def whole_table(rng: np.random.Generator) -> Table:
    """Doses, conditions or inputs that make sense."""
    separator, decimal = [(",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ",")][rng.integers(5)]
    what = str(rng.choice(["doses", "doses", "conditions", "inputs"]))
    columns = {"doses": _doses, "conditions": _conditions, "inputs": _inputs}[what](rng, decimal)
    names = list(columns)
    rng.shuffle(names)
    rows = [[columns[name][row] for name in names] for row in range(len(columns[names[0]]))]
    header = [str(rng.choice(NAMES[name])) if name in NAMES else name for name in names]
    return Table(what, header, rows, separator, decimal)


def _doses(rng: np.random.Generator, decimal: str) -> dict[str, list[str]]:
    def written(values: list[float | None]) -> list[str]:
        return [str(rng.choice(EMPTY)) if v is None else write_number(rng, v, decimal) for v in values]

    n = int(rng.integers(1, 6))
    amounts: list[float | None] = [float(a) for a in np.round(rng.uniform(1, 500, n), 2)]
    measured = rng.random() < 0.3
    if measured:
        amounts = [a if rng.random() < 0.6 else None for a in amounts]
    columns = {
        "time": written(list(np.round(rng.uniform(0, 9, n), 2))),
        "amount": written(amounts),
    }
    columns["experiment"] = [str(rng.choice(EXPERIMENTS)) for _ in range(n)]
    if rng.random() < 0.7:
        columns["state"] = [str(rng.choice([*STATES, "1", "2"])) for _ in range(n)]
    if rng.random() < 0.4:
        lasting = str(rng.choice(["rate", "duration"]))
        columns[lasting] = written([float(rng.choice([0, 0.5, 2])) if rng.random() < 0.8 else None for _ in range(n)])
    if rng.random() < 0.4:
        columns["every"] = written([float(rng.choice([0.25, 12, 24])) for _ in range(n)])
        times = str(rng.choice(["additional", "count"]))
        columns[times] = [str(rng.integers(times == "count", 5)) for _ in range(n)]
    if rng.random() < 0.3:
        columns["kind"] = ["1" if a is not None else "0" for a in amounts]
    if rng.random() < 0.2 and "rate" not in columns and "duration" not in columns:
        columns["delay"] = [str(rng.choice(["lag", ""])) for _ in range(n)]
    if measured and not all(amounts):
        columns["DV"] = written([None if a else 3.5 for a in amounts])
    return columns


def _conditions(rng: np.random.Generator, decimal: str) -> dict[str, list[str]]:
    columns = {"experiment": list(rng.permutation(EXPERIMENTS))}
    for name in ("u", "v")[: rng.integers(1, 3)]:
        columns[name] = [write_number(rng, float(np.round(v, 2)), decimal) for v in rng.normal(20, 10, 2)]
    return columns


def _inputs(rng: np.random.Generator, decimal: str) -> dict[str, list[str]]:
    lengths = rng.integers(1, 6, 2) if rng.random() < 0.6 else [int(rng.integers(1, 6))]
    first = {0, int(lengths[0])}  # of each experiment: there must be one value
    times = np.concatenate([np.cumsum(rng.uniform(0.1, 3, n)) for n in lengths])
    columns = {"time": [write_number(rng, float(np.round(t, 2)), decimal) for t in times]}
    if len(lengths) == 2:
        columns["experiment"] = [name for name, n in zip(EXPERIMENTS, lengths, strict=True) for _ in range(n)]
    for name in ("u", "v")[: rng.integers(1, 3)]:
        values = np.round(rng.normal(1, 2, times.size), 2)
        columns[name] = [
            "" if row not in first and rng.random() < 0.2 else write_number(rng, float(value), decimal)
            for row, value in enumerate(values)
        ]
    return columns


def damaged(rng: np.random.Generator, table: Table) -> Table:
    """With a cell, a name or a row changed, a few times over."""
    header, rows = list(table.header), [list(row) for row in table.rows]
    for _ in range(int(rng.choice([0, 1, 1, 2, 3]))):
        row, column = int(rng.integers(len(rows))) if rows else 0, int(rng.integers(len(header)))
        what = str(rng.choice(["cell"] * 6 + ["name", "known name", "repeat row", "column", "cut row", "no row"]))
        if what == "cell" and rows:
            rows[row][column % len(rows[row])] = str(rng.choice(TOKENS))
        elif what == "name":
            header[column] = str(rng.choice(["", "durations", "x", "SS", *header]))
        elif what == "known name":
            header[column] = str(rng.choice([n for names in NAMES.values() for n in names]))
        elif what == "repeat row" and rows:
            rows.insert(row, list(rows[row]))
        elif what == "column":
            header.append(str(rng.choice(["SS", "weight", "note", "dur", "RATE", "evid"])))
            rows = [[*one, str(rng.choice(["0", "1", ""]))] for one in rows]
        elif what == "cut row" and rows and len(rows[row]) > 1:
            rows[row] = rows[row][:-1]
        elif what == "no row" and rows:
            del rows[row]
    return Table(table.what, header, rows, table.separator, table.decimal)


# -- the second reader -------------------------------------------------------------------------------


def number(cell: str, decimal: str) -> Any:
    """What a cell says; None for nothing."""
    cell = cell.strip().replace("−", "-")
    if cell.lower() in ("", ".", "na", "nan", "-"):
        return None
    other = "," if decimal == "." else "."
    if other in cell and re.fullmatch(r"[+-]?[\d.,]+", cell):
        raise Unsure
    text = cell.replace(decimal, ".")
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        raise Senseless(cell)
    if not np.isfinite(float(text)):
        raise Senseless(cell)
    return float(text)


def read_again(table: Table) -> dict[str, Any]:
    """What is done in each experiment: numbers, or doses as (state, amount, duration, times, delay)."""
    header = [name.strip() for name in table.header]
    if any(len(row) != len(header) for row in table.rows) or not table.rows or len(header) < 2:
        raise Unsure
    if any('"' in cell or not cell.isprintable() for row in table.rows for cell in row):
        raise Unsure
    if not all(any(cell for cell in row) for row in table.rows):
        raise Unsure  # a row without anything is none
    cells = [cell for row in table.rows for cell in row if cell not in EMPTY]
    if "" in header or (any("." in cell for cell in cells) and any("," in cell for cell in cells)):
        raise Unsure
    if len({name.lower() for name in header}) < len(header):
        raise Senseless("a name twice")
    by_name = {name: [row[i].strip() for row in table.rows] for i, name in enumerate(header)}
    return {"doses": _read_doses, "conditions": _read_values, "inputs": _read_values}[table.what](by_name, table)


def _read_doses(by_name: dict[str, list[str]], table: Table) -> dict[str, Any]:
    roles = [BY_NAME.get(name.lower()) for name in by_name]
    if len([r for r in roles if r]) > len({r for r in roles if r}):
        raise Senseless("two columns that say the same")
    columns = {role: by_name[name] for role, name in zip(roles, by_name, strict=True) if role}
    unknown = [name for role, name in zip(roles, by_name, strict=True) if not role]
    if "time" not in columns or "amount" not in columns or {"count", "additional"} <= set(columns):
        raise Senseless("columns")
    found: dict[str, list] = {name: [] for name in EXPERIMENTS}
    everything_dosed = True
    for i in range(len(table.rows)):
        said: dict[str, Any] = {
            w: number(c[i], table.decimal) for w, c in columns.items() if w not in ("experiment", "state", "delay")
        }
        names = EXPERIMENTS if "experiment" not in columns else (columns["experiment"][i],)
        if not set(names) <= set(EXPERIMENTS):
            raise Senseless("no such experiment")
        kind = said.get("kind")
        if kind not in (None, 0.0, 1.0, 2.0) or (kind == 1 and not said["amount"]):
            raise Senseless("kind of event")
        if any(name.lower() == "ss" and number(by_name[name][i], table.decimal) for name in unknown):
            raise Senseless("a steady state")
        if not said["amount"]:
            everything_dosed = False
            continue
        if kind in (0.0, 2.0):
            raise Senseless("an amount that is no dose")
        amount, rate, lasts = said["amount"], said.get("rate"), said.get("duration")
        if said["time"] is None or said["time"] < 0 or (rate and lasts) or (lasts or 0) < 0:
            raise Senseless("time")
        if rate and rate * amount < 0:
            raise Senseless("rate")
        count = said.get("count") if said.get("additional") is None else said["additional"] + 1
        count = 1.0 if count is None else count
        every = said.get("every")
        if count != int(count) or not 1 <= count <= 10_000 or (count > 1 and not (every and every > 0)):
            raise Senseless("count")
        state = columns["state"][i] if "state" in columns else STATES[0]
        if state in EMPTY:
            raise Senseless("state")
        try:
            place = number(state, table.decimal)
        except Senseless:
            place = None
            if state not in STATES:
                raise
        else:
            if place not in (1.0, 2.0):
                raise Senseless("state")
            state = STATES[int(place) - 1]
        delay = columns["delay"][i] if "delay" in columns else ""
        delay = "" if delay.lower() in ("", ".", "na", "nan", "-") else delay
        duration = amount / rate if rate else lasts or 0.0
        if delay not in ("", "lag") or (delay and duration):
            raise Senseless("delay")
        times = tuple(said["time"] + (every or 0.0) * k for k in range(int(count)))
        for name in names:
            found[name].append((state, amount, duration, times, delay))
    if everything_dosed and [name for name in unknown if name.lower() != "ss"]:
        raise Senseless("a column that says nothing of doses")
    return found


def _read_values(by_name: dict[str, list[str]], table: Table) -> dict[str, Any]:
    over_time = table.what == "inputs"
    named = [n for n in by_name if n.lower() in ("experiment", "id", "subject", "run", "trajectory")]
    timed = [n for n in by_name if n.lower() in ("time", "t")] if over_time else []
    if len(named) > 1 or len(timed) > 1 or (over_time and not timed):
        raise Senseless("columns")
    found: dict[str, dict] = {}
    if named and not set(by_name[named[0]]) <= set(EXPERIMENTS):
        raise Senseless("no such experiment")
    values = [n for n in by_name if n not in (*named, *timed)]
    if not set(values) <= {"u", "v"}:
        raise Senseless("what no equation takes")
    for name in EXPERIMENTS:
        rows = [i for i in range(len(table.rows)) if not named or by_name[named[0]][i] == name]
        if not rows or (not over_time and len(rows) > 1):
            raise Senseless("rows")
        found[name] = {}
        for column in values:
            pairs = [(i, number(by_name[column][i], table.decimal)) for i in rows]
            filled = [(i, v) for i, v in pairs if v is not None]
            if not filled or (not over_time and len(filled) < len(pairs)):
                raise Senseless("nothing")
            times = [number(by_name[timed[0]][i], table.decimal) for i, _ in filled] if over_time else []
            if any(t is None for t in times) or any(b <= a for a, b in itertools.pairwise(times)):
                raise Senseless("times")
            found[name][column] = list(zip(times, [v for _, v in filled], strict=True)) if over_time else filled[0][1]
    return found


# -- against the package -----------------------------------------------------------------------------


def said(table: Table, done: dict[str, Any]) -> dict[str, Any]:
    """What the package read, in the terms of :func:`read_again`."""
    if table.what == "doses":
        return {
            name: [(d.state, d.amount, d.duration, tuple(d.times.tolist()), d.delay or "") for d in one.doses]
            for name, one in done.items()
        }
    return {
        name: {
            n: list(zip(v.times.tolist(), v.values.tolist(), strict=True)) if table.what == "inputs" else v
            for n, v in one.inputs.items()
        }
        for name, one in done.items()
    }


class Binder:
    """Checks of binding, without solving anything: once for all tables."""

    def __init__(self) -> None:
        t = np.linspace(0.0, 10.0, 8)
        self.data = gn.Observations.from_experiments({n: {"blood": (t, 1.0 + t)} for n in EXPERIMENTS}, start=0.0)
        self.plain, self.late = (self._model({"lag": gn.LogNormal(0, 1)} if late else {}) for late in (False, True))
        self.scaling = gn.bind(self.plain, self.data).scaling

    def _model(self, more: dict[str, Any]) -> gn.Model:
        form = gn.KnownForm(
            STATES,
            lambda t, x, p: {"gut": -p.k * x.gut, "blood": p.k * x.gut},
            {"k": gn.LogNormal(0, 1), **more},
            delays=list(more),
        )
        return gn.Model(form, initial={"gut": 0.0, "blood": 0.0}, kernel=None)

    def given(self, names: list[str]) -> gn.Model:
        form = gn.KnownForm(
            STATES,
            lambda t, x, p: {"gut": -x.gut * sum(p[n] for n in names), "blood": x.gut},
            {n: gn.Given() for n in names},
        )
        return gn.Model(form, initial={"gut": 0.0, "blood": 0.0}, kernel=None)

    def check(self, table: Table, done: dict[str, gn.Experiment]) -> None:
        """All that is given on time arrives in the plans of the solver, in the amounts that were read."""
        if table.what != "doses":
            names = sorted({name for one in done.values() for name in one.inputs})
            if not set(names) <= {"u", "v"}:
                raise gn.ModelError("the equations take u and v, and nothing else.")
            driving_of(self.given(names), self.data, self.scaling, done)
            return
        late = any(dose.delay for one in done.values() for dose in one.doses)
        driving: Any = driving_of(self.late if late else self.plain, self.data, self.scaling, done)
        for plan, one in zip(driving.plans if driving else (), done.values(), strict=False):
            at_once = [d.amount * d.count for d in one.doses if not d.duration and d.delay is None]
            infused = len(driving.infused)
            jumps = plan.jumps[:, infused : infused + len(driving.dosed)]
            assert np.isclose(jumps.sum(), sum(at_once), rtol=1e-9), "not all doses arrive"
            starts = np.asarray(plan.starts) * float(self.scaling.time_unit)
            rates = np.asarray(plan.pieces)[1:-1, :infused].sum(axis=1)
            lasting = sum(d.amount * d.count for d in one.doses if d.duration)
            assert np.isclose((rates * np.diff(starts[1:])).sum(), lasting, rtol=1e-9), "not all infusions arrive"


def attempt(table: Table, folder: Path, binder: Binder) -> str:
    """What came of a table. Anything but a result as it should be, or our error, is raised."""
    path = folder / "table.csv"
    path.write_text(table.text(), encoding="utf-8")
    try:
        expected: Any = read_again(table)
    except Senseless:
        expected = "senseless"
    except Unsure:
        expected = "unsure"
    try:
        done = gn.read_experiments(EXPERIMENTS, states=STATES, **{table.what: path})
        binder.check(table, done)
    except gn.GpnodeError as error:
        assert 10 < len(str(error)) < 1000, "an error without a clear message"
        return "refused" if expected in ("senseless", "unsure") else "refused, though clear"
    assert expected != "senseless", f"read as {said(table, done)}"
    if expected == "unsure":
        return "read, unsure"
    assert said(table, done) == expected, f"read as {said(table, done)}, should be {expected}"
    return "read"


@dataclass
class Seen:
    """What came of the tables so far."""

    outcomes: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def read_many(count: int, seed: int, folder: Path) -> Seen:
    """Whole tables, damaged ones, and sections of a problem file, the same ones for the same seed."""
    seen, binder, rng = Seen(), Binder(), np.random.default_rng(seed)
    for i in range(count):
        try:
            if i % 4 == 3:
                content = edited_section(rng)
                case: Any = content
                outcome = "section " + attempt_section(content, folder)
            else:
                case = whole_table(rng) if i % 4 == 0 else damaged(rng, whole_table(rng))
                outcome = attempt(case, folder, binder)
            if i % 4 == 0:
                assert outcome == "read", f"a whole table: {outcome}"
        except Exception:
            text = case.text() if isinstance(case, Table) else case
            seen.failures.append(f"{i}: {text}\n{traceback.format_exc(limit=-3)}")
            outcome = "failure"
        seen.outcomes[outcome] += 1
    return seen


# -- sections of a problem file ----------------------------------------------------------------------

VALUES: list[Any] = [
    *(0, 1, -1, 2.5, 1e9, float("nan"), float("inf"), True, "", "a", "b", "c", "gut", "blood", "ear", "x - 1"),
    *(
        "0.5*blood",
        "gut + what",
        "1/0",
        "((",
        "k",
        "t",
        [],
        [1.0],
        {},
        {"x": 1},
        "none.csv",
        10**20,
        10**400,
        "lag",
        [[]],
    ),
]


def edited_section(rng: np.random.Generator) -> dict[str, Any]:
    """``[experiments]`` with entries replaced, added and removed."""
    section: dict[str, Any] = {
        "conditions": {"u": 1.5},
        "inputs": {"v": {"times": [0.0, 2.0], "values": [1.0, 0.5]}},
        "doses": [
            {"state": "gut", "amount": 3.0},
            {"state": "blood", "amount": 1.0, "time": 2.0, "duration": 1.0, "every": 3.0, "count": 2},
            {"state": "gut", "amount": 2.0, "experiment": "b"},
        ],
        "events": [{"time": 4.0, "blood": "0.5*blood + k"}, {"time": 5.0, "gut": 0.0, "experiment": "a"}],
        "before": {"u": 0.5},
    }

    def pick(among: list[Any]) -> Any:
        return among[int(rng.integers(len(among)))]

    for _ in range(int(rng.choice([0, 1, 1, 2, 3]))):
        holder = pick([section, section, *[v for v in section.values() if isinstance(v, dict)]])
        listed = (
            [one for name in ("doses", "events") for one in section.get(name, []) if isinstance(one, dict)]
            if (all(isinstance(section.get(name, []), list) for name in ("doses", "events")))
            else []
        )
        if listed and rng.random() < 0.6:
            holder = pick(listed)
        keys = [*holder, *holder, "count", "every", "experiment", "when", "time", "blood", "interpolation", "u", "v"]
        key = pick(keys)
        if key in holder and rng.random() < 0.3:
            del holder[key]
        else:
            holder[key] = pick(VALUES)
    return section


def attempt_section(section: dict[str, Any], folder: Path) -> str:
    """Read a problem with this section up to its binding."""
    rows = [f"{run},{t},{1.0 + t}" for run in EXPERIMENTS for t in range(8)]
    (folder / "data.csv").write_text("\n".join(["run,time,blood", *rows]) + "\n")
    content = {
        "data": {"file": "data.csv", "experiment": "run"},
        "experiments": section,
        "model": {"equations": ["dgut/dt = -k*gut*u", "dblood/dt = k*gut*v"]},
        "parameters": {"k": "LogNormal(0, 1)"},
        "initial": {"gut": 0.0, "blood": 1.0},
    }
    write_problem(content, folder / "problem.toml")
    try:
        problem = read_problem(folder / "problem.toml")
        scaling = _scaling(problem)
        driving = driving_of(problem.model, problem.data, scaling, problem.data.done)
    except gn.GpnodeError as error:
        assert 10 < len(str(error)) < 1000, "an error without a clear message"
        return "refused"
    assert driving is not None
    for entry in section.get("doses", []):
        wanted = float(entry.get("amount", 0.0))
        runs = [str(entry["experiment"])] if "experiment" in entry else EXPERIMENTS
        for run in runs:
            assert any(dose.amount == wanted for dose in problem.data.done[run].doses), f"{entry} is not given"
    for entry in section.get("events", []):
        runs = [str(entry["experiment"])] if "experiment" in entry else EXPERIMENTS
        for run in runs:
            one = problem.data.done[run]
            happenings: list[Any] = [*one.events, *one.triggers]
            states = set(entry) - {"time", "experiment", "when", "count"}
            assert any(states == set(e.changes) for e in happenings), f"{entry} is not an event"
    return "read"


_SCALINGS: list[Any] = []


def _scaling(problem: Any) -> Any:
    """Of the data, which are always the same."""
    if not _SCALINGS:
        from gpnode.problem.binding import _scaling as of

        _SCALINGS.append(of(problem.model, problem.data))
    return _SCALINGS[0]
