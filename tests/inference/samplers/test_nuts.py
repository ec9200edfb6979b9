"""Settings of NUTS."""

from __future__ import annotations

import pytest

from gpnode.inference.samplers.nuts import NUTS


@pytest.mark.parametrize("wrong", [{"draws": 1}, {"chains": 0}, {"target_accept": 1.5}, {"warmup": 3}])
def test_impossible_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NUTS(**wrong)
