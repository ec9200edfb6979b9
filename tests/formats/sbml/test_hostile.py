"""Damaged and hostile SBML files: a clear error or a result, in little time, and no other file is opened."""

from __future__ import annotations

import builtins
import io
import os
import random
import re
import time

import pytest

import gpnode as gn

pytest.importorskip("libsbml", reason="needs python-libsbml")

from support import sbml

COUNT = 500
PARTS = [
    sbml.function("f", "lambda(x, y, x/(1 + y))"),
    sbml.compartment("c", 2.0, constant="false"),
    sbml.species("A", initialConcentration=3),
    sbml.species("B", initialAmount=1, amounts="true"),
    sbml.parameter("k", 0.5),
    sbml.parameter("twice"),
    sbml.parameter("total", constant="false"),
    sbml.parameter("free", constant="false"),
    sbml.initial("twice", "2*k"),
    sbml.rule("assignment", "total", "A*c + B/2"),
    sbml.rule("algebraic", "", "free - 2*total"),
    sbml.rule("rate", "c", "0.1*c"),
    sbml.reaction("R", "f(twice*A*c, q)", {"A": 1}, {"B": 2}, '<localParameter id="q" value="0.7"/>'),
    sbml.reaction("S", "piecewise(k*B, time < 2, 0)", {"B": 1}),
    sbml.event("E", "B > 2", {"B": "1"}, delay="0.5", priority="1"),
]


def truncated(text, chance):
    return text[: chance.randrange(len(text))]


def without_a_piece(text, chance):
    at = chance.randrange(len(text))
    return text[:at] + text[at + chance.randrange(1, 80) :]


def with_noise(text, chance):
    letters = list(text)
    for _ in range(chance.randrange(1, 8)):
        letters[chance.randrange(len(letters))] = chr(chance.choice([0, 9, 34, 38, 60, 62, 65, 0x20AC, 0x1F600]))
    return "".join(letters)


def with_another_value(text, chance):
    """A value of the wrong type, or a large one."""
    found = chance.choice(list(re.finditer(r'"([^"]*)"', text)))
    value = chance.choice(
        ["", "NaN", "INF", "-INF", "1e999", "-1", "0", "true", "A", "9" * 400, "\u00e9", "R", "E", "../x"]
    )
    return text[: found.start(1)] + value + text[found.end(1) :]


def with_another_name(text, chance):
    """Cycles, and names that mean something else."""
    names = ["A", "B", "c", "k", "twice", "total", "free", "R", "S", "E", "f", "q", "nobody"]
    found = chance.choice(list(re.finditer(r"<ci>\s*(\w+)\s*</ci>", text)))
    return text[: found.start(1)] + chance.choice(names) + text[found.end(1) :]


def with_another_operation(text, chance):
    operations = [
        "plus",
        "divide",
        "power",
        "factorial",
        "root",
        "piecewise",
        "and",
        "lt",
        "lambda",
        "cn",
        "csymbol",
        "exp",
    ]
    found = chance.choice(list(re.finditer(r"<(plus|minus|times|divide|lt|gt)/>", text)))
    return text[: found.start(1)] + chance.choice(operations) + text[found.end(1) :]


def with_a_piece_twice(text, chance):
    found = chance.choice(list(re.finditer(r"<(\w+) [^<>]*/>|<apply>.*?</apply>", text, re.DOTALL)))
    return text[: found.end()] + found.group() * chance.choice([1, 2, 50]) + text[found.end() :]


