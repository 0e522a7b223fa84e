"""Tiny studies, also of rows of our own, and jobs that make by hand the files which a process would
make."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from dreamer_study.flows.jobs import Event, Job
from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.evaluation.benchmark_rows import write_rows
from tests.flows.small_study import TINY
from tests.model.saved_files import rewrite, write_values
from tests.pipeline.documents import lines

Planned = Callable[..., Plan]  # the fixture `prepared`
ONE = {"models": {"variants": ["LA"]}, "evaluation": {"introspect": False}}
BEYOND = 7  # tokens by which the step that reaches a point goes beyond the point


def tiny(root: Path, **changes: Any) -> Study:
    """The tiny study in a folder; `training={"seeds": [0]}` changes settings of a section,
    `name="other"` a value."""
    return load_study(tiny_settings(**changes), root=root)


def tiny_settings(**changes: Any) -> dict[str, Any]:
    """The settings of `tiny`, as its study file holds them."""
    content = yaml.safe_load(TINY.read_text())
    content["training"] |= {"seeds": [0], "screening": 0}
    content["evaluation"] |= {"bootstrap_replicates": 0, "weights": "averaged"}
    content["workers"] = 1  # tests run beside tests: a second process of a kind only imports again
    for section, values in changes.items():
        content[section] = (
            {**content.get(section, {}), **values} if isinstance(values, dict) else values
        )
    if "seeds_until" in content["training"]:
        del content["training"]["seeds"]
    if "checkpoint_every" in content["training"]:
        del content["training"]["checkpoints"]
    return content


def study_file(folder: Path, **changes: Any) -> Path:
    """A study file with these settings, of the study's name where that is changed."""
    path = folder / f"{changes.get('name', 'study')}.yaml"
    path.write_text(yaml.safe_dump(tiny_settings(**changes)))
    return path


def write_checkpoint(folder: Path, tokens: int) -> Path:
    """Write a checkpoint as far as files go to the folder of a run."""
    made = folder / "checkpoints" / f"{tokens:015d}"
    known = {
        "run_id": folder.name,
        "tokens": tokens,
        "step": 1,
        "epoch": 0.1,
        "loss": 1.0,
        "seconds": 1.0,
    }
    rewrite(made / "checkpoint.json", {**known, "stream_hash": "a"})
    return made


def write_state(folder: Path, tokens: int, loss: float = 1.0) -> None:
    """Write what a training leaves when it stops: its state, steps and progress."""
    write_values(folder, [(1, tokens, loss)], ranks=2)
    (folder / "progress.json").write_text(json.dumps({"tokens": tokens, "state": "stopped"}))


def train(run: Run, tokens: int | None = None) -> None:
    """Train a run by hand to its goal, or so far."""
    for point in run.points:
        if point <= (tokens or run.goal):
            write_checkpoint(run.folder, point + BEYOND)
    write_state(run.folder, (tokens or run.goal) + BEYOND)


def evaluate(
    path: Path,
    losses: Callable[[dict[str, Any]], float] = lambda run: 1.0,
    scores: Callable[[dict[str, Any], int], float] = lambda run, tokens: 0.5,
) -> None:
    """Do the job of an evaluation by hand; run.json decides the `losses` on the tuning split and
    the `scores`."""
    (checkpoint,) = json.loads(path.read_text())["checkpoints"]
    for benchmark, output in checkpoint["outputs"].items():
        assert (Path(checkpoint["path"]) / "checkpoint.json").exists()
        key = {"run_id": checkpoint["run_id"], "tokens": checkpoint["tokens"], "task": benchmark}
        run = json.loads((Path(checkpoint["path"]).parents[1] / "run.json").read_text())
        row = {
            **key,
            "metric": "acc",
            "filter": "none",
            "value": scores(run, checkpoint["tokens"]),
            "items": 4,
        }
        if benchmark == "tuning":
            row |= {"metric": "bits_per_byte", "value": losses(run)}
        rows = {} if benchmark == "introspection" else {"evaluations": pa.Table.from_pylist([row])}
        write_rows(Path(output["folder"]), rows, output["configuration"])


