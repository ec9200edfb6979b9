"""PEtab as a file format of the command line."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from gpnode.errors import FileFormatError
from gpnode.formats.base import Format, ProblemFile
from gpnode.formats.petab.reading import PetabProblem
from gpnode.formats.petab.tables import file_beside, read_yaml


class PetabYaml(Format):
    """A PEtab problem by its YAML file, version 1 or 2."""

    name: ClassVar[str] = "petab"
    suffixes: ClassVar[tuple[str, ...]] = (".yaml", ".yml")

    def read(self, path: Path) -> ProblemFile:
        problem = PetabProblem.read(path)
        content = read_yaml(path)
        files = [str(file.relative_to(path.parent.resolve())) for file in _files(content, path.parent)]
        return ProblemFile(
            data=problem.data,
            model=problem.model,
            format=PetabYaml(),
            content={"yaml": path.name, "files": files},
            folder=path.parent,
        )

    def write(self, problem: ProblemFile, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in problem.content["files"]:
            target = folder / name
            if target.name == "problem.yaml" and target.parent == folder:
                raise FileFormatError("a table of a PEtab problem cannot be called problem.yaml. Rename it.")
            _copy(problem.folder / name, target)
        _copy(problem.folder / problem.content["yaml"], folder / "problem.yaml")


def _copy(source: Path, target: Path) -> None:
    if source.resolve() != target.resolve():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _files(content: dict[str, Any], folder: Path) -> Iterator[Path]:
    """All files that a problem needs."""
    for name in dict.fromkeys(_names(content)):
        yield file_beside(folder, name, "file")


def _names(content: dict[str, Any]) -> Iterator[str]:
    listed = content.get("parameter_file") or []
    yield from listed if isinstance(listed, list) else [listed]
    places = [content, *(content.get("problems") or [])]
    kinds = ("sbml", "condition", "measurement", "observable", "parameter", "experiment", "mapping")
    for place in places:
        for kind in kinds:
            yield from place.get(f"{kind}_files") or []
    yield from (model["location"] for model in (content.get("model_files") or {}).values())
