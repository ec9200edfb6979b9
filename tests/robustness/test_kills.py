"""The command line, killed and interrupted at random moments: nothing is lost, and the draws are the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gpnode as gn
from gpnode import cli
from gpnode.formats.problem_toml import write_problem
from gpnode.formats.runs import load_run

KILLS, INTERRUPTS = (int(os.environ.get(name, n)) for name, n in (("KILLS", "50"), ("INTERRUPTS", "20")))


def write_small_problem(folder: Path, draws: int) -> Path:
    folder.mkdir(exist_ok=True)
    t = np.linspace(0.0, 5.0, 15)
    x = 8.0 * np.exp(-0.5 * t) + 0.2 * np.random.default_rng(0).normal(size=t.size)
    (folder / "data.csv").write_text("\n".join(["time,x", *(f"{a},{b}" for a, b in zip(t, x, strict=True))]))
    content = {
        "data": {"file": "data.csv"},
        "model": {"equations": ["dx/dt = -rate*x"]},
        "parameters": {"rate": "LogNormal(0, 1)"},
        "initial": {"x": "Normal(8, 1)"},
        "kernel": {"kind": "none"},
        "sampler": {"method": "lifted", "draws": draws, "warmup": 1000, "chains": 2},
    }
    write_problem(content, folder / "problem.toml")
    return folder / "problem.toml"


def begin(*arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [Path(sys.executable).with_name("gpnode"), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A run begun in the background of a script would ignore Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def marks(run: Path) -> dict[str, int]:
    """When each file of the checkpoint was written last."""
    files = (run / "checkpoint").glob("*.npz") if run.exists() else ()
    return {p.name: p.stat().st_mtime_ns for p in files}


def stop_at_random(run: Path, problem: Path, how: signal.Signals, rng: random.Random) -> tuple[int, str, bool]:
    """Start or resume the run, stop it at some moment, and tell exit code, output and whether it had ended before."""
    before = marks(run)
    process = begin("resume", run) if before else begin("fit", problem, "-o", run)
    # One life in five ends while it starts; the others after it has written something, in or between chunks.
    if rng.random() < 0.2:
        time.sleep(rng.uniform(1.0, 12.0))
    else:
        while process.poll() is None and marks(run) == before:
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 1.5))
    process.send_signal(how)
    said, _ = process.communicate()
    return process.returncode, said, process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "times", "code"),
    [(signal.SIGKILL, KILLS, -signal.SIGKILL), (signal.SIGINT, INTERRUPTS, 130), (signal.SIGTERM, 3, 143)],
    ids=["kill", "ctrl-c", "term"],
)
def test_stopped_at_random_moments(tmp_path, how, times, code):
    rng = random.Random(1)
    problem = write_small_problem(tmp_path / "problem", draws=40_000)
    whole = tmp_path / "whole"
    assert cli.run(["fit", str(problem), "-o", str(whole), "-q"]) in (0, 2)
    expected = load_run(whole).unconstrained
    stopped = runs = opened = 0
    while stopped < times:
        run = tmp_path / f"run-{runs}"
        runs += 1
        while stopped < times:
            found, said, ended = stop_at_random(run, problem, how, rng)
            if ended:
                break
            if found == 2:  # it had ended, without convergence
                break
            assert found == code or (found == -how and not said), said  # the latter while modules were loading
            stopped += 1
            if how != signal.SIGKILL and found == code and marks(run):
                assert f"gpnode resume {run}" in said
            opened += opens(run, expected)
            print(f"{how.name}: {stopped} of {times}, in run {runs}", flush=True)
        assert cli.run(["resume", str(run), "-q"]) in (0, 2)
        assert np.array_equal(load_run(run).unconstrained, expected)
    assert opened == stopped


def opens(run: Path, expected: np.ndarray) -> bool:
    """Whether the directory opens: with the draws so far, or saying that there are none yet."""
    if not (run / "problem.toml").exists():
        return True  # stopped before anything was written
    try:
        posterior = load_run(run)
    except gn.CheckpointError as error:
        return "no draws yet" in str(error) or "no checkpoint" in str(error)
    except gn.FileFormatError as error:
        return "there is no file" in str(error) and not (run / "checkpoint").exists()
    drawn = posterior.unconstrained.shape[1]
    return np.array_equal(posterior.unconstrained, expected[:, :drawn])
