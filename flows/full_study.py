"""Define the Prefect flows: `full-study` and its four sub-flows, one for each stage.

A sub-flow takes what the stages before it returned. Called by itself, a sub-flow reads what they wrote to the study's
folder. Outputs lie in the content-addressed store, so a second run does nothing, and a killed one goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from prefect import flow, get_client, runtime, tags
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from pydantic import Field

from flows.running import progress
from flows.running.artifacts import artifact_key
from flows.running.engine import attempt, call, reporting, tell_ends
from flows.running.logs import outlive_readers, plain_errors
from flows.running.patience import patiently
from flows.running.processes import Failed, stopped_on_exit, wait_unless_stopping
from flows.running.record import recorded
from flows.running.report_links import link_to_report
from flows.running.single import in_turn, only_run
from flows.stages.checks import check_study, study_warnings
from flows.stages.evaluate import evaluate_runs
from flows.stages.ingest import ingest_stages
from flows.stages.live import evaluate_live
from flows.stages.losses import say
from flows.stages.models import plan_models
from flows.stages.outputs import FILES, Evaluated, Prepared, Trained, read_finished, report_mark
from flows.stages.prepare import prepare_data
from flows.stages.train import reopen_failed, train_models
from flows.study.configuration import Study
from flows.study.loading import as_file, load_study, presets
from pipeline.errors import InputError
from pipeline.storage.store import Store
from reports.data import StudyData, read_study
from reports.page.report import write_data
from reports.page.summary import summary

Preset = Literal[tuple(presets())]  # type: ignore[valid-type]
Chosen = (  # three forms in Prefect's UI
    Annotated[Preset, Field(title="Preset")]
    | Annotated[str, Field(title="YAML file", description="the path of a study file, on the machine that runs it")]
    | Study
)


def named(words: str = "") -> Callable[[], str]:
    """Return the function by which Prefect names a run: after the study, and after `words` that say which stage."""

    def name() -> str:
        study = runtime.flow_run.parameters["study"]
        try:
            called = study.name if isinstance(study, Study) else load_study(study).name
        except InputError:  # which the flow then says
            called = Path(study).stem
        return f"{words} {called}".strip()

    return name


@contextmanager
def _running(study: str, mirror: str | None, root: str | None) -> Iterator[Study]:
    """Load a study and hold its lock, which `full-study` holds already where it calls its sub-flows."""
    outlive_readers()
    plain_errors()
    chosen = load_study(study, mirror=mirror, root=root)
    with only_run(chosen):
        yield chosen


def _store(study: Study) -> Store:
    """Open the store of a study; who waits there for another process hears of a stop."""
    return Store(study.store_folder, wait=wait_unless_stopping)


@flow(name="prepare-data", flow_run_name=named("prepare"))
def prepare_data_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> Prepared:
    """Turn sources into packed token shards."""
    with _running(study, mirror, root) as chosen:
        prepared = prepare_data(chosen, _store(chosen))
        ingest_stages(chosen, prepared)
        return prepared


@flow(name="train-models", flow_run_name=named("train"))
def train_models_flow(
    study: str = "demo",
    mirror: str | None = None,
    root: str | None = None,
    accept_code_change: bool = False,
    prepared: Prepared | None = None,
) -> Trained:
    """Train matched models on the same token stream. Raises InputError where no data have been prepared."""
    with _running(study, mirror, root) as chosen:
        prepared = prepared or read_finished(chosen, Prepared)
        planned = plan_models(chosen, prepared.vocabulary_size)
        trained = train_models(chosen, _store(chosen), prepared, planned, accept_code_change=accept_code_change)
        ingest_stages(chosen, prepared, planned, trained)
        return trained


@flow(name="evaluate-checkpoints", flow_run_name=named("evaluate"))
def evaluate_checkpoints_flow(
    study: str = "demo",
    mirror: str | None = None,
    root: str | None = None,
    prepared: Prepared | None = None,
    trust_code: bool = False,
    live: bool = False,
) -> Evaluated:
    """Evaluate every checkpoint on every benchmark; ingest the results. Raises InputError without trained models.

    With `live` the models are trained beside it: a checkpoint is evaluated when it is written and a slot is free.
    """
    with _running(study, mirror, root) as chosen:
        prepared = prepared or read_finished(chosen, Prepared)
        planned = plan_models(chosen, prepared.vocabulary_size)
        store = _store(chosen)
        if live:
            trained, evaluated = evaluate_live(
                chosen, store, prepared, planned, trust_code=trust_code, drawn=partial(_show_summary, chosen)
            )
        else:
            trained = read_finished(chosen, Trained)
            evaluated = evaluate_runs(chosen, store, prepared, trained, trust_code=trust_code)
        ingest_stages(chosen, prepared, planned, trained, evaluated)
        return evaluated


@flow(name="report", flow_run_name=named("report"))
def report_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> str:
    """Write the HTML report and its figures from the results database."""
    with _running(study, mirror, root) as chosen:
        progress.report("write report", 0.0, "figures and tables")
        data = patiently(lambda: read_study(chosen.database, chosen.study_id))
        path = str(write_data(data, chosen.report.parent))
        report_mark(chosen).unlink(missing_ok=True)
        if runtime.flow_run.id:
            show_results(chosen, data)
        progress.report("write report", 1.0, path)
        return path


@flow(name="full-study", flow_run_name=named())
def full_study(
    study: Chosen = "demo",
    mirror: str | None = None,
    root: str | None = None,
    accept_code_change: bool = False,
    trust_code: bool = False,
) -> str:
    """Take a study from raw data to its report; returns the report's path.

    Args:
        study: a preset, the path of a YAML file, or the values of a study, which are written to a file in its folder
        mirror: a folder of data sets in the hub's layout, looked in before the hub
        root: where the study writes; default a folder of its name in runs
        accept_code_change: go on with trainings that other code has started
        trust_code: let the study's task files run Python

    Raises Failed, after the report of everything else is written, where a run or an evaluation has failed.
    """
    arguments = {"study": as_file(study, root=root), "mirror": mirror, "root": root}
    with _running(**arguments) as chosen:
        check_study(chosen, trust_code=trust_code)
        say(study_warnings(chosen))
        attempt(_tag_run, chosen.name)
        with tags(chosen.name), recorded(chosen), reporting(progress.Artifacts(chosen.name)), in_turn():
            prepared = call(prepare_data_flow, **arguments)
            (chosen.folder / FILES[Trained]).unlink(missing_ok=True)  # until then, evaluation waits for checkpoints
            reopen_failed(chosen, _store(chosen), prepared.packed, plan_models(chosen, prepared.vocabulary_size))
            with ThreadPoolExecutor(1) as beside, stopped_on_exit():
                evaluate = partial(call, evaluate_checkpoints_flow, **arguments, trust_code=trust_code, live=True)
                evaluating = beside.submit(copy_context().run, evaluate, prepared=prepared)
                trained = call(train_models_flow, **arguments, accept_code_change=accept_code_change, prepared=prepared)
                evaluated = evaluating.result()
            path = call(report_flow, **arguments)
        tell_ends()
    raise_failures(trained, evaluated, path)
    return path


def show_results(study: Study, data: StudyData) -> None:
    """Show the factors of a finished study as tables in Prefect's UI, and its summary."""
    for name, factors, what in (
        ("mean factors", data.mean_factors, "Mean factors"),
        ("data efficiency", data.efficiency, "Factors by the paper's rule"),
    ):
        attempt(
            create_table_artifact, table_rows(factors), artifact_key(study.name, name), f"{what} of {study.study_id}"
        )
    _show_summary(study, data)


