"""What a training writes down, and the code it was started with."""

import json

import pytest
import torch

from dreamer_study.model.train import train
from dreamer_study.model.training.provenance import CODE_CHANGES, code_digest, source_digests
from dreamer_study.model.training.step_log import choose_seed, read_record
from dreamer_study.pipeline.errors import InputError
from tests.model.packed_folder import write_run
from tests.model.saved_files import rewrite, write_values


@pytest.fixture
def run(tmp_path):
    """A function that writes the log of a run, whose steps are of 10 tokens each."""

    def write(name, losses):
        (tmp_path / name).mkdir()
        steps = [(n, 10 * n, loss) for n, loss in enumerate(losses, start=1)]
        write_values(tmp_path / name, steps)
        return tmp_path / name

    return write


def test_the_final_tenth_decides_and_of_equals_the_lower_seed(run):
    early, late, even = [1.0] * 18 + [3.0, 3.0], [9.0] * 17 + [2.0] * 3, [5.0] * 17 + [2.0] * 3
    runs = {7: run("early", early), 5: run("late", late), 3: run("even", even)}
    assert choose_seed(runs, 200) == 3
    assert choose_seed({seed: runs[seed] for seed in (5, 7)}, 200) == 5


def test_one_step_is_enough(run):
    assert choose_seed({0: run("a", [2.0]), 1: run("b", [1.0])}, 10) == 1


def test_what_came_after_the_race_decides_nothing(run):
    """A run that was chosen by a race has gone on since, or another study has trained it
    further."""
    first, second = [9.0] * 18 + [1.0] * 3, [9.0] * 18 + [2.0] * 3
    runs = {0: run("short", first), 1: run("long", second + [0.1] * 100)}
    assert choose_seed(runs, 205) == 0
    runs[0] = run("other", first + [9.0] * 100)
    assert [choose_seed(runs, stop_at) for stop_at in (205, 1210)] == [0, 1]


CODE = {**source_digests("dreamer_study.model.train"), "torch": torch.__version__}


def read_code_changes(folder):
    path = folder / CODE_CHANGES
    return json.loads(path.read_text()) if path.exists() else []


def pretend_other_code(folder, name="model/dreamer.py"):
    """Change a file's digest in the saved state, as if the run had been started by other code; that
    code's digest."""
    values = next((folder / "state").iterdir()) / "values.json"
    saved = json.loads(values.read_text())
    saved["origin"]["code"][name] = "0123456789abcdef"
    rewrite(values, saved)
    return code_digest(saved["origin"]["code"])


@pytest.mark.slow
def test_changed_code_is_refused_unless_accepted_and_then_recorded(tmp_path, exit_status):
    folder = write_run(tmp_path)
    train(folder, stop_at=100)
    before, tokens = pretend_other_code(folder), read_record(folder)[0]["tokens"]
    status, (line,) = exit_status(folder)
    assert status == 2
    assert (
        "cannot be continued: since its start, model/dreamer.py changed; undo the change, continue with --accept"
        in line
    )
    assert (
        f"--accept-code-change (small was started with code {before}, this is {code_digest(CODE)})"
        in line
    )
    assert read_code_changes(folder) == []
    status, (line,) = exit_status(folder, "--stop-at", "200", "--accept-code-change")
    assert status == 0
    assert f"continues from {tokens:,} tokens; code {before} is now" in line
    (change,) = read_code_changes(folder)
    assert change.pop("time").endswith("+00:00")
    assert change.pop("step") > 0
    changed = ["model/dreamer.py changed"]
    assert change == {
        "tokens": tokens,
        "before": before,
        "after": code_digest(CODE),
        "changed": changed,
    }
    assert train(folder) == "complete"  # the new code is the run's code now
    assert len(read_code_changes(folder)) == 1


@pytest.mark.slow
def test_a_change_accepted_twice_before_any_training_counts_once(tmp_path):
    folder = write_run(tmp_path)
    train(folder, stop_at=100)
    pretend_other_code(folder)
    state = next((folder / "state").iterdir())
    saved = (state / "values.json").read_text()
    for _ in range(2):  # the first time the process dies before it saves
        train(folder, stop_at=1, accept_code_change=True)
        rewrite(state / "values.json", saved)
    assert len(read_code_changes(folder)) == 1


@pytest.mark.slow
def test_other_changes_cannot_be_accepted(tmp_path):
    folder = write_run(tmp_path)
    train(folder, stop_at=100)
    pretend_other_code(folder)
    description = json.loads((folder / "run.json").read_text())
    description["training"]["learning_rate"] = 0.02
    (folder / "run.json").write_text(json.dumps(description))
    with pytest.raises(
        InputError,
        match=r"learning_rate was 0\.01 and is 0\.02; undo the change, or remove the folder",
    ):
        train(folder, accept_code_change=True)
    assert read_code_changes(folder) == []
