"""The paper's human motion problem: a walk in 50 joint angles, three principal components, a gap in the middle.

The recording is not part of the package: give a CMU motion capture file (``07_02.amc``).
``gpnode study human-motion --amc FILE --case A -o DIR`` runs the study.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import gpnode as gn
from gpnode.errors import DataError
from gpnode.studies import results

STATES = ("x1", "x2", "x3")
MISSING = (33, 48)
"""First frame (counted from zero) left out of the fit, and the first that is not."""
PROCESSES: dict[str, dict[str, Any]] = {
    "paper": {},
    "short": {"kernel": gn.kernels.SquaredExponential(length_scale=gn.LogNormal(-2.0, 0.5))},
    "matern": {"kernel": gn.kernels.Matern32()},
    "short-matern": {"kernel": gn.kernels.Matern32(length_scale=gn.LogNormal(-2.0, 0.5))},
}
"""Priors of the Gaussian process by name; lengths are in units of the record."""
_LEFT_OUT = ("hand", "fingers", "thumb", "toes")  # of both sides
_EVERY = 4
_DRAWS = 4000  # that figures are taken from


@dataclass(frozen=True)
class Recording:
    """Poses (frames, angles), centred, and their map to latent states and back.

    ``latent`` (frames, 3) has unit variance; ``poses`` is about ``latent @ back`` with ``back`` (3, angles).
    """

    poses: np.ndarray
    latent: np.ndarray
    back: np.ndarray
    gap: tuple[int, int] = MISSING

    @property
    def missing(self) -> np.ndarray:
        """Frames whose prediction is judged."""
        return np.arange(*self.gap)

    @property
    def seen(self) -> np.ndarray:
        """Frames the model is fitted to: never those the paper leaves out, whichever gap is judged."""
        return np.setdiff1d(np.arange(len(self.poses)), [*self.missing, *range(*MISSING)])

    def observations(self) -> gn.Observations:
        """The latent states of the seen frames; time is counted in frames."""
        return gn.Observations({s: (self.seen.astype(float), self.latent[self.seen, i]) for i, s in enumerate(STATES)})

    def rmse(self, latent: np.ndarray, frames: np.ndarray) -> float:
        """Root mean square error in the space of poses of latent states (frames, 3) at ``frames``."""
        return float(np.sqrt(np.mean((latent @ self.back - self.poses[frames]) ** 2)))


def read_amc(path: str | Path) -> np.ndarray:
    """Every frame's numbers in the file's order of joints (frames, columns), without hands, fingers, thumbs, toes."""
    frames: list[list[float]] = []
    for number, line in enumerate(Path(path).read_text().splitlines(), start=1):
        words = line.split()
        if not words or words[0][0] in "#:":
            continue
        if words[0].isdigit() and len(words) == 1:
            frames.append([])
            continue
        if not frames:
            raise DataError(f"{path}, line {number}: expected a frame number before the first joint.")
        if words[0][1:] not in _LEFT_OUT:
            try:
                frames[-1].extend(float(w) for w in words[1:])
            except ValueError:
                raise DataError(f"{path}, line {number}: expected numbers after the joint {words[0]!r}.") from None
    if not frames or len({len(f) for f in frames}) != 1:
        raise DataError(f"{path} is not a motion capture file: its frames differ in length, or there are none.")
    return np.array(frames)


def record(path: str | Path, leak_free: bool = False, gap: tuple[int, int] = MISSING) -> Recording:
    """Every fourth frame; root positions as differences; centred; three principal components.

    With ``leak_free`` the mean and the components do not come from frames that the paper leaves out.
    """
    frames = read_amc(path)
    poses = frames[: len(frames) // _EVERY * _EVERY : _EVERY].copy()
    poses[:-1, :3] = np.diff(poses[:, :3], axis=0)
    poses[-1, :3] = poses[-2, :3]
    basis = np.delete(poses, slice(*MISSING), axis=0) if leak_free else poses
    poses, basis = poses - basis.mean(axis=0), basis - basis.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(basis.T))
    values, vectors = values[::-1][:3], vectors[:, ::-1][:, :3]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(3)])
    return Recording(poses, poses @ vectors / np.sqrt(values), (vectors * np.sqrt(values)).T, gap)


def model(recording: Recording, case: str, process: str = "paper") -> gn.Model:
    """The paper's dictionaries: ``"A"`` has products of different states, ``"B"`` their squares too."""
    libraries = {"A": gn.polynomial(1, cross=2, constant=True), "B": gn.polynomial(2, constant=True)}
    if case not in libraries:
        raise ValueError(f"case must be A or B; got {case!r}.")
    if process not in PROCESSES:
        raise ValueError(f"process must be one of {', '.join(PROCESSES)}; got {process!r}.")
    start = {s: float(recording.latent[0, i]) for i, s in enumerate(STATES)}
    return gn.paper_priors(gn.Model(gn.Dictionary(STATES, libraries[case]), initial=start, **PROCESSES[process]))


