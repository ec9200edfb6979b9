"""What an SBML file says, as formulas of numbers, states and time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpnode.errors import SbmlError
from gpnode.formats.formula import Name, Number, Tree, names_in, replace_names
from gpnode.formats.sbml.naming import TIME, amount_of, at_start


@dataclass(frozen=True)
class Species:
    """Where a species is, and whether formulas mean its amount rather than its concentration."""

    compartment: str
    is_amount: bool


@dataclass(frozen=True)
class Happening:
    """An event of the file: what ``changes`` when ``trigger`` turns true, states by name.

    ``delay`` and ``priority`` are formulas or None. It is dropped if the trigger turns false before its time, unless it
    is ``persistent``. ``at_trigger`` says that new values are those of the moment it was triggered.

    States in ``sizes`` are amounts whose new values are concentrations: they are multiplied by the size that their
    compartment has just before. Those that are ``diluted`` are concentrations in a compartment that the event changes,
    too: their amounts stay.
    """

    name: str
    trigger: Tree
    changes: Mapping[str, Tree]
    delay: Tree | None
    priority: Tree | None
    persistent: bool
    true_before: bool
    at_trigger: bool
    sizes: Mapping[str, str] = field(default_factory=dict)
    diluted: Mapping[str, str] = field(default_factory=dict)

    def trees(self) -> Iterator[Tree]:
        """All its formulas."""
        yield self.trigger
        yield from self.changes.values()
        yield from (tree for tree in (self.delay, self.priority) if tree is not None)

    def of_states(self, states: Collection[str], species: Mapping[str, Species]) -> Happening:
        """The same event, with what it does to states rather than to what the file names."""
        changes, sizes, diluted = {}, {}, {}
        for name, tree in self.changes.items():
            by_amount = name not in states and amount_of(name) in states
            changes[amount_of(name) if by_amount else name] = tree
            if by_amount:
                sizes[amount_of(name)] = species[name].compartment
        for name, one in species.items():
            if one.compartment in self.changes and name in states and not one.is_amount:
                changes.setdefault(name, Name(name))
                diluted[name] = one.compartment
        return replace(self, changes=changes, sizes=sizes, diluted=diluted)

    def check(self, system: System) -> None:
        """Refuse formulas with names that are not defined."""
        for tree in self.trees():
            for name in sorted(names_in(tree)):
                system.order([name])


@dataclass(frozen=True)
class System:
    """Numbers, states, and formulas for everything else.

    Parameters
    ----------
    numbers
        What the file says once and nothing changes, by name; anything else may be put in their place.
    states
        What is integrated. The slope of state ``x`` is the definition ``slope_of("x")``, its value at the start
        ``at_start("x")``.
    definitions
        A formula for everything else, by identifier or by a name of :mod:`.naming`. Names in them are those of
        numbers, of states, of other definitions, and ``TIME``.
    species, compartments, reactions
        Which identifiers are what. All of them are numbers, states or definitions.
    happenings
        Events.

    Examples
    --------
    >>> from gpnode.formats.formula import Name, Number
    >>> from gpnode.formats.sbml.system import System
    >>> decay = System({"k": 2.0}, ("x",), {"x@start": Number(1.0), "x@slope": Name("loss"), "loss": Name("k")})
    >>> decay.order(["x@slope"])
    ('loss', 'x@slope')
    """

    numbers: Mapping[str, float]
    states: tuple[str, ...]
    definitions: Mapping[str, Tree]
    species: Mapping[str, Species] | None = None
    compartments: tuple[str, ...] = ()
    reactions: tuple[str, ...] = ()
    happenings: tuple[Happening, ...] = ()

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Everything with an identifier of the file."""
        everything = dict.fromkeys((*self.numbers, *self.states, *self.definitions))
        return tuple(name for name in everything if "@" not in name)

    def order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Definitions that ``names`` need, each after those it needs itself."""
        done: dict[str, None] = {}
        for name in names:
            self._visit(name, done)
        return tuple(done)

    def needed(self, names: Iterable[str]) -> frozenset[str]:
        """All that ``names`` need: numbers, states, definitions, time."""
        ordered = self.order(names)
        return frozenset(names).union(ordered, *(names_in(self.definitions[name]) for name in ordered))

    def with_starts(self, starts: Mapping[str, Tree]) -> System:
        """The same with other formulas for values at the start, by identifier."""
        return replace(
            self, definitions={**self.definitions, **{at_start(name): tree for name, tree in starts.items()}}
        )

    def _visit(self, name: str, done: dict[str, None]) -> None:
        """Depth first, without recursion, for chains of definitions may be long."""
        if name in done or name not in self.definitions:
            self._refuse_unknown(name)
            return
        path: dict[str, Iterator[str]] = {name: iter(sorted(names_in(self.definitions[name])))}
        while path:
            current, waiting = next(reversed(path.items()))
            for needed in waiting:
                if needed in path:
                    circle = [*path][[*path].index(needed) :]
                    raise SbmlError(f"definitions need each other in a circle: {_shown([*circle, needed])}.")
                if needed not in done and needed in self.definitions:
                    path[needed] = iter(sorted(names_in(self.definitions[needed])))
                    break
                self._refuse_unknown(needed, current)
            else:
                del path[current]
                done[current] = None

    def _refuse_unknown(self, name: str, where: str = "") -> None:
        if name in self.definitions or name in self.numbers or name in self.states or name == TIME:
            return
        asked, _, what = name.partition("@")
        user = f"the formula of {_plain(where)} uses" if where else "there is no"
        if what == "slope":
            raise SbmlError(
                f"{user} the rate of change (rateOf) of {asked!r:.60}, which has none that can be computed."
            )
        raise SbmlError(f"{user} {asked!r:.60}, which the file does not define.")


def with_formulas_at_start(
    numbers: Mapping[str, float], states: Iterable[str], definitions: Mapping[str, Tree]
) -> dict[str, Tree]:
    """``definitions`` with, for each of them, the same at the start, unless there is one that says so."""
    states = set(states)
    starting: dict[str, Tree] = {TIME: Number(0.0)}

    def moved(tree: Tree) -> Tree:
        for name in names_in(tree):
            if name not in starting and (name in states or name in definitions or name.endswith("@slope")):
                starting[name] = Name(name if name.endswith("@start") else at_start(name))
        return replace_names(tree, starting)

    complete = {name: moved(tree) if name.endswith("@start") else tree for name, tree in definitions.items()}
    for name, tree in definitions.items():
        if not name.endswith("@start") and at_start(name) not in complete:
            complete[at_start(name)] = moved(tree)
    return complete


def _plain(name: str) -> str:
    first, _, what = name.partition("@")
    words = {
        "start": f"{first!r} at the start",
        "slope": f"the change of {first!r}",
        "amount": f"the amount of {first!r}",
    }
    return words.get(what.split("@")[-1], repr(first))


def _shown(names: list[str]) -> str:
    return " -> ".join(_plain(name) for name in names[:10]) + (" -> ..." if len(names) > 10 else "")
