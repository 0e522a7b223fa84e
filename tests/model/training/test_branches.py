"""Branches: a short decay from every checkpoint, which the run itself does not notice."""

import itertools
import json
import shutil

import pytest
import torch

from dreamer_study.model.checkpoints.checksums import damaged_files, list_branches
from dreamer_study.model.checkpoints.models import load_model, newest_state
from dreamer_study.model.train import train
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.step_log import read_record
from dreamer_study.pipeline.errors import InputError
from tests.model.packed_folder import write_run
from tests.model.training.test_training import assert_same_run, change_run

SHARE = 0.2


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Packed data, a run without branches, and the same run with branches."""
    root = tmp_path_factory.mktemp("branches")
    train(write_run(root, name="plain"))
    train(write_run(root, name="branched", branches=SHARE))
    return root


@pytest.fixture
def fresh(root, tmp_path):
    """A function that makes a run folder of the same data, not trained yet."""
    shutil.copytree(root / "data", tmp_path / "data")
    return lambda name="run", **training: write_run(tmp_path, name=name, **training)


def branches(folder):
    """The finished branches of a run: the bytes of their weights, and what describes them."""
    found = {}
    for path in sorted((folder / "branches").iterdir()):
        assert not damaged_files(path)
        described = json.loads((path / "checkpoint.json").read_text())
        del described["seconds"]
        found[path.name] = (path / "model.safetensors").read_bytes(), described
    return found


def without_origin(folder):
    """A run's state says that the run has branches; apart from that it is that of any other."""
    newest = newest_state(folder / "state")
    training = newest.values["origin"]["training"]
    return {name: value for name, value in training.items() if name != "branches"}


@pytest.mark.slow
def test_the_run_itself_is_the_same_to_the_bit_with_branches(root):
    assert_same_run(root / "branched", root / "plain")
    assert without_origin(root / "branched") == without_origin(root / "plain")
    assert not (root / "plain" / "branches").exists()


@pytest.mark.slow
def test_a_branch_stands_where_its_run_was_and_a_share_of_these_tokens_beyond(root):
    counts = read_record(root / "plain")[1]["tokens"].to_pylist()
    starts = [int(path.name) for path in sorted((root / "plain" / "checkpoints").iterdir())]
    longest = write_run(root, name="longest", tokens=3500)
    train(longest)
    counts = read_record(longest)[1]["tokens"].to_pylist()
    expected = []
    for start in starts:
        goal = start + round(SHARE * start)
        expected.append((start, next(count for count in counts if count >= goal)))
    assert list_branches(root / "branched") == expected
    for (start, end), (_, described) in zip(
        expected, branches(root / "branched").values(), strict=True
    ):
        assert (described["branched_at"], described["tokens"]) == (start, end)
        assert described["step"] == counts.index(end) + 1


@pytest.mark.slow
def test_a_branch_is_to_the_bit_a_run_that_was_planned_to_decay_there(root, fresh):
    """So it reads the tokens that its run reads next, from the run's weights and moments."""
    for start, end in list_branches(root / "branched"):
        goal = start + round(SHARE * start)
        decay = {"decay": (goal - start) / goal}
        planned = fresh(
            f"planned-{start}", tokens=goal, checkpoints=[], schedule=decay, raw_checkpoints=True
        )
        train(planned)
        folder = planned / "checkpoints" / f"{end:015d}"
        branch = root / "branched" / "branches" / f"{start:015d}-{end:015d}"
        for name, tensor in load_model(folder, weights="raw").state_dict().items():
            assert torch.equal(tensor, load_model(branch).state_dict()[name]), name
        described = [
            json.loads((path / "checkpoint.json").read_text()) for path in (folder, branch)
        ]
        assert described[0]["stream_hash"] == described[1]["stream_hash"]
        # 1 in the first step of the decay, and nearly 0 in its last one
        table = read_record(planned)[1].to_pylist()
        rates = [row["learning_rate"] for row in table if row["tokens"] > start]
        assert rates[0] == pytest.approx(0.01)
        assert rates[-1] < 0.02 * 0.2
        assert rates == sorted(rates, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 7])
