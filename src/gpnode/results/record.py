"""The record of a fit: how its draws came about, in types, and as JSON in files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpnode.errors import FileFormatError
from gpnode.inference.samplers.base import Method
from gpnode.inference.samplers.registry import METHODS

FORMAT = 2
"""Of records in files. Format 1 lacked the scales of the data and called maxima modes; it is read, too."""
_READABLE = (1, FORMAT)


@dataclass(frozen=True)
class Accuracy:
    """Draws compared with a tight solve: errors of their log densities, in nats, and what these do to means.

    ``largest_shift`` bounds how many standard deviations any mean may be off.
    """

    largest_error: float
    largest_shift: float
    draws: int


@dataclass(frozen=True)
class StartRecord:
    """What the search found, and the problem it ended with.

    ``maxima`` hold log densities and, unless chains began at ends of pilots, log evidences. ``scaling`` has the
    units of the run, ``solver`` the settings its solver had.
    """

    failed_solves: int
    candidates: list[dict[str, Any]]
    maxima: list[dict[str, float]]
    steps: int
    scaling: dict[str, Any]
    piloted: bool = False
    solver: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """How a posterior came about.

    ``method`` and ``settings`` name the sampler; ``draws_made`` counts the draws of each chain before any were left
    out; ``budget`` is the time that was allowed, in seconds, and ``out_of_time`` says that it ended the run;
    ``solver_failures`` and ``warmup_failures`` count failed solves by cause; ``constants`` marks entries of reported
    arrays that are fixed; ``laplace`` has what an approximation knows of itself; ``bridged`` are weights of modes by
    bridge sampling and their standard errors, infinite ones as None.
    """

    method: str
    settings: dict[str, Any]
    seed: int
    fingerprint: str
    model: dict[str, Any]
    start_times: dict[str, float]
    time_unit: str | None
    relative_jitter: float
    start: StartRecord
    accuracy: Accuracy | None
    constants: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    solver_failures: dict[str, int]
    warmup_failures: dict[str, int] = field(default_factory=dict)
    draws_made: list[int] | None = None
    interrupted: bool = False
    budget: float | None = None
    out_of_time: bool = False
    e_bfmi: float | None = None
    laplace: dict[str, Any] | None = None
    bridged: dict[str, list[float | None]] | None = None
    format: int = FORMAT

    def sampler(self) -> Method:
        """The method, with its settings."""
        return METHODS[self.method].from_settings(self.settings)

    def as_dict(self) -> dict[str, Any]:
        """As plain dictionaries, lists and numbers."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), default=float)

    @classmethod
    def from_json(cls, text: str, where: str) -> Record:
        """Read what :meth:`to_json` wrote, of this format or an older one; ``where`` names the file in errors."""
        try:
            content = json.loads(text)
            if content.get("format") not in _READABLE:
                raise FileFormatError(
                    f"{where} has format {content.get('format')}; this version of gpnode reads format "
                    f"{' and '.join(map(str, _READABLE))}."
                )
            start = StartRecord(**_renewed_start(content["start"]))
            accuracy = None if content.get("accuracy") is None else Accuracy(**content["accuracy"])
            return cls(**{**content, "start": start, "accuracy": accuracy, "format": FORMAT})
        except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as error:
            raise FileFormatError(f"{where} has a record that is not one of gpnode's ({error}).") from error


def _renewed_start(start: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a start in today's words."""
    renewed = dict(start)
    if "modes" in renewed:
        renewed["maxima"] = renewed.pop("modes")
    if "time_unit" in renewed:
        renewed["scaling"] = {"time_unit": renewed.pop("time_unit")}
    return renewed
