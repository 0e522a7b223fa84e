"""Find the state of every stage, model and seed of a study from what they have written; reads only, starts nothing.

A run belongs to the study by its id, a digest of all that decides its results. Whether work that is not finished goes
on or was stopped is told by the lock of the study's folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flows.running.looks import found_in, written_at
from flows.running.processes import read_progress
from flows.running.progress import bounded
from flows.running.record import Reported, read_record
from flows.running.silence import KEY_END, silence
from flows.running.single import running_since
from flows.stages import evaluate, train
from flows.stages.building import VERSIONS
from flows.stages.models import describe_run, plan_models
from flows.stages.outputs import (
    FILES,
    Evaluated,
    Prepared,
    Run,
    Trained,
    evaluation_configuration,
    read_finished,
    report_mark,
    result_folders,
)
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL
from pipeline.storage.store import Output, Store

WAITING, RUNNING, STOPPED = "waiting", "running", "stopped"
COMPLETE, SCREENED, FAILED = "complete", "screened", "failed"  # as the status of a run in the results
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


def read_states(study: Study) -> list[State]:
    """List the states of the data stages, of every training and evaluation, and of the report, in the order of work."""
    since, record = running_since(study), read_record(study)
    read = partial(_finished, study)
    prepared, trained, evaluated = read(Prepared), read(Trained), read(Evaluated)
    runs = list(study_runs(study, prepared))
    trainings = [_training(study, run, trained, since) for run in runs]
    evaluations = [
        _evaluation(study, run, _evaluation_folder(study, run, prepared), evaluated, record, since)
        for run, training in zip(runs, trainings, strict=True)
        if training.state not in (SCREENED, FAILED)
    ]
    data = [_data_stage(study, stage, record, prepared, since) for stage in VERSIONS]
    states = [state for state in data if state.stage != "world" or study.needs_world] + trainings + evaluations
    written = study.report.exists() and not report_mark(study).exists()
    written = written and all(state.state == COMPLETE for state in evaluations)
    report = State("report", state=COMPLETE, progress=1.0)
    return [*states, report if written else _reported("report", [record.get(REPORT)], 1, since)]


def notes(study: Study) -> list[str]:
    """List why stages that have written what they returned count as unfinished: damage, or a changed study file."""
    found = []
    for kind in (Prepared, Trained, Evaluated):
        try:
            read_finished(study, kind)
        except InputError as error:
            if (study.folder / FILES[kind]).exists():
                found.append(str(error))
    return list(dict.fromkeys(found))


def _finished(study: Study, kind: type[Any]) -> Any:
    """Read what a stage returned for exactly these settings; None where the stage has not finished."""
    try:
        return read_finished(study, kind)
    except InputError:
        return None


def _data_stage(
    study: Study, stage: str, record: Mapping[str, Reported], prepared: Prepared | None, since: float | None
) -> State:
    if prepared:
        return State(stage, state=COMPLETE, progress=1.0)
    expected = len(study.data.sources) if stage in OF_EACH_SOURCE else 1
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


def study_runs(study: Study, prepared: Prepared | None) -> Iterator[Run]:
    """List the runs of the study with the folders that trainings have made; before the data are there, without ids."""
    if prepared is None:
        for depth in study.models.depths:
            for variant in study.models.variants:
                for seed in study.training.seeds:
                    yield Run("", f"{variant.name}-{depth}", seed, WAITING, "", Path())
        return
    folders = _newest_runs(study.store_folder)
    packed = prepared.packed
    for model in plan_models(study, prepared.vocabulary_size):
        key = Store.key("training", train.VERSION, train.configuration(study, packed, model), [packed])
        for seed in study.training.seeds:
            run_id = describe_run(study, packed, model, seed)["run_id"]
            yield Run(run_id, model.model_id, seed, WAITING, f"training/{key}", folders.get(run_id, Path()))


def _newest_runs(store: Path) -> dict[str, Path]:
    """Find the folder of every run in a store by its id, the one begun last where several studies have trained it."""
    found: dict[str, Path] = {}
    paths = [path for training in found_in(store, "training/*") for path in found_in(training, "seed*/run.json")]
    begun = {path: at for path in paths if (at := written_at(path)) is not None}
    for path in sorted(begun, key=begun.__getitem__):
        run_id = read_progress(path).get("run_id")
        if run_id:
            found[run_id] = path.parent
    return found


def _training(study: Study, run: Run, trained: Trained | None, since: float | None) -> State:
    path, tokens = run.folder / "progress.json", study.training.tokens
    found = read_progress(path) if run.run_id else {}
    state = partial(State, "train", run.model_id, run.seed, progress=min(found.get("tokens", 0) / tokens, 1.0))
    lives = _lives(path, since) and found.get("state") in ("starting", "running")
    returned = next((one for one in trained.runs if one.run_id == run.run_id), None) if trained else None
    if returned and not lives:
        return state(state=returned.status, detail=returned.failure)
    if not found:
        return state()
    if found["state"] == FAILED:
        return state(state=FAILED, detail=f"see {run.folder.with_suffix('.log')}")
    if found["state"] == COMPLETE:
        return state(state=COMPLETE)
    if found["tokens"] >= found["target"] and _is_screened(run):
        return state(state=SCREENED)
    if not lives:
        return state(state=STOPPED if since is None else WAITING)
    rate = found.get("tokens_per_second")
    loss = f"loss {found['loss']:.3f}" if found.get("loss") is not None else ""
    words = [loss, found.get("note", ""), silence(path)]
    return state(
        state=RUNNING,
        rate=f"{rate:,.0f} tokens/s" if rate else "",
        left=found.get("seconds_left"),
        detail=", ".join(word for word in words if word),
    )


def _is_screened(run: Run) -> bool:
    """Check that another seed of the model was chosen to go on."""
    decided = run.folder.parent / "chosen.json"
    return decided.exists() and run.seed not in json.loads(decided.read_text())


def _evaluation_folder(study: Study, run: Run, prepared: Prepared | None) -> Path | None:
    """Find the folder of a run's evaluation by the settings of the study, finished or not; None where none is there."""
    if prepared is None:
        return None
    inputs = [Output(*run.output.split("/"), run.folder.parent, {}), prepared.items]
    key = Store.key("evaluation", evaluate.VERSION, evaluation_configuration(study, run.run_id), inputs)
    final = study.store_folder / "evaluation" / key
    return next((folder for folder in (final, final.with_name(key + PARTIAL)) if folder.exists()), None)


