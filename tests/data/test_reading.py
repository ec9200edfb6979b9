"""Tables as people have them: each reads right, or is refused with the cause named; none reads wrong in silence."""

# ruff: noqa: E501
# One case a line.

from __future__ import annotations

import datetime
import io

import numpy as np
import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpnode as gn
from gpnode.data.reading import short_name

TIMES = np.arange(8) * 0.5
X = np.array([1.25, 2.5, 4.75, 8.0, 12.5, 17.25, 20.5, 22.0])
Y = np.array([30.5, 28.0, 25.25, 20.0, 14.5, 9.75, 6.5, 4.25])


def rows(separator=",", decimal=".", header=("time", "x", "y"), columns=(TIMES, X, Y), number="{:.4f}"):
    """A table as text."""
    lines = [separator.join(header)]
    for row in zip(*columns, strict=True):
        cells = [value if isinstance(value, str) else number.format(value) for value in row]
        lines.append(separator.join(cell.replace(".", decimal) if cell[:1].isdigit() else cell for cell in cells))
    return "\n".join(lines) + "\n"


def sheet(*lines, title="Sheet1", more=()):
    """An Excel file as bytes."""
    book = openpyxl.Workbook()
    page = book.active
    page.title = title
    for line in lines:
        page.append(list(line))
    for name, content in more:
        other = book.create_sheet(name)
        for line in content:
            other.append(list(line))
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def read(folder, content, name="table.csv", **options):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return gn.Observations.from_file(file, **options)


def text(values):
    return [f"{v:.4f}" for v in values]


def replaced(values, where, by):
    cells = text(values)
    for i in np.atleast_1d(where):
        cells[i] = by
    return cells


def thousands(mark, decimal="."):
    """Values above a thousand, with marks between groups of three digits."""
    return [f"{1000 * v:,.2f}".replace(",", "T").replace(".", decimal).replace("T", mark) for v in X]


HALF_HOURS = [f"{int(t):02d}:{int(60 * (t % 1)):02d}" for t in TIMES]
DAYS = [datetime.date(2024, 1, 10) + datetime.timedelta(days=int(2 * t)) for t in TIMES]
EXCEL = [("time", "x", "y"), *zip(TIMES.tolist(), X.tolist(), Y.tolist(), strict=True)]
LONG = [
    ("time", "species", "value"),
    *((t, v, z) for v, zs in (("x", X), ("y", Y)) for t, z in zip(TIMES, zs, strict=True)),
]

