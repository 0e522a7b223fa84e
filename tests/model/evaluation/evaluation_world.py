"""What the tests of evaluation share: a small tokenizer, small models, and the same questions
answered one by one."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from dreamer_study.model.dreamer import Dreamer
from dreamer_study.model.evaluate import evaluate
from dreamer_study.model.evaluation.job import INTROSPECTION, read_job
from dreamer_study.model.evaluation.tokenizer import Tokenizer, load_tokenizer
from dreamer_study.pipeline.tokens.tokenizer import PROMPT, train_tokenizer
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.tasks import (
    REPOSITORY,
    WORLD_BENCHMARKS,
    data_file,
    world_specifications,
)
from dreamer_study.pipeline.worlds.world import write_world
from tests.model.saved_files import save_model
from tests.model.tiny_network import DR_DA
from tests.pipeline.documents import table
from tests.pipeline.documents import write as write_documents

USERS_TASK = """
task: shapes
dataset_name: default
output_type: generate_until
test_split: test
training_split: train
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 5}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
metadata: {version: 2.5}
"""
SIZES = {"vocabulary_size": 320, "hidden_size": 32, "sequence_length": 96}
ITEMS = 9  # of each of the world's tasks in `write_place`
SENTENCES = (
    "Question: Ann has 3 coins. She finds 4 more. How many coins does she have?\nAnswer: 7",
    "Question: Ben gives away 12 of 20 apples. How many are left?\nAnswer: 8",
    "The following are multiple choice questions (with answers) about abstract algebra.",
    "Find the degree of the given field extension. A. 0 B. 4 C. 2 D. 6 naïve café – ½",
)


def write_tokenizer(folder: Path) -> Tokenizer:
    """A tokenizer of the pipeline's."""
    documents = write_documents(
        folder.with_name("documents"), table((text, "") for text in SENTENCES)
    )
    train_tokenizer(documents, folder, 320)
    return load_tokenizer(folder)


def small_model(seed: int = 0, **overrides: object) -> Dreamer:
    """A random DR+DA model, unless told otherwise, whose greedy choices are no close calls."""
    torch.manual_seed(seed)
    model = Dreamer(dataclasses.replace(DR_DA, **{**SIZES, **overrides})).eval()
    with torch.no_grad():
        model.head.mul_(8)
    return model


def save_small_model(folder: Path, seed: int = 0, **overrides: object) -> Path:
    """The same on disk."""
    save_model(folder, small_model(seed, **overrides), {"seed": seed})
    return folder


def write_data(folder: Path, configuration: str, **splits: list[dict[str, Any]]) -> Path:
    """A data set in hub layout."""
    files = []
    for split, rows in splits.items():
        path = folder / configuration / f"{split}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        files.append(f"  - split: {split}\n    path: {configuration}/{split}.jsonl.gz\n")
    header = f"configs:\n- config_name: {configuration}\n  data_files:\n{''.join(files)}"
    (folder / "README.md").write_text(f"---\n{header}---\n")
    return folder


@torch.inference_mode()
def plain_logits(model: Dreamer, tokens: Sequence[int], depth: int | None = None) -> torch.Tensor:
    """Logits [S, V] of one sequence, uncached and by itself, in float64."""
    return model(torch.tensor([list(tokens)]), depth=depth)[0].double()


def plain_log_likelihood(
    model: Dreamer, context: Sequence[int], continuation: Sequence[int], depth: int | None = None
) -> tuple[float, bool]:
    """lm-eval's definition: all of it in one pass, cut on the left to what the model reads."""
    whole = [*context, *continuation][-(model.config.sequence_length + 1) :]
    values = plain_logits(model, whole[:-1], depth)[-len(continuation) :].log_softmax(-1)
    wanted = torch.tensor(list(continuation))
    return float(values.gather(-1, wanted[:, None]).sum()), bool(
        (values.argmax(-1) == wanted).all()
    )


