"""`dreamer checkpoints`: print the folders of a study's trained models, for lm-eval and for Python."""

from __future__ import annotations

import argparse

from flows.stages.outputs import Trained, checkpoint_folders, read_finished
from flows.stages.states import COMPLETE
from flows.study.loading import load_study
from pipeline.errors import InputError


def checkpoints(options: argparse.Namespace) -> None:
    """Print model, seed, tokens and folder of the last checkpoint of each run here, or with `all` of every checkpoint.

    Raises InputError where the study has no trained models yet, or none of the model and seed asked for.
    """
    study = load_study(options.study, root=options.root)
    runs = read_finished(study, Trained).runs
    chosen = [run for run in runs if options.model in (None, run.model_id) and options.seed in (None, run.seed)]
    if not chosen:
        known = ", ".join(f"{run.model_id} seed {run.seed}" for run in runs)
        raise InputError(f"{study.name} has no such run; it has {known}")
    for run in chosen:
        folders = list(checkpoint_folders(run).items())
        status = "" if run.status == COMPLETE else f"  ({run.status})"
        for tokens, folder in folders if options.all else folders[-1:]:
            print(f"{run.model_id:<12} seed {run.seed:<4} {tokens:>15,} tokens  {folder}{status}")
        if not folders:
            print(f"{run.model_id:<12} seed {run.seed:<4} has no checkpoint{status}")
