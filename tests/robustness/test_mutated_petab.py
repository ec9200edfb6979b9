"""PEtab problems that are damaged at random are read, or refused with an error of gpnode."""

from __future__ import annotations

import random
import time

import pytest

import gpnode as gn
from support.petab_problem import write_problem

MUTANTS = 400
LONGEST = 10.0  # seconds
JUNK = [
    "", "nan", "inf", "-1", "1e400", "x" * 300, "((((", "A;B", ";", "__import__('os')", "<xml>", "\x00", "\t", "\n",
    "e", "0", "1_000", "A A", "time", "é", "true", "piecewise(1)", "log(1, 2, 3)", "x/0", "&a", "*a", "../model.xml",
]  # fmt: skip


def mutate(content: bytes, table: bool, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    kind = rng.randrange(5)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + rng.choice(JUNK).encode() + content[at:]
    if kind == 2:
        return content[:at] + content[at + rng.randrange(1, 40) :]
    if kind == 3 and table:
        rows = [row.split("\t") for row in content.decode(errors="replace").split("\n")]
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(JUNK)
        return "\n".join("\t".join(row) for row in rows).encode()
    words = content.split() or [b"x"]
    return content.replace(rng.choice(words), rng.choice(words), 1)


@pytest.mark.slow
def test_damaged_problems_are_read_or_refused(tmp_path):
    rng = random.Random(0)
    refused = 0
    for _ in range(MUTANTS):
        file = write_problem(tmp_path)
        for _ in range(rng.choice([1, 1, 2])):
            chosen = rng.choice(sorted(tmp_path.iterdir()))
            chosen.write_bytes(mutate(chosen.read_bytes(), chosen.suffix == ".tsv", rng))
        begun = time.perf_counter()
        try:
            gn.read_petab(file)
        except gn.GpnodeError as error:
            assert str(error)
            refused += 1
        assert time.perf_counter() - begun < LONGEST
    assert 0 < refused < MUTANTS