def test_a_run_that_stops_again_and_again_also_within_branches_is_the_same(root, fresh, steps):
    folder = fresh(branches=SHARE)
    unfinished = set()
    for _ in itertools.count():
        left = itertools.count(1)
        status = train(folder, stopped=lambda left=left: next(left) > steps)
        unfinished |= {path.name for path in folder.glob("branching/*/state/*")}
        if status == "complete":
            break
        assert json.loads((folder / "progress.json").read_text())["state"] != "complete"
    assert unfinished, "no branch was interrupted"
    assert branches(folder) == branches(root / "branched")
    assert_same_run(folder, root / "branched")
    assert not (folder / "branching").exists()


class Killed(BaseException):
    """As by a signal: nothing is saved any more."""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["state", "checkpoint", "after"])
def test_a_kill_around_a_save_within_a_branch_changes_nothing(root, fresh, monkeypatch, place):
    """Before the state, between state and checkpoint, and before the leftovers are removed."""
    folder = fresh(branches=SHARE)
    names = {
        "state": "dreamer_study.model.training.save.save_state",
        "checkpoint": "dreamer_study.model.training.save.save_weights",
        "after": "dreamer_study.model.train.remove_unfinished",
    }
    kills = 0
    module, _, function = names[place].rpartition(".")
    real = getattr(__import__(module, fromlist=[function]), function)

    def killing(*arguments, **options):
        nonlocal kills
        in_branch = any((folder / "branching").glob("*"))
        if in_branch and kills % 3 == 0:
            kills += 1
            raise Killed
        kills += in_branch
        return real(*arguments, **options)

    monkeypatch.setattr(names[place], killing)
    for _ in range(200):
        try:
            assert train(folder) == "complete"
            break
        except Killed:
            pass
    assert kills
    monkeypatch.undo()
    assert train(folder) == "complete"
    assert branches(folder) == branches(root / "branched")
    assert_same_run(folder, root / "branched")


@pytest.mark.slow
def test_a_run_that_grows_keeps_its_finished_branches(root, fresh):
    folder = fresh(branches=SHARE, tokens=1500, checkpoints=[700])
    assert train(folder) == "complete"
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("branches/*/*")}
    change_run(folder, {"training": {"tokens": 2500, "checkpoints": [700, 1500]}})
    assert train(folder) == "complete"
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert branches(folder) == branches(root / "branched")
    assert_same_run(folder, root / "branched")


@pytest.mark.slow
def test_the_last_branch_alone_is_trained_again_where_it_is_missing(root, fresh):
    folder = fresh()
    shutil.rmtree(folder)
    shutil.copytree(root / "branched", folder)
    shutil.rmtree(max((folder / "branches").iterdir()))
    assert train(folder) == "complete"
    assert branches(folder) == branches(root / "branched")


@pytest.mark.slow
def test_progress_stays_at_the_checkpoint_and_names_the_branch(fresh, monkeypatch):
    monkeypatch.setattr("dreamer_study.model.training.recorder.FLUSH_SECONDS", 0.0)
    monkeypatch.setattr("dreamer_study.model.training.recorder.LINE_SECONDS", 0.0)
    folder = fresh(branches=SHARE)
    seen, lines = [], []

    def look():
        seen.append(json.loads((folder / "progress.json").read_text()))
        return False

    train(folder, stopped=look, line=lines.append)
    noted = {state["note"]: state["tokens"] for state in seen if "branch" in state["note"]}
    starts = [start for start, _ in list_branches(folder)]
    assert noted == {f"branch from {start:,} tokens": start for start in starts}
    assert {state["target"] for state in seen} == {2500}
    assert any("branch from" in line for line in lines)
    last = json.loads((folder / "progress.json").read_text())
    assert (last["state"], last["note"]) == ("complete", "")


@pytest.mark.parametrize("schedule", ["linear", "cosine", {"decay": 0.2, "to": 0.1}])
def test_a_rate_that_decays_anyway_has_no_branches(schedule):
    with pytest.raises(InputError) as error:
        TrainingConfig(tokens=100, batch_tokens=10, branches=0.1, schedule=schedule)
    assert str(error.value) == (
        "training.branches is 0.1, but the schedule lets the learning rate decay already; set"
        " schedule to constant, or leave out branches"
    )


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_branch_is_a_share(share):
    with pytest.raises(InputError, match="branches"):
        TrainingConfig(tokens=100, batch_tokens=10, branches=share)
