"""Evaluation within a study: all places are used, and everything found becomes rows of the results database."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
import yaml

from flows.stages.evaluate import evaluate_runs
from flows.stages.ingest import ingest_evaluations, ingest_runs
from flows.stages.models import plan_models
from flows.stages.outputs import Run, result_folders
from flows.stages.prepare import prepare_data
from flows.stages.train import train_models
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.store import Store
from tests.flows.small_study import TINY


def small_study(root: Path) -> Study:
    """Two models, one seed, three checkpoints; more places than runs."""
    content = yaml.safe_load(TINY.read_text())
    content["models"]["variants"] = ["LA", "DR+DA"]
    content["training"] |= {"seeds": [0], "tokens": 3000, "checkpoints": 3}
    content["evaluation"] |= {"depths": [1, 2, 3], "limit": 5, "bootstrap_replicates": 0}
    return load_study({**content, "workers": 5}, root=root)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, list[Run], Path]:
    """A study up to its results, and the folder of one evaluation."""
    study = small_study(tmp_path_factory.mktemp("study"))
    store = Store(study.store_folder)
    prepared = prepare_data(study, store)
    planned = plan_models(study, prepared.vocabulary_size)
    trained = train_models(study, store, prepared, planned)
    ingest_runs(study, planned, trained)
    evaluated = evaluate_runs(study, store, prepared, trained)
    for _ in range(2):  # ingesting again changes nothing
        ingest_evaluations(study, trained, evaluated)
    folders = {run_id: store.root / name for run_id, name in evaluated.outputs.items()}
    assert all(len(result_folders(folder / "results")) == 3 for folder in folders.values())
    return study, list(trained.runs), folders[trained.runs[-1].run_id]


@pytest.mark.slow
def test_each_checkpoint_is_evaluated_once(evaluated: tuple[Study, list[Run], Path]) -> None:
    _, runs, folder = evaluated
    lines = (folder / "log.txt").read_text().splitlines()
    assert len(lines) == 3
    assert all(f"{runs[-1].run_id} " in line and " items/s: " in line for line in lines)


@pytest.mark.slow
def test_all_that_evaluation_finds_is_entered_once(evaluated: tuple[Study, list[Run], Path]) -> None:
    study, runs, _ = evaluated
    points = {run.run_id: sorted(int(p.name) for p in (run.folder / "checkpoints").iterdir()) for run in runs}
    layered, recurrent = (run.run_id for run in runs)
    with duckdb.connect(str(study.database), read_only=True) as connection:

        def ask(query: str) -> list[tuple]:
            return connection.execute(query).fetchall()

        said = ask("select run_id, tokens, step, epoch, loss, seconds, stream_hash from checkpoints order by all")
        for run_id, tokens, *values in said:
            folder = next(run.folder for run in runs if run.run_id == run_id)
            written = json.loads((folder / "checkpoints" / f"{tokens:015d}" / "checkpoint.json").read_text())
            names = ("step", "epoch", "loss", "seconds", "stream_hash")
            assert values == [written[name] for name in names]
        assert [row[:2] for row in said] == sorted((run, tokens) for run, own in points.items() for tokens in own)
        assert ask("select * from stream_mismatches") == []

        benchmarks = {name for (name,) in ask("select distinct task from evaluations")}
        assert benchmarks == {"world_short", "world_long", "world_choice", "validation"}
        versions = ask("select distinct run_id, tokens, task from evaluation_versions")
        assert len(versions) == len(ask("from evaluation_versions")) == 2 * 3 * 4
        (packages,) = ask("select distinct packages from evaluation_versions")
        assert {"python", "torch", "lm-eval", "tokenizers"} <= set(json.loads(packages[0]))

        losses = "select distinct task from evaluations where metric = 'gold_bits_per_byte' and stderr > 0 order by all"
        assert ask(losses) == [("world_choice",), ("world_long",), ("world_short",)]
        validation = "from items where task = 'validation'"
        assert ask(f"select distinct metric, filter {validation}") == [("bits_per_byte", "none")]
        assert ask(f"select count(*), min(value) > 0 {validation}") == [(2 * 3 * 5, True)]
        assert ask("from benchmarks where task = 'validation'") == []

        # Recurrent models run at other depths, at their last checkpoint; where it is their own it is the evaluation.
        depths = ask("select distinct run_id, tokens, depth from depth_evaluations order by all")
        assert depths == [(recurrent, points[recurrent][-1], depth) for depth in (1, 2, 3)]
        assert ask("select count(*) from depth_evaluations where depth = 2") == ask(
            "select count(*) from depth_evaluations "
            "join evaluations using (run_id, tokens, task, metric, filter, value) where depth = 2"
        )

        # The averaged weights are evaluated, and beside them the raw ones, which are others.
        assert ask("select distinct weights from evaluation_versions") == [("averaged",)]
        keys = "run_id, tokens, task, metric, filter, items, chance"
        assert ask(f"select {keys} from raw_evaluations order by all") == ask(
            f"select {keys} from evaluations order by all"
        )

        usage = ask("select run_id, tokens, depth, sum(selections) from expert_usage group by all order by all")
        assert [row[:3] for row in usage] == [
            (run, tokens, depth) for run in sorted(points) for tokens in points[run] for depth in (1, 2)
        ]
        assert len({row[3] for row in usage}) == 1  # the same tokens for every model
        assert ask("select count(*), min(run_id) from depth_attention") == [(3 * 3, recurrent)]
        assert layered not in {row[0] for row in ask("select run_id from depth_attention")}
        assert len(ask("from depth_accuracy")) == 3 * 3


def test_settings_are_checked(tmp_path: Path) -> None:
    content = yaml.safe_load(TINY.read_text())
    content["evaluation"]["depths"] = [4, 0]
    with pytest.raises(InputError, match=r"evaluation\.depths\.1 is 0"):
        load_study(content)
    study = small_study(tmp_path)
    assert study.study_id != unobserved(study).study_id


def unobserved(study: Study) -> Study:
    """The same study without looking inside the models: another study, with other results."""
    return study.model_copy(update={"evaluation": study.evaluation.model_copy(update={"introspect": False})})


def test_a_checkpoint_being_written_is_no_result(tmp_path: Path) -> None:
    for name in ("000000000001000", "000000000002000.partial", "000000000003000.pieces"):
        (tmp_path / "run" / name / "rows").mkdir(parents=True)
    assert result_folders(tmp_path) == [tmp_path / "run" / "000000000001000" / "rows"]
