"""What the store knows of each benchmark before training: its card.

Between which scores a model can lie, which ratio of tokens the items can show, and how much there
is to read. `dreamer plan`, the table benchmark_cards and the report show the cards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.benchmarks.benchmark import PERPLEXITIES
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.resolution import Noise, smallest_ratio
from dreamer_study.sql.statistics.sequential import NOMINAL

DEMO_NOISE = Noise(0.171, 0.059, measured_on="five demos (average accuracy, 2026-11-28)", items=400)
BYTES_PER_TOKEN = 3.5
WORLD_BYTES_PER_TOKEN = 3.3  # vocabulary of 512: 3.36, 3.31 and 3.31 in three studies (docs/log.md)
GUESSING = "guessing"
OF_THE_PROMPT = "answer from the prompt"  # the rules of the built-in world
RULES = (
    "empty answer",
    "most frequent answer",
    "first choice",
    "last choice",
    "longest choice",
    "shortest choice",
)


def scored_tasks(plan: Plan) -> dict[str, Mapping[str, Any]]:
    """Return the benchmarks that have right and wrong answers, each with a task, by name."""
    return {task["benchmark"]: task for task in plan.tasks if task["metric"] not in PERPLEXITIES}


def found_before(plan: Plan) -> dict[str, Mapping[str, Any]]:
    """Return what was measured of each benchmark; nothing in a store from before that was done."""
    found: dict[str, Mapping[str, Any]] = {}
    for output in plan.data.ceilings.values():
        if output.done:
            found |= output.results["benchmarks"]
    return found


def best_trivial(task: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return the score of the best trivial rule, None where none is known, and the rule.

    The built-in world knows rules of its own, and has scored them when it was written.
    """
    scores = dict(found.get("floors", {}))
    if task.get("trivial") is not None:
        own = task["trivial"]
        # one of its rules is the most frequent answer
        if all(own > score for score in scores.values()):
            scores[OF_THE_PROMPT] = own
    if not scores:
        return None, ""
    rule = max(scores, key=lambda name: (scores[name], name))
    return scores[rule], rule


def usual_seeds(study: Study) -> int:
    """Return how many seeds of each model a study trains to the end."""
    usual = len(study.training.seeds)  # a variant with seeds of its own is a control, or a twin
    return 1 if study.training.stop_at(usual) else usual


def significance(study: Study) -> float:
    """Return how often an interval of the study may leave out the truth."""
    return NOMINAL if study.training.seeds_until else SIGNIFICANCE


def benchmark_cards(plan: Plan) -> list[dict[str, Any]]:
    """Make the rows of `benchmark_cards`.

    `detectable` assumes the noise of five demos, with the part of the items scaled to the items of
    this benchmark alone. `tokens` are estimated from the bytes of the prompts.
    """
    study = plan.study
    found = found_before(plan)
    rows = []
    for name, task in scored_tasks(plan).items():
        known = found.get(name, {})
        trivial, rule = best_trivial(task, known)
        chance = task.get("chance")
        floors = known.get("floors", {})
        scores = [score for score in (chance, trivial) if score is not None]
        floor = max(scores, default=None)
        by = GUESSING if floor == chance else rule
        rows.append(
            {
                "study_id": study.study_id,
                "task": name,
                "floor": floor,
                "floor_rule": None if floor is None else by,
                **{each.replace(" ", "_"): floors.get(each) for each in RULES},
                "frequent_text": known.get("frequent"),
                "tokens": _tokens(study, name, known),
                "detectable": _detectable(study, name, known),
            }
        )
    return rows


def _share_asked(study: Study, name: str, known: Mapping[str, Any]) -> float:
    """Return the share of a benchmark's items that an evaluation asks.

    The limit is that of each task.
    """
    limit = study.evaluation.limit
    if not limit:
        return 1.0
    tasks = next((len(own.tasks) for own in study.own_benchmarks if own.name == name), 1)
    return min(1.0, limit * tasks / known["items"])


def _tokens(study: Study, name: str, known: Mapping[str, Any]) -> float | None:
    """Estimate the tokens that one evaluation of a benchmark reads and writes."""
    if not known.get("items") or "read" not in known:
        return None
    is_own = name in {benchmark.name for benchmark in study.own_benchmarks}
    bytes_per_token = BYTES_PER_TOKEN if is_own else WORLD_BYTES_PER_TOKEN
    tokens = known["read"] / bytes_per_token + known["written"]
    return round(tokens * _share_asked(study, name, known))


def _detectable(study: Study, name: str, known: Mapping[str, Any]) -> float | None:
    """Return the smallest ratio that four of five such studies detect by a benchmark alone."""
    if not known.get("items"):
        return None
    items = round(known["items"] * _share_asked(study, name, known))
    ratio = smallest_ratio(DEMO_NOISE.with_items(items), usual_seeds(study), significance(study))
    return ratio if math.isfinite(ratio) else None
