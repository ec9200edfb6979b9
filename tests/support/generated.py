"""Tables and problem files made by chance: whole ones, damaged ones, and ones that were never any good.

``python tests/support/generated.py --count 10000 --seed 0`` reads that many of them and prints what it saw. Each must
give a problem or an error of ours; the time of the longest and the memory of the process are measured.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import gpnode as gn
from gpnode.cli.checking import data_remarks
from gpnode.cli.example_problems import EXAMPLES
from gpnode.formats.problem_toml import read_problem, write_problem

_BATCH, _PROCESS = 100, 200  # cases drawn together, and read by one process
HUNG_CPU, HUNG_WALL = 30.0, 10_000.0
"""Seconds of the processor, and by the clock, after which a case counts as hung and ends the run. Both are far above
the five that are allowed, so that a busy machine decides nothing."""

_LONG = "\n".join(
    [
        "time,variable,value,run",
        *(f"{t},{v},{1 + t * (k + 1)},{r}" for r in "ab" for k, v in enumerate("xy") for t in range(6)),
    ]
)
_DATED = "\n".join(["time,x", *(f"2020-01-{d:02d}T06:00:00Z,{d % 5}" for d in range(1, 12))])
_RUNS = "\n".join(["time,x,run", *(f"{t},{t**0.5 + r},{r}" for r in range(3) for t in range(8))])

TABLES: list[tuple[str, dict]] = [
    (EXAMPLES["lynx-hare"]().files["data.csv"], {"time": "year"}),
    (EXAMPLES["algae"]().files["data.csv"], {"time": "day", "time_unit": "day"}),
    (_LONG, {"variable": "variable", "experiment": "run"}),
    (_DATED, {"time_unit": "day", "start": "2020-01-01"}),
    (_RUNS, {"experiment": "run", "start": 0.0}),
]
PROBLEMS: list[dict] = [
    EXAMPLES["lynx-hare"]().content,
    {
        "data": {"file": "data.csv", "time": "year"},
        "model": {
            **{"states": ["hare", "lynx"], "degree": 3, "cross": 2, "constant": False, "terms": ["hare/(1+lynx)"]},
            **{"forbidden": [["hare", "lynx"]], "fixed": [["lynx", "lynx", -0.5]], "solver": "stiff"},
        },
        "kernel": {"kind": "Matern32", "variance": "LogNormal(0, 1)", "length_scale": 0.3},
        "noise": {"var": "Gamma(1, 2)", "relative": False},
        "transform": {"hare": "log"},
        "sampler": {"method": "nuts", "draws": 200, "seed": 3},
    },
    {
        "data": {"file": "data.csv", "time": "year"},
        "model": {
            **{"equations": ["dhare/dt = a*hare", "dlynx/dt = -b*lynx + c*fox", "dfox/dt = sin(t) - fox^2"]},
            **{"degree": 1, "states": ["hare"], "scales": {"fox": 2.0}},
        },
        "parameters": {"a": 0.5, "b": "Uniform(0, 3)", "c": "HalfNormal(1)"},
        "initial": {"hare": "around first", "fox": {"0": 1.5}},
        "sampler": {"method": "laplace", "draws": 100},
    },
]

NAMES = ["time", "year", "hare", "lynx", "x", "variable", "value", "run", "fox", "t", "chain", "coef", "exp", "pi"]
TOKENS = [
    *("", " ", "nan", "NA", "inf", "-inf", "1e308", "-1e308", "1e-320", "1e18", "0", "-0.0", "1.5", "-3", "2000"),
    *("9" * 400, "0x10", "1_000", "1,5", "1d3", "true", "none", "'", '"', '""', "#", "=", "[", "]", "{", "}", "\\"),
    *("\n", "\r\n", "\t", ";", ",", ",,,,", "\x00", "\ufeff", "\u202e", "é", "😀", "<script>", "../../etc", "=1+1"),
    *(
        "2020-01-01",
        "2020-02-30",
        "0001-01-01",
        "9999-12-31T23:59:60Z",
        "12:30",
        "P1D",
        "[data]",
        "[model]",
        "[[data]]",
    ),
    *(
        "Normal(0, 1)",
        "LogNormal(0, 0)",
        "Uniform(1, 0)",
        "Normal(1e400, 1)",
        "exec(1)",
        "a = 1",
        "inf = inf",
        "^",
        "**",
    ),
    *("dx/dt = x", "dhare/dt = 1/0", "x^x^x^x", "(" * 60, "9**9**9", "__import__", "log", "sqrt(-1)", "hare*hare"),
]


@dataclass
class Case:
    """The bytes of a table, and of a problem file beside it."""

    table: bytes
    problem: bytes


@dataclass
class Seen:
    """What came of the cases so far. ``longest`` is in seconds of the processor."""

    outcomes: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0
    longest_case: Case | None = None

    @property
    def count(self) -> int:
        return sum(self.outcomes.values())


def attempt(case: Case, folder: Path, bind: bool = True) -> str:
    """Read one case as ``gpnode check`` does, up to the posterior. Anything but a result or our error is raised.

    Without ``bind`` the model does not meet the data, which takes most of the time.
    """
    (folder / "data.csv").write_bytes(case.table)
    (folder / "problem.toml").write_bytes(case.problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of huge numbers, say; a warning is no failure
        try:
            problem = read_problem(folder / "problem.toml")
            shown = [str(problem.data), problem.data._repr_html_(), *data_remarks(problem.data)]
            size = gn.bind(problem.model, problem.data).size if bind else 0
        except gn.GpnodeError as error:
            message = str(error)
            assert message, "an error without a message"
            assert len(message) < 2000, f"a message of {len(message)} characters"
            return type(error).__name__
    assert all(shown)
    assert size >= 0
    write_problem(problem.content, folder / "kept.toml")
    again = tomllib.loads((folder / "kept.toml").read_text(encoding="utf-8"))
    assert json.dumps(again, default=str) == json.dumps(problem.content, default=str), "the kept problem is another"
    return "problem"


# -- generators --------------------------------------------------------------------------------------

_places = st.floats(0.0, 1.0)
_token = st.one_of(
    st.sampled_from(TOKENS), st.sampled_from(NAMES), st.text(max_size=8), st.floats().map(repr), st.integers().map(str)
)


@st.composite
def _damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Cut, repeat, swap, overwrite and insert, a few times over."""
    found = whole
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 4]))):
        a = int(draw(_places) * len(found))
        b = min(len(found), a + draw(st.integers(0, 30)))
        what = draw(st.sampled_from(["cut", "insert", "overwrite", "repeat", "swap", "flip", "end"]))
        token = draw(_token).encode("utf-8", "surrogatepass")
        if what == "cut":
            found = found[:a] + found[b:]
        elif what == "insert":
            found = found[:a] + token + found[a:]
        elif what == "overwrite":
            found = found[:a] + token + found[b:]
        elif what == "repeat":
            found = found[:b] + found[a:b] * draw(st.integers(1, 50)) + found[b:]
        elif what == "swap":
            lines = found.split(b"\n")
            i, k = (int(draw(_places) * (len(lines) - 1)) for _ in range(2))
            lines[i], lines[k] = lines[k], lines[i]
            found = b"\n".join(lines)
        elif what == "flip":
            found = found[:a] + bytes([draw(st.integers(0, 255))]) + found[a + 1 :]
        else:
            found = found[:a]
    return found


