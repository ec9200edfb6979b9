"""SBML files, opened with care: nothing is expanded, fetched or read but what the file is, and its size is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any
from xml.parsers import expat

from gpnode.errors import SbmlError

MOST_BYTES = 20_000_000
_MOST_ELEMENTS = 300_000
_DEEPEST = 250
_MOST_FILES = 50  # that models are put together from
_HONOURED = {"comp", "l3v2extendedmath"}
_CORE = "http://www.sbml.org/sbml/level"


def libsbml_module() -> ModuleType:
    """The library that reads SBML; one line says how to install it."""
    try:
        import libsbml
    except ImportError:
        raise SbmlError("reading SBML needs python-libsbml. Install it: pip install 'gpnode[petab]'.") from None
    return libsbml


def open_document(path: Path) -> Any:
    """The document of libsbml in the file at ``path``, put together if it is composed of others. It has a model."""
    text = _checked_text(path)
    libsbml = libsbml_module()
    document = libsbml.readSBMLFromString(text)
    _refuse_errors(document, path)
    composed = document.getPlugin("comp")
    if composed is not None and document.getPackageRequired("comp"):
        document.setLocationURI(path.resolve().as_uri())
        _refuse_foreign(composed, path, {path.resolve()})
        document = _flattened(document, path)
    model = document.getModel()
    if model is None:
        raise SbmlError(f"{path.name} has no model.")
    _refuse_flux_balance(model)
    return document


def _checked_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SbmlError(f"cannot read {path}: {error.strerror or error}.") from None
    if len(content) > MOST_BYTES:
        raise SbmlError(f"{path.name} has more than {MOST_BYTES // 1_000_000} MB, the most that is read.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SbmlError(f"{path.name} is not UTF-8, which SBML must be.") from None
    _Scan(path.name).check(content)
    return text


class _Scan:
    """A first look at the XML, without building anything."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._elements = 0

    def check(self, content: bytes) -> None:
        parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.EntityDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise SbmlError(f"{self._name} is not XML: {error}.") from None

    def _refuse_doctype(self, *_: Any) -> None:
        raise SbmlError(f"{self._name} declares a document type or entities, which SBML has not. Take them out.")

    def _begin(self, element: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._elements == 1:
            self._check_root(element, attributes)
        if self._depth > _DEEPEST:
            raise SbmlError(f"{self._name} has elements nested more than {_DEEPEST} deep.")
        if self._elements > _MOST_ELEMENTS:
            raise SbmlError(f"{self._name} has more than {_MOST_ELEMENTS} elements.")

    def _end(self, _: str) -> None:
        self._depth -= 1

    def _check_root(self, element: str, attributes: dict[str, str]) -> None:
        namespace, _, name = element.rpartition(" ")
        if name != "sbml" or not namespace.startswith(_CORE):
            raise SbmlError(f"{self._name} is not SBML: it begins with <{name:.40}>.")
        for attribute, value in attributes.items():
            package, _, what = attribute.rpartition(" ")
            if what == "required" and value == "true":
                kind = package.split("/")[-2] if package.count("/") > 1 else package
                if kind not in _HONOURED:
                    raise SbmlError(f"{self._name} needs the package {kind!r:.60} of SBML, which gpnode does not read.")


def _refuse_errors(document: Any, path: Path) -> None:
    libsbml = libsbml_module()
    for error in _errors(document):
        if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            message = " ".join(error.getMessage().split())
            raise SbmlError(f"{path.name} is not valid SBML, line {error.getLine()}: {message:.300}")


def _errors(document: Any) -> Iterator[Any]:
    return (document.getError(i) for i in range(document.getNumErrors()))


def _refuse_foreign(composed: Any, path: Path, met: set[Path]) -> None:
    """Files that a model is put together from must lie beside it, and are checked like it."""
    libsbml = libsbml_module()
    for i in range(composed.getNumExternalModelDefinitions()):
        source = composed.getExternalModelDefinition(i).getSource()
        named = PurePosixPath(source)
        if ":" in source or "\\" in source or named.is_absolute() or ".." in named.parts:
            raise SbmlError(f"{path.name} takes a model from {source!r:.100}; only files beside it are read.")
        other = (path.parent / source).resolve()
        if not other.is_relative_to(path.parent.resolve()):
            raise SbmlError(f"{path.name} takes a model from {source!r:.100}; only files beside it are read.")
        if other in met:
            continue
        met.add(other)
        if len(met) > _MOST_FILES:
            raise SbmlError(f"{path.name} is put together from more than {_MOST_FILES} files.")
        inner = libsbml.readSBMLFromString(_checked_text(other))
        _refuse_errors(inner, other)
        within = inner.getPlugin("comp")
        if within is not None:
            _refuse_foreign(within, other, met)


def _flattened(document: Any, path: Path) -> Any:
    libsbml = libsbml_module()
    wanted = libsbml.ConversionProperties()
    wanted.addOption("flatten comp", True)
    wanted.addOption("performValidation", False)
    wanted.addOption("abortIfUnflattenable", "requiredOnly")
    if document.convert(wanted) != libsbml.LIBSBML_OPERATION_SUCCESS:
        found = [e for e in _errors(document) if e.getSeverity() >= libsbml.LIBSBML_SEV_ERROR]
        reason = " ".join(found[-1].getMessage().split()) if found else "libsbml gives no reason."
        raise SbmlError(f"{path.name} cannot be put together from its submodels: {reason:.300}")
    return document


def _refuse_flux_balance(model: Any) -> None:
    fluxes = model.getPlugin("fbc")
    if fluxes is not None and (fluxes.getNumObjectives() or fluxes.getNumFluxBounds()):
        raise SbmlError("the model is one of flux balance (package 'fbc'), which has no path over time to compute.")
