"""`dreamer checkpoints`: print the folders of a study's trained models, for lm-eval and Python."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.plan.study_plan import Checkpoint, Plan, Run
from dreamer_study.flows.running.result_rows import COMPLETE, EVALUATING, status_of
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError


def checkpoints(options: argparse.Namespace) -> None:
    """Print model, seed, tokens and folder of the last checkpoint of each run.

    With `all`, of every checkpoint. Raises InputError where data sets are not here, where there are
    no trained models, or none of those asked for.
    """
    study = load_study(options.study, root=options.root)
    plan = Plan(study)
    # `data` raises where data sets are not here
    if not (plan.data and plan.described) or plan.tuning_runs:
        raise InputError(
            f"{study.folder}: no trained models yet; `{study.run_command}` trains them"
        )
    runs = plan.runs
    chosen = [
        run
        for run in runs
        if options.model in (None, run.model.name, run.model.model_id)
        and options.seed in (None, run.seed)
    ]
    if not chosen:
        raise InputError(
            f"{study.name} has no such run; it has {', '.join(run.name for run in runs)}"
        )
    shown = [_Shown(run, status_of(plan, run), _written(run, options)) for run in chosen]
    if options.json:
        print_document(study=study.study_id, runs=[_fields(one) for one in shown])
        return
    for run, status, written in shown:
        name = f"{run.model.name:<12} seed {run.seed:<4}"
        remark = "" if status in (COMPLETE, EVALUATING) else f"  ({status})"
        if not written:
            print(f"{name} has no checkpoint{remark}")
        for checkpoint in written:
            print(f"{name} {checkpoint.tokens:>15,} tokens  {checkpoint.folder}{remark}")


class _Shown(NamedTuple):
    """A run, its status, and those of its checkpoints that are printed."""

    run: Run
    status: str
    checkpoints: list[Checkpoint]


def _written(run: Run, options: argparse.Namespace) -> list[Checkpoint]:
    return run.written if options.all else run.written[-1:]


def _fields(shown: _Shown) -> dict[str, Any]:
    run = shown.run
    return {
        "model": run.model.name,
        "model_id": run.model.model_id,
        "variant": run.model.variant,
        "depth": run.model.depth,
        "seed": run.seed,
        "status": shown.status,
        "checkpoints": [
            {"tokens": checkpoint.tokens, "folder": checkpoint.folder.resolve()}
            for checkpoint in shown.checkpoints
        ],
    }
