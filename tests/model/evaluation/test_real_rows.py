"""Benchmarks on real rows of the mirror: lm-eval's own evaluation and ours agree, and every task
asks in the form that the models were trained on, or in one that is known."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lm_eval.evaluator import evaluate

from dreamer_study.model.evaluation import lm_eval_definitions, lm_eval_model, lm_eval_tasks
from dreamer_study.model.evaluation.benchmark_rows import score_tasks
from dreamer_study.model.evaluation.language_model import LanguageModel
from dreamer_study.model.evaluation.metrics import tables
from dreamer_study.model.evaluation.sampled_items import sampled_items
from dreamer_study.pipeline.benchmarks.items import task_specifications
from dreamer_study.pipeline.benchmarks.table import resolve_benchmark
from dreamer_study.pipeline.storage.documents import DocumentWriter
from dreamer_study.pipeline.tokens.pack_shards import pack
from dreamer_study.pipeline.tokens.tokenizer import training_parts
from tests.mirror import MIRROR, needs_mirror
from tests.model.evaluation.evaluation_world import write_data, write_tokenizer

lm_eval_definitions.tune_libraries()

pytestmark = needs_mirror
OPENSTAX = {
    "name": "openstax",
    "repository": "openstax/algebra",
    "split": "validation",
    "text": "text",
    "rows": 4,
}
PROBLEMS = [  # of the form of MATH, which the mirror does not have
    {
        "problem": "What is $1+1$?",
        "level": "Level 1",
        "type": "Algebra",
        "solution": r"It is $\boxed{2}$.",
    },
    {
        "problem": "Half of 1?",
        "level": "Level 1",
        "type": "Algebra",
        "solution": r"It is $\boxed{\frac{1}{2}}$.",
    },
]


def specifications(
    entry: str | dict[str, Any], output: Path, **overrides: Any
) -> list[dict[str, Any]]:
    """The tasks of a benchmark whose data are in the mirror."""
    benchmark = resolve_benchmark(entry)
    found = task_specifications(benchmark, MIRROR / benchmark.repository, output)
    return [{**each, "overrides": {**each["overrides"], **overrides}} for each in found]


def rows(path: str) -> list[dict[str, Any]]:
    with gzip.open(MIRROR / path, "rt") as file:
        return [json.loads(line) for line in file]


@pytest.mark.slow
def test_scores_equal_lm_evals_own_evaluation(text_model: LanguageModel, tmp_path: Path) -> None:
    """lm-eval's loop and ours give the same number for every metric and filter, accuracies as the
    mean of our items."""
    limit = 100
    math = write_data(tmp_path / "math", "algebra", test=PROBLEMS)
    chosen = [
        *specifications("gsm8k", tmp_path, max_new_tokens=6),
        *specifications("mmlu_math", tmp_path),
        *specifications("mathqa", tmp_path),
        *specifications(OPENSTAX, tmp_path),
        *(
            {
                "benchmark": name,
                "task": name,
                "dataset_path": str(math),
                "overrides": {"max_new_tokens": 6},
            }
            for name in ("hendrycks_math_algebra", "minerva_math_algebra")
        ),
    ]
    tasks = [lm_eval_tasks.LmEvalTask(each, limit=limit, cache=tmp_path) for each in chosen]
    ours = tables("run", 1000, score_tasks(text_model, tasks))
    built = {each["task"]: lm_eval_definitions.build_task(each, tmp_path) for each in chosen}
    samples = {
        name: sampled_items(name, len(task.eval_docs), limit) for name, task in built.items()
    }
    theirs = evaluate(
        lm_eval_model.DreamerLM(text_model), {"tasks": built}, samples=samples, bootstrap_iters=100
    )["results"]

    items = ours["items"].to_pylist()
    for row in ours["evaluations"].to_pylist():
        own = [
            item["value"]
            for item in items
            if all(item[key] == row[key] for key in ("task", "metric", "filter"))
        ]
        assert len(own) == row["items"]
        if row["metric"] == "gold_bits_per_byte":  # which lm-eval does not have
            assert row["value"] == pytest.approx(sum(own) / len(own))
            continue
        if "perplexity" in row["metric"] or row["metric"] == "bits_per_byte":
            if row["metric"] != "token_perplexity":  # which lm-eval does not have
                assert row["value"] == pytest.approx(theirs[row["task"]][f"{row['metric']},none"])
            continue
        leaves = [each["task"] for each in chosen if each["benchmark"] == row["task"]]
        weights = [
            next(len(task._of_item) for task in tasks if task.name == leaf) for leaf in leaves
        ]
        values = [theirs[leaf][f"{row['metric']},{row['filter']}"] for leaf in leaves]
        assert row["value"] == pytest.approx(np.average(values, weights=weights))
        assert row["value"] == pytest.approx(sum(own) / len(own))
        assert row["items"] == sum(weights)
        if len(leaves) == 1:
            stderr = theirs[leaves[0]][f"{row['metric']}_stderr,{row['filter']}"]
            assert row["stderr"] == pytest.approx(stderr)
    graded = ("gsm8k", "mmlu_math", "mathqa", "hendrycks_math_algebra", "minerva_math_algebra")
    assert {
        (row["task"], row["metric"], row["filter"]) for row in ours["evaluations"].to_pylist()
    } == {
        ("gsm8k", "exact_match", "strict-match"),
        ("gsm8k", "exact_match", "flexible-extract"),
        ("mmlu_math", "acc", "none"),
        ("mathqa", "acc", "none"),
        ("mathqa", "acc_norm", "none"),
        ("hendrycks_math_algebra", "exact_match", "none"),
        ("minerva_math_algebra", "exact_match", "none"),
        ("minerva_math_algebra", "math_verify", "none"),
        *(("openstax", f"{unit}_perplexity", "none") for unit in ("word", "byte", "token")),
        ("openstax", "bits_per_byte", "none"),
        *((task, "gold_bits_per_byte", "none") for task in graded),
    }


@pytest.mark.slow
def test_mathqa_asks_as_training_does(text_model: LanguageModel, tmp_path: Path) -> None:
    """Question and answer of a training document, text for text and token for token."""
    encode = text_model.tokenizer.encode
    (mathqa,) = [
        lm_eval_tasks.LmEvalTask(each, cache=tmp_path)
        for each in specifications("mathqa", tmp_path)
    ]
    problems = [row["Problem"] for row in rows("regisss/math_qa/default/test.jsonl.gz")]
    pairs = mathqa.requests["loglikelihood"]
    assert {prompt for prompt, _ in pairs} == {
        training_parts(problem, "")[0] for problem in problems
    }
    parts = [training_parts("?", choice.removeprefix(" ")) for _, choice in pairs]
    # " " and the choice, as a response
    assert [choice for _, choice in pairs] == [response for _, response in parts]
    pairs = pairs[:200]
    found = text_model.tokenizer.encode_pairs(pairs)
    assert found == [(encode(prompt), encode(choice)) for prompt, choice in pairs]


def test_prompts_are_the_tokens_that_were_packed(tmp_path: Path) -> None:
    """What evaluation puts before an answer of GSM8K are the tokens that the training stream has
    before one."""
    every = [row["question"] for row in rows("openai/gsm8k/main/test.jsonl.gz")]
    questions = [every[number] for number in sampled_items("gsm8k", len(every), 20)]
    fixed = {"source": "test", "response": "It is 7.", "answer": "7"}
    documents = [
        {**fixed, "id": str(row), "row": row, "question": text}
        for row, text in enumerate(questions)
    ]
    with DocumentWriter(tmp_path / "curated") as writer:
        writer.keep(pa.Table.from_pylist(documents))
    tokenizer = write_tokenizer(tmp_path / "tokenizer")
    pack(
        tmp_path / "curated",
        tmp_path / "tokenizer",
        tmp_path / "packed",
        sequence_length=512,
        seed=0,
    )
    tokens = np.fromfile(tmp_path / "packed" / "tokens-00000.bin", dtype="<u2").astype(int)
    index = np.load(tmp_path / "packed" / "index-00000.npy")
    packed = {tuple(tokens[start:response]) for start, response, _ in index}
    (task,) = [
        lm_eval_tasks.LmEvalTask(each, limit=20, cache=tmp_path)
        for each in specifications("gsm8k", tmp_path)
    ]
    pairs = [(prompt, " It is 7.") for prompt, _ in task.requests["generate_until"]]
    asked = tokenizer.encode_pairs(pairs)
    assert {tuple(prompt) for prompt, _ in asked} == packed
    answers = {tuple(tokens[response:end]) for _, response, end in index}
    assert answers == {(*answer, tokenizer.end_token) for _, answer in asked}


@pytest.mark.slow
def test_prompts_that_differ_from_training(tmp_path: Path) -> None:
    """Those are lm-eval's own words, kept as they are: a benchmark's numbers are comparable only
    with its prompt."""
    chosen = specifications("mmlu_math", tmp_path)
    for each in chosen:
        subject = each["task"].removeprefix("mmlu_")
        task = lm_eval_tasks.LmEvalTask(each, limit=3, cache=tmp_path)
        every = rows(f"cais/mmlu/{subject}/test.jsonl.gz")
        sample = [every[number] for number in sampled_items(each["task"], len(every), 3)]
        for number, row in enumerate(sample):
            options = "".join(
                f"{letter}. {choice}\n"
                for letter, choice in zip("ABCD", row["choices"], strict=True)
            )
            prompt = (
                "The following are multiple choice questions (with answers) about "
                f"{subject.replace('_', ' ')}.\n\n{row['question'].strip()}\n{options}Answer:"
            )
            asked = task.requests["loglikelihood"][4 * number : 4 * number + 4]
            assert asked == [(prompt, f" {letter}") for letter in "ABCD"]
    math = write_data(tmp_path / "math", "algebra", test=PROBLEMS)
    prompts = {
        "hendrycks_math_algebra": "Problem: What is $1+1$?\nAnswer:",
        "minerva_math_algebra": "Problem:\nWhat is $1+1$?\n\nSolution:",
    }
    for name, prompt in prompts.items():
        given = {"benchmark": "math", "task": name, "dataset_path": str(math)}
        assert (
            lm_eval_tasks.LmEvalTask(given, cache=tmp_path).requests["generate_until"][0][0]
            == prompt
        )
    # A user who wants the training form says so.
    given["overrides"] = {"doc_to_text": "Question: {{problem}}\nAnswer:"}
    (asked, _), *_ = lm_eval_tasks.LmEvalTask(given, cache=tmp_path).requests["generate_until"]
    assert asked == training_parts("What is $1+1$?", "")[0]
    # A text is read from its beginning, after an end mark.
    (text,) = [
        lm_eval_tasks.LmEvalTask(each, limit=1, cache=tmp_path)
        for each in specifications(OPENSTAX, tmp_path)
    ]
    texts = {row["text"] for row in rows("openstax/algebra/default/validation.jsonl.gz")}
    assert text.requests["loglikelihood_rolling"][0] in texts
