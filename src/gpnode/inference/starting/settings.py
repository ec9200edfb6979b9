"""Settings of the search for a start, and of pilot chains."""

from __future__ import annotations

from dataclasses import dataclass

_EIGHTHS = tuple(i / 8 for i in range(1, 9))


@dataclass(frozen=True)
class Search:
    """How the right basin is found from cold."""

    ways_up: tuple[tuple[float, tuple[float, ...]], ...] = (
        (1.0, _EIGHTHS),
        (0.3, (0.25, 0.5, 0.75, 1.0)),
        (1.0, (0.3, 0.6, 1.0)),
        (0.1, (0.3, 0.6, 1.0)),
        (0.3, (0.3, 0.6, 1.0)),
        (1.0, (0.25, 0.5, 0.75, 1.0)),
    )
    """Strengths of the ridge while matching slopes (1 is the prior's own width), and the parts of the record over
    which the path is then matched. Ways fail on different data; the search stops at the first that fits."""
    shooting_widths: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03)
    """Ridges, in prior widths, of the matched slopes that multiple shooting begins with."""
    horizons: tuple[float, ...] = _EIGHTHS
    """Parts of the record over which a path is matched from a prior draw."""
    slope_points: int = 150
    """Of each experiment, at which slopes are matched."""
    prior_pool: int = 256
    """Prior draws that tell the centre and width of the ridge."""
    prior_starts: int = 12
    """Prior draws that paths are matched from, at most."""
    agreeing_starts: int = 3
    """The search ends when so many of them reach the same misfit."""
    fits_below: float = 1.5
    """Misfit per measurement below which a path follows the data: noise alone leaves a half."""
    flexible_widths: tuple[float, ...] = (1.0, 0.1, 0.03)
    """Ridges, in prior widths, of starts that let a Gaussian process take up what the path misses."""
    flexible_lengths: tuple[float, ...] = (0.03, 0.4)
    """Length scales of these processes, in records; a variable left to its process has the first."""
    flexible_variance: float = 0.1
    """Their variance, in scaled units."""
    most_left_alone: int = 5
    """Observables, for each to be left to its process once."""
    most_maxima: int = 3
    """Starts that are climbed from, and maxima that are kept."""
    negligible: float = 10.0
    """A maximum this many nats below the best, by Laplace's evidence, is left out."""
    same_maximum: float = 3.0
    """Maxima closer than this many standard deviations, per square root of dimension, are the same."""


@dataclass(frozen=True)
class Piloting:
    """Short chains from every start, which show where the mass is."""

    block: int = 200
    """Steps of a chain between comparisons."""
    most_blocks: int = 10
    """How often chains go on."""
    hopeless: float = 1.0
    """Nats per parameter behind the best at which a chain is dropped: a region that has the same mass all the same
    would have to be wider by a factor of e in every direction."""
    nearer: float = 2 / 3
    """Chains begin in places within this part of what is far behind: farther ones hold chains up for long."""
    rising: float = 3.0
    """Nats gained in a block by a chain that is still on its way."""
    thinned: int = 10
    """One draw in so many is kept of a place."""
    apart: float = 3.0
    """Places differ if in some coordinate their means are so many standard deviations apart."""
    most_places: int = 3
    """Places that chains begin in."""
    pinned_lengths: tuple[float, float] = (0.04, 1.0)
    """Length scales, in records, of the process that a pilot is kept to, and of all others."""
    pinned_std: float = 0.25
    """How closely it is kept to them, on the log scale."""
    pinned_blocks: int = 3
    """For how long."""
    most_cuts: int = 4
    """Steps, for every one of the grid, that a solve may take: places that need more are about to blow up."""
