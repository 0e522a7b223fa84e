"""Describe the runs of a study: one model, one seed, one folder; and the checkpoints in it.

The folder of a run is `store/runs/<run_id>/`, here of DR+DA at depth 4 with seed 0:

    DR+DA-4-s0-1f0c82aa/
      run.json                      what decides the run: model, recipe, seed, data
      state/000000000800123/        to resume from: the newest state alone
      checkpoints/000000000080011/  written once, at the first step that has reached 80,000
      branches/000000000080011-000000000088029/  where the study asks for them, and `branching/`
                                    while one is trained (model/training/branches.py)
      steps.csv, progress.json      the log of steps, and how far the training is
      failure.txt                   why the newest attempt has failed, where one has
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any

from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.model.checkpoints.checksums import (
    BRANCHES,
    branch_name,
    list_branches,
    newest_values,
)
from dreamer_study.model.training.recipe import decay_share
from dreamer_study.model.training.search import in_words

FAILURE = "failure.txt"  # in the folder of a run
# by the status of a run
VERBS = {"chosen": "train", "tuning": "tune", "racing": "screen", "screened": "screen"}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that has been written: planned tokens, tokens trained on, and its folder.

    It may be the end of the branch from the checkpoint at the planned tokens: then `tokens` are
    those of the run up to there, and those of the branch.
    """

    point: int
    tokens: int
    folder: Path


@dataclass(frozen=True)
class Run:
    """One model trained with one seed, in a folder of its own.

    `content` decides the trajectory (run.json without the data's place), `points` are the planned
    tokens of the study's checkpoints, `goal` the tokens to which the study trains the run, as far
    as is decided. `status` is 'tuning' (of the search for learning rates), 'racing' (which seed is
    trained to the end is not decided), 'screened' (another seed has won) or 'chosen'. `is_gone`:
    it has lost its race, and was removed since.
    """

    run_id: str
    folder: Path
    model: PlannedModel
    seed: int
    content: Mapping[str, Any]
    points: tuple[int, ...]
    goal: int
    status: str
    priority: tuple[int, ...]
    searched: Mapping[str, float] = field(default_factory=dict)
    is_gone: bool = False

    @property
    def name(self) -> str:
        """Model and seed, in words; in a search also the settings at which the run is."""
        return " ".join([f"{self.model.name} seed {self.seed}", in_words(self.searched)]).strip()

    @property
    def training_name(self) -> str:
        """The name of the training of the run to its goal."""
        return f"{VERBS[self.status]} {self.name}"

    @property
    def learning_rate(self) -> float:
        """The highest learning rate of the run."""
        return self.content["training"]["learning_rate"]

    @property
    def settings(self) -> dict[str, float]:
        """What a search may choose: rate, weight decay, share of the tokens in which it falls."""
        training = self.content["training"]
        return {
            "learning_rate": training["learning_rate"],
            "weight_decay": training["weight_decay"],
            "decay": decay_share(training["schedule"]),
        }

    @property
    def batch_tokens(self) -> int:
        """The most tokens of one optimiser step."""
        return self.content["training"]["batch_tokens"]

    @property
    def tokens(self) -> int:
        """The tokens that the newest state was trained on; 0 where there is no state."""
        values = newest_values(self.folder / "state", "tokens")
        return values["tokens"] if values else 0

    @property
    def branches(self) -> float:
        """The share of the tokens so far over which a branch decays; 0: there are no branches."""
        return self.content["training"].get("branches", 0.0)

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The study's checkpoints that are there, in order; with branches, the ends of these."""
        on_the_way = self.on_the_way
        if not self.branches:
            return on_the_way
        ends = dict(list_branches(self.folder))
        return [
            Checkpoint(
                checkpoint.point,
                ends[checkpoint.tokens],
                self.folder / BRANCHES / branch_name(checkpoint.tokens, ends[checkpoint.tokens]),
            )
            for checkpoint in on_the_way
            if checkpoint.tokens in ends
        ]

    @property
    def on_the_way(self) -> list[Checkpoint]:
        """The study's checkpoints of the run itself, from which branches start.

        A checkpoint is taken at the first optimiser step at or above its planned tokens; other
        folders belong to studies with other checkpoints.
        """
        folder = self.folder / "checkpoints"
        token_counts = sorted(map(int, glob("[0-9]*[0-9]", root_dir=folder)))
        checkpoints = []
        for point in self.points:
            tokens = next((tokens for tokens in token_counts if tokens >= point), None)
            # one that is a whole step further was taken for another planned count
            if tokens is not None and tokens < point + self.batch_tokens:
                checkpoints.append(Checkpoint(point, tokens, folder / f"{tokens:015d}"))
        return checkpoints

    @property
    def written(self) -> list[Checkpoint]:
        """The study's checkpoints, each folder once.

        Points within one optimiser step share a checkpoint.
        """
        return list({checkpoint.folder: checkpoint for checkpoint in self.checkpoints}.values())

    @property
    def expected(self) -> int:
        """The number of folders in the end, as far as is known which checkpoints share one."""
        still_to_write = len(self.points) - len(self.checkpoints)
        return still_to_write + len(self.written)

    @property
    def done(self) -> bool:
        """Whether the run has been trained to its goal, with every checkpoint on the way."""
        if self.tokens < self.goal:
            return False
        up_to_goal = [point for point in self.points if point <= self.goal]
        points_there = [checkpoint.point for checkpoint in self.checkpoints]
        return points_there[: len(up_to_goal)] == up_to_goal

    @property
    def missed(self) -> list[int]:
        """The planned tokens that the run has passed without a checkpoint, or its branch.

        Another study has trained the run.
        """
        points_there = {checkpoint.point for checkpoint in self.checkpoints}
        return [
            point
            for point in self.points
            if point not in points_there and point + self.batch_tokens <= self.tokens
        ]

    @property
    def failure(self) -> str:
        """Why the newest attempt at the training has failed; "" where none has."""
        with suppress(FileNotFoundError):  # another study may remove the file, to try again
            return (self.folder / FAILURE).read_text(errors="replace")
        return ""
