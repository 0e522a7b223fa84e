"""Train the models of a study: every seed to the end, or with screening the best seed of each model.

Each run is trained by a process over a folder of the store, so that a run can be killed, resumed, and moved to another
machine. The process is `python -m model.train`, or on a CPU `python -m model.trainer`, which stays for the next run. On
a CPU the runs train side by side, one thread each. Where a machine has more GPUs than runs, several processes (ranks)
train one run together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flows.running import progress
from flows.running.machines.devices import Slots, share_ranks, shared_slots
from flows.running.machines.staying import Staying
from flows.running.processes import Failed, read_progress, run_module, side_by_side, stopped_on_exit
from flows.running.silence import Watch
from flows.stages.models import PlannedModel, describe_run, identity
from flows.stages.outputs import FILES, Prepared, Run, Trained, write_returned
from flows.study.configuration import Study
from model.training.origins.code_changes import read_code_changes
from model.training.recording.records import choose_seed
from pipeline.storage.files import PARTIAL, write_text_atomically
from pipeline.storage.integrity import reopen
from pipeline.storage.store import Missing, Output, Store

VERSION = 1
TRAINER = "model.trainer"
CHOSEN = "chosen.json"


def train_models(
    study: Study,
    store: Store,
    prepared: Prepared,
    planned: Sequence[PlannedModel],
    *,
    accept_code_change: bool = False,
) -> Trained:
    """Train every model of the study; take finished models from the store, and continue interrupted runs.

    With several seeds and screening, all seeds train to the screening point, and the seed with the lowest loss over
    the final tenth goes on (section 4.1). `accept_code_change` continues runs that other code has started. A run that
    fails ends no other run: it is returned with status 'failed', and another call tries it again. Raises InputError
    when a training process ends with bad input.
    """
    packed = prepared.packed
    if store.builds:
        (study.folder / FILES[Trained]).unlink(missing_ok=True)  # which evaluation waits for
    reopen_failed(study, store, packed, planned)
    arguments = ["--accept-code-change"] if accept_code_change else []
    with closing(Staying(TRAINER, [str(study.folder)])) as trainers, stopped_on_exit():
        launch = partial(_launch, shared_slots(study), trainers)
        outputs = side_by_side(
            range(len(planned)),
            lambda place: _train_model(study, store, packed, planned, place, launch, arguments),
        )
    trained = Trained(
        study.study_id,
        store.root,
        packed.key,
        tuple(
            describe_output(study, packed, model, seed, output)
            for model, output in zip(planned, outputs, strict=True)
            for seed in study.training.seeds
        ),
    )
    write_returned(study, trained)
    return trained


def reopen_failed(study: Study, store: Store, packed: Output, planned: Sequence[PlannedModel]) -> None:
    """Reopen the trainings in which a run has failed, so that the run is tried again.

    Their folders get other names, so this comes before anybody looks at them. Raises Missing where the store only
    tells what is there.
    """
    for model in planned:
        key = store.key("training", VERSION, configuration(study, packed, model), [packed])
        earlier = store.find("training", key)
        if earlier and earlier.results.get("failures"):
            if not store.builds:
                raise Missing(earlier.name)
            reopen(earlier.path)


def lookouts(study: Study, store: Store, packed: Output, planned: Sequence[PlannedModel]) -> list[Callable[[], Run]]:
    """Make, for each run of a study, a function that looks how far the run is while its model is trained.

    The status is 'waiting' until the run is on its way to the end, then 'training'. When the training of the model has
    ended, the run is as in `Trained`.
    """
    found = []
    for model in planned:
        key = store.key("training", VERSION, configuration(study, packed, model), [packed])
        for seed in study.training.seeds:
            run_id = describe_run(study, packed, model, seed)["run_id"]
            folder = store.root / "training" / f"{key}{PARTIAL}" / f"seed{seed}"
            begun = Run(run_id, model.model_id, seed, "waiting", f"training/{key}", folder)
            found.append(partial(_look, study, store, packed, model, begun))
    return found


def _look(study: Study, store: Store, packed: Output, model: PlannedModel, begun: Run) -> Run:
    if output := store.find(*begun.output.split("/")):
        return describe_output(study, packed, model, begun.seed, output)
    seeds = study.training.seeds if study.training.stop_at is None else _decided(begun.folder.parent)
    started = (begun.folder / "progress.json").exists()  # the trainer's; the folder is there while the run waits too
    return replace(begun, status="training") if begun.seed in seeds and started else begun


def describe_output(study: Study, packed: Output, model: PlannedModel, seed: int, output: Output) -> Run:
    """Describe one run of a finished training."""
    failures = output.results.get("failures", {})
    ended = "complete" if seed in output.results["chosen"] else "screened"
    return Run(
        run_id=describe_run(study, packed, model, seed)["run_id"],
        model_id=model.model_id,
        seed=seed,
        status="failed" if str(seed) in failures else ended,
        output=output.name,
        folder=output.path / f"seed{seed}",
        failure=failures.get(str(seed), ""),
    )


def configuration(study: Study, packed: Output, model: PlannedModel) -> dict[str, Any]:
    """Return what decides the trainings of a model, for the key of their output."""
    runs = [describe_run(study, packed, model, seed) for seed in study.training.seeds]
    return {"runs": [identity(run) for run in runs], "stop_at": study.training.stop_at}


def _train_model(
    study: Study,
    store: Store,
    packed: Output,
    planned: Sequence[PlannedModel],
    place: int,
    launch: Callable[..., None],
    arguments: list[str],
) -> Output:
    """Train all seeds of the model `planned[place]` in one folder of the store, with a run folder for each seed.

    Seeds that fail are named in the output's results; an output with such seeds is gone on with.
    """
    model, seeds, stop_at = planned[place], study.training.seeds, study.training.stop_at
    runs = [describe_run(study, packed, model, seed) for seed in seeds]
    of_all = share_ranks(study, len(planned) * len(seeds))[place * len(seeds) :]
    of_chosen = share_ranks(study, len(planned))[place] if stop_at else None  # one seed of each model goes on

    def work(folder: Path) -> dict[str, Any]:
        for run in runs:
            own = folder / f"seed{run['seed']}"
            own.mkdir(exist_ok=True)
            (own / "run.json").write_text(json.dumps({**run, "data": os.path.relpath(packed.path, own)}, indent=1))

        failures: dict[str, str] = {}

        def train(seed: int, goal: int | None, ranks: int | None = None) -> None:
            own, ranks = folder / f"seed{seed}", ranks or of_all[seeds.index(seed)]
            try:
                # Seeds in turn, of each seed the slowest model first: every model soon has a curve to compare.
                urgency = (1, seeds.index(seed), -place)
                _train(model, own, seed, goal, partial(launch, ranks=ranks, urgency=urgency), arguments)
            except Failed as error:
                failures[str(seed)] = error.reason.removeprefix(f"{own}: ")

        chosen = _choose(folder, seeds, stop_at, lambda seed: train(seed, stop_at), failures)
        side_by_side(chosen, lambda seed: train(seed, None, of_chosen))
        changes = {run["run_id"]: found for run in runs if (found := read_code_changes(folder / f"seed{run['seed']}"))}
        results = {
            "chosen": [seed for seed in chosen if str(seed) not in failures],
            "run_ids": [run["run_id"] for run in runs],
        }
        return results | {name: found for name, found in (("code_changes", changes), ("failures", failures)) if found}

    return store.build("training", VERSION, configuration(study, packed, model), [packed], work, resumes=True)


def _choose(
    folder: Path, seeds: list[int], stop_at: int | None, screen: Callable[[int], None], failures: Mapping[str, str]
) -> list[int]:
    """Choose the seeds that go on: all, or after screening the one with the lowest loss.

    Decides once for a folder, when all seeds have been screened.

    `screen` adds the seeds that fail to `failures`; where all fail, none goes on.
    """
    if not stop_at:
        return seeds
    if not _decided(folder):
        side_by_side(seeds, screen)
        screened = {seed: folder / f"seed{seed}" for seed in seeds if str(seed) not in failures}
        if not screened:
            return []
        best = choose_seed(screened)
        if len(screened) < len(seeds):  # decided for this time: another call tries the failed seeds again
            return [best]
        write_text_atomically(folder / CHOSEN, json.dumps([best]))
    return _decided(folder)


def _decided(folder: Path) -> list[int]:
    """Read which seed goes on after screening; none while that is not decided."""
    path = folder / CHOSEN
    return json.loads(path.read_text()) if path.exists() else []


def _train(
    model: PlannedModel,
    run: Path,
    seed: int,
    stop_at: int | None,
    launch: Callable[..., None],
    arguments: list[str],
) -> None:
    """Train one run, to `stop_at` tokens or to the end."""
    label = f"{'screen' if stop_at else 'train'} {model.model_id} seed {seed}"
    progress.report(label, 0.0, "waiting")
    stop = ["--stop-at", str(stop_at)] if stop_at else []
    goal = stop_at or json.loads((run / "run.json").read_text())["training"]["tokens"]
    watch = Watch(label, run / "progress.json")

    def tick() -> None:
        _report(label, run, goal)
        watch.look()

    launch(run, [*stop, *arguments], log=run.with_suffix(".log"), tick=tick)
    progress.report(label, 1.0, "done")


def _launch(
    slots: Slots,
    trainers: Staying,
    run: Path,
    options: Sequence[str],
    *,
    ranks: int,
    urgency: tuple[int, ...],
    log: Path,
    tick: Callable[[], None],
) -> None:
    """Train the run in a folder by `ranks` processes, as soon as so many slots are free.

    A single process on a CPU is one of `trainers`. Raises what `run_module` raises.
    """
    with slots.take(ranks, urgency) as environment:
        arguments = [str(run), *options]
        if ranks == 1 and not slots.gpus:
            trainers.ask({"arguments": arguments, "log": str(log)}, environment, log=log, tick=tick)
        else:
            run_module("model.train", arguments, log=log, tick=tick, environment=environment, ranks=ranks)


def _report(label: str, run: Path, goal: int) -> None:
    """Report a run's progress to `goal` tokens: tokens, loss, tokens per second, seconds left."""
    state = read_progress(run / "progress.json")
    if state.get("tokens"):
        rate = state.get("tokens_per_second") or 0
        left = f"{max(goal - state['tokens'], 0) / rate:,.0f} s left" if rate else ""
        words = f"{state['tokens']:,} tokens, loss {state['loss']:.3f}, {rate:,.0f} tokens/s, {left}"
        note = f"; {state['note']}" if state.get("note") else ""
        progress.report(label, min(state["tokens"] / goal, progress.MOST_UNDONE), words + note)
