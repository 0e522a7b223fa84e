"""A run that other code has started: refused in one line, continued on request, and the change is on record."""

import json

import pytest
import torch

from model.train import train
from model.training.origins.code_changes import code_digest, read_code_changes
from model.training.origins.provenance import source_digests
from model.training.recording.records import read_record
from pipeline.errors import InputError
from tests.model.packed_folder import write_run
from tests.model.saved_files import rewrite

CODE = {**source_digests("model.train"), "torch": torch.__version__}


def pretend_other_code(folder, name="model/dreamer.py"):
    """Change a file's digest in the saved state, as if the run had been started by other code; that code's digest."""
    values = next((folder / "state").iterdir()) / "values.json"
    saved = json.loads(values.read_text())
    saved["origin"]["code"][name] = "0123456789abcdef"
    rewrite(values, saved)
    return code_digest(saved["origin"]["code"])


def test_changed_code_is_refused_unless_accepted_and_then_recorded(tmp_path, exit_status):
    folder = write_run(tmp_path)
    train(folder, stop_at=100)
    before, tokens = pretend_other_code(folder), read_record(folder)[0]["tokens"]
    status, (line,) = exit_status(folder)
    assert status == 2
    assert "cannot be continued: since it was started, model/dreamer.py changed; undo that, go on with" in line
    assert f"--accept-code-change (small was started with code {before}, this is {code_digest(CODE)})" in line
    assert read_code_changes(folder) == []
    status, (line,) = exit_status(folder, "--stop-at", "200", "--accept-code-change")
    assert status == 0
    assert f"goes on from {tokens:,} tokens; code {before} is now" in line
    (change,) = read_code_changes(folder)
    assert change.pop("time").endswith("+00:00")
    assert change.pop("step") > 0
    changed = ["model/dreamer.py changed"]
    assert change == {"tokens": tokens, "before": before, "after": code_digest(CODE), "changed": changed}
    assert train(folder) == "complete"  # the new code is the run's code now
    assert len(read_code_changes(folder)) == 1


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


def test_other_changes_cannot_be_accepted(tmp_path):
    folder = write_run(tmp_path)
    train(folder, stop_at=100)
    pretend_other_code(folder)
    description = json.loads((folder / "run.json").read_text())
    description["training"]["learning_rate"] = 0.02
    (folder / "run.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"learning_rate was 0\.01 and is 0\.02; undo that, or remove the folder"):
        train(folder, accept_code_change=True)
    assert read_code_changes(folder) == []
