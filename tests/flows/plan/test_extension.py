"""A study that grows trains what is new and nothing else, and ends in the weights and tables of a
fresh study."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchmarks.soak import read_tables
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from tests.flows.by_hand import study_file
from tests.model.saved_files import rewrite
from tests.pipeline.documents import lines, read

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("light_reports")]


def spaced(folder: Path, **changes: Any) -> Path:
    """A study of two models and one seed, with a checkpoint every 6,000 tokens."""
    training = {"tokens": 12_000, "checkpoint_every": 6000, **changes.pop("training", {})}
    evaluation = {"limit": 5, "depths": [1, 2, 3], **changes.pop("evaluation", {})}
    return study_file(
        folder,
        models={"variants": ["LA", "DR"]},
        training=training,
        evaluation=evaluation,
        **changes,
    )


def run(folder: Path, root: Path, *options: str, until: str = "evaluate", **changes: Any) -> Plan:
    """Run the study until its tables are computed: no test here reads a report."""
    path = spaced(folder, **changes)
    command = ["run", str(path), "--root", str(root), "--plain", "--until", until]
    assert main([*command, *options]) == 0
    return Plan(load_study(path, root=root))


def weights(root: Path) -> dict[str, bytes]:
    """The tensors of every checkpoint of a study's store, by run and tokens."""
    return {
        "/".join(path.parts[-4:]): path.read_bytes()
        for path in root.glob("store/runs/*/checkpoints/*/*.safetensors")
    }


def written(root: Path) -> dict[Path, int]:
    """When data, checkpoints and evaluations were written."""
    patterns = ("tokens/*/*", "runs/*/checkpoints/*/*", "evaluations/*/*")
    return {path: path.stat().st_mtime_ns for one in patterns for path in root.glob(f"store/{one}")}


@pytest.fixture(scope="module")
def first(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study before it grows."""
    folder = tmp_path_factory.mktemp("grows")
    shutil.copytree(tiny_store, folder / "first" / "store")
    run(folder, folder / "first")
    return folder / "first"


def grown(first: Path, tmp_path: Path, **changes: Any) -> tuple[Plan, dict[Path, int]]:
    """Grow a copy of the first study; returns its plan, and what was written before and is
    unchanged."""
    root = Path(shutil.copytree(first, tmp_path / f"{first.name}-grown"))
    before = written(root)
    plan = run(tmp_path, root, **changes)
    after = written(root)
    assert {path: after.get(path) for path in before} == before, "what was there stays as it is"
    return plan, before


def assert_like_fresh(plan: Plan, store: Path, tmp_path: Path, **changes: Any) -> None:
    """Compare a grown study with a fresh one: weights bit for bit, and all tables."""
    shutil.copytree(store, tmp_path / "fresh" / "store")
    run(tmp_path, tmp_path / "fresh", **changes)
    fresh, found = weights(tmp_path / "fresh"), weights(plan.study.folder)
    assert fresh
    assert {name: found.get(name) for name in fresh} == fresh
    expected, tables = read_tables(tmp_path / "fresh"), read_tables(plan.study.folder)
    for name, table in expected.items():
        rows = tables[name]
        if "study_id" in rows.columns:
            rows = rows[rows["study_id"] == plan.study.study_id].reset_index(drop=True)
        if name in ("evaluations", "checkpoints", "runs", "steps", "items"):
            assert len(table), name
        pd.testing.assert_frame_equal(rows, table, obj=name)


def test_another_seed_trains_only_its_runs_and_more_tokens_go_on_from_the_last_state(
    first: Path, tiny_store: Path, tmp_path: Path
) -> None:
    plan, before = grown(first, tmp_path, training={"seeds": [0, 1]})
    new = {
        path.parts[-4]
        for path in written(plan.study.folder)
        if "checkpoints" in path.parts and path not in before
    }
    assert new == {one.run_id for one in plan.runs if one.seed == 1}
    larger = {"training": {"seeds": [0, 1], "tokens": 18_000}}
    plan, before = grown(plan.study.folder, tmp_path, **larger)
    new = {
        path.parent
        for path in written(plan.study.folder)
        if path.suffix == ".safetensors" and path not in before
    }
    assert len(new) == 4, "the checkpoint beyond the old end, of four runs"
    assert_like_fresh(plan, tiny_store, tmp_path, **larger)


def test_code_that_has_changed_is_refused_unless_accepted(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(shutil.copytree(first, tmp_path / "grown"))
    for values in root.glob("store/runs/*/state/*/values.json"):
        saved = json.loads(values.read_text())
        saved["origin"]["code"]["model/dreamer.py"] = "0123456789abcdef"
        rewrite(values, saved)
    path = spaced(tmp_path, training={"tokens": 18_000})
    assert main(["run", str(path), "--root", str(root), "--plain"]) == 2
    (line,) = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: ")
    ]
    for words in (
        "-2-s0-",
        "was started with code",
        "model/dreamer.py changed",
        "--accept-code-change",
    ):
        assert words in line
    plan = run(tmp_path, root, "--accept-code-change", until="train", training={"tokens": 18_000})
    for one in plan.runs:
        (change,) = json.loads((one.folder / "code_changes.json").read_text())
        assert change["changed"] == ["model/dreamer.py changed"]
        assert change["tokens"] >= 12_000


def test_a_late_benchmark_trains_nothing_and_leaves_out_what_stands_in_the_corpus(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (curated,) = first.glob("store/decontaminate/*")
    document = next(row for row in read(curated) if len(row["question"]) > 60)
    items = [{"q": document["question"], "a": document["answer"] or "1"}]
    items += [
        {"q": f"Which river of the {name} hills runs to the sea by the old town?", "a": "5"}
        for name in "abcde"
    ]
    lines(tmp_path / "mirror/me/mine/default/test.jsonl", items)
    (tmp_path / "mine.yaml").write_text(
        "task: mine\ndataset_path: me/mine\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_text: 'Question: {{q}}\\nAnswer:'\ndoc_to_target: '{{a}}'\n"
        'generation_kwargs: {until: ["\\n"], max_gen_toks: 4}\nmetric_list: [{metric: exact_match}]\n'
    )
    mine = {
        "name": "mine",
        "repository": "me/mine",
        "yaml": "mine.yaml",
        "metric": "exact_match",
        "late": True,
    }
    mine |= {"question": "q", "answer": "a"}
    changes = {
        "data": {"mirror": str(tmp_path / "mirror")},
        "evaluation": {"benchmarks": ["builtin", mine]},
    }
    capsys.readouterr()
    plan, before = grown(first, tmp_path, **changes)
    assert (
        "benchmark 'mine' is late: 1 of its 6 items are in the training data, and are left out"
        in capsys.readouterr().err
    )
    new = [path for path in written(plan.study.folder) if path not in before]
    assert not [
        path for path in new if path.parts[-2] == "checkpoints" or path.suffix == ".safetensors"
    ]
    made = {path.parent for path in new if path.parent.parent.name == "evaluations"}
    assert len(made) == 2 * 2, "two checkpoints of two runs, on the new benchmark"
    for folder in made:
        assert set(pq.read_table(folder / "evaluations.parquet")["items"].to_pylist()) == {4}, (
            "one of the first five"
        )
