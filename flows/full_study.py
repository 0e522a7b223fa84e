"""The flow `full-study`: from raw data to the answer, on Prefect.

A run of the flow does these steps, each a task of `prefect/tasks.py`; `running/study.py` has their
order, which follows from the plan of the study:

    download    fetch data sets from the hub              running/curation.py
    data        read, strip, clean, deduplicate,          running/curation.py, and its warnings:
                decontaminate, pack into tokens           running/curation_warnings.py
    match       size the models: equal FLOPs, parameters  plan/decisions.py
    training    train one model with one seed             running/trainings.py: which comes next;
    evaluation  evaluate one checkpoint                   jobs/local.py: its process
    statistics  enter rows, compute ratios, intervals     running/result_rows.py; while models
                                                          train: running/live_results.py
    report      write the page                            running/live_results.py

`plan/study_plan.py` knows every output, run and evaluation with its key, its folder, and whether it
is done: what is done is shown as `Cached`. `jobs/retries.py` says what is tried again. `dreamer
run` runs the same steps, and `--plain` runs them without Prefect (`running/steps.py`).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

from prefect import flow, runtime
from prefect.states import Cancelled
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from dreamer_study.flows.estimates.disk_space import data_bytes
from dreamer_study.flows.jobs import Stopped
from dreamer_study.flows.jobs.cluster import open_jobs
from dreamer_study.flows.plan.preflight import check_study, study_warnings
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.prefect.logs import outlive_readers, plain_errors
from dreamer_study.flows.prefect.tasks import PrefectSteps
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.curation_warnings import say
from dreamer_study.flows.running.options import Options, Until
from dreamer_study.flows.running.study import run_study
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_changed, load_study, presets
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.page.report import write_report

Preset = Literal[tuple(presets())]  # type: ignore[valid-type]
Chosen = (  # two forms in Prefect's pages; Python may hand a study over
    Annotated[Preset, Field(title="Preset")]
    | Annotated[
        str,
        Field(
            title="YAML file", description="the path of a study file, on the machine that runs it"
        ),
    ]
    | SkipJsonSchema[Study]
)
Overrides = Annotated[
    dict[str, Any], Field(examples=[{"training.tokens": 200000, "training.seeds": [0, 1]}])
]


def _name() -> str:
    """Name a flow run after its study."""
    parameters = runtime.flow_run.parameters
    study = parameters["study"]
    if isinstance(study, Study):
        return study.name
    try:
        return load_study(study, changes=parameters.get("overrides")).name
    except InputError:  # which the flow then says
        return Path(study).stem


@flow(name="full-study", flow_run_name=_name)
def full_study(
    study: Chosen = "demo",
    overrides: Overrides | None = None,
    mirror: str | None = None,
    root: str | None = None,
    accept_code_change: bool = False,
    trust_code: bool = False,
    until: Until = "report",
) -> object:
    """Take a study from raw data to its report; returns the report's path.

    Args:
        study: a preset, or the path of a YAML file
        overrides: other values for keys of the study, with dots between sections, as in
            {"training.tokens": 200000, "training.seeds": [0, 1]}
        mirror: a folder of data sets in the hub's layout, looked in before the hub
        root: where the study writes; default a folder of its name in runs
        accept_code_change: continue trainings that other code has started
        trust_code: let the tasks that the study names run Python
        until: end after this stage: prepare, train, evaluate, report

    Raises Failed, after the report of everything else is written, where a run or an evaluation has
    failed.
    """
    outlive_readers()
    plain_errors()
    chosen = load_changed(study, overrides, mirror=mirror, root=root)
    options = Options(until, accept_code_change, trust_code or chosen.trusted)
    with only_run(chosen):
        check_study(
            chosen, trust_code=options.trust_code, draws=until == "report", data_bytes=data_bytes
        )
        say(study_warnings(chosen))
        return show_run(chosen, options)


@flow(name="report", flow_run_name=_name)
def report(
    study: Chosen = "demo", overrides: Overrides | None = None, root: str | None = None
) -> str:
    """Write the report of a study again, of the results that are there; returns its path.

    Args:
        study: a preset, or the path of a YAML file
        overrides: other values for keys of the study, as given to full-study
        root: where the study writes; default a folder of its name in runs
    """
    plain_errors()
    chosen = load_changed(study, overrides, root=root)
    return str(write_report(chosen.database, chosen.study_id, chosen.report.parent))


def show_run(study: Study, options: Options) -> object:
    """Run a study that was checked, in the flow run that is under way; returns the report's path.

    A run that was cancelled in Prefect ends as cancelled there.
    """
    try:
        with (
            recorded(study),
            closing(PrefectSteps(study)) as steps,
            open_jobs(study) as (opened, jobs),
        ):
            path = run_study(Plan(opened), jobs, steps, options)
    except Stopped as error:  # Prefect would call any other error a failure
        return Cancelled(message=str(error))
    return str(path) if path else None
