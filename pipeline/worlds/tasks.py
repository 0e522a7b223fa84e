"""Define the built-in world's benchmarks: their data and their lm-eval tasks."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import yaml

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.integrity import read_whole
from dreamer_study.pipeline.tokens.tokenizer import PROMPT
from dreamer_study.pipeline.worlds.drawing import DIGITS, shuffled
from dreamer_study.pipeline.worlds.settings import STORIES
from dreamer_study.pipeline.worlds.sheets import Sheet
from dreamer_study.pipeline.worlds.stories import Story

REPOSITORY = "builtin/world"
LEVELS = "tasks/levels.json"
CHOICES = 4
STOP = "\n"
LONGEST_ANSWER = 8  # tokens
VERSION = 1.0

# Split of the data set, how it is asked, metric and filter by lm-eval's names, and the value that
# guessing gives.
_EXACT = {"split": "test", "kind": "generate_until", "metric": "exact_match", "filter": "strip"}
_CHOICE = {"split": "test", "kind": "multiple_choice", "metric": "acc", "filter": "none"}
_TEXT = {
    "split": "validation",
    "kind": "loglikelihood_rolling",
    "metric": "word_perplexity",
    "filter": "none",
}
_STORY: dict[str, Any] = {"family": STORIES}
_NUMBER = {**_STORY, **_EXACT}
_SHEET = {**_EXACT, "kind": "last_answer"}
WORLD_BENCHMARKS: dict[str, dict[str, Any]] = {
    "world_short": {"configuration": "short", **_NUMBER},
    "world_long": {"configuration": "long", **_NUMBER},
    "world_choice": {"configuration": "choice", **_STORY, **_CHOICE},
    "world_text": {"configuration": "text", **_STORY, **_TEXT},
    **{
        f"world_{family}": {"family": family, "configuration": family, **_SHEET}
        for family in ("expressions", "recall", "chain", "tracking")
    },
}

_WORD = re.compile(r"\w+")
_QUESTION = PROMPT.replace("{question}", "{{question}}")
_MEAN = {"aggregation": "mean", "higher_is_better": True}
_STRIPPED = [
    {"name": "strip", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}
]
_TASKS: dict[str, dict[str, Any]] = {  # what lm-eval tasks of a kind have in common
    "generate_until": {
        "doc_to_text": _QUESTION,
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": [STOP], "do_sample": False, "max_gen_toks": LONGEST_ANSWER},
        "filter_list": _STRIPPED,
        "metric_list": [{"metric": "exact_match", **_MEAN}],
    },
    "last_answer": {
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": [STOP], "do_sample": False, "max_gen_toks": 1},
        "filter_list": _STRIPPED,
        "metric_list": [{"metric": "exact_match", **_MEAN}],
    },
    "multiple_choice": {
        "doc_to_text": _QUESTION,
        "doc_to_target": "answer",
        "doc_to_choice": "choices",
        "metric_list": [{"metric": "acc", **_MEAN}],
    },
    "loglikelihood_rolling": {
        "doc_to_text": "",
        "doc_to_target": _QUESTION + " {{response}}",
        "metric_list": [
            {"metric": metric} for metric in ("word_perplexity", "byte_perplexity", "bits_per_byte")
        ],
    },
}


def world_specifications(folder: Path) -> list[dict[str, Any]]:
    """Describe each lm-eval task of the world in `folder` for evaluation, with the accuracy of
    guessing (`chance`).

    `trivial` is that of the best trivial rule. Raises InputError when there is no world, or its
    levels are damaged.
    """
    folder = Path(folder).resolve()
    try:
        found = json.loads(read_whole(folder, LEVELS))
    except OSError:
        raise InputError(f"no built-in world in {folder}: it has no {LEVELS}") from None
    return [
        {
            "benchmark": name,
            "task": name,
            "dataset_path": str(folder / REPOSITORY),
            "yaml": str(folder / "tasks" / f"{name}.yaml"),
            "overrides": {},
            **{key: benchmark[key] for key in ("family", "metric", "filter")},
            **found[name],
            "data_file": str(folder / REPOSITORY / data_file(benchmark)),
        }
        for name, benchmark in _benchmarks_in(folder).items()
    ]


def _benchmarks_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the benchmarks of the families that the world in `folder` was written with."""
    return {
        name: each
        for name, each in WORLD_BENCHMARKS.items()
        if (folder / "tasks" / f"{name}.yaml").is_file()
    }