@st.composite
def _replaced_cells(draw: st.DrawFn, whole: str) -> bytes:
    """A table with some cells replaced: it keeps its shape, so that the numbers themselves are tried."""
    rows = [line.split(",") for line in whole.split("\n")]
    for _ in range(draw(st.sampled_from([1, 1, 2, 4]))):
        row = rows[int(draw(_places) * (len(rows) - 1))]
        row[int(draw(_places) * (len(row) - 1))] = draw(st.floats(-1e60, 1e60).map(repr) | st.just("") | _token)
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


_SIZES = [
    *(st.floats(-100, 100), st.floats(0, 1), st.integers(0, 50), st.floats(-1e60, 1e60), st.floats(0, 1e-60)),
    *(st.floats(1e15, 1e15 + 100), st.integers(-(10**25), 10**25), st.floats()),
]


@st.composite
def _numbers(draw: st.DrawFn) -> bytes:
    """A proper table of numbers of any size, at increasing times."""
    time, value = (draw(st.sampled_from(_SIZES)) for _ in range(2))
    names = draw(st.lists(st.sampled_from(["hare", "lynx", "x"]), min_size=1, max_size=3, unique=True))
    times = sorted(draw(st.lists(time, min_size=draw(st.sampled_from([0, 4, 6, 9])), max_size=14, unique=True)))
    rows = [",".join([repr(t), *(repr(draw(value)) for _ in names)]) for t in times]
    return "\n".join([",".join(["year", *names]), *rows]).encode()


