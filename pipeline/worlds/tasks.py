"""Define the built-in world's benchmarks: their data, lm-eval tasks, and plain items for machines without lm-eval."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import yaml

from pipeline.errors import InputError
from pipeline.tokens.tokenizer import PROMPT
from pipeline.worlds.stories import HIGHEST, Story, shuffled

REPOSITORY = "builtin/world"
CHOICES = 4
STOP = "\n"
LONGEST_ANSWER = 8  # tokens
VERSION = 1.0

# Configuration and split of the data set, metric and filter by lm-eval's names, and the value that guessing gives.
_EXACT = {
    "split": "test",
    "kind": "generate_until",
    "metric": "exact_match",
    "filter": "strip",
    "chance": 1 / (HIGHEST + 1),
}
WORLD_BENCHMARKS: dict[str, dict[str, Any]] = {
    "world_short": {"configuration": "short", **_EXACT},
    "world_long": {"configuration": "long", **_EXACT},
    "world_choice": {
        "configuration": "choice",
        "split": "test",
        "kind": "multiple_choice",
        "metric": "acc",
        "filter": "none",
        "chance": 1 / CHOICES,
    },
    "world_text": {
        "configuration": "text",
        "split": "validation",
        "kind": "loglikelihood_rolling",
        "metric": "word_perplexity",
        "filter": "none",
        "chance": None,
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
        for name, benchmark in WORLD_BENCHMARKS.items()
    ]


def world_items(folder: Path) -> pa.Table:
    """Read every benchmark item and validation document of the world: id, benchmark, question, answer."""
    columns: dict[str, list[str]] = {"id": [], "benchmark": [], "question": [], "answer": []}
    for name, benchmark in WORLD_BENCHMARKS.items():
        with gzip.open(Path(folder) / REPOSITORY / data_file(benchmark), "rt", encoding="utf-8") as file:
            for number, line in enumerate(file):
                row = json.loads(line)
                columns["id"].append(f"{name}/{number}")
                columns["benchmark"].append(name)
                columns["question"].append(row["question"])
                columns["answer"].append(row["choices"][row["answer"]] if "choices" in row else row["answer"])
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def data_file(benchmark: Mapping[str, Any]) -> str:
    """Return the path of a benchmark's items within the data set; the text is the default data's validation split."""
    folder = "default" if benchmark["split"] == "validation" else benchmark["configuration"]
    return f"{folder}/{benchmark['split']}.jsonl.gz"


def data_rows(name: str, random: Random, stories: Sequence[Story]) -> list[dict[str, Any]]:
    """Make the rows of a benchmark's data: a question, and the answer as text or as the number of the right choice."""
    match WORLD_BENCHMARKS[name]["kind"]:
        case "generate_until":
            return [{"question": story.question, "answer": story.answer} for story in stories]
        case "multiple_choice":
            return [_with_choices(random, story) for story in stories]
        case _:
            return [{"question": story.question, "response": story.answer, "answer": story.answer} for story in stories]


def _with_choices(random: Random, story: Story) -> dict[str, Any]:
    others = [str(value) for value in range(HIGHEST + 1) if str(value) != story.answer]
    choices = shuffled(random, [story.answer, *shuffled(random, others)[: CHOICES - 1]])
    return {"question": story.question, "choices": choices, "answer": choices.index(story.answer)}


def plain_items(name: str, rows: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Make the items for evaluation without lm-eval.

    A space and the target, or a choice, follow the prompt. A text has no prompt; its target is the whole text.
    """
    for number, row in enumerate(rows):
        prompt = PROMPT.format(question=row["question"])
        item = {"id": f"{name}/{number}", "version": VERSION, "prompt": prompt}
        match WORLD_BENCHMARKS[name]["kind"]:
            case "generate_until":
                yield {**item, "target": row["answer"], "until": [STOP], "max_new_tokens": LONGEST_ANSWER}
            case "multiple_choice":
                yield {**item, "target": row["choices"][row["answer"]], "choices": row["choices"]}
            case _:
                yield {**item, "prompt": "", "target": f"{prompt} {row['response']}"}


def task(name: str) -> dict[str, Any]:
    """Make the lm-eval task of a benchmark, without `dataset_path`, so that the data may be moved."""
    benchmark = WORLD_BENCHMARKS[name]
    prompt = PROMPT.replace("{question}", "{{question}}")
    accuracy = [{"metric": benchmark["metric"], "aggregation": "mean", "higher_is_better": True}]
    common = {
        "task": name,
        "dataset_name": benchmark["configuration"],
        f"{benchmark['split']}_split": benchmark["split"],
        "output_type": benchmark["kind"],
        "num_fewshot": 0,
        "metadata": {"version": VERSION},
    }
    match benchmark["kind"]:
        case "generate_until":
            return {
                **common,
                "doc_to_text": prompt,
                "doc_to_target": "{{answer}}",
                "generation_kwargs": {"until": [STOP], "do_sample": False, "max_gen_toks": LONGEST_ANSWER},
                "filter_list": [
                    {"name": "strip", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}
                ],
                "metric_list": accuracy,
            }
        case "multiple_choice":
            choice = {"doc_to_text": prompt, "doc_to_target": "answer", "doc_to_choice": "choices"}
            return {**common, **choice, "metric_list": accuracy}
        case _:
            metrics = [{"metric": metric} for metric in ("word_perplexity", "byte_perplexity", "bits_per_byte")]
            return {**common, "doc_to_text": "", "doc_to_target": prompt + " {{response}}", "metric_list": metrics}


def card() -> str:
    """Write README.md of the data set; its header names the files of each configuration and split."""
    configurations = [
        {
            "config_name": "default",
            "data_files": [{"split": split, "path": f"default/{split}.jsonl.gz"} for split in ("train", "validation")],
        },
        *(
            {
                "config_name": benchmark["configuration"],
                "data_files": [{"split": benchmark["split"], "path": data_file(benchmark)}],
            }
            for benchmark in WORLD_BENCHMARKS.values()
        ),
    ]
    header = yaml.safe_dump({"license": "apache-2.0", "configs": configurations}, sort_keys=False)
    return (
        f"---\n{header}---\n\n# The built-in world\n\n"
        "Arithmetic stories with a chosen number of chained steps, made by `pipeline/worlds.py`. The training split "
        "holds reasoning traces, duplicates, leaked benchmark items and broken rows on purpose; `truth.jsonl` at the "
        "top of the mirror says which.\n"
    )
