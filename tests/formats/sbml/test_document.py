"""SBML files of all levels, and those that are put together from others."""

from __future__ import annotations

import numpy as np
import pytest

import gpnode as gn

pytest.importorskip("libsbml", reason="needs python-libsbml")

from support import sbml

COMP = "http://www.sbml.org/sbml/level3/version1/comp/version1"
DECAY = [
    sbml.parameter("x", 2, constant="false"),
    sbml.parameter("k", 0.5),
    sbml.rule("rate", "x", "-k*x"),
]


def whole(source="decay.xml"):
    """A model whose only content is another one, with another value of k."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" '
        f'version="1" xmlns:comp="{COMP}" comp:required="true"><model id="whole"><listOfParameters>'
        '<parameter id="rate" value="2" constant="true"><comp:listOfReplacedElements>'
        '<comp:replacedElement comp:submodelRef="part" comp:idRef="k"/></comp:listOfReplacedElements></parameter>'
        '</listOfParameters><comp:listOfSubmodels><comp:submodel comp:id="part" comp:modelRef="outside"/>'
        "</comp:listOfSubmodels></model><comp:listOfExternalModelDefinitions>"
        f'<comp:externalModelDefinition comp:id="outside" comp:source="{source}"/>'
        "</comp:listOfExternalModelDefinitions></sbml>"
    )


def part():
    return sbml.text(*DECAY).replace("level3/version2", "level3/version1").replace('version="2"', 'version="1"')


def test_models_are_put_together_from_files_beside_them(tmp_path):
    (tmp_path / "whole.xml").write_text(whole())
    (tmp_path / "decay.xml").write_text(part())
    file = gn.read_sbml(tmp_path / "whole.xml")
    assert file.states == ("part__x",)
    times = [0.0, 1.0]
    assert np.allclose(file.simulate(times)["part__x"], 2 * np.exp(-2 * np.array(times)))


@pytest.mark.parametrize("source", ["../decay.xml", "/etc/passwd", "file:///etc/passwd", "http://localhost:1/x.xml"])
def test_no_file_elsewhere_is_read(tmp_path, source):
    (tmp_path / "decay.xml").write_text(part())
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "whole.xml").write_text(whole(source))
    with pytest.raises(gn.SbmlError, match="only files beside it are read"):
        gn.read_sbml(folder / "whole.xml")


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    (tmp_path / "decay.xml").write_text(part())
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "decay.xml").symlink_to(tmp_path / "decay.xml")
    (folder / "whole.xml").write_text(whole())
    with pytest.raises(gn.SbmlError, match="only files beside it are read"):
        gn.read_sbml(folder / "whole.xml")


def test_files_in_circles_and_missing_ones_are_named(tmp_path):
    (tmp_path / "whole.xml").write_text(whole())
    with pytest.raises(gn.SbmlError, match=r"cannot read .*decay\.xml"):
        gn.read_sbml(tmp_path / "whole.xml")
    (tmp_path / "decay.xml").write_text(whole("whole.xml"))
    with pytest.raises(gn.SbmlError):
        gn.read_sbml(tmp_path / "whole.xml")


def test_level_1_has_its_formulas_as_text(tmp_path):
    path = tmp_path / "old.xml"
    path.write_text(
        '<sbml xmlns="http://www.sbml.org/sbml/level1" level="1" version="2"><model name="m">'
        '<listOfCompartments><compartment name="c" volume="2"/></listOfCompartments><listOfSpecies>'
        '<species name="S" compartment="c" initialAmount="8"/><species name="P" compartment="c" initialAmount="0"/>'
        '</listOfSpecies><listOfParameters><parameter name="k" value="0.5"/><parameter name="sum"/></listOfParameters>'
        '<listOfRules><parameterRule name="sum" formula="S + 2*P"/></listOfRules><listOfReactions><reaction name="R">'
        '<listOfReactants><speciesReference species="S" stoichiometry="2"/></listOfReactants><listOfProducts>'
        '<speciesReference species="P"/></listOfProducts><kineticLaw formula="c*k*S/2"/></reaction></listOfReactions>'
        "</model></sbml>"
    )
    found = gn.read_sbml(path).simulate([0.0, 1.0])
    assert np.allclose(found["S"], [4, 4 * np.exp(-0.5)])
    assert np.allclose(found["sum"], 4)


def test_what_has_no_path_is_refused(tmp_path):
    fbc = "http://www.sbml.org/sbml/level3/version1/fbc/version2"
    text = part().replace('version="1" >', f'version="1" xmlns:fbc="{fbc}" fbc:required="false">')
    objective = (
        '<fbc:listOfObjectives fbc:activeObjective="o"><fbc:objective fbc:id="o" fbc:type="maximize">'
        '<fbc:listOfFluxObjectives><fbc:fluxObjective fbc:reaction="R" fbc:coefficient="1"/></fbc:listOfFluxObjectives>'
        "</fbc:objective></fbc:listOfObjectives>"
    )
    (tmp_path / "a.xml").write_text(
        text.replace("</model>", f"{objective}</model>").replace("<model ", '<model fbc:strict="true" ')
    )
    with pytest.raises(gn.SbmlError, match="flux balance"):
        gn.read_sbml(tmp_path / "a.xml")