class Heard:
    """Keeps the key, the fraction and the words of every report."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, float, str]] = []

    def update(self, key: str, fraction: float, words: str) -> None:
        self.reports.append((key, fraction, words))

    @property
    def words(self) -> list[str]:
        return [words for *_, words in self.reports]


class JobsByHand:
    """Jobs one after another, the most urgent first; those named in `errors` fail by that error.

    `losses` are those of trainings, by the seed; `submitted` keeps every job.
    """

    def __init__(
        self,
        errors: dict[str, Exception] | None = None,
        losses: dict[int, float] | None = None,
        tuning: Callable[[dict[str, Any]], float] = lambda run: 1.0,
        scores: Callable[[dict[str, Any], int], float] = lambda run, tokens: 0.5,
    ) -> None:
        self.errors, self.losses, self.tuning, self.scores = (
            errors or {},
            losses or {},
            tuning,
            scores,
        )
        self.submitted: list[Job] = []
        self.waiting: list[tuple[tuple[int, ...], int, Job]] = []
        self.told: list[str] = []  # what happened, and which jobs were submitted thereupon
        self.stopped = False
        self.gpus: tuple[int, ...] = ()

    @property
    def names(self) -> list[str]:
        return [job.name for job in self.submitted]

    def submit(self, job: Job) -> None:
        heapq.heappush(self.waiting, (job.priority, len(self.submitted), job))
        self.submitted.append(job)
        self.told.append(f"submitted: {job.name}")

    def events(self) -> Iterator[Event]:
        while self.waiting:
            *_, job = heapq.heappop(self.waiting)
            yield Event(job, "started")
            if error := self.errors.get(job.name):
                yield Event(job, "failed", error)
                continue
            if job.kind == "training":
                yield from self._train(job)
            else:
                evaluate(Path(job.arguments[0]), self.tuning, self.scores)
            self.told.append(f"finished: {job.name}")
            yield Event(job, "finished")

    def _train(self, job: Job) -> Iterator[Event]:
        run = json.loads((job.folder / "run.json").read_text())
        begun = max((int(state.name) for state in job.folder.glob("state/*")), default=0)
        for point in run["training"]["checkpoints"]:
            if begun < point <= job.goal:
                write_checkpoint(job.folder, point + BEYOND)
                self.told.append(f"checkpoint: {job.name}")
                yield Event(job, "checkpoint")
        write_state(job.folder, job.goal + BEYOND, self.losses.get(run["seed"], 1.0))

    def stop(self) -> None:
        self.stopped = True


# Rows of our own in a mirror: the data sets `owner/<name>`, with the columns `q` and `r`.
BENCHMARK = {
    "name": "b",
    "repository": "owner/items",
    "task": "b",
    "metric": "acc",
    "question": "q",
    "split": "train",
}


def write_own_rows(mirror: Path, name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write a data set."""
    lines(mirror / "owner" / name / "default" / "train.jsonl", rows)


def entry(name: str, **fields: Any) -> dict[str, Any]:
    """The entry of a study's source."""
    return {"name": name, "repository": f"owner/{name}", "question": "q", "response": "r", **fields}


def prepared_of(
    mirror: Path, root: Path, *sources: dict[str, Any], cluster: str | None = None, **changes: Any
) -> Plan:
    """Plan a study of sources, and of the benchmark `owner/items`; prepare its data. `changes` are
    those of `data`."""
    data = {
        "sources": list(sources),
        "mirror": str(mirror),
        "tokenizer": {"vocabulary_size": 300},
        **changes,
    }
    plan = Plan(
        tiny(root, data=data, evaluation={"benchmarks": [BENCHMARK]}, compute={"cluster": cluster})
    )
    prepare_data(plan, Steps())
    return plan
