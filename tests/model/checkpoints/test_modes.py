"""Files of weights can be read by whoever can read other new files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from dreamer_study.model.checkpoints.models import TrainingState, save_state


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_weights_have_the_mode_of_other_new_files(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        save_state(tmp_path, 1, TrainingState({"a": torch.zeros(2)}, {"b": 1}))
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "000000001").iterdir()}
    assert modes == {0o666 & ~mask}
