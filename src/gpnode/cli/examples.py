"""``gpnode example``: ready problems to start from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpnode.cli.exits import OK, add_command
from gpnode.errors import DataError

# Pelts traded by the Hudson's Bay Company, in thousands.
_PELTS = """year,hare,lynx
1900,30,4
1901,47.2,6.1
1902,70.2,9.8
1903,77.4,35.2
1904,36.3,59.4
1905,20.6,41.7
1906,18.1,19
1907,21.4,13
1908,22,8.3
1909,25.4,9.1
1910,27.1,7.4
1911,40.3,8
1912,57,12.3
1913,76.6,19.5
1914,52.3,45.7
1915,19.5,51.1
1916,11.2,29.7
1917,7.6,15.8
1918,14.6,9.7
1919,16.2,10.1
1920,24.7,8.6"""


def _lynx_hare() -> tuple[str, dict[str, Any]]:
    return _PELTS, {
        "data": {"file": "data.csv", "time": "year", "time_unit": "year"},
        "model": {"equations": ["dhare/dt = alpha*hare - beta*hare*lynx", "dlynx/dt = delta*hare*lynx - gamma*lynx"]},
        "parameters": {
            "alpha": "Normal(1, 0.5)",
            "beta": "Normal(0.05, 0.05)",
            "gamma": "Normal(1, 0.5)",
            "delta": "Normal(0.05, 0.05)",
        },
        "initial": {"hare": "LogNormal(2.3, 1)", "lynx": "LogNormal(2.3, 1)"},
        "kernel": {"kind": "none"},
        "noise": {"std": "LogNormal(-1, 1)"},
        "transform": {"kind": "log"},
        "sampler": {"seed": 0},
    }


def _algae() -> tuple[str, dict[str, Any]]:
    import numpy as np

    rng = np.random.default_rng(1)
    days = np.arange(0.0, 15.0)
    cells = 8.0 / (1.0 + 15.0 * np.exp(-0.9 * days)) * np.exp(0.04 * rng.normal(size=days.size))
    table = "\n".join(["day,algae", *(f"{d:g},{c:.4g}" for d, c in zip(days, cells, strict=True))])
    return table, {
        "data": {"file": "data.csv", "time": "day", "time_unit": "day"},
        "model": {"states": ["algae"], "degree": 3},
        "kernel": {"kind": "none"},
        "noise": {"std": "LogNormal(-3, 1)"},
        "sampler": {"seed": 0},
    }


EXAMPLES = {"lynx-hare": _lynx_hare, "algae": _algae}


def add_commands(commands: Any) -> None:
    """Add ``example``."""
    parser = add_command(
        commands,
        "example",
        "write a ready problem with its data to start from",
        "gpnode example lynx-hare",
        _write,
    )
    parser.add_argument("name", choices=sorted(EXAMPLES), help="lynx-hare: known equations; algae: a dictionary")
    parser.add_argument("-o", "--output", type=Path, help="directory to write into; by default that name")


def _write(options: argparse.Namespace) -> int:
    from gpnode.formats.problem_toml import write_problem

    table, content = EXAMPLES[options.name]()
    folder = options.output or Path(options.name)
    if (folder / "problem.toml").exists():
        raise DataError(f"{folder}/problem.toml is there already. Pass another directory: -o DIRECTORY.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.csv").write_text(table + "\n", encoding="utf-8")
    write_problem(content, folder / "problem.toml")
    print(f"written: {folder}/data.csv and {folder}/problem.toml")
    print(f"next:    gpnode fit {folder}/problem.toml -o {folder}/fit")
    return OK
