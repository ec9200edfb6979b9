"""An SBML file as a :class:`System`: who determines what, and formulas for all of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpnode.errors import SbmlError
from gpnode.formats.formula import Call, Name, Number, Tree, names_in, replace_names
from gpnode.formats.sbml.algebra import solve_rules
from gpnode.formats.sbml.document import open_document
from gpnode.formats.sbml.happenings import read_happenings
from gpnode.formats.sbml.mathematics import Mathematics
from gpnode.formats.sbml.naming import amount_of, at_start, local, slope_of
from gpnode.formats.sbml.system import Species, System, with_formulas_at_start

_ZERO = Number(0.0)


def read_system(path: str | Path) -> System:
    """What the SBML file at ``path`` says."""
    document = open_document(Path(path))
    return _Reading(document.getModel()).system()


def _listed(elements: Any) -> Iterator[Any]:
    return (elements.get(i) for i in range(elements.size()))


class _Reading:
    """Builds the formulas of one model of libsbml."""

    def __init__(self, model: Any) -> None:
        self.model = model
        _refuse_same_names(model)
        self.maths = Mathematics({f.getId(): f for f in _listed(model.getListOfFunctionDefinitions())})
        self.compartments = {c.getId(): c for c in _listed(model.getListOfCompartments())}
        self.parameters = {p.getId(): p for p in _listed(model.getListOfParameters())}
        self.reactions = {r.getId(): r for r in _listed(model.getListOfReactions())}
        self.of_libsbml = {s.getId(): s for s in _listed(model.getListOfSpecies())}
        self.stoichiometries = {s.getId(): s for r in self.reactions.values() for s in _sides(r) if s.getId()}
        self.species = {name: self._place(name, s) for name, s in self.of_libsbml.items()}
        self.numbers: dict[str, float] = {}
        self.states: list[str] = []
        self.definitions: dict[str, Tree] = {}
        self.assigned, self.rates, algebraic = self._rules()
        starts = _listed(model.getListOfInitialAssignments())
        self.starts = {
            s.getSymbol(): self.maths.tree(s.getMath(), f"the initial assignment of {s.getSymbol()!r}")
            for s in starts
            if s.getMath() is not None
        }
        self.happenings = read_happenings(model, self.maths)
        self.changed = {target for happening in self.happenings for target in happening.changes}
        self._refuse_strange_targets()
        self.laws = {name: tree for name, r in self.reactions.items() if (tree := self._law(r)) is not None}
        if algebraic:
            self.assigned |= solve_rules(algebraic, self._unknowns(), {**self.assigned, **self.laws})
        self.varying = {c for c in self.compartments if c in {*self.assigned, *self.rates, *self.changed}}

    def system(self) -> System:
        for name, compartment in self.compartments.items():
            self._define(name, compartment.getSize())
        for name, parameter in self.parameters.items():
            self._define(name, parameter.getValue())
        for name, reference in self.stoichiometries.items():
            self._define(name, _stoichiometry(reference))
        self.definitions |= self.laws
        moving = self._reaction_slopes()
        for name in self.species:
            self._define_species(name, moving.get(name))
        self._define_rates_of_change()
        definitions = with_formulas_at_start(self.numbers, self.states, self.definitions)
        system = System(
            self.numbers,
            tuple(self.states),
            definitions,
            self.species,
            tuple(self.compartments),
            tuple(self.reactions),
            tuple(happening.of_states(self.states, self.species) for happening in self.happenings),
        )
        system.order(system.definitions)  # refuses what is undefined or goes in circles
        for happening in system.happenings:
            happening.check(system)
        return system

    # -- what determines what --------------------------------------------------------------

    def _place(self, name: str, species: Any) -> Species:
        compartment = self.compartments.get(species.getCompartment())
        if compartment is None:
            raise SbmlError(
                f"the species {name!r:.60} is in {species.getCompartment()!r:.60}, which is no compartment."
            )
        flat = compartment.isSetSpatialDimensions() and compartment.getSpatialDimensionsAsDouble() == 0
        return Species(species.getCompartment(), bool(species.getHasOnlySubstanceUnits()) or flat)

    def _rules(self) -> tuple[dict[str, Tree], dict[str, Tree], list[Tree]]:
        assigned: dict[str, Tree] = {}
        rates: dict[str, Tree] = {}
        algebraic: list[Tree] = []
        for rule in _listed(self.model.getListOfRules()):
            if rule.getMath() is None:
                continue  # it says nothing
            if rule.isAlgebraic():
                algebraic.append(self.maths.tree(rule.getMath(), "an algebraic rule"))
                continue
            name = rule.getVariable()
            if name in assigned or name in rates:
                raise SbmlError(f"there are two rules for {name!r:.60}.")
            self._refuse_what_is_no_variable(name, "a rule")
            kind, where = (assigned, "assignment") if rule.isAssignment() else (rates, "rate")
            kind[name] = self.maths.tree(rule.getMath(), f"the {where} rule of {name!r:.60}")
        return assigned, rates, algebraic

    def _refuse_what_is_no_variable(self, name: str, what: str) -> None:
        for kind in (self.compartments, self.parameters, self.of_libsbml, self.stoichiometries):
            if name in kind:
                return
        raise SbmlError(f"{what} is for {name!r:.60}, which is no compartment, species or parameter.")

    def _refuse_strange_targets(self) -> None:
        for name in self.changed:
            self._refuse_what_is_no_variable(name, "an event")
            if name in self.assigned:
                raise SbmlError(f"an event changes {name!r:.60}, which an assignment rule determines at all times.")
        for name in self.starts:
            self._refuse_what_is_no_variable(name, "an initial assignment")
            if name in self.assigned:
                raise SbmlError(f"{name!r:.60} has an initial assignment and an assignment rule. Keep one of them.")

    def _unknowns(self) -> set[str]:
        """What an algebraic rule may determine."""
        reacting = {s.getSpecies() for r in self.reactions.values() for s in _sides(r)}
        determined = {*self.assigned, *self.rates, *self.changed}
        free = {n for n, element in (self.compartments | self.parameters).items() if not element.getConstant()}
        free |= {n for n, reference in self.stoichiometries.items() if not reference.getConstant()}
        free |= {
            n
            for n, s in self.of_libsbml.items()
            if not s.getConstant() and (s.getBoundaryCondition() or n not in reacting)
        }
        return free - determined

    # -- formulas --------------------------------------------------------------------------

    def _define(self, name: str, value: float) -> None:
        """Something that reactions do not change, whose value at the start is ``value`` unless a formula says it."""
        if name in self.assigned:
            self.definitions[name] = self.assigned[name]
            return
        start = self.starts.get(name)
        if name in self.rates or name in self.changed:
            self.states.append(name)
            self.definitions[slope_of(name)] = self.rates.get(name, _ZERO)
            self.definitions[at_start(name)] = Number(value) if start is None else start
        elif start is None:
            self.numbers[name] = value
        else:
            self.definitions[at_start(name)] = start
            self.definitions[name] = Name(at_start(name))

    def _define_species(self, name: str, moving: Tree | None) -> None:
        """The value that formulas mean, and the amount; ``moving`` is what reactions do to the amount."""
        size, is_amount = Name(self.species[name].compartment), self.species[name].is_amount
        varies = self.species[name].compartment in self.varying and not is_amount
        amount = name if is_amount else amount_of(name)
        if not is_amount:
            self.definitions[amount] = Call("times", (Name(name), size))
        if name in self.assigned:
            self.definitions[name] = self.assigned[name]
            return
        self._define_start_of_species(name, amount)
        if name in self.rates:
            self.states.append(name)
            self.definitions[slope_of(name)] = self.rates[name]
        elif moving is not None or name in self.changed:
            moving = _ZERO if moving is None else moving
            state = amount if varies else name
            self.states.append(state)
            by_size = not is_amount and not varies and moving != _ZERO
            self.definitions[slope_of(state)] = Call("divide", (moving, size)) if by_size else moving
            if varies:
                del self.definitions[amount]
                self.definitions[name] = Call("divide", (Name(amount), size))
        elif varies:
            self.definitions[amount] = Name(at_start(amount))
            self.definitions[name] = Call("divide", (Name(amount), size))
        else:
            self.definitions[name] = Name(at_start(name))

    def _define_start_of_species(self, name: str, amount: str) -> None:
        species, size = self.of_libsbml[name], Name(self.species[name].compartment)
        is_amount, given = amount == name, name in self.starts
        if species.isSetInitialConcentration() and species.isSetInitialAmount():
            raise SbmlError(f"the species {name!r:.60} has both an initial amount and an initial concentration.")
        if given:
            self.definitions[at_start(name)] = self.starts[name]
        elif species.isSetInitialConcentration():
            start: Tree = Number(species.getInitialConcentration())
            self.definitions[at_start(name)] = Call("times", (start, size)) if is_amount else start
        else:
            start = Number(species.getInitialAmount() if species.isSetInitialAmount() else math.nan)
            self.definitions[at_start(amount)] = start
            if not is_amount:
                self.definitions[at_start(name)] = Call("divide", (Name(at_start(amount)), size))
        if not is_amount and at_start(amount) not in self.definitions:
            self.definitions[at_start(amount)] = Call("times", (Name(at_start(name)), size))

    def _law(self, reaction: Any) -> Tree | None:
        """The rate of a reaction; None if the file does not say it."""
        name, law = reaction.getId(), reaction.getKineticLaw()
        if reaction.isSetFast() and reaction.getFast():
            raise SbmlError(f"the reaction {name!r:.60} is fast: equilibria that are reached at once are not honoured.")
        if law is None or law.getMath() is None:
            return None
        kept = law.getListOfLocalParameters() if self.model.getLevel() > 2 else law.getListOfParameters()
        own: dict[str, Tree] = {}
        for parameter in _listed(kept):
            if parameter.getId() in own:
                raise SbmlError(f"two parameters of the reaction {name!r:.60} are called {parameter.getId()!r:.60}.")
            own[parameter.getId()] = Name(local(name, parameter.getId()))
            own[slope_of(parameter.getId())] = _ZERO
            self.numbers[local(name, parameter.getId())] = parameter.getValue()
        return replace_names(self.maths.tree(law.getMath(), f"the rate of the reaction {name!r:.60}"), own)

    def _reaction_slopes(self) -> dict[str, Tree]:
        """What reactions do to the amount of each species that they change."""
        terms: dict[str, list[Tree]] = {}
        for name, reaction in self.reactions.items():
            for sign, references in ((-1.0, reaction.getListOfReactants()), (1.0, reaction.getListOfProducts())):
                for reference in _listed(references):
                    target = self.of_libsbml.get(reference.getSpecies())
                    if target is None:
                        raise SbmlError(f"the reaction {name!r:.60} uses {reference.getSpecies()!r:.60}, no species.")
                    free = not target.getBoundaryCondition() and not target.getConstant()
                    if free and name in self.laws:
                        terms.setdefault(target.getId(), []).append(self._term(name, reference, sign))
        slopes: dict[str, Tree] = {}
        for name, added in terms.items():
            if name in self.assigned or name in self.rates:
                raise SbmlError(f"reactions and a rule both determine {name!r:.60}.")
            total = added[0] if len(added) == 1 else Call("plus", tuple(added))
            factor = self.of_libsbml[name].getConversionFactor() or self.model.getConversionFactor()
            slopes[name] = Call("times", (Name(factor), total)) if factor else total
        return slopes

    def _term(self, reaction: str, reference: Any, sign: float) -> Tree:
        """What a reaction does to a species through one reference, with its sign."""
        rate, times = Name(reaction), reference.getStoichiometryMath()
        if times is not None and times.getMath() is not None:
            number: Tree = self.maths.tree(times.getMath(), f"a stoichiometry in the reaction {reaction!r:.60}")
        elif reference.getId():
            number = Name(reference.getId())
        else:
            number = Number(_stoichiometry(reference))
        if isinstance(number, Number):
            value = sign * number.value
            return rate if value == 1.0 else Call("times", (Number(value), rate))
        return Call("times", (number, rate) if sign > 0 else (Number(-1.0), number, rate))

    def _define_rates_of_change(self) -> None:
        """Slopes of what is no state but used as such (rateOf)."""
        trees = [*self.definitions.values(), *(tree for h in self.happenings for tree in h.trees())]
        wanted = {name for tree in trees for name in names_in(tree) if name.endswith("@slope")}
        for name in sorted(wanted - set(self.definitions)):
            asked = name.removesuffix("@slope")
            definition = self.definitions.get(asked)
            if asked in self.numbers or definition == Name(at_start(asked)):
                self.definitions[name] = _ZERO
            elif asked in self.species and asked not in self.assigned:
                compartment = self.species[asked].compartment
                change, shrinking = Name(slope_of(amount_of(asked))), Name(slope_of(compartment))
                if slope_of(amount_of(asked)) not in self.definitions:
                    change = _ZERO  # type: ignore[assignment]
                diluted = Call("minus", (change, Call("times", (Name(asked), shrinking))))
                self.definitions[name] = Call("divide", (diluted, Name(compartment)))


def _refuse_same_names(model: Any) -> None:
    """Identifiers are of one thing each, and all but references to species have one."""
    met: set[str] = set()
    for elements in (
        model.getListOfFunctionDefinitions(),
        model.getListOfCompartments(),
        model.getListOfSpecies(),
        model.getListOfParameters(),
        model.getListOfReactions(),
    ):
        for element in _listed(elements):
            if not element.getId():
                raise SbmlError(f"a {element.getElementName()} has no identifier.")
            _meet(element.getId(), met)
    for reference in (s for r in _listed(model.getListOfReactions()) for s in _sides(r)):
        if reference.getId():
            _meet(reference.getId(), met)
    symbols: set[str] = set()
    for assignment in _listed(model.getListOfInitialAssignments()):
        if assignment.getSymbol() in symbols:
            raise SbmlError(f"there are two initial assignments for {assignment.getSymbol()!r:.60}.")
        symbols.add(assignment.getSymbol())


def _meet(name: str, met: set[str]) -> None:
    if name in met:
        raise SbmlError(f"two things in the file are called {name!r:.60}.")
    met.add(name)


def _sides(reaction: Any) -> Iterator[Any]:
    yield from _listed(reaction.getListOfReactants())
    yield from _listed(reaction.getListOfProducts())


def _stoichiometry(reference: Any) -> float:
    return float(reference.getStoichiometry()) / (reference.getDenominator() or 1)