def _evaluation(
    study: Study,
    run: Run,
    folder: Path | None,
    evaluated: Evaluated | None,
    record: Mapping[str, Reported],
    since: float | None,
) -> State:
    """Build the state of the evaluation of a run.

    An evaluation that writes nothing may wait for a slot or for checkpoints. So its silence is not told from its files,
    but from the reports of the flow, which knows when a process evaluates.
    """
    state = partial(State, "evaluate", run.model_id, run.seed)
    if evaluated and run.run_id in evaluated.failures:
        return state(state=FAILED, detail=evaluated.failures[run.run_id])
    if evaluated and run.run_id in evaluated.outputs:
        return state(state=COMPLETE, progress=1.0)
    if folder is None:
        return state()
    if not folder.name.endswith(PARTIAL):
        return state(state=COMPLETE, progress=1.0)
    results = folder / "results"
    path = results / "progress.json"
    found, whole = read_progress(path), len(result_folders(results))
    state = partial(state, progress=bounded(max(whole, found.get("checkpoints", 0)) / len(study.training.points)))
    told = record.get(f"evaluate {run.model_id} seed {run.seed}{KEY_END}")
    silent = told.words if told and told.fraction < 1 and since is not None and told.at >= since else ""
    if not _lives(path, since) and not silent:
        return state(state=STOPPED if since is None else WAITING)
    rate = found.get("items_per_second")
    words = f"{rate:,.0f} items/s" if rate else ""
    return state(state=RUNNING, rate=words, left=found.get("seconds_left"), detail=silent)


def _lives(path: Path, since: float | None) -> bool:
    """Check that the process which runs the study now, since `since`, has written the file."""
    written = written_at(path)
    return since is not None and written is not None and written >= since