RIGHT = {
    # name: (content, name of the file, options)
    "plain": (rows(), {}),
    "spaces after commas": (rows(", "), {}),
    "semicolons": (rows(";"), {}),
    "tabs": (rows("\t"), {}),
    "bars": (rows("|"), {}),
    "spaces": (rows("  "), {}),
    "semicolons, decimal commas": (rows(";", ","), {}),
    "tabs, decimal commas": (rows("\t", ","), {}),
    "quoted decimal commas": ("\n".join(",".join(f'"{c}"' for c in line.split(";")) for line in rows(";", ",").splitlines()), {}),
    "sep line of Excel": ("sep=;\n" + rows(";"), {}),
    "Windows line ends": (rows().replace("\n", "\r\n"), {}),
    "old Mac line ends": (rows().replace("\n", "\r"), {}),
    "no newline at the end": (rows().rstrip("\n"), {}),
    "BOM": (b"\xef\xbb\xbf" + rows().encode(), {}),
    "UTF-16": (rows().encode("utf-16"), {}),
    "UTF-16 big end first": (b"\xfe\xff" + rows().encode("utf-16-be"), {}),
    "UTF-16 without BOM": (rows("\t").encode("utf-16-le"), {}),
    "Windows-1252 remark": (rows(header=("time", "x", "y", "Bemerkung"), columns=(TIMES, X, Y, ["früh"] * 8)).encode("cp1252"), {}),
    "trailing empty rows": (rows() + ",,\n,,\n\n", {}),
    "trailing empty columns": (rows().replace("\n", ",,\n"), {}),
    "empty column with a name": (rows(header=("time", "x", "notes", "y"), columns=(TIMES, X, [""] * 8, Y)), {}),
    "title above the header": ("Growth of June 3rd\n\n" + rows(), {}),
    "two titles above the header": ("Growth\nby Ada;;\n" + rows(";"), {}),
    "comments above the header": ("# made by a plate reader\n" + rows(), {}),
    "units row": (rows(columns=(["h", *text(TIMES)], ["mM", *text(X)], ["g/L", *text(Y)])), {}),
    "remark column": (rows(header=("time", "x", "remark", "y"), columns=(TIMES, X, ["ok", "", "", "bubbles", "", "", "", "ok"], Y)), {}),
    "row numbers without a name": (rows(header=("", "time", "x", "y"), columns=([str(i) for i in range(8)], TIMES, X, Y)), {}),
    "row numbers": (rows(header=("no", "time", "x", "y"), columns=([str(i + 1) for i in range(8)], TIMES, X, Y)), {}),
    "exponents": (rows(number="{:.6e}"), {}),
    "thousands with commas": (rows(";", columns=(text(TIMES), thousands(","), text(Y))), {"scale": 1000}),
    "thousands with points": (rows(";", columns=([t.replace(".", ",") for t in text(TIMES)], thousands(".", ","), [y.replace(".", ",") for y in text(Y)])), {"scale": 1000}),
    "thousands with spaces": (rows(";", columns=(text(TIMES), thousands(" "), text(Y))), {"scale": 1000}),
    "thousands with narrow spaces": (rows(";", columns=(text(TIMES), thousands("\u202f"), text(Y))), {"scale": 1000}),
    "thousands with apostrophes": (rows(";", columns=(text(TIMES), thousands("'"), text(Y))), {"scale": 1000}),
    "time with a unit": (rows(header=("Time (h)", "x", "y")), {}),
    "time in capitals": (rows(header=("TIME", "x", "y")), {}),
    "t": (rows(header=("t", "x", "y")), {}),
    "hours": (rows(header=("Hours", "x", "y")), {}),
    "tabs by their word": (rows("\t"), {"separator": "tab"}),
    "tabs as shells pass them": (rows("\t"), {"separator": "\\t"}),
    "another time column": (rows(header=("clock", "x", "y")), {"time": "clock"}),
    "a unit in the named time column": (rows(header=("clock [min]", "x", "y")), {"time": "clock [min]"}),
    "units in headers": (rows(header=("time", "x (600 nm)", "y [mM]")), {}),
    "clock times": (rows(columns=(HALF_HOURS, X, Y)), {}),
    "clock times with seconds": (rows(columns=([t + ":00" for t in HALF_HOURS], X, Y)), {}),
    "ISO dates": (rows(header=("date", "x", "y"), columns=([d.isoformat() for d in DAYS], X, Y)), {"per_time": 2}),
    "German dates": (rows(";", header=("date", "x", "y"), columns=([d.strftime("%d.%m.%Y") for d in DAYS], text(X), text(Y))), {"per_time": 2}),
    "British dates": (rows(header=("date", "x", "y"), columns=([d.strftime("%d/%m/%Y") for d in DAYS], X, Y)), {"per_time": 2}),
    "American dates": (rows(header=("date", "x", "y"), columns=([d.strftime("%m/%d/%Y") for d in DAYS], X, Y)), {"per_time": 2}),
    "dates with months as words": (rows(header=("date", "x", "y"), columns=([d.strftime("%d %b %Y") for d in DAYS], X, Y)), {"per_time": 2}),
    "dates of eight digits": (rows(header=("date", "x", "y"), columns=([d.strftime("%Y%m%d") for d in DAYS], X, Y)), {"per_time": 2}),
    "Excel": (sheet(*EXCEL), {}),
    "Excel with a title": (sheet(("Growth",), (), *EXCEL), {}),
    "Excel with an empty second sheet": (sheet(*EXCEL, more=[("Sheet2", [])]), {}),
    "Excel, a named sheet": (sheet(("nothing",), more=[("data", EXCEL)]), {"sheet": "data"}),
    "Excel with dates": (sheet(("date", "x", "y"), *zip(DAYS, X.tolist(), Y.tolist(), strict=True)), {"per_time": 2}),
    "Excel with remarks": (sheet((*EXCEL[0], "remark"), *((*row, "fine") for row in EXCEL[1:])), {}),
    "Excel with numbers as text": (sheet(EXCEL[0], *(tuple(map(str, row)) for row in EXCEL[1:])), {}),
    "long": (rows(header=LONG[0], columns=list(zip(*LONG[1:], strict=True))), {}),
    "units row that tells the unit of time": (rows(header=("time", "x", "y"), columns=(["[h]", *text(TIMES)], ["mM", *text(X)], ["g/L", *text(Y)])), {}),
    "German words for times": (rows(";", ",", header=("Stunden", "x", "y")), {}),
    "weeks of the ISO": (rows(header=("date", "x", "y"), columns=([f"2024-W{2 + i:02d}" for i in range(8)], X, Y)), {"per_time": 14}),
    "dates with a clock of twelve hours": (rows(header=("timestamp", "x", "y"), columns=([f"3/14/2024 {h if h < 13 else h - 12}:00 {'PM' if h > 11 else 'AM'}" for h in range(8, 16)], X, Y)), {"per_time": 2}),
    "standard deviations beside values": (rows(header=("time", "x", "x_sd", "y", "sd"), columns=(TIMES, X, X / 10, Y, Y / 20)), {}),
    "long, named": (rows(header=("time", "what_else", "z"), columns=list(zip(*LONG[1:], strict=True))), {"variable": "what_else", "value": "z"}),
}  # fmt: skip

