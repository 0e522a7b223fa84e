"""Plan a study: everything that follows from the study and from what has been decided so far.

A plan knows every data output, model, run, checkpoint and evaluation with its key and folder, and
whether it is done. A plan reads files, and writes only texts of benchmarks and digests of large
files. `dreamer run`, `plan`, `status`, `verify`, `clean` and `checkpoints` ask the plan.

What is known only after work is a decision: the vocabulary (in the manifest of the tokenizer), the
learning rates that a search has chosen (`best_rates`), which seed of a race goes on
(`choose_seed`), and whether a study has seeds enough (`wants_seeds`). A plan that is asked again
after a decision knows what follows from it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dreamer_study.flows.plan.data_plan import VERSIONS, PlannedData, plain
from dreamer_study.flows.plan.model_plan import Answer, PlannedModel, Sizing, plan_models, size
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.model.accounting import Resources
from dreamer_study.model.checkpoints.checksums import newest_values
from dreamer_study.model.evaluation.job import INTROSPECTION
from dreamer_study.model.evaluation.lm_eval_files import read_task
from dreamer_study.model.module_config import read_architecture
from dreamer_study.model.training.config import HOW_FAR, HOW_IT_RUNS
from dreamer_study.model.training.step_log import further_rates
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.items import task_specifications
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.integrity import read_sealed
from dreamer_study.pipeline.tokens.validation import TUNING, VALIDATION, held_out_specification
from dreamer_study.pipeline.worlds.tasks import world_specifications
from dreamer_study.sql.statistics.sequential import looks_until

# by the status of a run
VERBS = {"chosen": "train", "tuning": "tune", "racing": "screen", "screened": "screen"}
WORLD_TEXT = "world_text"  # the perplexity of whole documents of the built-in world


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that has been written: the planned tokens, the tokens trained on, and its
    folder."""

    point: int
    tokens: int
    folder: Path


@dataclass(frozen=True)
class Run:
    """One model trained with one seed, in a folder of its own.

    `content` decides the trajectory (run.json without the data's place), `points` are the planned
    tokens of the study's checkpoints, `goal` the tokens to which the study trains the run, as far
    as is decided. `status` is
    'tuning' (of the search for learning rates), 'racing' (which seed goes on is not decided),
    'screened' (another seed has gone on) or 'chosen'.
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

    @property
    def name(self) -> str:
        """Model and seed, in words; in the search for learning rates also the rate."""
        rate = f" rate {self.learning_rate:g}" if self.status == "tuning" else ""
        return f"{self.model.model_id} seed {self.seed}{rate}"

    @property
    def training_name(self) -> str:
        """The name of the training of the run to its goal."""
        return f"{VERBS[self.status]} {self.name}"

    @property
    def learning_rate(self) -> float:
        """The highest learning rate of the run."""
        return self.content["training"]["learning_rate"]

    @property
    def tokens(self) -> int:
        """The tokens that the newest state of the run has been trained on; 0 where there is
        none."""
        values = newest_values(self.folder / "state", "tokens")
        return values["tokens"] if values else 0

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The study's checkpoints that are there, in order.

        A checkpoint is taken at the first optimiser step at or above its planned tokens; other
        folders belong to studies with other checkpoints.
        """
        there = sorted(map(int, glob("[0-9]*[0-9]", root_dir=self.folder / "checkpoints")))
        found = []
        for point in self.points:
            tokens = next((tokens for tokens in there if tokens >= point), None)
            if tokens is not None and tokens < point + self.content["training"]["batch_tokens"]:
                found.append(
                    Checkpoint(point, tokens, self.folder / "checkpoints" / f"{tokens:015d}")
                )
        return found

    @property
    def written(self) -> list[Checkpoint]:
        """The study's checkpoints, each folder once: points within one optimiser step share a
        checkpoint."""
        return list({one.folder: one for one in self.checkpoints}.values())

    @property
    def expected(self) -> int:
        """The number of the run's checkpoints in the end, as far as is known which of them share a
        folder."""
        return len(self.points) - len(self.checkpoints) + len(self.written)

    @property
    def done(self) -> bool:
        """Whether the run has been trained to its goal, with every checkpoint on the way."""
        on_the_way = [point for point in self.points if point <= self.goal]
        return (
            self.tokens >= self.goal
            and [one.point for one in self.checkpoints][: len(on_the_way)] == on_the_way
        )

    @property
    def missed(self) -> list[int]:
        """The planned tokens past which another study has trained the run without writing a
        checkpoint."""
        there, step = (
            {one.point for one in self.checkpoints},
            self.content["training"]["batch_tokens"],
        )
        return [
            point for point in self.points if point not in there and point + step <= self.tokens
        ]

    @property
    def failure(self) -> str:
        """Why the newest attempt at the training has failed; "" where none has."""
        with suppress(FileNotFoundError):  # which another study may remove, to try again
            return (self.folder / FAILURE).read_text(errors="replace")
        return ""


