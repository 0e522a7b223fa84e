"""Describe the jobs of a study: `run.json`, `job.json`, command lines, what a job is made of.

A training reads `store/runs/<run_id>/run.json` (its form: `model/training/config.py`), an
evaluation `evaluating/<run_id>-<tokens>/job.json` (its form: `model/evaluation/job.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any

from dreamer_study.flows.jobs import Job
from dreamer_study.flows.plan.study_plan import Checkpoint, Evaluation, Plan, Run
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import MODELS
from dreamer_study.model.architectures.code import FOLDER as CODE
from dreamer_study.model.architectures.code import copy_code, copy_files
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import atomic_folder, write_text_atomically
from dreamer_study.pipeline.storage.integrity import SEAL, read_sealed, sealed
from dreamer_study.pipeline.storage.locks import hold

EVALUATING = "evaluating"  # a folder of the study: one below for each evaluation that is not done
EVALUATION_FIRST = (0,)  # the priority before that of every training: short, and shows a result


def training_job(plan: Plan, run: Run, ranks: int, options: Options) -> Job:
    """Describe the training of a run to its goal."""
    write_run(plan, run)  # the run may have become known just now, by the end of a search
    folder = run.folder.absolute()  # workers of a cluster are elsewhere
    arguments = [str(folder), "--wait"]
    arguments += ["--stop-at", str(run.goal)]  # another study may want the run further
    if options.accept_code_change:
        arguments.append("--accept-code-change")
    if options.trust_code:
        arguments.append("--trust-code")
    return Job(
        kind="training",
        name=run.training_name,
        program="dreamer_study.model.train",
        arguments=tuple(arguments),
        folder=folder,
        log=folder / "log.txt",
        priority=run.priority,
        devices=ranks,
        goal=run.goal,
        made_of=training_inputs(plan),
    )


def training_inputs(plan: Plan) -> tuple[str, ...]:
    """Name what a training is made of: the packed data, and the sizes of the models."""
    return (plan.data.packed.name, MODELS)


def evaluation_name(run: Run, checkpoint: Checkpoint) -> str:
    """Name the evaluation of a checkpoint."""
    return f"evaluate {run.name} at {checkpoint.tokens:,} tokens"


def evaluation_inputs(plan: Plan, run: Run) -> tuple[str, ...]:
    """Name what an evaluation is made of: held-out text, items, the training if it has ended."""
    return (plan.data.packed.name, plan.data.items.name, run.training_name)


def evaluation_job(
    plan: Plan,
    run: Run,
    checkpoint: Checkpoint,
    evaluations: Sequence[Evaluation],
    options: Options,
) -> Job:
    """Describe the evaluation of a checkpoint on the benchmarks that it lacks."""
    folder = (plan.study.folder / EVALUATING / f"{run.run_id}-{checkpoint.tokens}").resolve()
    values = _evaluation_values(plan, run, checkpoint, evaluations)
    values |= {"trust_code": options.trust_code, "output": str(folder)}
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(folder / "job.json", json.dumps(values, indent=1), durable=False)
    cache = (plan.study.folder / EVALUATING / "cache").resolve()
    return Job(
        kind="evaluation",
        name=evaluation_name(run, checkpoint),
        program="dreamer_study.model.evaluate",
        arguments=(str(folder / "job.json"),),
        folder=folder,
        log=folder / "log.txt",
        priority=EVALUATION_FIRST,
        goal=run.expected,
        environment={"HF_HOME": str(cache)},
        made_of=evaluation_inputs(plan, run),
    )


def _evaluation_values(
    plan: Plan, run: Run, checkpoint: Checkpoint, evaluations: Iterable[Evaluation]
) -> dict[str, Any]:
    """Say which checkpoint is asked what, and where the rows of each benchmark go."""
    study = plan.study
    depths: set[int] = set()
    outputs: dict[str, dict[str, Any]] = {}
    for evaluation in evaluations:
        depths.update(evaluation.configuration.get("depths", ()))
        outputs[evaluation.benchmark] = {
            "folder": str(evaluation.folder.resolve()),
            "configuration": evaluation.configuration,
        }
    asked = {
        "run_id": run.run_id,
        "tokens": checkpoint.tokens,
        "path": str(checkpoint.folder.resolve()),
        "answers": checkpoint.point == run.points[-1],
        "code": getattr(run.model.config, "files", {}),
        "outputs": outputs,
    }
    return {
        "limit": study.evaluation.limit,
        "batch_tokens": study.evaluation.batch_tokens,
        "max_new_tokens": study.evaluation.max_new_tokens,
        "weights": plan.weights_of(run),
        "device": study.training.device,
        "depths": sorted(depths),
        "checkpoints": [asked],
        "tokenizer": str(plan.data.tokenizer.path.resolve()),
        "tasks": plan.tasks_of(run),
        "observe": str(plan.data.packed.path.resolve()) if study.evaluation.introspect else None,
    }


def write_runs(plan: Plan) -> None:
    """Write `run.json` of every known run. Raises InputError as `write_run`."""
    for run in (*plan.tuning_runs, *plan.runs):
        write_run(plan, run)


def write_run(plan: Plan, run: Run) -> None:
    """Write `run.json`: what decides the run, where its data are, how far any study has wanted it.

    Another study of the store waits meanwhile. Raises InputError for a run trained past a planned
    checkpoint without it, and for other tokens than before where the learning rate decays over
    them.
    """
    _check_checkpoints(run)
    path = run.folder / "run.json"
    training = dict(run.content["training"])
    with hold(plan.store.root / "runs.lock", write_line):
        if not run.folder.exists():
            _say_changed_code(run)
        before: dict[str, Any] = {}
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            # a damaged file is written again
            before = _written(path)["training"]
            wanted_before = before["checkpoints"]
            training["checkpoints"] = sorted({*wanted_before, *training["checkpoints"]})
        training["tokens"] = _tokens(run, before.get("tokens", training["tokens"]))
        run.folder.mkdir(parents=True, exist_ok=True)
        if not (run.folder / CODE).exists():
            with atomic_folder(run.folder / CODE) as unfinished:
                copy_code(run.model.config, plan.study.place, unfinished)
                copy_files(training.get("optimizer_files", {}), plan.study.place, unfinished)
        data = os.path.relpath(plan.data.packed.path, run.folder)
        values = {"run_id": run.run_id, **run.content, "training": training, "data": data}
        text = sealed(values, sort=False)
        if not path.exists() or path.read_bytes() != text.encode():
            write_text_atomically(path, text)


def _written(path: Path) -> dict[str, Any]:
    """Read a run.json as it was written. Raises ValueError or KeyError for a damaged one.

    One of before files were sealed is taken as it is.
    """
    values = json.loads(path.read_bytes())
    return read_sealed(path) if SEAL in values else values


def _check_checkpoints(run: Run) -> None:
    """Raise InputError where a run has gone past a checkpoint: training does not go back."""
    if run.missed:
        points = ", ".join(f"{point:,}" for point in run.missed)
        raise InputError(
            f"{run.name} was trained further by a study with other checkpoints, and has none at"
            f" {points} tokens; name checkpoints that are there (in {run.folder / 'checkpoints'}),"
            f" or remove {run.folder} to train it again"
        )


def _tokens(run: Run, before: int) -> int:
    """Return the most tokens that any study has wanted of a run, of which `before` were known."""
    training = run.content["training"]
    wanted = training["tokens"]
    if before != wanted and training["schedule"] != "constant":
        raise InputError(
            f"{run.name}: its learning rate decays ({training['schedule']}) over {before:,} tokens,"
            f" so it cannot be trained over {wanted:,}; keep to {before:,} tokens, or name another"
            " root and store"
        )
    return max(before, wanted)


def _code_of(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the files of a run's model and of its optimizer, by name."""
    of_model = described["model"].get("files", {})
    return {**of_model, **described["training"].get("optimizer_files", {})}


def _say_changed_code(run: Run) -> None:
    """Say which file of the model's code differs from that of an earlier run of the model."""
    files = _code_of(run.content)
    if not files:
        return
    for other in glob(f"{run.model.model_id}-s{run.seed}-*", root_dir=run.folder.parent):
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            # removed meanwhile, or damaged
            values = json.loads((run.folder.parent / other / "run.json").read_bytes())
            before = _code_of(values)
            changed = [name for name in files if before.get(name, files[name]) != files[name]]
            if changed:
                write_line(
                    f"{run.name}: {changed[0]} differs from {other}'s; the model is trained anew"
                )
