"""Results of a study under way: checkpoints are evaluated beside the trainings, and the results are the same."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.flows.stages.training_by_hand import Evaluating, Training, never, tiny

import flows.running.processes
import flows.running.silence
from flows.full_study import raise_failures
from flows.running import progress, throttle
from flows.running.processes import Failed, stopped_on_exit, wait_unless_stopping
from flows.stages import evaluate, live
from flows.stages.evaluate import evaluate_runs
from flows.stages.ingest import ingest_evaluations, not_ingested
from flows.stages.live import LiveResults, evaluate_live
from flows.stages.models import plan_models
from flows.stages.outputs import report_mark, write_returned
from flows.stages.prepare import prepare_data
from flows.stages.train import reopen_failed, train_models
from flows.stages.usage import register_user
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.store import Missing, Store
from sql.results import ingest, query
from tests.flows.heard import Heard
from tests.waiting import until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So short a study would end before its second look at the rows."""
    monkeypatch.setattr(flows.running.processes, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(evaluate, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(live, "ENTER_SECONDS", 0.0)
    monkeypatch.setattr(throttle, "FIRST_SHARE", 1.0)


@pytest.fixture
def evaluating(monkeypatch: pytest.MonkeyPatch) -> Evaluating:
    stand_in = Evaluating({})
    monkeypatch.setattr(evaluate, "Evaluators", stand_in)
    return stand_in


@pytest.fixture
def training(tmp_path: Path) -> Training:
    """A study of two models, whose row is in the results."""
    return Training(entered(tiny(tmp_path)))


def entered(study: Study) -> Study:
    ingest(study.database, {"studies": pa.Table.from_pylist([{"study_id": study.study_id, "name": "tiny"}])})
    return study


def test_checkpoints_are_evaluated_while_their_models_train(training: Training, evaluating: Evaluating) -> None:
    noted: list[Path] = []
    layered, recurrent = (look() for look in training.looks)
    assert {layered.status, recurrent.status} == {"waiting"}

    def steps() -> Iterator[Callable[[], object]]:
        training.write_checkpoint(layered, 1000)
        training.write_checkpoint(recurrent, 1000)
        yield lambda: len(noted) == 2
        assert [look().status for look in training.looks] == ["training", "training"]
        training.write_checkpoint(layered, 3000)
        training.end("LA")
        yield lambda: list(training.store.root.glob("evaluation/*/manifest.json"))
        training.end("DR", failed=True)
        training.close()
        yield never

    evaluated = training.follow(steps(), note=lambda run, rows: noted.append(rows))
    assert sorted(evaluating.asked) == [(recurrent.run_id, 1000), (layered.run_id, 1000), (layered.run_id, 3000)]
    # A failed training has no evaluation, and what there is of one is kept for the next attempt.
    assert set(evaluated.outputs) == {layered.run_id}
    assert evaluated.failures == {}
    (output,) = (training.store.root / name for name in evaluated.outputs.values())
    assert [rows.parent.name for rows in evaluated.row_folders()] == [f"{1000:015d}", f"{3000:015d}"]
    assert set(evaluated.row_folders()) < set(noted)
    assert sorted(path.name for path in output.iterdir()) == ["job.json", "log.txt", "manifest.json", "results"]
    job = json.loads((output / "job.json").read_text())
    assert job["trained_to"] == 3000
    assert all(Path(one["path"]).parent.parent == training.looks[0]().folder for one in job["checkpoints"])

    results = LiveResults(training.study, training.planned, training.looks)
    training.follow(iter([never]), note=results.add)
    assert len(evaluating.asked) == 3, "nothing is evaluated twice"
    results.update()
    assert set(query(training.study.database, "select status from runs")["status"]) == {"complete", "failed"}


def test_an_evaluation_reports_its_share_of_all_checkpoints(
    training: Training, evaluating: Evaluating, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, held, layered = [], Future(), training.looks[0]()

    def steps() -> Iterator[Callable[[], object]]:
        training.write_checkpoint(layered, 1000)
        yield lambda: noted
        (results,) = training.store.root.glob(f"evaluation/*/results/{layered.run_id}")
        told = {"done": 4, "total": 4, "checkpoints": 1.0, "items_per_second": 7}  # of the one that there was
        (results.parent / "progress.json").write_text(json.dumps(told))
        monkeypatch.setattr(evaluating, "evaluate", lambda path, tokens: held)
        training.write_checkpoint(layered, 3000)
        yield lambda: any("7 items/s" in words for _, _, words in heard.reports)
        held.set_exception(Failed("the evaluation ended here"))
        training.end("LA", "DR", failed=True)
        training.close()
        yield never

    with progress.listening(Heard()) as heard:
        training.follow(steps(), note=lambda run, rows: noted.append(rows))
    assert {share for _, share, words in heard.reports if "7 items/s" in words} == {0.5}


def test_who_only_asks_what_is_there_removes_no_record(training: Training, evaluating: Evaluating) -> None:
    training.finish()
    record = training.study.folder / "evaluated.json"
    record.write_text("what an earlier call has returned")
    training.store = Store(training.store.root, builds=False)
    trained = dataclasses.replace(training.ended, packed=training.prepared.packed.key)
    with pytest.raises(Missing):
        evaluate_runs(training.study, training.store, training.prepared, trained)
    assert record.read_text() == "what an earlier call has returned"


def test_an_evaluation_that_does_nothing_is_named_and_one_that_waits_is_not(
    training: Training, evaluating: Evaluating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.running.silence, "SHARED_SILENT_SECONDS", 0.5)
    asked: dict[str, Future[str]] = {}
    layered, recurrent = (look() for look in training.looks)

    def ask(path: Path, tokens: int) -> Future[str]:
        name = json.loads(path.read_text())["checkpoints"][0]["run_id"]
        asked[name] = Future()
        if name == layered.run_id:  # the other one waits for a slot
            asked[name].set_running_or_notify_cancel()
        return asked[name]

    monkeypatch.setattr(evaluating, "evaluate", ask)
    monkeypatch.setattr(evaluating, "wait", time.sleep)
    silent = f"evaluate {layered.model_id} seed 0: no progress"

    def steps() -> Iterator[Callable[[], object]]:
        for run in (layered, recurrent):
            training.write_checkpoint(run, 3000)
        training.end("LA", "DR")
        training.close()
        yield lambda: silent in [key for key, *_ in heard.reports]
        for future in asked.values():
            future.set_result("evaluated")
        yield never

    with progress.listening(Heard()) as heard:
        training.follow(steps())
    told = [(key, words) for key, _, words in heard.reports if key.endswith("no progress")]
    assert {key for key, _ in told} == {silent}
    first, last = (words for _, words in told)
    assert re.fullmatch("silent since [^,]*", first)
    assert last == "has ended"


def test_bad_input_of_an_evaluation_is_said_at_once_and_stops_no_training(
    training: Training, evaluating: Evaluating
) -> None:
    evaluating.failing["DR"] = InputError("no such task")
    with stopped_on_exit():
        training.write_checkpoint(training.looks[1](), 1000)
        with pytest.raises(InputError, match="no such task"):
            training.follow(iter([never]))
        wait_unless_stopping(0)


def test_rows_are_entered_and_the_report_is_written_while_models_train(
    training: Training, evaluating: Evaluating
) -> None:
    study, drawn = training.study, []
    results = LiveResults(study, training.planned, training.looks, lambda data: drawn.append(study.report.read_text()))
    (layered, recurrent), seen = (look() for look in training.looks), []

    def status() -> list[str]:
        return query(study.database, "select status from runs order by run_id desc")["status"].to_list()

    def steps() -> Iterator[Callable[[], object]]:
        training.write_checkpoint(layered, 1000)
        yield lambda: drawn
        seen.append(status())
        assert not query(study.database, "from evaluations where tokens = 1000").empty
        assert report_mark(study).exists()
        training.write_checkpoint(layered, 3000)
        training.write_checkpoint(recurrent, 3000)
        training.end("LA", "DR")
        yield lambda: status() == ["complete"] * 2
        assert query(study.database, "from evaluations").shape[0] == 3
        training.close()
        yield never

    training.follow(steps(), note=results.add, tick_too=results.update)
    assert seen == [["training", "waiting"]]
    assert f"Not complete: {layered.run_id} (training) and {recurrent.run_id} (waiting)." in page_text(drawn[0])
    assert len(drawn) == 1, "the second report has to wait"
    assert not_ingested(study, "trained").exists(), "the last word is not said"


def test_the_last_word_of_the_trainings_is_waited_for(training: Training, evaluating: Evaluating) -> None:
    study = training.study
    register_user(study.store_folder, study.folder)
    training.finish()
    with ThreadPoolExecutor(1) as beside, stopped_on_exit():
        following = beside.submit(evaluate_live, study, training.store, training.prepared, training.planned)
        until(lambda: following.done() or (study.folder / "evaluated.json").exists())
        assert not following.done()
        trained = training.close()
        write_returned(study, trained)
        assert following.result()[0] == trained


def test_an_error_in_showing_results_ends_no_evaluation(
    training: Training, evaluating: Evaluating, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = training.study
    broken = []
    monkeypatch.setattr(live, "write_data", lambda *_, **__: broken.append(1) or 1 / 0)
    results = LiveResults(study, training.planned, training.looks)

    def steps() -> Iterator[Callable[[], object]]:
        training.write_checkpoint(training.looks[0](), 1000)
        yield lambda: not query(study.database, "from evaluations").empty
        training.finish()
        yield never

    evaluated = training.follow(steps(), note=results.add, tick_too=results.update)
    assert broken
    assert len(evaluated.outputs) == 2


def test_a_failed_evaluation_ends_no_other_one_is_named_and_its_rows_do_not_stay(
    training: Training, evaluating: Evaluating
) -> None:
    study, (layered, recurrent) = training.study, (look().run_id for look in training.looks)
    results = LiveResults(study, training.planned, training.looks)

    def steps() -> Iterator[Callable[[], object]]:
        training.write_checkpoint(training.looks[0](), 1000)
        yield lambda: not query(study.database, "from evaluations").empty
        evaluating.failing["LA"] = Failed("no memory")
        training.finish()
        yield never

    evaluated = training.follow(steps(), note=results.add, tick_too=results.update)
    assert (set(evaluated.outputs), set(evaluated.failures)) == ({recurrent}, {layered})
    with pytest.raises(Failed, match=rf"1 failed, .* is here; evaluation of {layered}: no memory"):
        raise_failures(training.ended, evaluated, "here")
    ingest_evaluations(study, training.ended, evaluated)
    assert set(query(study.database, "from evaluations")["run_id"]) == {recurrent}


def test_a_training_is_reopened_before_its_checkpoints_are_looked_at(training: Training) -> None:
    run = training.looks[0]()
    training.write_checkpoint(run, 3000)
    training.end("LA", failed=True)
    assert training.looks[0]().status == "failed"
    reopen_failed(training.study, training.store, training.prepared.packed, training.planned)
    assert training.looks[0]().status == "training"
    assert training.looks[0]().folder.exists()


def page_text(page: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())


@pytest.mark.slow
def test_evaluated_beside_training_or_after_gives_the_same_rows(tmp_path: Path) -> None:
    """With screening, only the seed that goes on is evaluated: its early checkpoints too, once the seed is chosen."""
    study = entered(tiny(tmp_path, seeds=[0, 1], screening=0.5))
    study = study.model_copy(update={"evaluation": study.evaluation.model_copy(update={"depths": (1, 2)})})
    store = Store(study.store_folder)
    prepared = prepare_data(study, store)
    planned = plan_models(study, prepared.vocabulary_size)
    with ThreadPoolExecutor(1) as beside, stopped_on_exit():
        evaluating = beside.submit(evaluate_live, study, store, prepared, planned)
        trained = train_models(study, store, prepared, planned)
        also_trained, evaluated = evaluating.result()
    assert also_trained == trained
    assert set(evaluated.outputs) == {run.run_id for run in trained.runs if run.status == "complete"}
    assert len(evaluated.outputs) == 2
    assert not query(study.database, "from evaluations").empty

    beside_training = {rows.parent: tables(rows) for rows in evaluated.row_folders()}
    for output in store.root.glob("evaluation/*"):
        shutil.rmtree(output)
    again = evaluate_runs(study, store, prepared, trained)
    assert again == evaluated
    assert {rows.parent: tables(rows) for rows in again.row_folders()} == beside_training


def tables(rows: Path) -> dict[str, list[dict[str, Any]]]:
    return {path.name: pq.read_table(path).to_pylist() for path in rows.iterdir()}