FAILURE = "failure.txt"


@dataclass(frozen=True)
class Evaluation:
    """One checkpoint scored on one benchmark, with the folder of the rows."""

    run: Run
    checkpoint: Checkpoint
    benchmark: str
    key: str
    folder: Path
    configuration: Mapping[str, Any]

    @property
    def done(self) -> bool:
        """Whether the rows are there."""
        return self.folder.exists()


class Unsized(InputError):
    """The sizes and costs of a model are not known yet, because only running its code tells."""

    def __init__(self, sizing: Sizing) -> None:
        super().__init__(f"{sizing.name} has not been sized yet; `dreamer run` does")
        self.sizing = sizing


class Plan(PlannedData):
    """Everything that follows from a study and the decisions made so far. What is decided does not
    change any more."""

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self._runs_by_model: list[list[Run]] = []  # empty until learning rates are decided
        self._chosen_rates: list[dict[str, Any]] = []
        self._asked: set[Path] = set()  # the decisions on which the plan depends, made or not

    # --- models and runs ---

    @cached_property
    def models(self) -> list[PlannedModel]:
        """The models, matched in FLOPs and parameters. Raises InputError before the tokenizer is
        there, or Unsized."""
        return plan_models(self.study, self.data.tokenizer.results["vocabulary_size"], self._answer)

    def _answer(self, sizing: Sizing) -> Answer:
        """Answer a sizing: by formulas, or from its decision where only running a model tells."""
        if sizing.by_formula:
            return size(sizing)
        if not (path := self.sizing(sizing)).exists():
            raise Unsized(sizing)
        values = read_sealed(path)
        return read_architecture(values["model"]), Resources(**values["resources"])

    def sizing(self, sizing: Sizing) -> Path:
        """Return the file of the decision which sizes a model has, and what it costs."""
        return self._decision_on(sizing.content(), [])

    def _decision_on(self, content: Mapping[str, Any], runs: Sequence[Run]) -> Path:
        """Return the file of a decision that is made about some content, from what these runs have
        found."""
        key = self.store.key(
            "decisions", VERSIONS["decisions"], content, [f"runs/{run.run_id}" for run in runs]
        )
        path = self.store.root / "decisions" / f"{key}.json"
        self._asked.add(path)
        return path

    @property
    def unsized(self) -> Sizing | None:
        """The next question of sizes and costs that only running a model answers; None where all
        are known."""
        try:
            _ = self.models
        except Unsized as unsized:
            return unsized.sizing
        return None

    @property
    def described(self) -> bool:
        """Whether all trainings are known; items of late benchmarks may still be looked for in the
        data.

        Until then not all evaluations are known, and by these a study decides whether seeds are
        added.
        """
        known = self.trainable and (self.prepared or not self.study.training.seeds_until)
        return known and self.unsized is None

    @property
    def runs(self) -> list[Run]:
        """The runs of the study: model by model, seed by seed, as far as is decided which seeds go
        on.

        There are none while learning rates are searched for (`tuning_runs`).
        """
        return [
            run
            for place, described in enumerate(self._described)
            for run in self._runs_of(place, described)
        ]

    def _runs_of(self, place: int, described: list[Run]) -> list[Run]:
        training, race_ends = self.study.training, self.study.training.stop_at(len(described))
        if training.seeds_until and not self.study.variant(described[0].model.variant).seeds:
            described = described[: self.look]
        winner = None  # also while that is not decided
        if race_ends and (decided := self.decision(described)).exists():
            winner = read_sealed(decided)["seed"]
        found = []
        for number, run in enumerate(described):
            # Seeds in turn, of each seed the slowest model first: every model soon has a curve to
            # compare.
            if race_ends is None or run.seed == winner:
                status, goal = "chosen", training.tokens
            else:
                status, goal = ("racing" if winner is None else "screened"), race_ends
            found.append(
                dataclasses.replace(run, goal=goal, status=status, priority=(1, number, -place))
            )
        return found

    @property
    def _described(self) -> list[list[Run]]:
        """The runs of each model, without what is decided later."""
        if not self._runs_by_model and not self.tuning_runs:
            for model in self.models:
                rate, points = self._rate(model), self.study.training.points
                seeds = self.study.seeds_of(model.variant)
                self._runs_by_model.append(
                    [self._describe(model, seed, rate, points) for seed in seeds]
                )
        return self._runs_by_model

    def _describe(
        self, model: PlannedModel, seed: int, rate: float, points: tuple[int, ...]
    ) -> Run:
        own = {**self.study.variant(model.variant).training, "learning_rate": rate}
        own |= {"tokens": points[-1], "checkpoints": list(points)}
        raw = self.study.evaluation.weights != "averaged"
        recipe = {**self.study.training.recipe(seed), **own, "raw_checkpoints": raw}
        content = {
            "variant": model.variant,
            "depth": model.depth,
            "seed": seed,
            "model": model.config.to_dict(),
            "training": recipe,
        }
        decisive = {
            name: value for name, value in recipe.items() if name not in (*HOW_IT_RUNS, *HOW_FAR)
        }
        if recipe["schedule"] == "constant":
            del decisive["schedule"]  # runs from before there were others keep their names
        identity = {**content, "training": decisive}
        key = self.store.key("runs", VERSIONS["runs"], identity, [self.data.packed.name])
        run_id = f"{model.model_id}-s{seed}-{key[:8]}"
        folder = self.store.root / "runs" / run_id
        return Run(run_id, folder, model, seed, content, points, points[-1], "chosen", ())

    # --- the search for learning rates ---

    def _rate(self, model: PlannedModel) -> float:
        """Return the learning rate of a model: its own, a multiple of another's, the chosen one, or
        that of all."""
        own = self.study.variant(model.variant).training.get("learning_rate")
        if isinstance(own, Mapping):
            other = next(
                one for one in self.models if (one.variant, one.depth) == (own["of"], model.depth)
            )
            return own["times"] * self._rate(other)
        key = model.variant, model.depth
        chosen = {
            (row["variant"], row["depth"]): row["learning_rate"]
            for row in self.search
            if row["chosen"]
        }
        return own or chosen.get(key, self.study.training.learning_rate)

    @property
    def tuning_runs(self) -> list[Run]:
        """The runs of the search for learning rates, as far as they are known; none once the rates
        are chosen."""
        tune = self.study.training.tune
        if not tune or self.search:
            return []
        first = self._search(tune.learning_rate)
        further = (
            further_rates(tune.learning_rate, self.searched(first))
            if self.search_ended(first)
            else []
        )
        return [*first, *self._search(further)]

    def _search(self, rates: Sequence[float]) -> list[Run]:
        """Describe the runs of the search at some rates: of each model without a rate of its own,
        with each seed."""
        tune, found = self.study.training.tune, []
        if not self.data.packed.results[TUNING]:
            raise InputError(
                "training.tune: too few documents to hold some out (data.tuning); give at least 50"
            )
        tuned = [
            one
            for one in self.models
            if "learning_rate" not in self.study.variant(one.variant).training
        ]
        for place, model in enumerate(tuned):
            for number, (rate, seed) in enumerate(itertools.product(rates, tune.seeds)):
                run = self._describe(model, seed, rate, (tune.tokens,))
                found.append(
                    dataclasses.replace(run, status="tuning", priority=(1, number, -place))
                )
        return found

    def search_ended(self, runs: Sequence[Run]) -> bool:
        """Check that each of these runs of the search has failed, or has been trained and
        evaluated."""
        return all(
            run.failure or (run.done and all(one.done for one in self.evaluations(run)))
            for run in runs
        )

    def searched(self, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """Make the rows of the table `tuning` for these runs, before a rate is chosen."""
        found = []
        for run in runs:
            known = {
                "variant": run.model.variant,
                "depth": run.model.depth,
                "learning_rate": run.learning_rate,
            }
            folder = next(
                (one.folder for one in self.evaluations(run) if one.done and not run.failure), None
            )
            rows = pq.read_table(folder / "evaluations.parquet").to_pylist() if folder else []
            loss = next((row["value"] for row in rows if row["metric"] == "bits_per_byte"), None)
            found.append(
                {**known, "seed": run.seed, "tokens": run.goal, "loss": loss, "chosen": False}
            )
        return found

    @property
    def rates_decision(self) -> Path:
        """The file of the decision which learning rates the search has chosen."""
        tune = self.study.training.tune
        configuration = {"tune": tune.model_dump(), "weights": self.study.evaluation.weights}
        return self._decision_on(configuration, self._search(tune.learning_rate))

    @property
    def search(self) -> list[dict[str, Any]]:
        """The rows of the table `tuning` once the rates are chosen; none before."""
        if (
            not self._chosen_rates
            and self.study.training.tune
            and (path := self.rates_decision).exists()
        ):
            self._chosen_rates = read_sealed(path)["rows"]
        return self._chosen_rates

    # --- decisions ---

    def decision(self, runs: Sequence[Run]) -> Path:
        """Return the file of the decision which of a model's seeds goes on after a race."""
        return self._decision_on({"race": self.study.training.stop_at(len(runs))}, runs)

    @property
    def look(self) -> int:
        """The number of seeds of each model at the first look that has not decided to add more
        (`seeds_until`)."""
        looks = looks_until(self.study.training.seeds_until.most)
        decided = ((seeds, self.look_decision(seeds)) for seeds in looks)
        return next(
            (
                seeds
                for seeds, path in decided
                if not path.exists() or not read_sealed(path)["go_on"]
            ),
            looks[-1],
        )

    def look_decision(self, seeds: int) -> Path:
        """Return the file of the decision whether each model, of which `seeds` seeds are trained,
        gets more seeds."""
        until, runs = (
            self.study.training.seeds_until,
            [run for of in self._described for run in of[:seeds]],
        )
        content = {"seeds_until": until.high_over_low, "seeds": seeds, "benchmarks": self.decisive}
        return self._decision_on(
            plain({**content, "evaluation": self.study.evaluation.model_dump()}), runs
        )

    @property
    def wants_seeds(self) -> bool:
        """Whether the decision to add seeds or to end is still to be made."""
        until = self.study.training.seeds_until
        return bool(until) and self.look < until.most and not self.look_decision(self.look).exists()

    @property
    def undecided(self) -> list[list[Run]]:
        """The races whose runs have all ended or failed, and in which no seed is chosen: the runs
        of each."""
        races = [self._runs_of(place, described) for place, described in enumerate(self._described)]
        return [
            runs
            for runs in races
            if all(run.status == "racing" and (run.done or run.failure) for run in runs)
            and any(run.done for run in runs)
        ]

    # --- evaluations ---

    @cached_property
    def tasks(self) -> list[dict[str, Any]]:
        """The specifications of all tasks, as in `pipeline.benchmarks.items`. Raises InputError
        before the data are."""
        study, world, packed = self.study, self.data.world, self.data.packed
        found: list[dict[str, Any]] = []
        if world and BUILTIN in study.evaluation.benchmarks:
            # Models that never learn to write questions are not scored on whole documents.
            learned = study.training.loss_on == "all"
            found += [
                task
                for task in world_specifications(world.path)
                if learned or task["benchmark"] != WORLD_TEXT
            ]
        for benchmark in study.own_benchmarks:
            found += self.specifications(benchmark)
        if packed.results[VALIDATION]:
            found.append(held_out_specification(packed.path, study.training.loss_on))
        return found

    def tasks_of(self, run: Run) -> list[dict[str, Any]]:
        """Return the specifications of a run's tasks: in the search for learning rates the tuning
        split alone."""
        tuning = run.status == "tuning"
        packed, loss_on = self.data.packed.path, self.study.training.loss_on
        return [held_out_specification(packed, loss_on, TUNING)] if tuning else self.tasks

    def specifications(self, benchmark: Benchmark) -> list[dict[str, Any]]:
        """Describe the tasks of a benchmark; texts that lm-eval reads from a file of ours are
        written once."""
        study, folder = self.study, self.folder_of(benchmark)
        texts = study.store_folder / "texts"
        found = task_specifications(
            benchmark, folder, texts, beside=study.place, mirror=study.mirror
        )
        late = self.data.late.get(benchmark.name)
        return (
            [{**task, "left_out": late.results["found"]} for task in found]
            if late and late.done
            else found
        )

    @cached_property
    def decisive(self) -> dict[str, Any]:
        """List what the scores of each benchmark depend on besides the checkpoint, in the order of
        the tasks."""
        found = self._contents(self.tasks)
        return {INTROSPECTION: []} | found if self.study.evaluation.introspect else found

    def _contents(self, tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        by_name = {one.name: one for one in self.study.own_benchmarks}
        found: dict[str, Any] = {}
        for task in tasks:
            name = task["benchmark"]
            files = {
                part: self.store.file_digest(Path(task[part]))
                for part in ("plain", "yaml", "data_file")
                if task.get(part)
            }
            if task.get("yaml") and (
                others := read_task(Path(task["yaml"]), name, trust_code=True).files[1:]
            ):
                files["others"] = sorted(map(self.store.file_digest, others))
            named = {
                part: task[part]
                for part in ("task", "metric", "filter", "chance", "left_out")
                if part in task
            }
            given = (task.get("overrides") or {}).items()
            # where the data lie
            overrides = {part: value for part, value in given if part != "dataset_kwargs"}
            if name not in found:
                found[name] = {
                    "tasks": [],
                    "data": self._digests(by_name[name]) if name in by_name else [],
                }
            found[name]["tasks"].append({**named, **files, "overrides": overrides})
        return plain(found)

    def evaluations(self, run: Run) -> list[Evaluation]:
        """List the evaluations of a run's checkpoints that are there; none of a run that races or
        has lost."""
        if run.status not in ("chosen", "tuning"):
            return []
        return [one for checkpoint in run.written for one in self.evaluations_of(run, checkpoint)]

    def evaluations_of(self, run: Run, checkpoint: Checkpoint) -> list[Evaluation]:
        """List the evaluations of one checkpoint, one for each benchmark."""
        settings, config, tuning = self.study.evaluation, run.model.config, run.status == "tuning"
        last = checkpoint.point == run.points[-1] and not tuning
        depths = config.other_depths(settings.depths) if last else ()
        decisive = {
            "limit": settings.limit,
            "max_new_tokens": settings.max_new_tokens,
            "weights": settings.weights,
        }
        found = []
        for benchmark, content in (
            self._contents(self.tasks_of(run)) if tuning else self.decisive
        ).items():
            scored = {} if benchmark == INTROSPECTION else {**decisive, "depths": list(depths)}
            configuration = {
                "tokens": checkpoint.tokens,
                "benchmark": benchmark,
                "content": content,
                **scored,
            }
            key = self.store.key(
                "evaluations", VERSIONS["evaluations"], configuration, [f"runs/{run.run_id}"]
            )
            folder = self.store.root / "evaluations" / key
            found.append(Evaluation(run, checkpoint, benchmark, key, folder, configuration))
        return found

    # --- the whole ---

    @property
    def trained(self) -> bool:
        """Whether every run has been trained as far as the study wants, and every rate and race is
        decided."""
        if not self.described or self.tuning_runs:
            return False
        return all(
            run.status == "screened" or (run.done and run.status == "chosen") for run in self.runs
        )

    @property
    def evaluated(self) -> bool:
        """Whether every checkpoint of a trained study has been evaluated, and no look at its seeds
        is left."""
        done = (
            self.prepared
            and self.trained
            and all(one.done for run in self.runs for one in self.evaluations(run))
        )
        return done and not self.wants_seeds

    def names(self) -> Iterator[str]:
        """Name all that the study uses in its store, `<stage>/<key>` each, as far as is known."""
        if self.absent:
            return
        yield from (output.name for output in self.data.outputs)
        if self.prepared and self.described:
            for run in (*self.tuning_runs, *self.runs):
                yield f"runs/{run.run_id}"
                yield from (f"evaluations/{one.key}" for one in self.evaluations(run))
            # for what is named above
            yield from (f"decisions/{path.stem}" for path in sorted(self._asked))
