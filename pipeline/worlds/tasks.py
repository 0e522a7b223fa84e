"""Define the built-in world's benchmarks: their data, lm-eval tasks, and plain items for machines without lm-eval."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import yaml

from pipeline.errors import InputError
from pipeline.tokens.tokenizer import PROMPT
from pipeline.worlds import swaps
from pipeline.worlds.problem import DIGITS, Problem, shuffled

REPOSITORY = "builtin/world"
CHOICES = 4
STOP = "\n"
LONGEST_ANSWER = 8  # tokens
VERSION = 1.0

# Split of the data set, how it is asked, metric and filter by lm-eval's names, and the value that guessing gives.
_EXACT = {
    "split": "test",
    "kind": "generate_until",
    "metric": "exact_match",
    "filter": "strip",
    "chance": 1 / len(DIGITS),
}
_CHOICE = {"split": "test", "kind": "multiple_choice", "metric": "acc", "filter": "none", "chance": 1 / CHOICES}
_TEXT = {"split": "validation", "kind": "loglikelihood_rolling", "metric": "word_perplexity", "filter": "none"}
WORLD_BENCHMARKS: dict[str, dict[str, Any]] = {  # family (none: all of the world) and configuration
    "world_short": {"family": "sums", "configuration": "short", **_EXACT},
    "world_long": {"family": "sums", "configuration": "long", **_EXACT},
    "world_choice": {"family": "sums", "configuration": "choice", **_CHOICE},
    "world_text": {"family": None, "configuration": "text", **_TEXT, "chance": None},
    "world_relations": {"family": "relations", "configuration": "relations", **_EXACT},
    "world_swaps": {"family": "swaps", "configuration": "swaps", **_EXACT, "chance": 1 / len(swaps.CUPS)},
}

_QUESTION = PROMPT.replace("{question}", "{{question}}")
_MEAN = {"aggregation": "mean", "higher_is_better": True}
_TASKS: dict[str, dict[str, Any]] = {  # what lm-eval tasks of a kind have in common
    "generate_until": {
        "doc_to_text": _QUESTION,
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": [STOP], "do_sample": False, "max_gen_toks": LONGEST_ANSWER},
        "filter_list": [{"name": "strip", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}],
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
        "metric_list": [{"metric": metric} for metric in ("word_perplexity", "byte_perplexity", "bits_per_byte")],
    },
}


def world_specifications(folder: Path) -> list[dict[str, Any]]:
    """Describe each lm-eval task of the world in `folder` for evaluation. Raises InputError when there is no world."""
    folder = Path(folder).resolve()
    if not (folder / "tasks").is_dir():
        raise InputError(f"no built-in world in {folder}: it has no folder `tasks`")
    return [
        {
            "benchmark": name,
            "task": name,
            "dataset_path": str(folder / REPOSITORY),
            "yaml": str(folder / "tasks" / f"{name}.yaml"),
            "overrides": {},
            **{key: benchmark[key] for key in ("metric", "filter", "chance")},
            "plain": str(folder / "tasks" / f"{name}.items.jsonl"),
        }
        for name, benchmark in _benchmarks_in(folder).items()
    ]


def _benchmarks_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the benchmarks of the families that the world in `folder` was written with."""
    return {name: each for name, each in WORLD_BENCHMARKS.items() if (folder / "tasks" / f"{name}.yaml").is_file()}


def world_items(folder: Path) -> pa.Table:
    """Read every benchmark item and validation document of the world: id, benchmark, question, answer."""
    items = []
    for name, benchmark in _benchmarks_in(Path(folder)).items():
        with gzip.open(Path(folder) / REPOSITORY / data_file(benchmark), "rt", encoding="utf-8") as file:
            for number, line in enumerate(file):
                row = json.loads(line)
                answer = row["choices"][row["answer"]] if "choices" in row else row["answer"]
                items.append(
                    {"id": f"{name}/{number}", "benchmark": name, "question": row["question"], "answer": answer}
                )
    return pa.Table.from_pylist(items)


def data_file(benchmark: Mapping[str, Any]) -> str:
    """Return the path of a benchmark's items within the data set; the text is the default data's validation split."""
    folder = "default" if benchmark["split"] == "validation" else benchmark["configuration"]
    return f"{folder}/{benchmark['split']}.jsonl.gz"


def benchmark_row(name: str, number: int, random: Random, problem: Problem) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a row of a benchmark's data, and the plain item for evaluation without lm-eval.

    A space and the target, or a choice, follow the prompt. A text has no prompt; its target is the whole text.
    """
    question, answer = problem.question, problem.answer
    prompt = PROMPT.format(question=question)
    item = {"id": f"{name}/{number}", "version": VERSION, "prompt": prompt, "target": answer}
    match WORLD_BENCHMARKS[name]["kind"]:
        case "generate_until":
            answered = {"question": question, "answer": answer}
            return answered, {**item, "until": [STOP], "max_new_tokens": LONGEST_ANSWER}
        case "multiple_choice":
            others = shuffled(random, [digit for digit in DIGITS if digit != answer])
            choices = shuffled(random, [answer, *others[: CHOICES - 1]])
            answered = {"question": question, "choices": choices, "answer": choices.index(answer)}
            return answered, {**item, "choices": choices}
        case _:
            answered = {"question": question, "response": answer, "answer": answer}
            return answered, {**item, "prompt": "", "target": f"{prompt} {answer}"}


def task(name: str) -> dict[str, Any]:
    """Make the lm-eval task of a benchmark, without `dataset_path`, so that the data may be moved."""
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


def card(benchmarks: Iterable[str]) -> str:
    """Write README.md of the data set; its header names the files of each configuration and split."""
    default = [{"split": split, "path": f"default/{split}.jsonl.gz"} for split in ("train", "validation")]
    configurations = [{"config_name": "default", "data_files": default}]
    for benchmark in map(WORLD_BENCHMARKS.__getitem__, benchmarks):
        files = [{"split": benchmark["split"], "path": data_file(benchmark)}]
        configurations.append({"config_name": benchmark["configuration"], "data_files": files})
    header = yaml.safe_dump({"license": "apache-2.0", "configs": configurations}, sort_keys=False)
    return (
        f"---\n{header}---\n\n# The built-in world\n\n"
        "Problems in words with a chosen number of steps, made by `pipeline/worlds/`. The training split "
        "holds reasoning traces, duplicates, leaked benchmark items and broken rows on purpose; `truth.jsonl` at the "
        "top of the mirror says which.\n"
    )
