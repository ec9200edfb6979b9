"""What a run says while it goes on."""

from __future__ import annotations

import gpnode as gn
from support.growth import MODEL, SETTINGS


def test_progress_speaks_where_there_is_no_terminal(positive_data, capsys, monkeypatch):
    monkeypatch.setattr("gpnode.inference.running.progress._LINE_EVERY", -1.0)
    monkeypatch.setattr("gpnode.inference.running.progress._GUESS_AFTER", 0.0)
    gn.fit(MODEL, positive_data, method=SETTINGS)
    said = capsys.readouterr().err
    assert "smoothing" in said
    assert "warming up: " in said
    assert "s left, 0 divergences" in said
    assert "worst R-hat" in said