MISSING = {
    word: rows(columns=(TIMES, replaced(X, [2, 5], word), Y))
    for word in (
        "n.d.",
        "NA",
        "n/a",
        "NaN",
        "-",
        "",
        "null",
        "missing",
        "?",
        "#N/A",
        "ND",
        "not measured",
        "#DIV/0!",
        "k.A.",
    )
}

REFUSED = {
    "decimal commas between commas": (rows(",", ","), {}, "looks like decimal commas"),
    "thousands or decimals": (rows(";", columns=(["0", "1", "2"], ["1,250", "2,500", "4,750"], ["3", "2", "1"])), {}, "may be a decimal comma or a thousands"),
    "two decimal marks": (rows(";", columns=(text(TIMES), replaced(X, 3, "8,5"), text(Y))), {}, "written in two ways"),
    "a comma where a point is decimal": (rows(";", columns=(text(TIMES), replaced(X, 3, "1,5"), text(Y))), {"decimal": "."}, "row 4 is '1,5', which is not a number"),
    "a point where a comma is decimal": (rows(";", ",").replace("1,2500", "1.25"), {"decimal": ","}, "row 1 is '1.25', which is not a number"),
    "marks in the wrong place": (rows(";", columns=(text(TIMES), replaced(X, 3, "1,2345.6"), text(Y))), {}, "row 4 is '1,2345.6'"),
    "an underscore in a number": (rows(columns=(TIMES, replaced(X, 3, "1_000"), Y)), {}, "row 4 is '1_000'"),
    "an unusual decimal mark": (rows(), {"decimal": "'"}, "a point or a comma"),
    "a word for a separator": (rows(), {"separator": "dots"}, "'dots' cannot stand between columns"),
    "a limit without a number": (rows(columns=(TIMES, replaced(X, 0, "<low"), Y)), {}, "row 1 is '<low', which is not a number"),
    "a word among numbers": (rows(columns=(TIMES, replaced(X, 3, "eight"), Y)), {}, "row 4 is 'eight', which is not a number"),
    "a letter O for a zero": (rows(columns=(TIMES, replaced(X, 3, "8.O"), Y)), {}, "row 4 is '8.O'"),
    "no header": (rows().split("\n", 1)[1], {}, "numbers alone"),
    "one column": ("time\n1\n2\n3\n", {}, "one column only"),
    "empty": ("", {}, "is empty"),
    "a header alone": ("time,x,y\n", {}, "no rows"),
    "a column twice": (rows(header=("time", "x", "x")), {}, "appears twice"),
    "a column without a name": (rows(header=("time", "x", "")), {}, "column 3 has no name"),
    "more cells than names": (rows(header=("time", "x")), {}, "column 3 has no name|decimal commas"),
    "no time": (rows(header=("a", "x", "y")), {}, "no column 'time'; the table has: a, x, y"),
    "two times": (rows(header=("hour", "day", "y")), {}, "could be hour or day"),
    "an unknown column": (rows(), {"time": "when"}, "no column 'when'"),
    "dates in two ways": (rows(header=("date", "x"), columns=(["01/02/2024", "02/02/2024", "03/02/2024"], ["1", "2", "3"])), {}, "could be read in two ways"),
    "times that go back": (rows(columns=(HALF_HOURS[4:] + HALF_HOURS[:4], X, Y)), {}, "time"),
    "the old Excel format": (b"\xd0\xcf\x11\xe0" + bytes(600), {}, r"old Excel format \(.xls\)"),
    "a damaged Excel file": (sheet(*EXCEL)[:2000], {}, "cannot be read as an Excel file"),
    "two sheets": (sheet(*EXCEL, more=[("other", EXCEL)]), {}, "several sheets: Sheet1, other"),
    "an unknown sheet": (sheet(*EXCEL), {"sheet": "data"}, "no sheet 'data'"),
    "binary": (bytes(range(256)) * 4, {}, "not a table of text"),
    "an open quotation mark": (rows().replace("1.2500", '"1.2500'), {}, "."),
    "replicates": (rows(header=("time", "OD_1", "OD_2"), columns=(TIMES, X, X + 0.05)), {}, "look like replicates of one thing"),
    "replicates with a limit": (rows(header=("time", "OD_1", "OD_2"), columns=(TIMES, replaced(X, 0, "<1"), X + 0.05)), {}, "look like replicates of one thing"),
    "numbers that may be runs": (rows(header=("time", "k", "x"), columns=(["0", "0", "1", "1", "2", "2"], ["1", "2"] * 3, ["5.1", "4.2", "4.4", "3.1", "3.2", "2.5"])), {}, "once for each number in 'k'"),
    "a limit among times": (rows(columns=(replaced(TIMES, 2, "<1"), X, Y)), {}, "time of 'time' in row 3 is '<1.0'"),
    "replicates by letters": (rows(header=("time", "OD a", "OD b"), columns=(TIMES, X, X * 1.01)), {}, "look like replicates of one thing"),
    "no replicates where they are asked for": (rows(), {"replicates": True}, "no columns look like replicates"),
    "on its side": ("time,0,1,2,3\nx,1.5,2.5,3.5,4.5\ny,9,8,7,6\n", {}, "lies on its side: times stand in its first row, and 'x'"),
    "errors beside numbers": (rows(columns=(TIMES, [f"{v} ± 0.1" for v in X], Y)), {}, "row 1 is '1.25 ± 0.1', which is a number with its error"),
    "percent": (rows(columns=(TIMES, [f"{v}%" for v in X], Y)), {}, "row 1 is '1.25%', which is a number with its unit"),
    "times with their unit": (rows(columns=([f"{t} h" for t in TIMES], X, Y)), {}, r"row 1 is '0.0 h', which is a number with its unit.*\(h\)"),
    "a limit that is not told": (rows(columns=(TIMES, replaced(X, 7, "OVRFLW"), Y)), {}, "row 8 is 'OVRFLW', which is beyond what can be measured"),
    "things that are pooled": ("time,kind,x,y\n" + "".join(f"{t},{k},{t + i}.5,{t - i}.25\n" for t in range(4) for i, k in enumerate("aabb")), {}, "times repeat, with different words in 'kind'"),
    "something else beside replicates": (rows(header=("time", "OD_1", "OD_2", "T"), columns=(TIMES, X, X + 0.05, Y)), {"replicates": True}, "T would be counted 2 times.*--variables OD_1,OD_2"),
    "runs or variables": (rows(header=("time", "kind", "z"), columns=list(zip(*LONG[1:], strict=True))), {}, "times repeat, once for each 'kind'"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_tables_that_read_right(tmp_path, name):
    content, options = RIGHT[name]
    scale, per_time = options.get("scale", 1.0), options.get("per_time", 1.0)
    options = {k: v for k, v in options.items() if k not in ("scale", "per_time")}
    data = read(tmp_path, content, **options)
    assert data.variables == ("x", "y")
    assert np.allclose(data.of("x")[0].times, per_time * TIMES)
    assert np.allclose(data.of("x")[0].values, scale * X)
    assert np.allclose(data.of("y")[0].values, Y)


@pytest.mark.parametrize("word", MISSING)
def test_words_for_what_was_not_measured(tmp_path, word):
    data = read(tmp_path, MISSING[word])
    assert np.allclose(data.of("x")[0].values, np.delete(X, [2, 5]))
    assert data.of("y")[0].values.size == 8
    assert any("not measured" in note for note in data.notes) == bool(word)


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_are_refused_with_the_cause(tmp_path, name):
    content, options, words = REFUSED[name]
    with pytest.raises(gn.DataError, match=words):
        read(tmp_path, content, **options)


def test_there_are_sixty_kinds_of_files():
    assert len(RIGHT) + len(MISSING) + len(REFUSED) >= 60


@pytest.mark.parametrize(
    ("cell", "side", "value"), [("<0.5", -1, 0.5), ("< 0.5", -1, 0.5), (">100", 1, 100.0), ("≤0.25", -1, 0.25)]
)
def test_limits_are_read_as_limits(tmp_path, cell, side, value):
    data = read(tmp_path, rows(columns=(TIMES, replaced(X, [2], cell), Y)))
    series = data.of("x")[0]
    assert series.limits.tolist() == [0, 0, side, 0, 0, 0, 0, 0]
    assert series.values[2] == value
    assert any("1 of 'x' are limits" in note for note in data.notes)


def test_limits_with_decimal_commas(tmp_path):
    data = read(tmp_path, rows(";", ",").replace("1,2500", "<0,5"))
    assert data.of("x")[0].cells[0] == "<0.5"


def test_what_was_guessed_is_said(tmp_path):
    header = ("Time (h)", "x (600 nm)", "remark")
    content = rows(";", ",", header, (TIMES, X, ["fine"] * 8))
    said = str(read(tmp_path, content))
    for words in ("separated by semicolons", "decimal commas", "'x (600 nm)' is called x", "'remark' has no numbers"):
        assert words in said
    assert "hour" in said


def test_replicates_are_runs_of_one_thing(tmp_path):
    content = rows(header=("time", "OD_1", "OD_2", "OD_3"), columns=(TIMES, X, X + 0.05, X - 0.05))
    data = read(tmp_path, content, replicates=True)
    assert data.variables == ("OD",)
    assert data.experiments == ("1", "2", "3")
    assert np.allclose(data.of("OD")[1].values, X + 0.05)
    header, mean = ("time", "OD_1", "OD_2", "OD_3", "mean", "sd", "T"), (TIMES, X, X + 0.05, X - 0.05, X, X / 50, Y)
    chosen = read(tmp_path, rows(header=header, columns=mean), replicates=True, variables=["OD_1", "OD_2"])
    assert [s.variable for s in chosen.series] == ["OD", "OD"]
    summed_up = read(tmp_path, rows(header=header[:-1], columns=mean[:-1]), replicates=True)
    assert [s.variable for s in summed_up.series] == ["OD", "OD", "OD"]
    assert "'mean' follows from the replicates" in str(summed_up)
    alone = read(tmp_path, content, variables=["OD_1", "OD_2", "OD_3"])
    assert alone.variables == ("OD_1", "OD_2", "OD_3")


@pytest.mark.parametrize("by_time", [False, True])
def test_subjects_with_numbers_are_runs(tmp_path, by_time):
    """As pharmacologists keep them; in the order of subjects, or of times."""
    lines = [(s, t, f"{10 * s * np.exp(-t / s):.3f}") for s in (1, 2, 3) for t in (0, 1, 2, 4)]
    lines.sort(key=lambda line: line[1 if by_time else 0])
    data = read(tmp_path, "Subject,Time,conc\n" + "\n".join(f"{s},{t},{c}" for s, t, c in lines) + "\n")
    assert data.experiments == ("1", "2", "3")
    assert data.variables == ("conc",)
    assert np.allclose(data.series[1].values, 20 * np.exp(-np.array([0, 1, 2, 4]) / 2), atol=1e-3)
    assert any("'Subject' tells experiments apart" in note for note in data.notes)


def test_long_tables_with_replicates(tmp_path):
    lines = [
        f"{day},{what},{level + day + k / 10},{k}"
        for day in range(4)
        for what, level in (("glucose", 5), ("lactate", 1))
        for k in (1, 2)
    ]
    data = read(tmp_path, "day,analyte,conc,replicate\n" + "\n".join(lines) + "\n")
    assert data.variables == ("glucose", "lactate")
    assert data.experiments == ("1", "2")
    assert data.of("lactate")[1].values.tolist() == [1.2, 2.2, 3.2, 4.2]


def test_what_is_the_same_throughout_a_run_is_no_measurement(tmp_path):
    lines = [f"{s},{60 + s},{t},{10 * s * np.exp(-t / s):.3f}" for s in (1, 2, 3) for t in (0, 1, 2, 4)]
    data = read(tmp_path, "subject,weight_kg,time_h,conc\n" + "\n".join(lines) + "\n")
    assert data.variables == ("conc",)
    assert data.time_unit == "hour"
    assert any("'weight_kg' is the same throughout each run" in note for note in data.notes)


def test_numbered_columns_that_differ_are_no_replicates(tmp_path):
    assert read(tmp_path, rows(header=("time", "x1", "x2"))).variables == ("x1", "x2")


def test_runs_are_told_by_their_column(tmp_path):
    content = rows(
        header=("flask", "time", "x"),
        columns=(["A"] * 8 + ["B"] * 8, [*TIMES, *TIMES], [*X, *Y]),
    )
    data = read(tmp_path, content)
    assert data.experiments == ("A", "B")
    assert data.variables == ("x",)


@pytest.mark.parametrize(
    ("header", "time"),
    [
        (("date", "S", "I"), "date"),
        (("t", "S", "H"), "t"),
        (("S", "time", "year"), "time"),
        (("day", "date", "x"), "date"),
        (("s", "x", "y"), "s"),
        (("Day", "T2", "x"), "Day"),
    ],
)
def test_times_are_told_from_states_with_like_names(tmp_path, header, time):
    columns = [TIMES if name == time else X for name in header]
    data = read(tmp_path, rows(header=header, columns=columns))
    assert set(data.variables) == set(header) - {time}


@pytest.mark.parametrize(
    ("header", "short"),
    [("OD (600 nm)", "OD"), ("x [mM]", "x"), ("Glucose, mM", "Glucose"), ("2 days", "x2_days"), ("lambda", "lambda_")],
)
def test_short_names(header, short):
    assert short_name(header) == short


PLAIN = [name for name in RIGHT if isinstance(RIGHT[name][0], str) and len(RIGHT[name][1]) == 0]


@given(name=st.sampled_from(PLAIN), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_variants_read_right_or_are_refused(tmp_path_factory, name, seed):
    """A table with something odd done to it is refused, or every number that is read stands in the file."""
    vary(tmp_path_factory.mktemp("variant"), name, np.random.default_rng(seed))


@pytest.mark.slow
def test_two_thousand_variants(tmp_path):
    for seed in range(2000):
        vary(tmp_path, PLAIN[seed % len(PLAIN)], np.random.default_rng(seed))


def vary(folder, name, rng):
    """Change a cell, a row or a mark; what is read then must be what a person would read."""
    lines = RIGHT[name][0].splitlines()
    which = rng.integers(6)
    at = int(rng.choice([i for i, line in enumerate(lines) if i and line]))
    if which == 0:
        del lines[at]
    elif which == 1:
        lines[at] = lines[at] + str(rng.choice([";", ",", "\t", " ", " x"]))
    elif which == 2:
        word = str(rng.choice(["n.d.", "<1", "abc", "1e3", "", "1.5.2", "--", "∞"]))
        cells = lines[at].split("\t" if "\t" in lines[at] else ";" if ";" in lines[at] else ",")
        cells[int(rng.integers(len(cells)))] = word
        lines[at] = ("\t" if "\t" in lines[at] else ";" if ";" in lines[at] else ",").join(cells)
    elif which == 3:
        lines.insert(at, "")
    elif which == 4:
        lines[0] = lines[0].upper()
    else:
        lines[at] = lines[at][: int(rng.integers(1, len(lines[at]) + 1))]
    try:
        data = read(folder, "\n".join(lines) + "\n")
    except gn.DataError as error:
        assert len(str(error)) > 20
        return
    held = [cell for series in data.series for cell in series.values]
    whole = "\n".join(lines)
    known = {round(v, 6) for v in (*X, *Y, *TIMES, 1000.0)}
    for value in held:
        stands = any(
            form in whole or form.replace(".", ",") in whole for form in (f"{value:g}", f"{value:.4f}", f"{value:.2e}")
        )
        assert round(value, 6) in known or stands, (name, which, value)


@pytest.mark.parametrize(
    ("cells", "unsure"), [(("2.536", "12.100"), True), (("2.536", "12.1"), False), (("0.536", "1.250"), False)]
)
def test_points_that_may_group_thousands_are_said(tmp_path, cells, unsure):
    """They are read as decimals, unless the decimal mark is given."""
    table = tmp_path / "counts.csv"
    table.write_text("time;x\n" + "".join(f"{i};{cells[i % 2]}\n" for i in range(6)))
    data = gn.Observations.from_file(table)
    assert data.series[0].values[0] == float(cells[0])
    assert any("groups thousands: --decimal ," in note for note in data.notes) == unsure
    if unsure:
        assert gn.Observations.from_file(table, decimal=",").series[0].values.tolist()[:2] == [2536.0, 12100.0]
