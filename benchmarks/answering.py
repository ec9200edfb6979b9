"""How soon the command line answers, in units of ``python -c "import numpy"``, alternating, the least of several.

python benchmarks/answering.py
"""

from __future__ import annotations

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
        least = dict.fromkeys(("import numpy", *COMMANDS), float("inf"))
        for _ in range(ROUNDS):
            least["import numpy"] = min(least["import numpy"], _seconds(["-c", "import numpy"], folder))
            for name, arguments in COMMANDS.items():
                least[name] = min(least[name], _seconds(["-m", "gpnode_command", *arguments], folder))
    unit = least["import numpy"]
    for name, seconds in least.items():
        print(f"  {name:<26} {seconds:6.2f} s  {seconds / unit:6.1f}")
    return {name: {"seconds": seconds, "ratio": seconds / unit} for name, seconds in least.items()}


def _seconds(arguments: list[str], folder: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, check=False)
    return time.perf_counter() - begun


if __name__ == "__main__":
    run()
