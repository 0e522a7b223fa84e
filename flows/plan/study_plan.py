"""Plan a study: everything that follows from the study and from what has been decided so far.

A plan knows every data output, model, run, checkpoint and evaluation with its key and folder, and
whether it is done. A plan reads files, and writes only texts of benchmarks and digests of large
files. `dreamer run`, `plan`, `status`, `verify`, `clean` and `checkpoints` ask the plan.

What is known only after work is a decision: the vocabulary (in the manifest of the tokenizer), the
settings that a search has chosen (`search`), which seed of a race is trained to the end
(`choose_seed`), and whether a study has seeds enough (`wants_seeds`). A plan that is asked again
after a decision knows what follows from it.

The plan in parts, each of which knows what those before know: `data_plan.py` (outputs of
curation), `evaluation_plan.py` (tasks and evaluations), `planned_models.py` (models and what they
cost), `search_plan.py` (the search for settings), and here the runs, races and added seeds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from dreamer_study.flows.plan.data_plan import plain
from dreamer_study.flows.plan.evaluation_plan import Evaluation
from dreamer_study.flows.plan.planned_models import Unsized
from dreamer_study.flows.plan.runs import FAILURE, Checkpoint, Run
from dreamer_study.flows.plan.search_plan import PlannedSearch
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.storage.integrity import read_sealed
from dreamer_study.sql.statistics.sequential import looks_until

# Who asks a plan imports its nouns from here.
__all__ = ["FAILURE", "Checkpoint", "Evaluation", "Plan", "Run", "Unsized"]


class Plan(PlannedSearch):
    """Everything that follows from a study and the decisions made so far.

    What is decided does not change any more, so it is kept once it is known.
    """

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self._runs_by_model: list[list[Run]] = []  # empty until learning rates are decided

    # --- runs ---

    @property
    def runs(self) -> list[Run]:
        """The runs of the study: model by model, seed by seed.

        Which seeds are trained to the end is in them as far as it is decided. There are none while
        learning rates are searched for (`tuning_runs`).
        """
        return [
            run
            for number, seeds_of_model in enumerate(self._described)
            for run in self._runs_of(number, seeds_of_model)
        ]

    def _runs_of(self, model_number: int, seeds_of_model: list[Run]) -> list[Run]:
        """Return the runs of one model with goal, status and priority, by what is decided."""
        training = self.study.training
        race_ends = training.stop_at(len(seeds_of_model))
        has_own_seeds = self.study.variant(seeds_of_model[0].model.variant).seeds
        if training.seeds_until and not has_own_seeds:
            seeds_of_model = seeds_of_model[: self.look]
        winner = None  # also while that is not decided
        finished: Sequence[str] = ()
        if race_ends:
            decision = self.decision(seeds_of_model)
            if decision.exists():
                decided = read_sealed(decision)
                winner = decided["seed"]
                finished = decided.get("finished", ())

        runs = []
        for seed_number, run in enumerate(seeds_of_model):
            if race_ends is None or run.seed == winner:
                status = "chosen"
                goal = training.tokens
            else:
                status = "racing" if winner is None else "screened"
                goal = race_ends
            # Seeds in turn, of each seed the slowest model first: every model soon has a curve to
            # compare.
            priority = (1, seed_number, -model_number)
            runs.append(
                dataclasses.replace(
                    run,
                    goal=goal,
                    status=status,
                    priority=priority,
                    is_gone=status == "screened" and run.run_id in finished and run.tokens < goal,
                )
            )
        return runs

    @property
    def _described(self) -> list[list[Run]]:
        """The runs of each model, without what is decided later."""
        if not self._runs_by_model and not self.tuning_runs:
            points = self.study.training.points
            for model in self.models:
                settings = self._settings(model)
                seeds = self.study.seeds_of(model.variant)
                self._runs_by_model.append(
                    [self._describe(model, seed, settings, points) for seed in seeds]
                )
        return self._runs_by_model

    def forget_search(self) -> None:
        """Forget which settings were chosen, and the runs at these settings."""
        super().forget_search()
        self._runs_by_model = []

    # --- races and the number of seeds ---

    def decision(self, runs: Sequence[Run]) -> Path:
        """Return the file of the decision which of a model's seeds has won the race."""
        return self._decision_on({"race": self.study.training.stop_at(len(runs))}, runs)

    @property
    def undecided(self) -> list[list[Run]]:
        """The races in which no seed is chosen, and all runs have ended or failed."""
        races = [self._runs_of(number, runs) for number, runs in enumerate(self._described)]
        return [
            runs
            for runs in races
            if all(run.status == "racing" and (run.done or run.failure) for run in runs)
            and any(run.done for run in runs)
        ]

    @property
    def look(self) -> int:
        """The seeds of each model at the first look that has not decided to add more.

        Looks come at fixed numbers of seeds (`seeds_until`).
        """
        looks = looks_until(self.study.training.seeds_until.most)
        for seeds in looks:
            decision = self.look_decision(seeds)
            if not decision.exists() or not read_sealed(decision)["go_on"]:
                return seeds
        return looks[-1]

    def look_decision(self, seeds: int) -> Path:
        """Return the file of the decision whether models with `seeds` trained seeds get more."""
        until = self.study.training.seeds_until
        runs = [run for seeds_of_model in self._described for run in seeds_of_model[:seeds]]
        content = {
            "seeds_until": until.high_over_low,
            "seeds": seeds,
            "benchmarks": self.decisive,
            "evaluation": self.study.evaluation.model_dump(),
        }
        return self._decision_on(plain(content), runs)

    @property
    def wants_seeds(self) -> bool:
        """Whether the decision to add seeds or to end is still to be made."""
        until = self.study.training.seeds_until
        if not until:
            return False
        return self.look < until.most and not self.look_decision(self.look).exists()

    # --- the whole ---

    @property
    def described(self) -> bool:
        """Whether all trainings are known.

        Items of late benchmarks may still be looked for in the data. Until then not all evaluations
        are known, and by these a study with `seeds_until` decides whether seeds are added.
        """
        data_suffice = self.trainable and (self.prepared or not self.study.training.seeds_until)
        return data_suffice and self.unsized is None

    @property
    def trained(self) -> bool:
        """Whether every run is trained as far as the study wants, and everything is decided."""
        if not self.described or self.tuning_runs:
            return False
        return all(
            (run.status == "screened" and not run.is_gone) or (run.status == "chosen" and run.done)
            for run in self.runs
        )

    @property
    def evaluated(self) -> bool:
        """Whether every checkpoint of a trained study is evaluated, and no seed may be added."""
        if not self.prepared or not self.trained:
            return False
        evaluations = [evaluation for run in self.runs for evaluation in self.evaluations(run)]
        return all(evaluation.done for evaluation in evaluations) and not self.wants_seeds

    def names(self) -> Iterator[str]:
        """Name all that the study uses in its store, `<stage>/<key>` each, as far as is known."""
        if self.absent:
            return
        yield from (output.name for output in self.data.outputs)
        if self.prepared and self.described:
            for run in (*self.tuning_runs, *self.runs):
                yield f"runs/{run.run_id}"
                yield from (f"evaluations/{each.key}" for each in self.evaluations(run))
            # for what is named above
            yield from (f"decisions/{path.stem}" for path in sorted(self._asked))
