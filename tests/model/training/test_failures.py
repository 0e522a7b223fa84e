"""When a training fails, and when it saves its state."""

import json
from itertools import pairwise

import pytest
import torch

import dreamer_study.model.training.trainer
from dreamer_study.model.checkpoints.models import newest_state
from dreamer_study.model.processes import HOPELESS
from dreamer_study.model.train import main, train
from dreamer_study.model.training.config import read_run
from dreamer_study.model.training.optimizer import Optimizer
from dreamer_study.model.training.ranks import TrainingFailed
from dreamer_study.model.training.recorder import PAUSE
from dreamer_study.model.training.save import write_state
from dreamer_study.model.training.trainer import Trainer
from tests.model.packed_folder import write_run


class Shortage:
    """Lets the model run out of memory, by the error torch raises, at some of its forwards."""

    def __init__(self, trainer, *, at_least_rows=1, at_forwards=None):
        self.forwards, self.rows, self.at = 0, at_least_rows, at_forwards
        trainer.model.register_forward_pre_hook(self)

    def __call__(self, module, arguments):
        self.forwards += 1
        if len(arguments[0]) >= self.rows and (self.at is None or self.forwards in self.at):
            raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.slow
def test_out_of_memory_halves_the_micro_batch_and_repeats_the_step(tmp_path):
    """The failed attempt, one and a half micro-batches, leaves nothing behind: not a gradient, not
    a count."""
    usual, short = (
        Trainer(read_run(write_run(tmp_path, name=name, micro_batch_tokens=size)))
        for name, size in (("usual", 16), ("short", 32))
    )
    for _ in range(2):
        usual.train_step()
        if short.step:
            Shortage(short, at_least_rows=2, at_forwards={2})
        short.train_step()
    assert short.halved == {"step": 2, "from": 32}
    assert short.micro_rows == 1
    for _ in range(3):
        assert short.train_step() == pytest.approx(usual.train_step(), rel=1e-5)
    assert short.stream_hash == usual.stream_hash
    for name, router in usual.model.routers().items():
        assert torch.equal(router.bias, short.model.routers()[name].bias), name
    for one, other in zip(usual.model.parameters(), short.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_out_of_memory_a_second_time_says_what_to_change(tmp_path):
    trainer = Trainer(read_run(write_run(tmp_path)))
    Shortage(trainer)
    with pytest.raises(
        TrainingFailed,
        match="out of memory on cpu with 32 tokens at a time; lower micro_batch_tokens",
    ):
        trainer.train_step()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("__init__", "out of memory before the first step, for the weights, their average"),
        ("step", "step 1: out of memory on cpu outside of the passes of the batch"),
    ],
)
def test_out_of_memory_in_the_optimiser_is_one_line(tmp_path, monkeypatch, capsys, method, words):
    def fails(optimizer, *_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    folder = write_run(tmp_path)
    monkeypatch.setattr(Optimizer, method, fails)
    assert main([str(folder)]) == HOPELESS
    (said,) = capsys.readouterr().err.splitlines()
    assert words in said


@pytest.mark.slow
def test_a_halving_is_told_and_remembered(tmp_path, monkeypatch, capsys):
    folder = write_run(tmp_path, tokens=600, checkpoints=[])
    original = Trainer.__init__

    def short_of_memory(trainer, *arguments, **options):
        original(trainer, *arguments, **options)
        Shortage(trainer, at_least_rows=3)

    monkeypatch.setattr(Trainer, "__init__", short_of_memory)
    assert main([str(folder), "--stop-at", "200"]) == 0
    words = "out of memory at step 1: micro-batch of 32 tokens instead of 64"
    assert capsys.readouterr().err.splitlines() == [f"small: {words}"]
    assert json.loads((folder / "progress.json").read_text())["note"] == words
    monkeypatch.undo()
    assert Trainer(read_run(folder)).micro_rows == 2
    assert main([str(folder)]) == 0
    assert newest_state(folder / "state").values["halved"] == {"step": 1, "from": 64}
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_how_it_runs_may_change_while_it_runs(tmp_path):
    folder = write_run(tmp_path, tokens=600, checkpoints=[])
    train(folder, stop_at=200)
    values = json.loads((folder / "run.json").read_text())
    values["training"].update(
        micro_batch_tokens=16, checkpointing=True, keep=3, save_every_seconds=0
    )
    (folder / "run.json").write_text(json.dumps(values))
    assert train(folder) == "complete"
    steps = [int(path.name) for path in sorted((folder / "state").iterdir())]
    assert len(steps) == 3
    assert steps == list(range(steps[-1] - 2, steps[-1] + 1))


@pytest.mark.slow
def test_a_save_is_due_its_interval_after_the_last_and_later_where_that_took_long(
    tmp_path, monkeypatch
):
    now, saved, step = [0.0], [], Trainer.train_step
    monkeypatch.setattr("dreamer_study.model.training.recorder.time.monotonic", lambda: now[0])
    monkeypatch.setattr(
        Trainer, "train_step", lambda self: (now.__setitem__(0, now[0] + 10), step(self))[1]
    )
    monkeypatch.setattr(
        Trainer, "save", lambda *_: (saved.append(now[0]), now.__setitem__(0, now[0] + 2))
    )
    train(write_run(tmp_path, tokens=1500, checkpoints=[], save_every_seconds=30))
    assert saved[0] == 30
    assert all(later - earlier >= PAUSE * 2 for earlier, later in pairwise(saved[:-1]))


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [500, 700])
def test_no_state_is_copied_twice(tmp_path, monkeypatch, stop_at):
    """The final step is saved where a checkpoint is due, or else at the end of the call."""
    saved, save = [], Trainer.save
    monkeypatch.setattr(
        Trainer, "save", lambda self, log_bytes: (saved.append(self.step), save(self, log_bytes))
    )
    folder = write_run(tmp_path, tokens=700, checkpoints=[300], save_every_seconds=1e9)
    train(folder, stop_at=stop_at)
    assert saved == sorted(set(saved))
    assert saved[-1] == newest_state(folder / "state").values["step"]


@pytest.mark.slow
def test_a_run_is_complete_only_when_its_last_checkpoint_is_there(tmp_path, monkeypatch):
    folder = write_run(tmp_path, tokens=300, checkpoints=[])
    states = []

    def look(run, state):
        write_state(run, state)
        states.append(
            (json.loads((folder / "progress.json").read_text())["state"], state.values["tokens"])
        )

    monkeypatch.setattr(dreamer_study.model.training.trainer, "write_state", look)
    assert train(folder) == "complete"
    assert {state for state, _ in states} <= {"starting", "running"}
    (checkpoint,) = (folder / "checkpoints").iterdir()
    assert int(checkpoint.name) == states[-1][1] >= 300