def world_items(folder: Path) -> pa.Table:
    """Read every benchmark item and validation document of the world: id, benchmark, question,
    answer."""
    items = []
    for name, benchmark in _benchmarks_in(Path(folder)).items():
        with gzip.open(
            Path(folder) / REPOSITORY / data_file(benchmark), "rt", encoding="utf-8"
        ) as file:
            for number, line in enumerate(file):
                row = json.loads(line)
                answer = row["choices"][row["answer"]] if "choices" in row else row["answer"]
                items.append(
                    {
                        "id": f"{name}/{number}",
                        "benchmark": name,
                        "question": row["question"],
                        "answer": answer,
                    }
                )
    return pa.Table.from_pylist(items)


def data_file(benchmark: Mapping[str, Any]) -> str:
    """Return the path of a benchmark's items within the data set; the text is the default data's
    validation split."""
    folder = "default" if benchmark["split"] == "validation" else benchmark["configuration"]
    return f"{folder}/{benchmark['split']}.jsonl.gz"


def benchmark_row(name: str, random: Random, problem: Story | Sheet) -> dict[str, Any]:
    """Make the row of a benchmark's data that asks a problem."""
    if isinstance(problem, Sheet):
        return {"question": problem.prompt, "answer": problem.answer}
    question, answer = problem.question, problem.answer
    match WORLD_BENCHMARKS[name]["kind"]:
        case "generate_until":
            return {"question": question, "answer": answer}
        case "multiple_choice":
            others = shuffled(random, [digit for digit in DIGITS if digit != answer])
            choices = shuffled(random, [answer, *others[: CHOICES - 1]])
            return {"question": question, "choices": choices, "answer": choices.index(answer)}
        case _:
            return {"question": question, "response": answer, "answer": answer}


def levels(kind: str, problems: Sequence[Story] | Sequence[Sheet]) -> dict[str, float | None]:
    """Compute the accuracy of guessing among the possible answers, and that of the best of four
    trivial rules.

    The rules take the answer that is most frequent in the benchmark, or of the possible answers
    that stand in the prompt the first, the last or the most frequent one. Both are null of a text,
    which is not answered.
    """
    if kind == "loglikelihood_rolling":
        return {"chance": None, "trivial": None}
    counts = Counter(problem.answer for problem in problems)
    found: Counter[str] = Counter()
    chance = 0.0
    for problem in problems:
        text, options = (
            (problem.prompt, problem.options)
            if isinstance(problem, Sheet)
            else (problem.question, DIGITS)
        )
        standing = [word for word in _WORD.findall(text) if word in options]
        frequent = [answer for answer, _ in Counter(standing).most_common(1)]
        guesses = {"first": standing[:1], "last": standing[-1:], "frequent": frequent}
        found.update(rule for rule, guess in guesses.items() if guess == [problem.answer])
        chance += 1 / len(options) / len(problems)
    trivial = max([*found.values(), *counts.values()]) / len(problems)
    if kind == "multiple_choice":
        chance = 1 / CHOICES
    return {"chance": round(chance, 6), "trivial": round(trivial, 6)}


def task(name: str) -> dict[str, Any]:
    """Make the lm-eval task of a benchmark, without `dataset_path`, so that the data may be
    moved."""
    benchmark = WORLD_BENCHMARKS[name]
    return {
        "task": name,
        "dataset_name": benchmark["configuration"],
        f"{benchmark['split']}_split": benchmark["split"],
        "output_type": benchmark["kind"],
        "num_fewshot": 0,
        "metadata": {"version": VERSION},
        **_TASKS[benchmark["kind"]],
    }


def card(trained: Iterable[str], benchmarks: Iterable[str]) -> str:
    """Write README.md of the data set; its header names the files of each configuration and
    split."""
    configurations = []
    for configuration in trained:
        splits = ("train", "validation") if configuration == "default" else ("train",)
        files = [{"split": split, "path": f"{configuration}/{split}.jsonl.gz"} for split in splits]
        configurations.append({"config_name": configuration, "data_files": files})
    for benchmark in map(WORLD_BENCHMARKS.__getitem__, benchmarks):
        files = [{"split": benchmark["split"], "path": data_file(benchmark)}]
        configurations.append({"config_name": benchmark["configuration"], "data_files": files})
    header = yaml.safe_dump({"license": "apache-2.0", "configs": configurations}, sort_keys=False)
    return (
        f"---\n{header}---\n\n# The built-in world\n\nSynthetic tasks made by `pipeline/worlds/`:"
        " stories with a chosen number of steps, sheets of questions over small alphabets. The"
        " training splits hold reasoning traces, duplicates, leaked benchmark items and broken"
        " rows on purpose; `truth.jsonl` and `sheets.truth.jsonl` at the top of the mirror say"
        " which.\n"
    )
