"""Define the Prefect flows: `full-study` and its four sub-flows, one for each stage.

A sub-flow takes what the stages before it returned. Called by itself, a sub-flow reads what they wrote to the study's
folder. Outputs lie in the content-addressed store, so a second run does nothing, and a killed one goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from prefect import flow, runtime, tags
from prefect.artifacts import create_link_artifact, create_table_artifact
from pydantic import Field

from flows.running import progress
from flows.running.patience import patiently
from flows.running.processes import Failed, wait_unless_stopping
from flows.running.record import recorded
from flows.running.single import only_run
from flows.stages.checks import check_study
from flows.stages.evaluate import evaluate_runs
from flows.stages.ingest import ingest_stages
from flows.stages.models import plan_models
from flows.stages.outputs import Evaluated, Prepared, Trained, read_finished
from flows.stages.prepare import prepare_data
from flows.stages.train import train_models
from flows.study.configuration import Study
from flows.study.loading import as_file, load_study, presets
from pipeline.errors import InputError
from pipeline.storage.store import Store
from reports.page.report import write_report
from sql.results import query

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


@flow(name="prepare-data", flow_run_name=named("prepare"))
def prepare_data_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> Prepared:
    """Turn sources into packed token shards."""
    chosen = load_study(study, mirror=mirror, root=root)
    prepared = prepare_data(chosen, Store(chosen.store_folder, wait=wait_unless_stopping))
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
    chosen = load_study(study, mirror=mirror, root=root)
    prepared = prepared or read_finished(chosen, Prepared)
    planned = plan_models(chosen, prepared.vocabulary_size)
    store = Store(chosen.store_folder, wait=wait_unless_stopping)
    trained = train_models(chosen, store, prepared, planned, accept_code_change=accept_code_change)
    ingest_stages(chosen, prepared, planned, trained)
    return trained


@flow(name="evaluate-checkpoints", flow_run_name=named("evaluate"))
def evaluate_checkpoints_flow(
    study: str = "demo",
    mirror: str | None = None,
    root: str | None = None,
    prepared: Prepared | None = None,
    trust_code: bool = False,
    trained: Trained | None = None,
) -> Evaluated:
    """Evaluate every checkpoint on every benchmark; ingest the results. Raises InputError without trained models."""
    chosen = load_study(study, mirror=mirror, root=root)
    prepared = prepared or read_finished(chosen, Prepared)
    trained = trained or read_finished(chosen, Trained)
    evaluated = evaluate_runs(
        chosen, Store(chosen.store_folder, wait=wait_unless_stopping), prepared, trained, trust_code=trust_code
    )
    planned = plan_models(chosen, prepared.vocabulary_size)
    ingest_stages(chosen, prepared, planned, trained, evaluated)
    return evaluated


@flow(name="report", flow_run_name=named("report"))
def report_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> str:
    """Write the HTML report and its figures from the results database."""
    chosen = load_study(study, mirror=mirror, root=root)
    progress.report("write report", 0.0, "figures and tables")
    path = str(patiently(lambda: write_report(chosen.database, chosen.study_id, chosen.report.parent)))
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
        mirror: a folder with data sets in the hub's layout, looked in before the hub
        root: where the study writes; default a folder of its name in runs
        accept_code_change: go on with trainings that other code has started
        trust_code: let the study's task files run Python

    Raises Failed, after the report of everything else is written, where a run or an evaluation has failed.
    """
    arguments = {"study": as_file(study, root=root), "mirror": mirror, "root": root}
    chosen = load_study(**arguments)
    with only_run(chosen):
        check_study(chosen, trust_code=trust_code)
        with progress.listening(progress.Artifacts()), recorded(chosen), tags(chosen.name):
            prepared = prepare_data_flow(**arguments)
            trained = train_models_flow(**arguments, accept_code_change=accept_code_change, prepared=prepared)
            evaluated = evaluate_checkpoints_flow(
                **arguments, trust_code=trust_code, prepared=prepared, trained=trained
            )
            path = report_flow(**arguments)
        for view, what in (("mean_factors", "Mean factors"), ("data_efficiency", "Factors by the paper's rule")):
            rows_of_study = f"SELECT * FROM {view} WHERE study_id = '{chosen.study_id}'"
            factors = patiently(partial(query, chosen.database, rows_of_study))
            rows = factors.astype(object).where(factors.notna(), None).to_dict("records")
            create_table_artifact(rows, key=view.replace("_", "-"), description=f"{what} of {chosen.study_id}")
        create_link_artifact(chosen.report.resolve().as_uri(), link_text="The report", key="report")
    raise_failures(trained, evaluated, path)
    return path


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
