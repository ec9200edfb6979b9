"""Moves from one form of the equations to another: which terms act changes, and all coefficients with it.

Given which terms act, moves on the surface mix well; given coefficients, which terms act can be drawn. By turns alone,
though, one term takes another's place only if its coefficient grows while the other's shrinks, in many small steps.
Here the change is made at once. Where the path is all but linear in the coefficients, the evidence of every form that
differs by one term, or by two that change places, is known in closed form: one of them is proposed. Coefficients are
then proposed by a rotation by a right angle on the surface of that form, whose end does not depend on where it began.
What is wrong with either guess goes into the acceptance probability, so that the posterior is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gpnode.inference.samplers.lifted.conditioning import PathSurface
from gpnode.inference.samplers.lifted.landing import Landed, land
from gpnode.inference.samplers.lifted.surface import Local, Point, whiten_metric
from gpnode.model.priors.parameters import Components


class Form(NamedTuple):
    """Which component each of the coefficients belongs to, and the widths (n,) of all that moves the path."""

    component: Array
    width: Array


def change_form(path: PathSurface, components: Components, where: np.ndarray, u: Array, key: Array) -> Array:
    """``u``, or a vector with another form. ``where`` are positions of the coefficients among what moves the path."""
    component_key, choice_key, velocity_key, accept_key = jax.random.split(key, 4)
    member = jnp.arange(len(where))

    def form_of(component: Array) -> Form:
        return Form(component, path.width.at[where].set(components.std[component]))

    old = form_of(jax.random.categorical(component_key, components.log_joint(path.theta(u)[where]), axis=-1))
    start = path.surface(old.width).evaluate(path.theta(u) / old.width)
    here = _point(path, start, old.width, path.theta(u))
    chances, changed = _choices(here, old, components, where)
    choice = jax.random.categorical(choice_key, chances)
    new = form_of(changed(choice))
    at = _point(path, _in_units(start, old.width, new.width), new.width, path.theta(u))

    def leg(carry: tuple[Array, Point, Array, Array, Landed]) -> tuple[Array, Point, Array, Array, Landed]:
        """There, on the new form's surface, and from there back, on the old one's."""
        done, at, wanted, width, _ = carry
        settings = path.landing
        landed = land(path.surface(width), at, wanted, jnp.where(done == 0, settings.solved, settings.retraced))

        def arrive() -> tuple[Point, Array]:
            local = _in_units(path.surface(new.width).evaluate(landed.x), new.width, old.width)
            there = _point(path, local, old.width, landed.x * new.width)
            return there, here.x + here.r @ there.slope

        at, wanted = jax.lax.cond((done == 0) & landed.solved, arrive, lambda: (at, wanted))
        return done + 1, at, wanted, old.width, landed

    def unfinished(carry: tuple[Array, Point, Array, Array, Landed]) -> Array:
        done, at, _, _, landed = carry
        return (done < 2) & landed.solved & at.sound

    draw = jax.random.normal(velocity_key, here.x.shape)
    wanted = at.apply_metric(draw @ at.whitener)
    nowhere = Landed(at.x, jnp.asarray(True), at.status.astype(int))
    first = (jnp.asarray(0), at, wanted, new.width, nowhere)
    done, there, wanted_back, _, back = jax.lax.while_loop(unfinished, leg, first)
    retraced = (done == 2) & back.solved & (2.0 * here.kinetic(back.x - here.x) < path.landing.returned**2)

    theta = there.x * old.width
    ended = _point(path, _in_units(there.local, old.width, new.width), new.width, theta)
    back_chances, _ = _choices(ended, new, components, where)
    white_back = there.whitener @ wanted_back
    log_ratio = (
        jnp.sum(components.log_weights[member, new.component] - components.log_weights[member, old.component])
        + _log_density(ended)
        - _log_density(here)
        - 0.5 * (white_back @ white_back + there.log_det)
        + _log_volume(there, here)
        + 0.5 * (draw @ draw + at.log_det)
        - _log_volume(at, ended)
        + jax.nn.log_softmax(back_chances)[_way_back(choice, old, len(where), components.std.size)]
        - jax.nn.log_softmax(chances)[choice]
    )
    accept = retraced & ended.sound & (jnp.log(jax.random.uniform(accept_key)) < log_ratio)
    return jnp.where(accept, path.place(theta), u)


def _point(path: PathSurface, local: Local, width: Array, theta: Array) -> Point:
    """A place on the surface of some width, without what steers: the end of a right angle needs none."""
    whitener, log_det = whiten_metric(local.slope, path.landing.ridge)
    x = theta / width
    excess, _ = path.surface(width).excess(x)
    return Point(x, local, whitener, log_det, excess, jnp.zeros(x.shape))


def _in_units(local: Local, old: Array, new: Array) -> Local:
    """The same place in units of other widths."""
    return local._replace(slope=local.slope * (new / old), inputs_by_x=local.inputs_by_x * (new / old))


def _log_density(at: Point) -> Array:
    return at.excess - 0.5 * (at.x @ at.x + at.r @ at.r)


def _log_volume(at: Point, to: Point) -> Array:
    """Log determinant of the map from where a rotation ends to what was wanted when it began."""
    near = at.whitener @ at.whitener.T + (at.slope @ at.whitener.T).T @ (to.slope @ at.whitener.T)
    return jnp.linalg.slogdet(near)[1] + at.log_det


# -- which form to propose -------------------------------------------------------------------


def _choices(
    at: Point, form: Form, components: Components, where: np.ndarray
) -> tuple[Array, Callable[[Array], Array]]:
    """Logits of all changes of a form, and the map from a change to components.

    First come changes of one coefficient to another component (M * components), then those of two that change places
    (M * M, each pair once). Half of the log evidence ratio, as if residuals were linear, balances there and back.
    """
    m, kinds = len(where), components.std.size
    old, var = form.component, components.std[form.component] ** 2
    cov = at.whitener.T @ at.whitener * jnp.outer(form.width, form.width)
    mean = form.width * at.solve_metric((at.slope @ at.x - at.r) @ at.slope)
    cov, mean = cov[np.ix_(where, where)], mean[where]
    weight = components.log_weights
    now = weight[jnp.arange(m), old]

    other = components.std**2
    change = 1.0 / other - 1.0 / var[:, None]
    spread = 1.0 + change * jnp.diag(cov)[:, None]
    single = -0.5 * (jnp.log(other / var[:, None]) + jnp.log(spread) + change * mean[:, None] ** 2 / spread)
    single = jnp.where(jnp.arange(kinds) == old[:, None], -jnp.inf, single + weight - now[:, None])

    gap = 1.0 / var[None, :] - 1.0 / var[:, None]  # what i gains in precision when it takes j's component
    a, d = 1.0 + gap * jnp.diag(cov)[:, None], 1.0 - gap * jnp.diag(cov)[None, :]
    b, c = gap * cov, -gap * cov
    det = a * d - b * c
    pull_i, pull_j = gap * mean[:, None], -gap * mean[None, :]
    pulled = mean[:, None] * (d * pull_i - b * pull_j) + mean[None, :] * (a * pull_j - c * pull_i)
    taken = weight[:, old] + weight[:, old].T - now[:, None] - now[None, :]
    pair = -0.5 * (jnp.log(det) + pulled / det) + taken
    pair = jnp.where(np.triu(np.ones((m, m), bool), 1) & (old[:, None] != old[None, :]), pair, -jnp.inf)

    logits = 0.5 * jnp.concatenate([single.ravel(), pair.ravel()])

    def changed(choice: Array) -> Array:
        one, two = choice, choice - m * kinds
        i, j = two // m, two % m
        alone = old.at[one // kinds].set(one % kinds)
        exchanged = old.at[i].set(old[j]).at[j].set(old[i])
        return jnp.where(choice < m * kinds, alone, exchanged)

    return jnp.where(jnp.isfinite(logits), logits, -jnp.inf), changed


def _way_back(choice: Array, old: Form, m: int, kinds: int) -> Array:
    """The change that undoes a change."""
    i = choice // kinds
    return jnp.where(choice < m * kinds, i * kinds + old.component[jnp.minimum(i, m - 1)], choice)
