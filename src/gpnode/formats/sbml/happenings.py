"""Events of a file, and what they do to states."""

from __future__ import annotations

from typing import Any

from gpnode.errors import SbmlError
from gpnode.formats.formula import Tree
from gpnode.formats.sbml.mathematics import Mathematics
from gpnode.formats.sbml.system import Happening


def read_happenings(model: Any, maths: Mathematics) -> tuple[Happening, ...]:
    """Events of a model of libsbml, with what they do to whatever they name."""
    happenings = []
    for i in range(model.getNumEvents()):
        event = model.getEvent(i)
        name = event.getId() or f"event {i + 1}"
        where = f"the event {name!r:.60}"
        trigger = event.getTrigger()
        if trigger is None or trigger.getMath() is None:
            continue  # nothing ever triggers it
        changes = {}
        for assignment in (event.getEventAssignment(j) for j in range(event.getNumEventAssignments())):
            if assignment.getVariable() in changes:
                raise SbmlError(f"{where} changes {assignment.getVariable()!r:.60} twice.")
            if assignment.getMath() is not None:
                changes[assignment.getVariable()] = maths.tree(assignment.getMath(), where)

        def formula(part: Any, where: str = where) -> Tree | None:
            return None if part is None or part.getMath() is None else maths.tree(part.getMath(), where)

        happenings.append(
            Happening(
                name,
                maths.tree(trigger.getMath(), where),
                changes,
                formula(event.getDelay()),
                formula(event.getPriority()),
                persistent=not trigger.isSetPersistent() or trigger.getPersistent(),
                true_before=not trigger.isSetInitialValue() or trigger.getInitialValue(),
                at_trigger=not event.isSetUseValuesFromTriggerTime() or event.getUseValuesFromTriggerTime(),
            )
        )
    return tuple(happenings)
