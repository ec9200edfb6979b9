"""What a run says while it goes on."""

from __future__ import annotations

import pytest

from gpnode.fitting.single import run_fit
from gpnode.inference.running.progress import Display
from support.growth import MODEL, SETTINGS


@pytest.mark.slow
def test_progress_speaks_where_there_is_no_terminal(positive_data, capsys):
    with Display(True, line_every=-1.0, guess_after=0.0) as display:
        run_fit(MODEL, positive_data, SETTINGS, 0, display, None, None)
    said = capsys.readouterr().err
    assert "smoothing" in said
    assert "warming up: " in said
    assert "s left, 0 divergences" in said
    assert "worst R-hat" in said
