"""Plan the evaluations of a study: each checkpoint on each benchmark, with its key and folder.

An evaluation is keyed by its run, its checkpoint, one benchmark with everything that decides the
scores (digests of items and definitions, metric, filter), and the settings of the evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dreamer_study.flows.plan.data_plan import VERSIONS, PlannedData, plain
from dreamer_study.flows.plan.runs import Checkpoint, Run
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.model.evaluation.job import INTROSPECTION
from dreamer_study.model.evaluation.lm_eval_files import read_task
from dreamer_study.model.evaluation.sampled_items import SEED
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.items import task_specifications
from dreamer_study.pipeline.tokens.validation import TUNING, VALIDATION, held_out_specification
from dreamer_study.pipeline.worlds.tasks import world_specifications

WORLD_TEXT = "world_text"  # the perplexity of whole documents of the built-in world


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


class PlannedEvaluations(PlannedData):
    """The part of a plan that knows tasks and evaluations; `study_plan.Plan` is the whole."""

    # --- tasks ---

    @cached_property
    def tasks(self) -> list[dict[str, Any]]:
        """The specifications of all tasks, as in `pipeline/benchmarks/items.py`.

        Raises InputError before the data are there.
        """
        study = self.study
        world = self.data.world
        packed = self.data.packed
        tasks: list[dict[str, Any]] = []
        if world and BUILTIN in study.evaluation.benchmarks:
            # Models that never learn to write questions are not scored on whole documents.
            learns_questions = study.training.loss_on == "all"
            tasks += [
                task
                for task in world_specifications(world.path)
                if learns_questions or task["benchmark"] != WORLD_TEXT
            ]
        for benchmark in study.own_benchmarks:
            tasks += self.specifications(benchmark)
        if packed.results[VALIDATION]:
            tasks.append(held_out_specification(packed.path, study.training.loss_on))
        return tasks

    def tasks_of(self, run: Run) -> list[dict[str, Any]]:
        """Return the specifications of a run's tasks.

        In the search for learning rates that is the tuning split alone.
        """
        if run.status != "tuning":
            return self.tasks
        return [held_out_specification(self.data.packed.path, self.study.training.loss_on, TUNING)]

    def specifications(self, benchmark: Benchmark) -> list[dict[str, Any]]:
        """Describe the tasks of a benchmark.

        Texts that lm-eval reads from a file of ours are written here, once.
        """
        study = self.study
        tasks = task_specifications(
            benchmark,
            self.folder_of(benchmark),
            study.store_folder / "texts",
            beside=study.place,
            mirror=study.mirror,
        )
        late = self.data.late.get(benchmark.name)
        if late and late.done:
            return [{**task, "left_out": late.results["found"]} for task in tasks]
        return tasks

    # --- what decides scores ---

    @cached_property
    def decisive(self) -> dict[str, Any]:
        """What decides the scores of each benchmark besides the checkpoint, in the order of tasks.

        For example `{"gsm8k": {"tasks": [{"task": "gsm8k", "metric": "exact_match", ...}],
        "data": [<digest>, ...]}}`.
        """
        contents = self._contents(self.tasks)
        if self.study.evaluation.introspect:
            return {INTROSPECTION: []} | contents
        return contents

    def _contents(self, tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        own_benchmarks = {benchmark.name: benchmark for benchmark in self.study.own_benchmarks}
        contents: dict[str, Any] = {}
        for task in tasks:
            name = task["benchmark"]
            if name not in contents:
                own = own_benchmarks.get(name)
                contents[name] = {"tasks": [], "data": self._digests(own) if own else []}
            contents[name]["tasks"].append(self._content_of_task(task))
        return plain(contents)

    def _content_of_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        content = {
            part: task[part]
            for part in ("task", "metric", "filter", "chance", "left_out")
            if part in task
        }
        for part in ("plain", "yaml", "data_file"):
            if task.get(part):
                content[part] = self.store.file_digest(Path(task[part]))
        if task.get("yaml"):
            files = read_task(Path(task["yaml"]), task["benchmark"], trust_code=True).files
            included = files[1:]
            if included:
                content["others"] = sorted(map(self.store.file_digest, included))
        overrides = dict(task.get("overrides") or {})
        # where the data lie, which decides no score
        overrides.pop("dataset_kwargs", None)
        content["overrides"] = overrides
        return content

    # --- evaluations ---

    def evaluations(self, run: Run) -> list[Evaluation]:
        """List the evaluations of a run's checkpoints that are there.

        A run that races, or has lost its race, has none.
        """
        if run.status not in ("chosen", "tuning"):
            return []
        return [
            evaluation
            for checkpoint in run.written
            for evaluation in self.evaluations_of(run, checkpoint)
        ]

    def evaluations_of(self, run: Run, checkpoint: Checkpoint) -> list[Evaluation]:
        """List the evaluations of one checkpoint, one for each benchmark."""
        tuning = run.status == "tuning"
        contents = self._contents(self.tasks_of(run)) if tuning else self.decisive
        settings = self._settings_of(run, checkpoint)
        evaluations = []
        for benchmark, content in contents.items():
            configuration = {
                "tokens": checkpoint.tokens,
                "benchmark": benchmark,
                "content": content,
            }
            if benchmark != INTROSPECTION:  # which scores no items
                configuration |= settings
            key = self.store.key(
                "evaluations", VERSIONS["evaluations"], configuration, [f"runs/{run.run_id}"]
            )
            folder = self.store.root / "evaluations" / key
            evaluations.append(Evaluation(run, checkpoint, benchmark, key, folder, configuration))
        return evaluations

    def weights_of(self, run: Run) -> str:
        """Return which weights of a run's checkpoints are evaluated."""
        if run.status == "tuning":
            return self.study.weights_of_search
        return self.study.evaluation.weights

    def _settings_of(self, run: Run, checkpoint: Checkpoint) -> dict[str, Any]:
        """Return the settings that decide the scores of a checkpoint.

        The last checkpoint of a run is evaluated at other depths too.
        """
        settings = self.study.evaluation
        depths: tuple[int, ...] = ()
        if checkpoint.point == run.points[-1] and run.status != "tuning":
            depths = run.model.config.other_depths(settings.depths)
        sample = {"sample": SEED} if settings.limit else {}
        return {
            **sample,
            "limit": settings.limit,
            "max_new_tokens": settings.max_new_tokens,
            "weights": self.weights_of(run),
            "depths": list(depths),
        }
