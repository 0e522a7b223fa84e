"""`dreamer checkpoints`: print the folders of a study's trained models, for lm-eval and Python."""

from __future__ import annotations

import argparse

from dreamer_study.flows.plan.study_plan import Plan
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
            f"{study.folder}: no trained models yet; `dreamer run {study.arguments}` trains them"
        )
    runs = plan.runs
    chosen = [
        run
        for run in runs
        if options.model in (None, run.model.model_id) and options.seed in (None, run.seed)
    ]
    if not chosen:
        raise InputError(
            f"{study.name} has no such run; it has {', '.join(run.name for run in runs)}"
        )
    for run in chosen:
        name = f"{run.model.model_id:<12} seed {run.seed:<4}"
        status = status_of(plan, run)
        remark = "" if status in (COMPLETE, EVALUATING) else f"  ({status})"
        written = run.written
        if not written:
            print(f"{name} has no checkpoint{remark}")
        if not options.all:
            written = written[-1:]
        for checkpoint in written:
            print(f"{name} {checkpoint.tokens:>15,} tokens  {checkpoint.folder}{remark}")
