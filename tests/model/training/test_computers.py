"""A run says by which computers it was trained: the same bits come of one C engine only."""

import json
import shutil

import pytest
import torch

from dreamer_study.model.train import train
from dreamer_study.model.training import computers
from dreamer_study.model.training.computers import Computer, continued, devices_in_words
from dreamer_study.model.training.step_log import read_record
from tests.model.packed_folder import write_run


@pytest.mark.parametrize(
    ("device", "engine", "said"),
    [
        ("cpu", "a", "cpu"),
        ("cpu", "b", "cpu, from 5,120 tokens cpu with another C engine"),
        ("cpu", "", "cpu, from 5,120 tokens cpu without a C engine"),
        ("GPU", "", "cpu, from 5,120 tokens GPU"),
    ],
)
def test_a_run_is_continued_by_the_same_computer_or_by_another(
    device: str, engine: str, said: str
) -> None:
    written = json.loads(json.dumps([Computer(0, "cpu", "a")]))  # as a state has it
    found = continued(written, Computer(5120, device, engine))
    assert devices_in_words(found) == said
    assert continued(found, Computer(9000, device, engine)) == found
    assert continued([], Computer(5120, device, engine)) == [Computer(5120, device, engine)]


@pytest.mark.slow
def test_the_row_and_the_progress_of_a_run_say_that_another_engine_continued_it(
    tmp_path, monkeypatch
) -> None:
    folder = write_run(tmp_path)
    train(folder, stop_at=1000)
    shutil.copytree(folder, tmp_path / "same")
    train(tmp_path / "same")
    assert read_record(tmp_path / "same")[0]["device"] == "cpu"
    stopped = read_record(folder)[0]["tokens"]
    library = tmp_path / "other.so"
    library.write_bytes(b"compiled for another processor")
    monkeypatch.setattr(computers, "available", lambda dtype: dtype == torch.float32)
    monkeypatch.setattr(computers, "find_place", lambda real: library)
    train(folder)
    words = f"cpu, from {stopped:,} tokens cpu with another C engine"
    assert read_record(folder)[0]["device"] == words
    note = json.loads((folder / "progress.json").read_text())["note"]
    assert note.startswith(f"computed by {words}: its numbers differ by rounding")