def with_entities(text, chance):
    bomb = '<!DOCTYPE sbml [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    outside = '<!DOCTYPE sbml [<!ENTITY i SYSTEM "file:///etc/passwd">'
    remote = '<!DOCTYPE sbml SYSTEM "http://localhost:1/x.dtd" [<!ENTITY i "1">'
    declared = chance.choice([bomb, outside, remote]) + "]>"
    return text.replace("?>\n", f"?>\n{declared}", 1).replace('name="', 'name="&i;', 1)


def deep(text, chance):
    depth = chance.choice([50, 1000, 30_000])
    return text.replace("<ci> k </ci>", "<apply><minus/>" * depth + "<ci> k </ci>" + "</apply>" * depth, 1)


def long(text, chance):
    many = chance.choice([1_000, 20_000])
    return text.replace("<ci> k </ci>", "<apply><plus/>" + "<ci> k </ci>" * many + "</apply>", 1)


def composed_of_others(text, chance):
    beside = "model.xml", "no.xml"
    source = chance.choice(["file:///etc/passwd", "/etc/passwd", "../model.xml", "http://localhost:1/x.xml", *beside])
    comp = "http://www.sbml.org/sbml/level3/version1/comp/version1"
    listed = (
        f'<comp:listOfExternalModelDefinitions><comp:externalModelDefinition comp:id="x" comp:source="{source}"/>'
        "</comp:listOfExternalModelDefinitions>"
    )
    text = text.replace('version="2" >', f'version="2" xmlns:comp="{comp}" comp:required="true">')
    return text.replace("</sbml>", f"{listed}</sbml>")


def of_a_package(text, chance):
    package = chance.choice(["arrays", "spatial", "distrib", "qual", "nonsense"])
    space = f"http://www.sbml.org/sbml/level3/version1/{package}/version1"
    return text.replace('version="2" >', f'version="2" xmlns:p="{space}" p:required="true">')


MUTATIONS = [
    truncated, without_a_piece, with_noise, with_another_value, with_another_value, with_another_name,
    with_another_operation, with_a_piece_twice, with_entities, deep, long, composed_of_others, of_a_package,
]  # fmt: skip


@pytest.fixture
def opened(monkeypatch):
    """Names of files that are opened from now on."""
    names: list[str] = []

    def watched(function):
        def call(file, *args, **kwargs):
            names.append(os.fspath(file) if not isinstance(file, int) else "")
            return function(file, *args, **kwargs)

        return call

    monkeypatch.setattr(builtins, "open", watched(builtins.open))
    monkeypatch.setattr(io, "open", watched(io.open))
    monkeypatch.setattr(os, "open", watched(os.open))
    return names


def outcome(path):
    """What reading and simulating a file come to."""
    try:
        gn.read_sbml(path).simulate([0.0, 0.5, 1.0], most_steps=2_000)
    except gn.SbmlError as error:
        assert len(str(error)) < 600
        return "refused"
    return "result"


@pytest.mark.parametrize("count", [39, pytest.param(COUNT, marks=pytest.mark.slow)])
def test_hundreds_of_damaged_files(tmp_path, opened, count):
    whole = sbml.text(*PARTS)
    assert outcome(sbml.write(tmp_path, *PARTS)) == "result"
    chance = random.Random(7)
    path = tmp_path / "model.xml"
    outcomes = []
    for i in range(count):
        text = MUTATIONS[i % len(MUTATIONS)](whole, chance)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        opened.clear()
        began = time.process_time()
        outcomes.append(outcome(path))
        assert time.process_time() - began < 10
        assert {name for name in opened if name.endswith((".xml", "passwd"))} <= {str(path), str(tmp_path / "no.xml")}
    assert count // 10 < outcomes.count("refused") < count - count // 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: with_entities(text, random.Random(0)), "declares a document type or entities"),
        (
            lambda text: text.replace("<ci> k </ci>", "<apply><minus/>" * 999 + "<ci> k </ci>" + "</apply>" * 999, 1),
            "deep",
        ),
        (lambda text: text[:500], "is not XML"),
        (lambda text: "<html></html>", "is not SBML: it begins with <html>"),
        (lambda text: of_a_package(text, random.Random(0)), "needs the package"),
        (lambda text: text.replace("<model", "<!--" + " " * 20_000_000 + "--><model"), "more than 20 MB"),
    ],
)
def test_what_is_refused_before_it_is_parsed(tmp_path, change, message):
    path = tmp_path / "model.xml"
    path.write_text(change(sbml.text(*PARTS)))
    with pytest.raises(gn.SbmlError, match=message):
        gn.read_sbml(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(gn.SbmlError, match=r"cannot read .*nowhere\.xml"):
        gn.read_sbml(tmp_path / "nowhere.xml")


def test_other_encodings_are_refused(tmp_path):
    path = tmp_path / "model.xml"
    path.write_bytes(sbml.text(*PARTS).encode("utf-16"))
    with pytest.raises(gn.SbmlError, match="not UTF-8"):
        gn.read_sbml(path)
