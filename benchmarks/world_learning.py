"""Measure how a built-in world is learned: `python -m benchmarks.world_learning <preset or study file>`.

Trains every model of the study with several seeds, keeps a running average of the weights, and prints at each
checkpoint the accuracy and the bits per byte of the gold answer, by task and on average. A world is good for a study if
every task is learned within the tokens, the curves rise gradually, and seeds differ little. So the last table gives the
spread between seeds: the standard deviation of the mean logarithm of the tokens at equal values, over the values that
all seeds of a model pass through. Which variant learns faster is no reason to choose a world.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flows.stages.models import describe_run, plan_models
from flows.stages.prepare import prepare_data
from flows.study.configuration import Study
from flows.study.loading import load_study
from model.dreamer import Dreamer
from model.evaluation.language_model import LanguageModel
from model.evaluation.tasks import PlainTask, read_items
from model.evaluation.tokenizer import load_tokenizer
from model.training.config import read_run
from model.training.trainer import Trainer
from pipeline.storage.store import Store

DECAY = 18.0  # of the running average: it holds about the last 5 % of the steps
LEVELS = 200
MEASURES = ("accuracy", "gold bits per byte")


@dataclass(frozen=True)
class Learning:
    """One training: its run folder, the tokenizer, the tasks with plain items and how many of them, and the weights."""

    folder: Path
    tokenizer: Path
    tasks: tuple[dict[str, Any], ...]
    limit: int | None
    averaged: bool


class RunningAverage:
    """The average of a model's weights over its steps, with weight (1 - 1/t)^18 for the average before step t."""

    def __init__(self, model: Dreamer) -> None:
        self.source = {name: each for name, each in model.state_dict().items() if each.is_floating_point()}
        self.tensors = {name: each.clone() for name, each in self.source.items()}

    def update(self, step: int) -> None:
        """Add the weights after a step, counted from 1."""
        share = 1 - (1 - 1 / step) ** DECAY
        torch._foreach_lerp_(list(self.tensors.values()), list(self.source.values()), share)

    def model(self, model: Dreamer) -> Dreamer:
        """Build a copy of the model with the averaged weights."""
        copy = Dreamer(model.config, dtype=model.dtype)
        copy.load_state_dict({**model.state_dict(), **self.tensors})
        return copy.eval()


def learn(learning: Learning) -> dict[str, Any]:
    """Train one model; return its curves by task and measure, and its training tokens per CPU second."""
    torch.set_num_threads(1)
    trainer = Trainer(read_run(learning.folder))
    average = RunningAverage(trainer.model)
    tokens, spent = [], 0.0
    curves: dict[str, dict[str, list[float]]] = {measure: defaultdict(list) for measure in MEASURES}
    for point in trainer.config.checkpoints:
        started = time.process_time()
        while trainer.tokens < point:
            trainer.train_step()
            average.update(trainer.step)
        spent += time.process_time() - started
        tokens.append(trainer.tokens)
        model = average.model(trainer.model) if learning.averaged else trainer.model.eval()
        for task in learning.tasks:
            for measure, value in zip(MEASURES, measure_task(model, learning, task), strict=True):
                curves[measure][task["benchmark"]].append(value)
        trainer.model.train()
    return {
        "variant": trainer.run.variant,
        "seed": trainer.config.seed,
        "tokens": tokens,
        "curves": curves,
        "tokens/s": trainer.tokens / spent,
    }


@torch.inference_mode()
def measure_task(model: Dreamer, learning: Learning, task: dict[str, Any]) -> tuple[float, float]:
    """Measure the accuracy on a task, and the mean over items of the gold answer's bits per byte."""
    language = LanguageModel(model, load_tokenizer(learning.tokenizer))
    plain = PlainTask(task, limit=learning.limit)
    answers = {
        "generate_until": language.generate(plain.requests["generate_until"]),
        "loglikelihood": language.log_likelihoods(plain.requests["loglikelihood"]),
    }
    (accuracy,) = (each for each in plain.score(answers).measures if each.metric == task["metric"])
    gold = [(item["prompt"], f" {item['target']}") for item in read_items(Path(task["plain"]))[: learning.limit]]
    found = language.log_likelihoods(gold)
    bits = [-value / math.log(2) / len(text.encode()) for (value, _), (_, text) in zip(found, gold, strict=True)]
    return float(np.mean(list(accuracy.findings.values()))), float(np.mean(bits))


