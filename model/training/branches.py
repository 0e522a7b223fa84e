"""Anneal a run: after each checkpoint, a short decay of the learning rate, evaluated in its place.

A branch starts from the run's state at a checkpoint and reads the tokens that the run reads next.
Its rate falls to 0 in a straight line over `branches` times the tokens so far. The run itself then
continues from the same state as if there had been no branch. To the bit, a branch is a run that was
planned to end where the branch ends, with `schedule: {decay: ...}` over the same tokens.

In the folder of a run:

    branches/000000000080011-000000000088029/  finished: tokens at the checkpoint, and at the end
    branching/000000000080011/                 unfinished: state to resume from, log of its steps
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from dreamer_study.model.checkpoints.checksums import (
    BRANCHES,
    BRANCHING,
    branch_name,
    list_branches,
)
from dreamer_study.model.training.config import TrainingRun
from dreamer_study.model.training.recipe import RateDecay, branch_tokens


def is_branched(run: TrainingRun, tokens: int) -> bool:
    """Tell whether the branch from the checkpoint at these tokens is finished."""
    return any(start == tokens for start, _ in list_branches(run.folder))


def branch_of(run: TrainingRun, tokens: int) -> TrainingRun:
    """Describe the branch of a run from its checkpoint at these tokens."""
    own = branch_tokens(run.training.branches, tokens)
    end = tokens + own
    training = dataclasses.replace(
        run.training,
        tokens=end,
        checkpoints=(end,),
        schedule=RateDecay(decay=own / end),
        averaging=0.0,  # the decay does what averaging does
        branches=0.0,
    )
    folder = run.folder / BRANCHING / f"{tokens:015d}"
    return dataclasses.replace(
        run, folder=folder, training=training, branch_of=run.folder, branched_at=tokens
    )


def checkpoint_folder(run: TrainingRun, tokens: int) -> Path:
    """Return the folder of the checkpoint of a run, or of a finished branch, at some tokens."""
    if run.branch_of is None:
        return run.folder / "checkpoints" / f"{tokens:015d}"
    return run.branch_of / BRANCHES / branch_name(run.branched_at, tokens)


def remove_unfinished(run: TrainingRun) -> None:
    """Remove what finished branches have left to resume from."""
    branching = run.folder / BRANCHING
    for folder in branching.glob("[0-9]*"):
        if is_branched(run, int(folder.name)):
            shutil.rmtree(folder)
    if branching.exists() and not any(branching.iterdir()):
        branching.rmdir()
