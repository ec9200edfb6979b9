"""Settings of the lifted sampler: each number that matters is a field with a sentence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Moves:
    """What a round does. Sizes adapt between their bounds while warming up."""

    angle_bounds: tuple[float, float] = (0.02, 1.6)
    """Of one rotation. Where all is normal, the end of a turn by a right angle is independent of its start."""
    turn_bounds: tuple[float, float] = (0.05, 1.6)
    """Of all rotations of a move."""
    stride_bounds: tuple[float, float] = (1e-3, 10.0)
    """Of a step of the hyperparameters."""
    first_sizes: tuple[float, float, float] = (0.8, 1.0, 0.5)
    """Angle, turn and stride before anything is known: large, because failures teach faster than successes."""
    jitter: tuple[float, float] = (0.7, 1.1)
    """Each round takes its sizes times a random factor between these."""
    most_rotations: int = 24
    """In a move."""
    rotations_a_round: int = 4
    """Moves are repeated until a round has so many rotations, so that it is worth its overhead."""
    small_chance: float = 0.2
    """How often a round takes small steps: in narrow places the usual ones fail, and a chain would stay for long."""
    small_factor: float = 0.25
    """How small they are."""
    hyper_depth: int = 4
    """Depth of the tree of a move of the hyperparameters."""
    divergence: float = 1000.0
    """A move whose energy is off by more has diverged."""


@dataclass(frozen=True)
class Landing:
    """How a rotation comes back to the surface. Distances are in units of the posterior's own width."""

    most_iterations: int = 12
    """Of Broyden's method, and of Newton's."""
    near: float = 1.0
    """A step of Newton's method that is this short leaves the rest to Broyden's."""
    lost: float = 1e7
    """A step this long says that there is no way back."""
    solved: float = 1e-6
    """How exactly a rotation lands."""
    retraced: float = 1e-4
    """How exactly the way back is solved: it need only show that it leads to the same place."""
    returned: float = 1e-3
    """How near the way back must come to where it began."""
    ridge: float = 1e-14
    """Of the trace of a metric that is singular to machine precision, added to it: more than its rounding errors."""


@dataclass(frozen=True)
class Adaptation:
    """How step sizes find themselves while warming up, and when a chain warms up again."""

    landed: float = 0.95
    """Part of moves that are to land: a rotation may be as large as that allows."""
    path_accept: float = 0.4
    """Acceptance that turns aim at: they are like steps of a random walk, best when many are refused."""
    hyper_accept: float = 0.85
    """Acceptance that strides aim at."""
    windows: tuple[int, ...] = (8, 4, 2)
    """The shape of hyperparameter moves is made anew after these fractions, one over each, of the warm-up."""
    old_weight: float = 10.0
    """Points that the old shape counts for when a new one is made: few points know little."""
    widest: float = 1.0
    """Of the first shape, on the unconstrained scale: a flat spot at the maximum says nothing of its edge."""
    memory: int = 50
    """Rounds over which the mean log density and the part that diverged are averaged."""
    climbed: float = 3.0
    """A chain that has risen by so many standard deviations of a normal log density is elsewhere: warm up again."""
    diverging: float = 0.05
    """So is one of which more than this part of the rounds diverges ..."""
    most_retuned: int = 3
    """... but not more often than this: chains may go to and fro for ever."""
