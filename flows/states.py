"""Find the state of every stage, model and seed of a study from its plan and from progress files; reads only.

The lock of the study's folder tells whether unfinished work goes on or was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from flows.data import VERSIONS
from flows.live import report_mark
from flows.plan import Plan, Run
from flows.rows import COMPLETE, FAILED, SCREENED
from flows.watching.looks import written_at
from flows.watching.progress import bounded, read_progress, silence
from flows.watching.record import Reported, read_record
from flows.watching.single import running_since
from pipeline.errors import InputError

WAITING, RUNNING, STOPPED = "waiting", "running", "stopped"
DATA_STAGES = [stage for stage in VERSIONS if stage not in ("runs", "evaluations", "decisions")]
OF_EACH_SOURCE = ("documents", "traces", "clean", "signatures")
REPORT = "write report"


@dataclass(frozen=True)
class State:
    """How far one stage is, or one model and seed in a stage; `rate` in words, `left` in seconds where known."""

    stage: str
    model: str = ""
    seed: int | None = None
    state: str = WAITING
    progress: float = 0.0
    rate: str = ""
    left: float | None = None
    detail: str = ""


def overall(states: list[State], *, runs: bool) -> str:
    """Return the state of a whole study: running while a process runs the study, else what all its states say."""
    found = {state.state for state in states}
    if runs:
        return RUNNING
    if FAILED in found:
        return FAILED
    if found <= {COMPLETE, SCREENED}:
        return COMPLETE
    return STOPPED if found - {WAITING} else "not started"


def read_states(plan: Plan) -> list[State]:
    """List the states of the data stages, of every training and evaluation, and of the report, in the order of work."""
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
        states += [_training(run, since) for run in runs]
        going_on = [run for run in runs if run.status != "screened" and not run.failure]
        of_run = partial(_evaluation, plan, record, since) if plan.prepared else _waiting
        states += [of_run(run) for run in going_on]
    if not prepared or plan.tuning_runs:
        models = [(one.name, f"{one.name}-{depth}") for depth in study.models.depths for one in study.models.variants]
        waiting = [(model, seed) for name, model in models for seed in study.seeds_of(name)]
        states += [State(stage, model, seed) for stage in ("train", "evaluate") for model, seed in waiting]
    written = study.report.exists() and report_mark(study).exists()
    written = written and all(state.state in (COMPLETE, SCREENED) for state in states)
    report = State("report", state=COMPLETE, progress=1.0)
    return [*states, report if written else _reported("report", [record.get(REPORT)], 1, since)]


def _data_stage(plan: Plan, stage: str, record: Mapping[str, Reported], prepared: bool, since: float | None) -> State:
    if prepared and (stage != "late" or plan.prepared):
        return State(stage, state=COMPLETE, progress=1.0)
    expected = len(plan.study.data.sources) if stage in OF_EACH_SOURCE else 1
    reports = [reported for key, reported in record.items() if key.split(" ")[0] == stage]
    return _reported(stage, reports, expected, since)


def _reported(stage: str, reports: list[Reported | None], expected: int, since: float | None) -> State:
    """Build the state of a stage that consists of `expected` parts from the newest reports of those that have begun."""
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
    """Name the model of a run; in a search for learning rates also the rate, as each model is trained at several."""
    return run.model.model_id + f" rate {run.learning_rate:g}" * (run.status == "tuning")


def _training(run: Run, since: float | None) -> State:
    path = run.folder / "progress.json"
    found, trained = read_progress(path), min(run.tokens / run.content["training"]["tokens"], 1.0)
    state = partial(State, "tune" if run.status == "tuning" else "train", _model(run), run.seed)
    written = since is not None and (written_at(path) or 0.0) >= since  # by the process that now runs the study
    lives = written and found.get("state") in ("starting", "running")
    if run.done and run.status != "racing" and not lives:
        return state(state=SCREENED if run.status == "screened" else COMPLETE, progress=trained)
    if run.failure and not lives:
        return state(state=FAILED, progress=trained, detail=f"{run.failure} (see {run.folder / 'log.txt'})")
    if not found:
        return state()
    share = bounded(max(trained, found.get("tokens", 0) / run.content["training"]["tokens"]))
    if not lives:
        return state(state=STOPPED if since is None else WAITING, progress=share)
    rate = found.get("tokens_per_second")
    loss = f"loss {found['loss']:.3f}" if found.get("loss") is not None else ""
    words = [loss, found.get("note", ""), silence(path, "training")]
    return state(
        state=RUNNING,
        progress=share,
        rate=f"{rate:,.0f} tokens/s" if rate else "",
        left=found.get("seconds_left"),
        detail=", ".join(word for word in words if word),
    )


def _waiting(run: Run) -> State:
    """Build the state of evaluations that begin when the items of late benchmarks were looked for in the data."""
    return State("evaluate", _model(run), run.seed)


def _evaluation(plan: Plan, record: Mapping[str, Reported], since: float | None, run: Run) -> State:
    """Build the state of the evaluations of a run."""
    key = f"evaluate {run.name}"
    state = partial(State, "evaluate", _model(run), run.seed)
    evaluations = plan.evaluations(run)
    wanted = 1 if run.status == "tuning" else len(plan.decisive) * run.expected
    share = sum(one.done for one in evaluations) / max(1, wanted)
    if share >= 1:
        return state(state=COMPLETE, progress=1.0)
    told = record.get(key)
    fresh = told and since is not None and told.at >= since and told.fraction < 1
    if told and told.words.startswith("failed: "):
        return state(state=FAILED, progress=share, detail=told.words)
    if not evaluations and not fresh:
        return state()
    if not fresh:
        return state(state=STOPPED if since is None else WAITING, progress=bounded(share))
    return state(state=RUNNING, progress=bounded(share), detail=told.words)
