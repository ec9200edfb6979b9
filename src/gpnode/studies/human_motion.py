"""The paper's human motion problem: a walk in 50 joint angles, three principal components, a gap in the middle.

The recording is not part of the package: give a CMU motion capture file (``07_02.amc``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..data import Observations
from ..dynamics import Dictionary, polynomial
from ..errors import DataError
from ..model import Model

STATES = ("x1", "x2", "x3")
MISSING = slice(33, 48)
"""Frames (counted from zero) left out of the fit."""
_LEFT_OUT = ("hand", "fingers", "thumb", "toes")  # of both sides
_EVERY = 4


@dataclass(frozen=True)
class Recording:
    """Poses (frames, angles), centred, and their map to latent states and back.

    ``latent`` (frames, 3) has unit variance; ``poses`` is about ``latent @ back`` with ``back`` (3, angles).
    """

    poses: np.ndarray
    latent: np.ndarray
    back: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        """Frames the model is fitted to."""
        return np.setdiff1d(np.arange(len(self.poses)), np.arange(MISSING.start, MISSING.stop))

    def observations(self) -> Observations:
        """The latent states of the seen frames; time is counted in frames."""
        return Observations({s: (self.seen.astype(float), self.latent[self.seen, i]) for i, s in enumerate(STATES)})

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


def record(path: str | Path, leak_free: bool = False) -> Recording:
    """Every fourth frame; root positions as differences; centred; three principal components.

    With ``leak_free`` the mean and the components come from the seen frames only.
    """
    frames = read_amc(path)
    poses = frames[: len(frames) // _EVERY * _EVERY : _EVERY].copy()
    poses[:-1, :3] = np.diff(poses[:, :3], axis=0)
    poses[-1, :3] = poses[-2, :3]
    basis = np.delete(poses, MISSING, axis=0) if leak_free else poses
    poses, basis = poses - basis.mean(axis=0), basis - basis.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(basis.T))
    values, vectors = values[::-1][:3], vectors[:, ::-1][:, :3]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(3)])
    return Recording(poses, poses @ vectors / np.sqrt(values), (vectors * np.sqrt(values)).T)


def model(recording: Recording, case: str) -> Model:
    """The paper's dictionaries: ``"A"`` has products of different states, ``"B"`` their squares too."""
    libraries = {"A": polynomial(1, cross=2, constant=True), "B": polynomial(2, constant=True)}
    if case not in libraries:
        raise ValueError(f"case must be A or B; got {case!r}.")
    start = {s: float(recording.latent[0, i]) for i, s in enumerate(STATES)}
    return Model(Dictionary(STATES, libraries[case]), initial=start)
