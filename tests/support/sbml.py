"""SBML files for tests, from formulas as text."""

from __future__ import annotations

from pathlib import Path

CORE = 'xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2"'


def math(formula: str) -> str:
    """MathML of a formula in the notation of libsbml."""
    import libsbml

    tree = libsbml.parseL3Formula(formula)
    assert tree is not None, libsbml.getLastParseL3Error()
    return libsbml.writeMathMLToString(tree).split("?>\n", 1)[1]


def attributes(**values) -> str:
    return " ".join(f'{name}="{value}"' for name, value in values.items())


def compartment(id, size=1, constant="true", **more):
    return (
        "compartment",
        f"<compartment {attributes(id=id, size=size, constant=constant, spatialDimensions=3, **more)}/>",
    )


def species(id, *, within="c", amounts="false", boundary="false", constant="false", **more):
    given = attributes(
        id=id, compartment=within, hasOnlySubstanceUnits=amounts, boundaryCondition=boundary, constant=constant, **more
    )
    return "species", f"<species {given}/>"


def parameter(id, value=None, constant="true"):
    given = {} if value is None else {"value": value}
    return "parameter", f"<parameter {attributes(id=id, constant=constant, **given)}/>"


def rule(kind, variable, formula):
    """``kind`` is assignment, rate or algebraic."""
    target = attributes(variable=variable) if variable else ""
    return "rule", f"<{kind}Rule {target}>{math(formula)}</{kind}Rule>"


def initial(symbol, formula):
    return "initialAssignment", f'<initialAssignment symbol="{symbol}">{math(formula)}</initialAssignment>'


def function(id, formula):
    return "functionDefinition", f'<functionDefinition id="{id}">{math(formula)}</functionDefinition>'


def reaction(id, law, reactants=(), products=(), parameters=""):
    def side(name, references):
        listed = "".join(
            f'<speciesReference species="{s}" stoichiometry="{n}" constant="true"/>'
            for s, n in dict(references).items()
        )
        return f"<listOf{name}>{listed}</listOf{name}>" if listed else ""

    local = f"<listOfLocalParameters>{parameters}</listOfLocalParameters>" if parameters else ""
    return "reaction", (
        f'<reaction id="{id}" reversible="false">{side("Reactants", reactants)}{side("Products", products)}'
        f"<kineticLaw>{math(law)}{local}</kineticLaw></reaction>"
    )


def event(id, trigger, changes, *, delay=None, priority=None, persistent="true", before="true", at_trigger="true"):
    made = "".join(f'<eventAssignment variable="{v}">{math(f)}</eventAssignment>' for v, f in changes.items())
    return "event", (
        f'<event id="{id}" useValuesFromTriggerTime="{at_trigger}">'
        f'<trigger initialValue="{before}" persistent="{persistent}">{math(trigger)}</trigger>'
        + (f"<priority>{math(priority)}</priority>" if priority else "")
        + (f"<delay>{math(delay)}</delay>" if delay else "")
        + f"<listOfEventAssignments>{made}</listOfEventAssignments></event>"
    )


_ORDER = (
    ("functionDefinition", "FunctionDefinitions"),
    ("compartment", "Compartments"),
    ("species", "Species"),
    ("parameter", "Parameters"),
    ("initialAssignment", "InitialAssignments"),
    ("rule", "Rules"),
    ("reaction", "Reactions"),
    ("event", "Events"),
)


def text(*parts, model="", root="") -> str:
    """A whole file."""
    lists = []
    for kind, name in _ORDER:
        listed = "".join(part for its_kind, part in parts if its_kind == kind)
        if listed:
            lists.append(f"<listOf{name}>{listed}</listOf{name}>")
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<sbml {CORE} {root}>'
    return f'{head}<model id="m" {model}>{"".join(lists)}</model></sbml>'


def write(folder, *parts, **more) -> Path:
    path = Path(folder) / "model.xml"
    path.write_text(text(*parts, **more))
    return path
