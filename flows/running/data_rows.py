"""Make the rows of what a study consists of before anything is trained: data and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.benchmark_cards import (
    best_trivial,
    found_before,
    scored_tasks,
)
from dreamer_study.flows.running.curation_warnings import unmarked
from dreamer_study.model.evaluation.lm_eval_files import task_in_words
from dreamer_study.pipeline.decontaminate.settings import LEAKS
from dreamer_study.pipeline.storage.integrity import check
from dreamer_study.pipeline.tokens.validation import bytes_per_token, items_file
from dreamer_study.pipeline.worlds.steps import steps_of
from dreamer_study.pipeline.worlds.tasks import REPOSITORY
from dreamer_study.pipeline.worlds.world import WORLD_LICENCE


def tasks_in_words(plan: Plan) -> dict[str, str]:
    """Say of each benchmark of lm-eval's how it is asked; the built-in ones are in the settings."""
    own = {benchmark.name for benchmark in plan.study.own_benchmarks}
    tasks: dict[str, list[dict[str, Any]]] = {}
    for task in plan.tasks:
        if task["benchmark"] in own:
            tasks.setdefault(task["benchmark"], []).append(task)
    return {name: task_in_words(of_benchmark) for name, of_benchmark in tasks.items()}


def mean_bytes_per_token(plan: Plan) -> float | None:
    """Return the bytes of a token that the loss counts, on average over the held-out documents.

    With these a loss in nats per token is one in bits per byte. None without such documents.
    """
    path = items_file(plan.data.packed.path, plan.study.training.loss_on)
    if not path.exists() or not path.stat().st_size:
        return None
    return bytes_per_token(path, plan.data.tokenizer.path)


def items_of(plan: Plan) -> list[dict[str, Any]]:
    """Read the items of all benchmarks. Raises InputError where they are damaged."""
    check(plan.data.items.path)
    items = pq.read_table(
        plan.data.items.path / "items.parquet", columns=["id", "benchmark", "question", "answer"]
    )
    return items.to_pylist()


def examples_of(items: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the first question of each benchmark, and its answer."""
    # of equal keys the last stays: in reverse order that is the first question
    return {row["benchmark"]: [row["question"], row["answer"]] for row in reversed(items)}


def item_facts(plan: Plan, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Make the rows of `item_facts`: the steps of the built-in world's problems."""
    rows = []
    for item in items:
        steps = steps_of(item["benchmark"], item["question"])
        if steps is not None:
            rows.append(
                {
                    "study_id": plan.study.study_id,
                    "task": item["benchmark"],
                    "item_id": item["id"],
                    "fact": "steps",
                    "value": steps,
                }
            )
    return rows


def source_rows(plan: Plan) -> list[dict[str, Any]]:
    """Make the rows of `sources` from what reading and stripping each source have written down."""
    rows = []
    for planned in plan.data.sources:
        source = planned.source
        # The world's licence is not in its source's entry: there it would change every key.
        is_world = source.repository == REPOSITORY
        rows.append(
            {
                "study_id": plan.study.study_id,
                "source": source.name,
                "repository": source.repository or ", ".join(source.files),
                "revision": source.revision,
                "licence": WORLD_LICENCE if is_world else source.licence,
                "commit": planned.documents.results.get("commit"),
                "unmarked": unmarked(planned.traces).get(source.name, 0),
            }
        )
    return rows


def found_items(plan: Plan) -> list[dict[str, Any]]:
    """Make the rows of `found_items`: benchmark items that decontamination found in documents."""
    removed = plan.study.data.decontaminate.remove
    matches = pq.read_table(plan.data.curated.path / "matches.parquet")
    trained: dict[tuple[str, str], bool] = {}
    for match in matches.select(["benchmark", "item", "grade"]).to_pylist():
        if match["grade"] in LEAKS:
            key = (match["benchmark"], match["item"])
            trained[key] = trained.get(key, False) or match["grade"] not in removed
    return [
        {
            "study_id": plan.study.study_id,
            "task": task,
            "item_id": item,
            "trained": is_trained,
        }
        for (task, item), is_trained in sorted(trained.items())
    ]


def benchmark_levels(plan: Plan) -> list[dict[str, Any]]:
    """Make the rows of `benchmark_levels`: between which scores of a benchmark a model can lie.

    A store from before gold answers were scored has no ceilings.
    """
    found = found_before(plan)
    rows = []
    for name, task in scored_tasks(plan).items():
        ceiling = found.get(name, {})
        rows.append(
            {
                "study_id": plan.study.study_id,
                "task": name,
                "metric": task["metric"],
                "filter": task["filter"],
                "items": ceiling.get("items"),
                "failed": ceiling.get("failed"),
                "ceiling": ceiling.get("ceiling"),
                "chance": task.get("chance"),
                "trivial": best_trivial(task, ceiling)[0],
                "first_failed": ", ".join(ceiling.get("first", ())) or None,
            }
        )
    return rows
