"""How soon the command line answers, in units of ``python -c "import numpy"``, alternating, the least of several.

Two times each: by the clock, and what all processors together spent (user and system), which other work on the machine
hardly changes. Commands on a fit are asked twice: for the first time, when nothing is kept beside it, and again.

python benchmarks/answering.py
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
COMMANDS = {
    "help": ["--help"],
    "help of a command": ["fit", "--help"],
    "usage error": ["ftt"],
    "a table that is refused": ["check", "bad.csv"],
}
OF_A_FIT = {
    "equations of a fit": ["export", "fit", "--latex"],
    "its verdict": ["diagnose", "fit"],
    "a forecast": ["forecast", "fit", "--until", "6", "-o", "ahead.csv"],
    "its report": ["report", "fit"],
}
FIT = ["fit", "good.csv", "-q", "--method", "laplace", "-o", "fit"]


def run() -> dict[str, dict[str, float]]:
    """Seconds and ratios of each command."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bad.csv").write_text("time,x\n0,1\n1,two\n2,3\n")
        rows = "".join(f"{t / 4},{3 * 0.7 ** (t / 4) + 0.05 * (-1) ** t:.4f}\n" for t in range(20))
        Path(folder, "good.csv").write_text(f"time,x\n{rows}")
        _seconds(["-m", "gpnode_command", *FIT], folder)
        assert Path(folder, "fit", "posterior.nc").exists(), "there is no fit to ask for anything"
        least: dict[str, tuple[float, float]] = {}

        def measure(name: str, arguments: list[str]) -> None:
            taken = _seconds(arguments, folder)
            best = least.get(name, taken)
            least[name] = (min(best[0], taken[0]), min(best[1], taken[1]))

        for _ in range(ROUNDS):
            measure("import numpy", ["-c", "import numpy"])
            for name, arguments in COMMANDS.items():
                measure(name, ["-m", "gpnode_command", *arguments])
            for name, arguments in OF_A_FIT.items():
                shutil.rmtree(Path(folder, "fit", "answers"), ignore_errors=True)
                measure(f"{name}, first", ["-m", "gpnode_command", *arguments])
                measure(f"{name}, again", ["-m", "gpnode_command", *arguments])
    clock, spent = least["import numpy"]
    print(f"  {'':<28} {'by the clock':>19} {'of processors':>19}")
    for name, (seconds, cpu) in least.items():
        print(f"  {name:<28} {seconds:8.2f} s {seconds / clock:8.1f} {cpu:8.2f} s {cpu / spent:8.1f}")
    return {
        name: {"seconds": seconds, "ratio": seconds / clock, "cpu_seconds": cpu, "cpu_ratio": cpu / spent}
        for name, (seconds, cpu) in least.items()
    }


def _seconds(arguments: list[str], folder: str) -> tuple[float, float]:
    """By the clock, and of processors."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, check=False)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    run()
