"""Recurrence that begins after a part of the training: in checkpoints, after stops, and in branches."""

import itertools

import pytest
import torch

from dreamer_study.model.checkpoints.checksums import list_branches
from dreamer_study.model.checkpoints.models import load_model
from dreamer_study.model.train import train
from tests.model.packed_folder import write_run
from tests.model.training.test_training import assert_same_run

pytestmark = pytest.mark.slow

LATE = {"depth": 3, "recurrence_after": 1500}
CHECKPOINTS = [700, 1450, 2000]  # of 2,500 tokens


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Packed data and a run whose recurrence begins after 1,500 tokens."""
    root = tmp_path_factory.mktemp("late")
    train(write_run(root, model=LATE, checkpoints=CHECKPOINTS, branches=0.2))
    return root


def depths(folders):
    return [load_model(folder).checked_depth(None) for folder in sorted(folders)]


def test_checkpoints_run_at_the_depth_of_their_training(root):
    assert depths((root / "run" / "checkpoints").iterdir()) == [1, 1, 3, 3]
    starts = [start for start, _ in list_branches(root / "run")]
    assert starts[1] < 1500, "its branch ends after the beginning"
    assert depths((root / "run" / "branches").iterdir()) == [1, 3, 3, 3]


def test_a_run_that_stops_again_and_again_is_the_same(root):
    """Every few steps: around the beginning, and within branches before and behind it."""
    folder = write_run(root, name="stopped", model=LATE, checkpoints=CHECKPOINTS, branches=0.2)
    status = ""
    while status != "complete":
        left = itertools.count(1)
        status = train(folder, stopped=lambda left=left: next(left) > 9)
    assert_same_run(folder, root / "run")


def test_before_it_begins_a_run_is_that_of_a_layer_which_is_used_once(root):
    """The weights differ by nothing: what is iterated later has the same banks from the start."""
    (first, *_) = sorted((root / "run" / "checkpoints").iterdir())
    never = write_run(root, name="never", model={**LATE, "recurrence_after": 10**9})
    train(never)
    (other, *_) = sorted((never / "checkpoints").iterdir())
    expected = load_model(other).state_dict()
    for name, tensor in load_model(first).state_dict().items():
        assert torch.equal(tensor, expected[name]), name
