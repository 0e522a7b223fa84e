"""Saving beside the training: whole states, pauses in proportion to what a save costs, and errors that are not lost."""

import json
import shutil
import threading

import pytest
import torch

import model.training.trainer
from model.checkpoint import newest_state
from model.checksums import list_states
from model.train import train
from model.training.config import read_run
from model.training.saving import PAUSE, StateWriter, write_state
from model.training.trainer import Trainer
from tests.model.packed_folder import write_run

LOG = {"log_bytes": 0, "log_sum": 0}


@pytest.fixture
def clock(monkeypatch):
    """A list with the time in seconds."""
    now = [0.0]
    monkeypatch.setattr("model.training.saving.time.monotonic", lambda: now[0])
    return now


def save(writer, clock, seconds):
    writer.copy({})
    writer.start(lambda: clock.__setitem__(0, clock[0] + seconds))
    writer.wait()


def test_the_pause_begins_at_the_end_of_a_save_and_grows_with_its_duration(clock):
    writer = StateWriter()
    clock[0] = 59
    assert not writer.is_due(60)
    clock[0] = 60
    assert writer.is_due(60)
    save(writer, clock, 1)  # until 61
    clock[0] = 120
    assert not writer.is_due(60)
    clock[0] = 121
    assert writer.is_due(60)
    save(writer, clock, 90)  # longer than the interval: until 211
    clock[0] = 211 + PAUSE * 90 - 1
    assert not writer.is_due(60)
    assert writer.is_due(0)  # after every step, whatever a save takes
    clock[0] += 1
    assert writer.is_due(60)
    writer.close()


@pytest.fixture
def held(monkeypatch):
    """Hold back the writing of states until the event is set."""
    released = threading.Event()

    def write_later(*arguments):
        assert released.wait(60)
        write_state(*arguments)

    monkeypatch.setattr(model.training.trainer, "write_state", write_later)
    yield released
    released.set()


def test_training_goes_on_while_a_state_is_written_and_the_state_is_that_of_its_step(tmp_path, held):
    trainer = Trainer(read_run(write_run(tmp_path, keep=2)))
    trainer.train_step()
    wanted = {f"model.{name}": tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.save(LOG)
    assert not trainer.writer.is_due(1e-9)
    trainer.train_step()
    again = threading.Thread(target=trainer.save, args=(LOG,))
    again.start()
    again.join(0.2)
    assert again.is_alive()  # the next save waits for the writer
    assert newest_state(trainer.run.folder / "state") is None
    held.set()
    again.join()
    trainer.writer.wait()
    _, second = list_states(trainer.run.folder / "state")
    assert int(second.name) == 2
    shutil.rmtree(second)
    found = newest_state(trainer.run.folder / "state")
    assert found.values["step"] == 1
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in wanted.items())


@pytest.mark.parametrize("stop_at", [500, 700])
def test_no_state_is_copied_twice(tmp_path, monkeypatch, stop_at):
    """The final step is saved where a checkpoint is due, or else at the end of the call."""
    saved, save = [], Trainer.save
    monkeypatch.setattr(Trainer, "save", lambda self, log_bytes: (saved.append(self.step), save(self, log_bytes)))
    folder = write_run(tmp_path, tokens=700, checkpoints=[300], save_every_seconds=1e9)
    train(folder, stop_at=stop_at)
    assert saved == sorted(set(saved))
    assert saved[-1] == newest_state(folder / "state").values["step"]


def test_a_run_is_complete_only_when_its_last_checkpoint_is_there(tmp_path, monkeypatch):
    folder = write_run(tmp_path, tokens=300, checkpoints=[])
    states = []

    def look(run, state):
        write_state(run, state)
        states.append((json.loads((folder / "progress.json").read_text())["state"], state.values["tokens"]))

    monkeypatch.setattr(model.training.trainer, "write_state", look)
    assert train(folder) == "complete"
    assert {state for state, _ in states} <= {"starting", "running"}
    (checkpoint,) = (folder / "checkpoints").iterdir()
    assert int(checkpoint.name) == states[-1][1] >= 300
