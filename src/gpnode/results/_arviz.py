"""The only place that knows which arviz there is: before 1.0 it has a class of its own, since then xarray's tree."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import xarray as xr


def join_groups(groups: Mapping[str, xr.Dataset]) -> Any:
    """Named groups as arviz wants them: ``InferenceData`` before 1.0, ``xarray.DataTree`` since."""
    if int(version("arviz").split(".")[0]) >= 1:
        return xr.DataTree.from_dict(dict(groups))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it announces its next major version
        import arviz  # here, because it takes seconds

    return arviz.InferenceData(**groups, warn_on_custom_groups=False)
