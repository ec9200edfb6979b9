"""The errors a user can meet. Each message says what was expected, what came, and the remedy."""

from __future__ import annotations

SEE_WHAT_CANNOT = 'The page "What cannot be stated" of the documentation has more (docs/how-to/cannot.md).'
"""For errors about what gpnode cannot take, which that page says what to do about."""


class GpnodeError(Exception):
    """Base of every error raised on purpose by gpnode."""


class DataError(GpnodeError, ValueError):
    """The measurements cannot be used as they are."""


class ModelError(GpnodeError, ValueError):
    """The model is incomplete, inconsistent, or does not fit the measurements."""


class StartError(GpnodeError, RuntimeError):
    """No starting point with a finite posterior density was found."""


class PosteriorError(GpnodeError, RuntimeError):
    """The draws cannot answer what was asked of them."""


class FileFormatError(GpnodeError, ValueError):
    """A file is not one that gpnode wrote, or is damaged."""


class SbmlError(FileFormatError):
    """An SBML file is damaged, or asks for what gpnode cannot honour."""


class StorageError(GpnodeError, RuntimeError):
    """Results cannot be written: the disk is full, say, or the directory read-only."""


class CheckpointError(GpnodeError, RuntimeError):
    """A directory holds the checkpoint of another run, or none that can be gone on with."""


class WorkerError(GpnodeError, RuntimeError):
    """Workers keep dying on the same task."""
