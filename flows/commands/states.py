"""Find the state of every stage, model and seed of a study from its plan and from progress files;
reads only.

The lock of the study's folder tells whether unfinished work goes on or was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from dreamer_study.flows.plan.data_plan import VERSIONS
from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.progress.reports import FAILURE, bounded, read_progress
from dreamer_study.flows.progress.status_file import Reported, read_record
from dreamer_study.flows.progress.study_lock import running_since
from dreamer_study.flows.running.live_results import report_mark
from dreamer_study.flows.running.result_rows import COMPLETE, FAILED, SCREENED
from dreamer_study.pipeline.errors import InputError

WAITING, RUNNING, STOPPED = "waiting", "running", "stopped"
DATA_STAGES = [stage for stage in VERSIONS if stage not in ("runs", "evaluations", "decisions")]
OF_EACH_SOURCE = ("documents", "traces", "clean", "signatures")


@dataclass(frozen=True)
class State:
    """How far one stage is, or one model and seed in a stage; `left` in seconds where known."""

    stage: str
    model: str = ""
    seed: int | None = None
    state: str = WAITING
    progress: float = 0.0
    left: float | None = None
    detail: str = ""


def overall(states: list[State], *, runs: bool) -> str:
    """Return the state of a whole study: running while a process runs the study, else what all its
    states say."""
    found = {state.state for state in states}
    if runs:
        return RUNNING
    if FAILED in found:
        return FAILED
    if found <= {COMPLETE, SCREENED}:
        return COMPLETE
    return STOPPED if found - {WAITING} else "not started"


def read_states(plan: Plan) -> list[State]:
    """List the states of the data stages, of every training and evaluation, and of the report, in
    the order of work."""
    study = plan.study
    since, record = running_since(study), read_record(study)
    prepared = False
    with suppress(InputError):  # data sets that are not as the study wants them
        prepared = plan.described
    wanted = {"world": study.needs_world, "late": any(one.late for one in study.own_benchmarks)}
    stages = [stage for stage in DATA_STAGES if wanted.get(stage, True)]
    states = [_data_stage(plan, stage, record, prepared, since) for stage in stages]
    if prepared:
        runs = plan.tuning_runs or plan.runs
        states += [_training(run, record, since) for run in runs]
        going_on = [run for run in runs if run.status != "screened" and not run.failure]
        if plan.prepared:
            states += [_evaluation(plan, run, record, since) for run in going_on]
        else:  # the items of late benchmarks are still to be looked for in the data
            states += [State("evaluate", _model(run), run.seed) for run in going_on]
    if not prepared or plan.tuning_runs:
        models = [
            (one.name, f"{one.name}-{depth}")
            for depth in study.models.depths
            for one in study.models.variants
        ]
        waiting = [(model, seed) for name, model in models for seed in study.seeds_of(name)]
        states += [
            State(stage, model, seed) for stage in ("train", "evaluate") for model, seed in waiting
        ]
    if (
        report_mark(study).exists()
        and study.report.exists()
        and {one.state for one in states} <= {COMPLETE, SCREENED}
    ):
        return [*states, State("report", state=COMPLETE, progress=1.0)]
    return [*states, _reported("report", [record.get("write report")], 1, since)]


def _data_stage(
    plan: Plan, stage: str, record: Mapping[str, Reported], prepared: bool, since: float | None
) -> State:
    if prepared and (stage != "late" or plan.prepared):
        return State(stage, state=COMPLETE, progress=1.0)
    expected = len(plan.study.data.sources) if stage in OF_EACH_SOURCE else 1
    reports = [reported for key, reported in record.items() if key.split(" ")[0] == stage]
    return _reported(stage, reports, expected, since)


def _reported(
    stage: str, reports: list[Reported | None], expected: int, since: float | None
) -> State:
    """Build the state of a stage that consists of `expected` parts from the newest reports of those
    that have begun."""
    begun = [reported for reported in reports if reported]
    progress = sum(reported.fraction for reported in begun) / max(expected, len(begun))
    if progress >= 1:
        return State(stage, state=COMPLETE, progress=1.0)
    if not begun:
        return State(stage)
    unfinished = [reported for reported in begun if reported.fraction < 1]
    words = ", ".join(reported.words for reported in unfinished if reported.words)
    if since is None:
        return State(stage, state=STOPPED, progress=progress, detail=words)
    spent = max(reported.at for reported in begun) - min(reported.since for reported in begun)
    left = spent * (1 - progress) / progress if progress > 0.02 else None
    return State(stage, state=RUNNING, progress=progress, left=left, detail=words)


def _model(run: Run) -> str:
    """Name the model of a run, with its learning rate where the run belongs to a search for
    learning rates."""
    return run.model.model_id + f" rate {run.learning_rate:g}" * (run.status == "tuning")


def _training(run: Run, record: Mapping[str, Reported], since: float | None) -> State:
    found, total = read_progress(run.folder / "progress.json"), run.content["training"]["tokens"]
    share = min(max(run.tokens, found.get("tokens", 0)) / total, 1.0)
    end = (
        (SCREENED if run.status == "screened" else COMPLETE)
        if run.done and run.status != "racing"
        else ""
    )
    failure = f"{run.failure} (see {run.folder / 'log.txt'})" if run.failure else ""
    stage = "tune" if run.status == "tuning" else "train"
    state = _of_run(
        stage, run, record.get(run.training_name), since, share=share, end=end, failure=failure
    )
    return replace(state, left=found.get("seconds_left")) if state.state == RUNNING else state


def _evaluation(plan: Plan, run: Run, record: Mapping[str, Reported], since: float | None) -> State:
    """Build the state of the evaluations of a run."""
    wanted = 1 if run.status == "tuning" else len(plan.decisive) * run.expected
    share = sum(one.done for one in plan.evaluations(run)) / max(1, wanted)
    told = record.get(f"evaluate {run.name}")
    failure = told.words if told and told.words.startswith(FAILURE) else ""
    return _of_run(
        "evaluate",
        run,
        told,
        since,
        share=share,
        end=COMPLETE if share >= 1 else "",
        failure=failure,
    )


def _of_run(
    stage: str,
    run: Run,
    told: Reported | None,
    since: float | None,
    *,
    share: float,
    end: str,
    failure: str,
) -> State:
    """Build the state of a training or of the evaluations of a run: at work, at its end, failed, or
    to be gone on with.

    A run is at work when the process that now runs the study has reported work on the run.
    """
    state = partial(State, stage, _model(run), run.seed)
    if (
        told
        and since is not None
        and told.at >= since
        and told.fraction < 1
        and not told.words.startswith(FAILURE)
    ):
        return state(RUNNING, bounded(share), detail=told.words)
    if end or failure:
        return state(end or FAILED, share, detail="" if end else failure)
    return state(STOPPED if since is None and (share or told) else WAITING, bounded(share))
