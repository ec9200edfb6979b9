"""The motion capture recording against the matrices it must reproduce."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import loadmat

import gpnode as gn
from gpnode.studies import human_motion
from support import SHARED

FOLDER = SHARED / "human_motion"
AMC = "1\nroot 1 2 3 4 5 6\nlhand 1 2\nhead {0} 2 3\n"


@pytest.mark.skipif(not FOLDER.exists(), reason="the motion capture file 07_02.amc is not here")
def test_recording_is_the_papers():
    recording = human_motion.record(FOLDER / "07_02.amc")
    poses, latent = loadmat(FOLDER / "Y.mat"), loadmat(FOLDER / "X.mat")
    (poses,), (latent,) = ([v for k, v in m.items() if not k.startswith("__")] for m in (poses, latent))
    assert np.allclose(recording.poses, poses, atol=1e-12)
    assert np.allclose(np.abs(recording.latent), np.abs(latent), atol=1e-10)
    missing = np.arange(33, 48)
    floors = [recording.rmse(recording.latent[f], f) for f in (recording.seen, missing)]
    assert floors == pytest.approx([3.108, 3.431], abs=1e-3)
    assert recording.observations().size == 3 * 67
    for case, terms in (("A", 7), ("B", 10)):
        problem = gn.bind(human_motion.model(recording, case), recording.observations())
        assert problem.layout.slices()["coef"] == slice(0, 3 * terms)


def test_a_leak_free_recording_does_not_look_at_missing_frames(tmp_path):
    frames = np.random.default_rng(0).normal(size=(60 * 4, 9)).cumsum(axis=0)
    frames[33 * 4 : 48 * 4, 6] += 100.0
    path = tmp_path / "walk.amc"
    rows = [
        f"{i + 1}\nroot {' '.join(map(repr, f[:6]))}\nhead {' '.join(map(repr, f[6:]))}"
        for i, f in enumerate(frames.tolist())
    ]
    path.write_text("# made up\n:DEGREES\n" + "\n".join(rows))
    leaky, clean = human_motion.record(path), human_motion.record(path, leak_free=True)
    assert np.abs(clean.poses[clean.seen].mean(axis=0)).max() < 1e-10
    assert np.abs(leaky.poses[leaky.seen].mean(axis=0)).max() > 1.0
    elsewhere = human_motion.record(path, gap=(10, 20))
    assert set(elsewhere.seen) == set(clean.seen) - set(range(10, 20))
    assert elsewhere.missing.tolist() == list(range(10, 20))


def test_processes_are_named(tmp_path):
    recording = human_motion.Recording(np.zeros((60, 5)), np.ones((60, 3)), np.ones((3, 5)))
    for name in human_motion.PROCESSES:
        assert human_motion.model(recording, "A", name).describe() != {}
    with pytest.raises(ValueError, match="one of paper"):
        human_motion.model(recording, "A", "other")


@pytest.mark.parametrize(
    ("text", "message"),
    [("head 1 2", "frame number"), (AMC.format("x"), "numbers after the joint"), ("", "not a motion capture file")],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "other.amc"
    path.write_text(text)
    with pytest.raises(gn.DataError, match=message):
        human_motion.read_amc(path)