_value = st.recursive(
    st.one_of(
        *(st.booleans(), st.integers(-(2**62), 2**62), st.floats(), st.text(max_size=12), st.sampled_from(TOKENS)),
        *(st.sampled_from(NAMES), st.dates(), st.datetimes(), st.times(), st.integers(-5, 12)),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=5,
)
_known_keys = {name: sorted({k for p in PROBLEMS for k in p.get(name, {})} | {"kind", "x"}) for name in PROBLEMS[1]}


_prior = st.one_of(
    st.floats(-5, 5),
    st.builds(
        "{}({}, {})".format, st.sampled_from(["Normal", "Uniform", "Gamma"]), st.floats(-9, 9), st.floats(0, 1e9)
    ),
)
_equation = st.builds(
    "d{}/dt = {} {} {}".format,
    *(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["+", "*", "/", "^", "-"]), _token),
)
_likely = {
    "degree": st.integers(-1, 12),
    "cross": st.integers(-1, 12),
    "terms": st.lists(
        st.sampled_from(["hare*lynx", "1/hare", "exp(lynx)", "hare^-2", "log(hare-99)", "0*hare"]), max_size=3
    ),
    "equations": st.lists(_equation, max_size=3),
    "states": st.lists(st.sampled_from(NAMES), max_size=4),
    "kind": st.sampled_from(["none", "log", "Matern12", "Matern52", "SquaredExponential"]),
    "method": st.sampled_from(["lifted", "nuts", "laplace"]),
    "solver": st.sampled_from(["auto", "adaptive", "stiff"]),
    "draws": st.integers(-1, 10**6),
    "start": st.floats(1800, 1900) | st.dates(),
    "fixed": st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats()).map(list), max_size=2),
    **dict.fromkeys(["a", "b", "c", "std", "var", "variance", "length_scale", "hare", "lynx", "fox"], _prior),
}


@st.composite
def _edited(draw: st.DrawFn, whole: dict) -> dict:
    """A problem with entries replaced, added and removed."""
    found = {name: dict(entries) for name, entries in whole.items()}
    for _ in range(draw(st.integers(0, 3))):
        section = draw(st.sampled_from([*found, "parameters", "initial", "kernel", "noise", "transform", "sampler"]))
        entries = found.setdefault(section, {})
        key = draw(st.sampled_from([*entries, *entries, *_known_keys.get(section, ["x"]) * 2, *NAMES]))
        if key in entries and draw(st.booleans()):
            del entries[key]
        elif isinstance(entries.get(key), list) and draw(st.booleans()):
            entries[key] = [*entries[key], draw(_value)]
        else:
            entries[key] = draw(_likely.get(key, _value) | _value)
    return found