def run(
    output: Path,
    amc: Path,
    case: str = "A",
    seed: int = 0,
    leak_free: bool = False,
    process: str = "paper",
    gap: tuple[int, int] = MISSING,
    draws: int | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Fit from cold, and measure errors in the space of poses for each mode and for all; results go into ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    recording = record(amc, leak_free=leak_free, gap=gap)
    described = model(recording, case, process)
    posterior = gn.fit(
        described,
        recording.observations(),
        method=gn.Lifted(draws=draws),
        seed=seed,
        progress=progress,
        checkpoint=results.unfinished(output),
    )
    posterior.save(output / "posterior.nc")
    results.save_table(output, posterior)
    modes = posterior.modes()
    figures: dict[str, Any] = {
        "study": "human-motion",
        "case": case,
        "leak_free": leak_free,
        "process": process,
        "gap": list(gap),
        "seed": seed,
        "convergence": results.convergence(posterior),
        "floor_of_three_components": {
            "seen": recording.rmse(recording.latent[recording.seen], recording.seen),
            "missing": recording.rmse(recording.latent[recording.missing], recording.missing),
        },
        "log_density_of_starts": [m["log_density"] for m in posterior.record.start.maxima],
        "all": evaluate(posterior, recording),
        "modes": [
            {"weight": weight, "standard_error": error, **results.agreement(mode), **evaluate(mode, recording)}
            for mode, weight, error in zip(modes, *posterior.mode_weights, strict=True)
            if len(modes) > 1
        ],
    }
    frames = np.arange(len(recording.poses), dtype=float)
    dense = np.linspace(0.0, frames[-1], 4 * len(frames) - 3)
    truth = {s: np.interp(dense, frames, recording.latent[:, i]) for i, s in enumerate(STATES)}
    axes = gn.plots.paths(gn.forecast(posterior, dense), posterior.data, truth=truth, whole_paths=True)
    results.save_figure(output, "experiments", axes)
    results.save_figure(output, "coefficients", gn.plots.coefficients(posterior))
    results.save_figure(output, "inclusion", gn.plots.inclusion(posterior))
    results.save_figure(output, "residuals", gn.plots.residuals(posterior))
    results.save_chain_figures(output, posterior, [n for n, _ in posterior.scalars()][:8])
    results.write_results(output, figures, _table(figures))
    return figures


def evaluate(posterior: gn.Posterior, recording: Recording) -> dict[str, Any]:
    """Errors in the space of poses on seen and missing frames, and coverage in the latent space."""
    frames = np.arange(len(recording.poses))
    plain, noisy = (
        gn.forecast(posterior, frames.astype(float), noise=noise, max_draws=_DRAWS) for noise in (False, True)
    )
    # The mean of expected paths is that of paths, with less Monte Carlo error.
    mean = plain.expected.mean("draw").to_numpy()
    return {
        part: {
            "rmse_per_draw": _per_draw(plain.states, recording, chosen),
            "rmse_expected_path_per_draw": _per_draw(plain.expected, recording, chosen),
            "rmse_mean_path": recording.rmse(mean[chosen], chosen),
            "rmse_map_path": recording.rmse(plain.map_path.to_numpy()[chosen], chosen),
            "rmse_ode_alone": recording.rmse(plain.ode.mean("draw").to_numpy()[chosen], chosen),
            "coverage_95": _latent_coverage(plain, recording, chosen),
            "coverage_95_with_noise": _latent_coverage(noisy, recording, chosen),
            "coverage_95_whole_path_with_noise": _latent_coverage(noisy, recording, chosen, "whole_path"),
        }
        for part, chosen in (("seen", recording.seen), ("missing", recording.missing))
    }


def _table(figures: dict[str, Any]) -> str:
    """Errors and coverage of all draws and of each mode, as text."""
    modes = [(f"mode {i + 1}, {m['weight']:.1%} of the draws", m) for i, m in enumerate(figures["modes"])]
    head = (
        "RMSE in joint angles, and part of the latent states inside 95 % bands with noise: those of each frame by "
        "itself,\nand those of whole paths."
    )
    parts = [
        results.columns(
            [_row(f"{part} frames", name, errors[part]) for name, errors in [("all draws", figures["all"]), *modes]]
        )
        for part in ("seen", "missing")
    ]
    return "\n\n".join([head, *parts])


def _row(part: str, name: str, figures: dict[str, Any]) -> dict[str, str]:
    """One line of :func:`_table`."""
    return {
        part: name,
        "a draw": "{mean:.2f} ± {std:.2f}".format(**figures["rmse_per_draw"]),
        "mean path": f"{figures['rmse_mean_path']:.3f}",
        "equations alone": f"{figures['rmse_ode_alone']:.3f}",
        "each frame": f"{figures['coverage_95_with_noise']:.0%}",
        "whole paths": f"{figures['coverage_95_whole_path_with_noise']:.0%}",
    }


def _per_draw(paths: xr.DataArray, recording: Recording, frames: np.ndarray) -> dict[str, float]:
    """Mean and standard deviation over draws of the error of each one's path (draw, time, state)."""
    errors = [recording.rmse(draw[frames], frames) for draw in paths.to_numpy()]
    return {"mean": float(np.mean(errors)), "std": float(np.std(errors))}


def _latent_coverage(paths: gn.Forecast, recording: Recording, frames: np.ndarray, kind: str = "pointwise") -> float:
    """Part of the latent states that a 95 % band holds; bands of whole paths are those over ``frames``."""
    there = replace(paths, states=paths.states.isel(time=frames))
    return float(np.mean(list(results.coverage(there, recording.latent[frames])[kind].values())))