def average_curve(run: dict[str, Any], measure: str) -> np.ndarray:
    """Compute the mean over a run's tasks at each checkpoint."""
    return np.mean(list(run["curves"][measure].values()), axis=0)


def spread(runs: Sequence[dict[str, Any]], measure: str) -> float:
    """Compute the standard deviation over seeds of the mean log tokens at equal values of the average curve.

    Values are taken evenly over the range that all curves pass through; a curve counts from where it first passes them.
    Not a number where the curves have no range in common.
    """
    sign = -1 if measure == MEASURES[1] else 1
    curves = [np.maximum.accumulate(sign * average_curve(run, measure)) for run in runs]
    low, high = max(curve[0] for curve in curves), min(curve[-1] for curve in curves)
    if low >= high:
        return math.nan
    levels = np.linspace(low, high, LEVELS)
    positions = []
    for run, curve in zip(runs, curves, strict=True):
        rising = np.diff(curve, prepend=-np.inf) > 0
        positions.append(np.interp(levels, curve[rising], np.log(run["tokens"])[rising]).mean())
    return float(np.std(positions, ddof=1))


def prepare(study: Study, seeds: Sequence[int], averaged: bool) -> list[Learning]:
    """Prepare the study's data and write a run folder for every model and seed."""
    data = prepare_data(study, Store(study.store_folder))
    tasks = tuple(task for task in data.tasks if task["chance"] is not None)
    learnings = []
    for seed in seeds:
        for model in plan_models(study, data.vocabulary_size):
            folder = study.folder / "learning" / f"{model.model_id}-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            values = {**describe_run(study, data.packed, model, seed), "data": str(data.packed.path.resolve())}
            (folder / "run.json").write_text(json.dumps(values))
            learnings.append(Learning(folder, data.tokenizer.path, tasks, study.evaluation.limit, averaged))
    return learnings


def print_curves(runs: Sequence[dict[str, Any]]) -> None:
    """Print the average curve of every run, and each model's curves by task, means over seeds."""
    for measure in MEASURES:
        print(f"\n{measure}, average over tasks\n\n| run | at each checkpoint |\n|---|---|")
        for run in runs:
            print(f"| {run['variant']} seed {run['seed']} | {_row(average_curve(run, measure))} |")
        print(f"\n{measure} by task, mean over seeds\n\n| model | task | at each checkpoint |\n|---|---|---|")
        for variant, own in by_variant(runs).items():
            for task in own[0]["curves"][measure]:
                print(f"| {variant} | {task} | {_row(np.mean([run['curves'][measure][task] for run in own], 0))} |")


def print_spread(runs: Sequence[dict[str, Any]]) -> None:
    """Print the spread between seeds of each model and of all, and tokens per CPU second."""
    print("\n| model | seeds | spread of accuracy | spread of bits per byte | tokens per CPU second |")
    print("|---|---|---|---|---|")
    squares = []
    for variant, own in by_variant(runs).items():
        spreads = [spread(own, measure) for measure in MEASURES] if len(own) > 1 else [math.nan] * 2
        squares.append(np.square(spreads))
        rate = np.median([run["tokens/s"] for run in own])
        print(f"| {variant} | {len(own)} | {spreads[0]:.3f} | {spreads[1]:.3f} | {rate:,.0f} |")
    accuracy, bits = np.sqrt(np.mean(squares, axis=0))
    print(f"| root mean square | | {accuracy:.3f} | {bits:.3f} | |")


def by_variant(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group runs by variant, in order of first appearance."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        groups[run["variant"]].append(run)
    return groups


def _row(values: Sequence[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


def main() -> None:
    """Train and evaluate all models of a study, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", nargs="?", default="demo", help="a preset or a study file (default: demo)")
    parser.add_argument("--seeds", type=int, nargs="+", help="default: those of the study")
    parser.add_argument("--processes", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--raw", action="store_true", help="evaluate the last weights, not their average")
    parser.add_argument("--runs", type=Path, help="a file to which each run's curves are added as a line of JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="world-learning-") as folder:
        study = load_study(arguments.study, root=folder)
        learnings = prepare(study, arguments.seeds or study.training.seeds, not arguments.raw)
        with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
            runs = []
            for run in pool.map(learn, learnings):
                runs.append(run)
                if arguments.runs:
                    with arguments.runs.open("a") as file:
                        file.write(json.dumps({"study": study.study_id, **run}) + "\n")
    print_curves(runs)
    print_spread(runs)


if __name__ == "__main__":
    main()