def as_toml(content: dict) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        try:
            write_problem(content, Path(file.name))
        except UnicodeEncodeError:  # half a surrogate pair, which no file can hold
            return b"[data]"
        return Path(file.name).read_bytes()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A table and a problem, of which at least one is usually damaged."""
    kind = draw(st.sampled_from(["bytes", "cells", "numbers", "bytes of problem", "entries", "both"]))
    if kind in ("bytes of problem", "entries", "both"):
        table, content = EXAMPLES["lynx-hare"]().files["data.csv"], draw(st.sampled_from(PROBLEMS))
    else:
        table, reading = draw(st.sampled_from(TABLES))
        content = {"data": {"file": "data.csv", **reading}, "model": {"degree": 1}}
    csv, toml = table.encode(), as_toml(content)
    if kind in ("bytes", "both"):
        csv = draw(_damaged(csv))
    elif kind == "cells":
        csv = draw(_replaced_cells(table))
    elif kind == "numbers":
        csv = draw(_numbers())
        toml = as_toml({"data": {"file": "data.csv", "time": "year"}, "model": {"degree": draw(st.integers(1, 3))}})
    if kind == "entries":
        toml = as_toml(draw(_edited(content)))
    elif kind in ("bytes of problem", "both"):
        toml = draw(_damaged(toml))
    return Case(csv, toml)


# -- many of them ------------------------------------------------------------------------------------


def read_many(count: int, start: int, folder: Path, bind: bool = True) -> Seen:
    """Read ``count`` cases, the same ones for the same ``start``, and collect what went wrong."""
    seen = Seen()
    faulthandler.register(signal.SIGPROF, chain=True)  # says where a hung case was; then the signal ends the process
    for batch in range(-(-count // _BATCH)):
        _read_batch(min(_BATCH, count - batch * _BATCH), 1000 * start + batch, folder, seen, bind)
        jax.clear_caches()  # what was compiled for other cases is no memory of the next
    return seen


def _read_batch(count: int, start: int, folder: Path, seen: Seen, bind: bool) -> None:
    @seed(start)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def read(case: Case) -> None:
        signal.setitimer(signal.ITIMER_PROF, HUNG_CPU)
        faulthandler.dump_traceback_later(HUNG_WALL, exit=True)
        begun = time.process_time()
        try:
            outcome = attempt(case, folder, bind)
        except Exception:
            outcome = "failure"
            seen.failures.append(f"{case}\n{traceback.format_exc()}")
        taken = time.process_time() - begun
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        faulthandler.cancel_dump_traceback_later()
        seen.outcomes[outcome] += 1
        if taken > seen.longest:
            seen.longest, seen.longest_case = taken, case

    read()


def _report(seen: Seen) -> dict[str, Any]:
    """What this process saw, in a form JSON can hold."""
    unit = 1024 if sys.platform.startswith("linux") else 1  # of ru_maxrss, in bytes
    return {
        "count": seen.count,
        "outcomes": dict(seen.outcomes),
        "failures": seen.failures,
        "longest_cpu_seconds": round(seen.longest, 3),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6),
    }


def read_in_processes(count: int, start: int, folder: Path) -> dict[str, Any]:
    """Read ``count`` cases, some hundred in a process: a user's process reads one, and ends."""
    reports = []
    for part in range(-(-count // _PROCESS)):
        words = ["--count", str(min(_PROCESS, count - part * _PROCESS)), "--seed", str(1000 * start + part), "--here"]
        environment = {**os.environ, "GPNODE_CACHE": str(folder)}  # what is compiled here is of no use to anybody
        done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, check=True, env=environment)
        reports.append(json.loads(done.stdout))
        print(f"{sum(r['count'] for r in reports)} read", file=sys.stderr, flush=True)
    return {
        "count": sum(r["count"] for r in reports),
        "outcomes": dict(sum((Counter(r["outcomes"]) for r in reports), Counter())),
        "failures": [f for r in reports for f in r["failures"]],
        "longest_cpu_seconds": max(r["longest_cpu_seconds"] for r in reports),
        "peak_megabytes": max(r["peak_megabytes"] for r in reports),
    }


def main() -> None:
    """Read many cases and print what was seen as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help="in this process instead of several")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.here:
            found = _report(read_many(options.count, options.seed, Path(folder)))
        else:
            found = read_in_processes(options.count, options.seed, Path(folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
