"""Evaluate the checkpoints of every complete run, after the trainings or beside them, in the slots of the study.

The evaluation of a run is an output of its own. Beside the trainings, a checkpoint is evaluated when a slot is free.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flows.running import progress
from flows.running.machines.devices import concurrency, shared_slots
from flows.running.machines.evaluators import Evaluators
from flows.running.processes import Failed, read_progress, side_by_side, stopped_on_exit
from flows.running.silence import Watch
from flows.running.throttle import look_again
from flows.stages.checks import machine_memory
from flows.stages.outputs import (
    FILES,
    Evaluated,
    Prepared,
    Run,
    Trained,
    checkpoint_folders,
    evaluation_configuration,
    result_folders,
    write_returned,
)
from flows.study.configuration import Study
from model.evaluation.job import PARTS
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL, link, write_text_atomically
from pipeline.storage.store import Output, Store

PROCESS_MEMORY = 2 * 10**9  # bytes for lm-eval, torch and a model: memory can be shorter than cores
VERSION = 3
LOOK_SECONDS = 1.0  # between two looks for new checkpoints of a run, at least: a look takes 1 ms, and runs are many
REST_SECONDS = 2.0  # between two looks at a run that has not begun, or whose checkpoints are all evaluated, at least
LOG = "log.txt"

Note = Callable[[Run, Path], object]
"""Called for every evaluated checkpoint, with its run and the place of its rows in the finished evaluation."""


def evaluate_runs(
    study: Study, store: Store, prepared: Prepared, trained: Trained, *, trust_code: bool = False
) -> Evaluated:
    """Evaluate each complete run; take finished evaluations from the store. `trust_code` lets task files run Python.

    An evaluation that fails ends no other one; the reason is returned. Raises InputError when the models were trained
    on other data, and when an evaluation process ends with bad input.
    """
    if trained.packed != prepared.packed.key:
        raise InputError(
            f"{study.folder}: the models were trained on other data; `dreamer run {study.arguments}` trains them again"
        )
    ended = [partial(lambda run: run, run) for run in reversed(trained.runs)]  # the slowest first
    with stopped_on_exit():
        return follow_runs(study, store, prepared, ended, lambda: trained, trust_code=trust_code)


def follow_runs(
    study: Study,
    store: Store,
    prepared: Prepared,
    looks: Sequence[Callable[[], Run]],
    trained: Callable[[], Trained | None],
    *,
    trust_code: bool = False,
    note: Note = lambda run, rows: None,
    tick: Callable[[], object] = lambda: None,
) -> Evaluated:
    """Evaluate the checkpoints that the trainings of a study write, until these have ended and all is evaluated.

    `looks` tell how far each run is, `trained` what all have become, None while they go on. `tick` is called every
    second. What goes wrong ends the evaluation, and not the trainings beside it.
    """
    if store.builds:
        (study.folder / FILES[Evaluated]).unlink(missing_ok=True)  # of an earlier attempt
    place = study.folder / "evaluators"
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str((place / "cache").resolve())}
    found: dict[str, str] = {}
    failures: dict[str, str] = {}
    with closing(Evaluators(shared_slots(study), _most(study), place, offline)) as processes:
        stage = _Stage(study, store, prepared, processes, trained, trust_code, note)

        def evaluate(look: Callable[[], Run]) -> None:
            try:
                if output := stage.evaluate(look):
                    found[look().run_id] = output.name
            except Failed as error:
                failures[look().run_id] = str(error)

        side_by_side(looks, evaluate, tick=tick)
    evaluated = Evaluated(study.study_id, store.root, dict(sorted(found.items())), dict(sorted(failures.items())))
    write_returned(study, evaluated)
    return evaluated


def _most(study: Study) -> int:
    """Count the processes that evaluate at once: as many as the memory holds, unless the study says how many."""
    return study.workers or max(1, min(concurrency(study), machine_memory() // PROCESS_MEMORY))


@dataclass(frozen=True)
class _Stage:
    """What the evaluations of all runs have in common."""

    study: Study
    store: Store
    prepared: Prepared
    processes: Evaluators
    trained: Callable[[], Trained | None]
    trust_code: bool
    note: Note

    def evaluate(self, look: Callable[[], Run]) -> Output | None:
        """Evaluate the checkpoints of one run as they come; None for a run that does not reach the end."""
        if not (run := self.await_run(look, "training", "complete")):
            return None
        name = f"evaluate {run.model_id} seed {run.seed}"
        made: list[Path] = []

        def work(folder: Path) -> dict[str, Any]:
            made.append(folder)
            return _Evaluation(self, look, name, folder).finish()

        try:
            output = self._build(run, work)
        except _NotFinished:
            progress.report(name, 1.0, "the training has failed")
            return None
        if not made:  # evaluated before
            for rows in result_folders(output.path / "results"):
                self.note(run, rows)
        progress.report(name, 1.0, "done")
        return output

    def await_run(self, look: Callable[[], Run], *statuses: str) -> Run | None:
        """Wait until a run has one of these statuses; None where the trainings have ended, and the run has not."""
        began = time.monotonic()
        while True:
            over = self.trained() is not None  # before the look, which then shows how the run has ended
            if (run := look()).status in statuses:
                return run
            if over:
                return None
            self.processes.wait(look_again(time.monotonic() - began, REST_SECONDS))

    def _build(self, run: Run, work: Callable[[Path], dict[str, Any]]) -> Output:
        trained = Output(*run.output.split("/"), run.folder.parent, {})
        if self.trained() and run.status == "complete" and not run.folder.exists():
            raise InputError(f"{run.folder} is gone; `dreamer run {self.study.arguments}` trains the model again")
        settings = evaluation_configuration(self.study, run.run_id)
        return self.store.build("evaluation", VERSION, settings, [trained, self.prepared.items], work, resumes=True)


class _NotFinished(Exception):
    """The training of a run whose checkpoints were evaluated has failed."""


class _Evaluation:
    """The evaluation of one run in an unfinished folder of the store."""

    def __init__(self, stage: _Stage, look: Callable[[], Run], name: str, folder: Path) -> None:
        self.stage, self.look, self.name, self.folder = stage, look, name, folder
        self.expected = len(stage.study.training.points)
        self.asked: dict[int, Future[str]] = {}
        self.entered: set[int] = set()
        self.watch = Watch(name, folder / "results" / "progress.json", shared=True)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # links of an attempt that was killed

    def finish(self) -> dict[str, Any]:
        """Ask for the evaluation of every checkpoint, and return the results when all are evaluated."""
        known, changed = (0, 0), time.monotonic()
        while not (run := self.advance()):
            if known != (len(self.asked), len(self.entered)):
                known, changed = (len(self.asked), len(self.entered)), time.monotonic()
            self.stage.processes.wait(look_again(time.monotonic() - changed, LOOK_SECONDS))
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
        self.write_job(run, checkpoint_folders(run))
        return {"run_id": run.run_id, "checkpoints": len(self.asked), "limit": self.stage.study.evaluation.limit}

    def advance(self) -> Run | None:
        """Ask for new checkpoints and take evaluated ones. Returns the complete run once all are evaluated, else None.

        Raises _NotFinished where the training has ended before.
        """
        over = self.stage.trained() is not None
        run = self.look()  # before the checkpoints: those of a complete run are all there
        self.ask(run)
        self.watch.look(at_work=any(asked.running() for asked in self.asked.values()))
        waiting = [tokens for tokens in self.asked if not self.take(run, tokens)]
        if not waiting and self.asked and run.status == "complete":
            return run
        if not waiting and over:
            raise _NotFinished(self.name)
        self.report(len(waiting))
        if len(self.entered) < self.expected:
            return None
        if complete := self.stage.await_run(self.look, "complete"):  # other seeds of the model are trained
            return complete
        raise _NotFinished(self.name)

    def ask(self, run: Run) -> None:
        """Ask for the evaluation of checkpoints that have come since the last time."""
        try:
            folders = checkpoint_folders(run)
            if not (new := [tokens for tokens in folders if tokens not in self.asked]):
                return
            if run.status != "complete":
                # The training's folder gets another name when the training ends, perhaps while a checkpoint is read.
                folders = {tokens: _linked(folder, self.folder / "checkpoints") for tokens, folder in folders.items()}
        except FileNotFoundError:  # the folder gets its other name at this moment: the next look finds it
            return
        self.write_job(run, folders)
        for tokens in new:
            rows = self.folder / "results" / run.run_id / f"{tokens:015d}"
            if rows.exists() and not rows.with_name(rows.name + PARTS).exists():
                self.asked[tokens] = Future()
                self.asked[tokens].set_result(f"{run.run_id} {tokens:,}: evaluated already")
            else:
                self.asked[tokens] = self.stage.processes.evaluate(self.folder / "job.json", tokens)

    def take(self, run: Run, tokens: int) -> bool:
        """Note an evaluated checkpoint. Returns whether it is evaluated; raises what went wrong with it."""
        if tokens in self.entered:
            return True
        if not self.asked[tokens].done():
            return False
        with (self.folder / LOG).open("a") as log:
            log.write(self.asked[tokens].result() + "\n")
        self.entered.add(tokens)
        final = self.folder.with_name(self.folder.name.removesuffix(PARTIAL))
        self.stage.note(run, final / "results" / run.run_id / f"{tokens:015d}" / "rows")
        return True

    def write_job(self, run: Run, folders: dict[int, Path]) -> None:
        """Write the job of the run's checkpoints that are there."""
        study, prepared = self.stage.study, self.stage.prepared
        job = {
            **study.evaluation.model_dump(include={"limit", "batch_tokens", "max_new_tokens", "depths", "weights"}),
            "device": study.training.device,
            "checkpoints": [
                {"run_id": run.run_id, "tokens": tokens, "path": str(folder.resolve())}
                for tokens, folder in folders.items()
            ],
            "trained_to": study.training.tokens,
            "tokenizer": str(prepared.tokenizer.path.resolve()),
            "tasks": prepared.tasks,
            "trust_code": self.stage.trust_code,
            "observe": str(prepared.packed.path.resolve()) if study.evaluation.introspect else None,
            "output": str((self.folder / "results").resolve()),
        }
        write_text_atomically(self.folder / "job.json", json.dumps(job, indent=1), durable=False)

    def report(self, waiting: int) -> None:
        """Report the share of the run's checkpoints that is evaluated."""
        if not self.asked:
            return
        done, state = len(self.entered), read_progress(self.folder / "results" / "progress.json")
        rate = f", {state['items_per_second']:,.0f} items/s" if waiting and state.get("items_per_second") else ""
        share = max(done, state.get("checkpoints", 0)) if waiting else done
        words = f"{done} of {self.expected} checkpoints{rate}"
        progress.report(self.name, min(share / self.expected, progress.MOST_UNDONE), words)


def _linked(checkpoint: Path, place: Path) -> Path:
    """Return a folder with links to the files of a checkpoint."""
    folder = place / checkpoint.name
    if not folder.exists():
        unfinished = folder.with_name(folder.name + PARTIAL)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for path in checkpoint.iterdir():
            link(path, unfinished / path.name)
        unfinished.rename(folder)
    return folder
