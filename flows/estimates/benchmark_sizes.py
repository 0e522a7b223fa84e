"""The tokens that an evaluation reads and generates, from the sizes of the test files."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dreamer_study.flows.running.benchmark_cards import BYTES_PER_TOKEN, WORLD_BYTES_PER_TOKEN
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS

# bytes that an evaluation reads for an item of the built-in world: 244 of sums, 209 in the demo
WORLD_SCORED = 220
GENERATED = 256  # tokens at most, lm-eval's limit where a task has none of its own


@dataclass(frozen=True)
class Scored:
    """The items of one evaluation of a benchmark, and the tokens read and generated per item."""

    items: int
    tokens: float


# Bytes of prompts are means over the test files (docs/log.md). The model reads the prompt once for
# each choice, and once for each gold answer.
SCORED = {
    "gsm8k": Scored(1_319, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    # prompts as long as those of gsm8k
    "math": Scored(5_000, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    "math_verify": Scored(5_000, 2 * 240 / BYTES_PER_TOKEN + GENERATED),
    "mmlu_math": Scored(1_064, 4 * 230 / BYTES_PER_TOKEN),
    "mathqa": Scored(2_985, 5 * 175 / BYTES_PER_TOKEN),
    "maths-college": Scored(1_000, 5_155 / BYTES_PER_TOKEN),
}


def scored_by(study: Study) -> list[Scored]:
    """Return the items and tokens of one evaluation, for each benchmark of known size.

    The benchmarks of the built-in world together are one entry.
    """
    limit = study.evaluation.limit
    scored = []
    if BUILTIN in study.evaluation.benchmarks:
        scored.append(_scored_world(study))
    for benchmark in study.own_benchmarks:
        size = SCORED.get(benchmark.name)
        if size:
            # the limit is that of each task
            most = limit * len(benchmark.tasks) if limit else size.items
            scored.append(replace(size, items=min(size.items, most)))
    return scored


def _scored_world(study: Study) -> Scored:
    world = study.data.world
    families = (None, *world.families)
    benchmarks = [
        benchmark for benchmark in WORLD_BENCHMARKS.values() if benchmark["family"] in families
    ]
    items_of_each = min(world.items, study.evaluation.limit or world.items)
    return Scored(len(benchmarks) * items_of_each, WORLD_SCORED / WORLD_BYTES_PER_TOKEN)


def unknown_benchmarks(study: Study) -> list[str]:
    """Return the names of the benchmarks of unknown size."""
    return [benchmark.name for benchmark in study.own_benchmarks if benchmark.name not in SCORED]