def plain_generation(
    model: Dreamer, prompt: Sequence[int], count: int, end_token: int, depth: int | None = None
) -> list[int]:
    """Greedy decoding that computes the whole sequence anew for every token."""
    written: list[int] = []
    while len(written) < count:
        token = int(plain_logits(model, [*prompt, *written], depth)[-1].argmax())
        if token == end_token:
            break
        written.append(token)
    return written


def write_place(place: Path) -> Path:
    """A world, held-out texts, a tokenizer and two checkpoints."""
    write_world(place / "world", WorldSettings(documents=300, items=ITEMS))
    write_world(
        place / "sheets", WorldSettings(documents=100, items=ITEMS, families=("recall", "tracking"))
    )
    write_tokenizer(place / "tokenizer")
    texts = [
        {"id": str(number), "prompt": "", "target": text} for number, text in enumerate(SENTENCES)
    ]
    write_items(place / "texts.jsonl", texts)
    for seed in range(2):
        save_small_model(place / f"checkpoint-{seed}", seed, sequence_length=256)
    return place


def checkpoint(number: int, path: str | None = None, run_id: str = "run") -> dict[str, Any]:
    """Describe a checkpoint for `write_job`, by default one of those in `write_place`."""
    return {"run_id": run_id, "tokens": 500 * (1 + number), "path": path or f"checkpoint-{number}"}


def write_job(place: Path, output: str, **changes: Any) -> Path:
    """A job over what lies in `place`; outputs are `<output>/<run_id>/<tokens>/<benchmark>`, unless
    named."""
    job = {
        "checkpoints": [checkpoint(0), checkpoint(1)],
        "tokenizer": "tokenizer",
        "tasks": world_specifications(place / "world"),
        "device": "cpu",
        "output": output,
        **changes,
    }
    job |= {
        name: str(place / job[name]) for name in ("tokenizer", "output", "observe") if name in job
    }
    benchmarks = [
        *(task["benchmark"] for task in job["tasks"]),
        *([INTROSPECTION] if "observe" in job else []),
    ]

    def with_outputs(one: dict[str, Any]) -> dict[str, Any]:
        folder = Path(job["output"], one["run_id"], str(one.get("tokens")))
        outputs = {name: {"folder": str(folder / name)} for name in benchmarks}
        return {"outputs": outputs, **one, "path": str(place / one["path"])}

    job["checkpoints"] = [with_outputs(one) for one in job["checkpoints"]]
    path = place / f"{output}.json"
    path.write_text(json.dumps(job))
    return path


def prompts_of(*lengths: int, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1000 * seed + sum(lengths))
    return [torch.randint(1, 320, (length,), generator=generator).tolist() for length in lengths]


def world_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read the rows of a benchmark of the world's, each with the id and the prompt of its item."""
    path = folder / REPOSITORY / data_file(WORLD_BENCHMARKS[name])
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [
        {"id": f"{name}/{number}", "prompt": PROMPT.format(question=row["question"]), **row}
        for number, row in enumerate(rows)
    ]


def write_items(path: Path, items: Sequence[dict[str, Any]]) -> Path:
    """Write a file of held-out items."""
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def held_out(path: Path, name: str = "validation") -> dict[str, Any]:
    """Describe the task of a file of held-out items."""
    measured = {"metric": "bits_per_byte", "filter": "none", "chance": None}
    return {"benchmark": name, "task": name, **measured, "plain": str(path)}


def held_out_specifications(place: Path, count: int) -> list[dict[str, Any]]:
    """Describe so many tasks over the texts of `place`; lm-eval is not imported for these."""
    return [held_out(place / "texts.jsonl", f"b{number}") for number in range(count)]


def evaluated(path: Path) -> list[Path]:
    """Evaluate the job of a file; return a folder for each checkpoint, which holds one for each
    benchmark."""
    return list(dict.fromkeys(folder.parent for folder in evaluate(read_job(path))))


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read a table from the folders of all benchmarks of a checkpoint, in the order of their
    names."""
    return [
        row
        for file in sorted(folder.glob(f"*/{name}.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]
