"""A model whose own code fails ends its own run alone, whatever it fails by."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import query
from tests.flows.prepared import with_data
from tests.flows.small_study import small_study

pytestmark = pytest.mark.usefixtures("light_reports")
HERE = Path(__file__).parent
FILE = "failing_models.py"
IN_TRAINING = {
    "FifthStep": "tokens failed: {file}: AssertionError: three steps are enough",
    "Backward": "step 4 failed: {file}: RuntimeError: no way back",
    "Memory": "tokens failed: {file}: RuntimeError: CUDA error: out of memory",
    "OwnError": "tokens failed: {file}: Odd: which cannot be printed",
    "Balance": "step 3 failed: {file}: KeyError: 'no such expert'",
    "Exits": "tokens failed: {file}: SystemExit: 2",
    "ExitsAtOnce": "",
    "Killed": "killed by signal 6",
}
IN_EVALUATION = {
    "Evaluation": "failed: {file}: AssertionError: three steps are enough",
    "AheadLater": "depend on later tokens",
    "NoNumbers": "its logits are not all finite numbers",
}


def failing_study(folder: Path, names: list[str]) -> Path:
    """A study of LA and of classes that fail, none of which is tried twice."""
    path = small_study(folder, tokens=6000, checkpoints=4)
    content = yaml.safe_load(path.read_text())
    content["models"]["variants"] += [{"name": name, "module": f"{FILE}:{name}"} for name in names]
    content["compute"] = {"retries": 0}
    path.write_text(yaml.safe_dump(content))
    shutil.copy(HERE / FILE, folder)
    return path


@pytest.mark.slow
def test_models_that_fail_end_no_other_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = failing_study(tmp_path, [*IN_TRAINING, *IN_EVALUATION])
    root = with_data(tmp_path / "out")
    command = ["run", str(path), "--root", str(root), "--trust-code", "--plain"]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "train FifthStep seed 0: python -m dreamer_study.model.train ended with" in said
    assert "log.txt" in said
    assert "the report of everything else is" in said
    assert "Traceback" not in said
    study = load_study(path, root=tmp_path / "out")
    plan = Plan(study)
    runs = {run.model.variant: run for run in plan.runs}
    for name, reason in IN_TRAINING.items():
        before, _, after = reason.partition("{file}")
        assert runs[name].failure, name
        assert before in runs[name].failure, name
        assert after in runs[name].failure, name
    for name in ("LA", *IN_EVALUATION):
        assert runs[name].done, name
    logs = {
        name: [path.read_text() for path in study.folder.glob(f"evaluating/{name}-*/log.txt")]
        for name in IN_EVALUATION
    }
    for name, reason in IN_EVALUATION.items():
        assert len(logs[name]) == 2, f"{name}: the other evaluations wait"
        for text in logs[name]:
            assert all(part in text for part in reason.split("{file}"))
    assert study.report.exists()
    scored = query(study.database, "select distinct run_id from evaluations")["run_id"]
    assert [run_id.partition("-")[0] for run_id in scored] == ["LA"]

    steps = (runs["LA"].folder / "steps.csv").stat().st_mtime_ns
    assert main([*command, "--until", "train"]) == 1
    assert (runs["LA"].folder / "steps.csv").stat().st_mtime_ns == steps, "trained once"