def table_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Make the rows of a table for Prefect: null for what is missing, words for infinity, which JSON does not know."""
    known = frame.astype(object).replace({math.inf: "unbounded", -math.inf: "-unbounded"})
    return known.where(frame.notna(), None).to_dict("records")


def _show_summary(study: Study, data: StudyData) -> None:
    """Show the answer of a study, its factors and its curves in Prefect's UI, and link to its report."""
    text = summary(data)
    attempt(create_markdown_artifact, text, artifact_key(study.name, "summary"), f"What {study.study_id} says")
    attempt(create_link_artifact, link_to_report(study), "The report", artifact_key(study.name, "report"))


def _tag_run(tag: str) -> None:
    """Tag the flow run that goes on, whose parameters alone do not name the study."""
    with get_client(sync_client=True) as client:
        client.update_flow_run(runtime.flow_run.id, tags={*runtime.flow_run.tags, tag})


def raise_failures(trained: Trained, evaluated: Evaluated, report: str) -> None:
    """Raise Failed, naming the runs to look at, where trainings or evaluations have failed."""
    failed = [
        f"training of {run.run_id}: {run.failure} (see {run.folder.with_suffix('.log')})"
        for run in trained.runs
        if run.status == "failed"
    ]
    failed += [f"evaluation of {run}: {reason}" for run, reason in evaluated.failures.items()]
    if failed:
        raise Failed(f"{len(failed)} failed, the report of the others is {report}; {'; '.join(failed)}")


if __name__ == "__main__":
    full_study()
