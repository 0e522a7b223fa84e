"""Find the state of every stage, model and seed of a study; reads only.

States follow from the plan and from progress files. The lock of the study's folder tells whether
unfinished work continues or was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from dreamer_study.flows.plan.data_plan import VERSIONS
from dreamer_study.flows.plan.model_plan import shown_name
from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.progress.reports import FAILURE, bounded, read_progress
from dreamer_study.flows.progress.status_file import Reported, read_record
from dreamer_study.flows.progress.study_lock import running_since
from dreamer_study.flows.running.job_progress import without_time_left
from dreamer_study.flows.running.live_results import report_mark
from dreamer_study.flows.running.result_rows import COMPLETE, FAILED, SCREENED
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.training.search import in_words
from dreamer_study.pipeline.errors import InputError

WAITING = "waiting"
RUNNING = "running"
STOPPED = "stopped"
DATA_STAGES = [stage for stage in VERSIONS if stage not in ("runs", "evaluations", "decisions")]
OF_EACH_SOURCE = ("documents", "traces", "clean", "signatures")


@dataclass(frozen=True)
class State:
    """The progress of a stage, or of a model and seed in it; `left` is in seconds where known."""

    stage: str
    model: str = ""
    seed: int | None = None
    state: str = WAITING
    progress: float = 0.0
    left: float | None = None
    detail: str = ""


def overall(states: list[State], *, runs: bool) -> str:
    """Return the state of a whole study: running while a process runs it, else by its parts."""
    names = {state.state for state in states}
    if runs:
        return RUNNING
    if FAILED in names:
        return FAILED
    if names <= {COMPLETE, SCREENED}:
        return COMPLETE
    if names <= {WAITING}:
        return "not started"
    return STOPPED


def read_states(plan: Plan) -> list[State]:
    """List all states in the order of work: data stages, trainings, evaluations, report.

    Raises InputError where the rows of a variant from elsewhere cannot be taken.
    """
    study = plan.study
    since = running_since(study)
    record = read_record(study)
    if study.models.elsewhere:
        _ = plan.origins  # without one, the study would seem not to have begun
    prepared = False
    with suppress(InputError):  # data sets that are not as the study wants them
        prepared = plan.described
    has_late = any(benchmark.late for benchmark in study.own_benchmarks)
    wanted = {"world": study.needs_world, "late": has_late}
    stages = [stage for stage in DATA_STAGES if wanted.get(stage, True)]
    states = [_data_stage(plan, stage, record, prepared, since) for stage in stages]
    if prepared:
        states += _of_runs(plan, record, since)
    if not prepared or plan.tuning_runs:
        states += _of_models_to_come(study)
    is_rest_done = {state.state for state in states} <= {COMPLETE, SCREENED}
    return [*states, _of_report(study, record, since, is_rest_done=is_rest_done)]


def _of_report(
    study: Study, record: Mapping[str, Reported], since: float | None, *, is_rest_done: bool
) -> State:
    """Build the state of the report, which begins with the ratios."""
    for key in ("statistics", "write report"):
        reported = record.get(key)
        if reported and since is not None and _at_work(reported, since):
            return State("report", state=RUNNING, detail=reported.words)
    is_final = report_mark(study).exists() and study.report.exists()
    if is_final and is_rest_done:
        return State("report", state=COMPLETE, progress=1.0)
    has_begun = "write report" in record and record["write report"].fraction < 1
    return State("report", state=STOPPED if since is None and has_begun else WAITING)


def _of_runs(plan: Plan, record: Mapping[str, Reported], since: float | None) -> list[State]:
    """List the states of the trainings and the evaluations of all runs that are known."""
    runs = plan.tuning_runs or plan.runs
    states = [_training(run, record, since) for run in runs]
    to_evaluate = [run for run in runs if run.status != "screened" and not run.failure]
    if plan.prepared:
        states += [_evaluation(plan, run, record, since) for run in to_evaluate]
    else:  # the items of late benchmarks are still to be looked for in the data
        states += [State("evaluate", _model(run), run.seed) for run in to_evaluate]
    return states


def _of_models_to_come(study: Study) -> list[State]:
    """List the states of trainings and evaluations whose runs are not known yet: all wait."""
    models = [
        (shown_name(study, variant.name, depth), seed)
        for depth in study.models.depths
        for variant in study.models.trained
        for seed in study.seeds_of(variant.name)
    ]
    return [State(stage, model, seed) for stage in ("train", "evaluate") for model, seed in models]


def _data_stage(
    plan: Plan, stage: str, record: Mapping[str, Reported], prepared: bool, since: float | None
) -> State:
    if prepared and (stage != "late" or plan.prepared):
        return State(stage, state=COMPLETE, progress=1.0)
    expected = len(plan.study.data.sources) if stage in OF_EACH_SOURCE else 1
    reports = [reported for key, reported in record.items() if key.split(" ")[0] == stage]
    return _reported(stage, reports, expected, since)


def _reported(stage: str, begun: list[Reported], expected: int, since: float | None) -> State:
    """Build the state of a stage of `expected` parts from the newest reports of those begun."""
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
    left = None
    if progress > 0.02:  # what is left is guessed from little otherwise
        left = spent * (1 - progress) / progress
    return State(stage, state=RUNNING, progress=progress, left=left, detail=words)


def _model(run: Run) -> str:
    """Name the model of a run; in a search for learning rates with the rate."""
    if run.status == "tuning":
        return f"{run.model.name} {in_words(run.searched)}"
    return run.model.name


def _training(run: Run, record: Mapping[str, Reported], since: float | None) -> State:
    """Build the state of the training of a run."""
    progress = read_progress(run.folder / "progress.json")
    tokens = max(run.tokens, progress.get("tokens", 0))
    state = _of_run(
        State("tune" if run.status == "tuning" else "train", _model(run), run.seed),
        record.get(run.training_name),
        since,
        share=min(tokens / run.content["training"]["tokens"], 1.0),
        end=_end_of(run),
        failure=f"{run.failure} (see {run.folder / 'log.txt'})" if run.failure else "",
    )
    if state.state == RUNNING:
        words = without_time_left(state.detail)  # which has a column
        return replace(state, left=progress.get("seconds_left"), detail=words)
    return state


def _end_of(run: Run) -> str:
    """Return the state of a training that has come to its end; "" of one that has not."""
    if not run.done:
        return ""
    match run.status:
        case "racing":
            return ""  # at the end of the race: the decision who has won follows
        case "screened":
            return SCREENED
        case _:
            return COMPLETE


def _evaluation(plan: Plan, run: Run, record: Mapping[str, Reported], since: float | None) -> State:
    """Build the state of the evaluations of a run."""
    expected = 1 if run.status == "tuning" else len(plan.decisive) * run.expected
    done = sum(evaluation.done for evaluation in plan.evaluations(run))
    share = done / max(1, expected)
    reported = record.get(f"evaluate {run.name}")
    has_failed = reported is not None and reported.words.startswith(FAILURE)
    return _of_run(
        State("evaluate", _model(run), run.seed),
        reported,
        since,
        share=share,
        end=COMPLETE if share >= 1 else "",
        failure=reported.words if has_failed else "",
    )


def _of_run(
    state: State,
    reported: Reported | None,
    since: float | None,
    *,
    share: float,
    end: str,
    failure: str,
) -> State:
    """Complete the state of a training, or of the evaluations of a run.

    The state is running, its `end`, failed, stopped, or waiting. A run is running when the process
    that now runs the study has reported work on the run.
    """
    if reported and since is not None and _at_work(reported, since):
        return replace(state, state=RUNNING, progress=bounded(share), detail=reported.words)
    if end:
        return replace(state, state=end, progress=share)
    if failure:
        return replace(state, state=FAILED, progress=share, detail=failure)
    has_begun = bool(share or reported)
    name = STOPPED if since is None and has_begun else WAITING
    return replace(state, state=name, progress=bounded(share))


def _at_work(reported: Reported, since: float) -> bool:
    """Tell whether the newest report is of work that the process since then has not ended."""
    is_of_this_process = reported.at >= since
    has_ended = reported.fraction >= 1 or reported.words.startswith(FAILURE)
    return is_of_this_process and not has_ended
