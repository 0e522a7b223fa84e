"""Measure ceilings and floors of a study's benchmarks before anything is trained, once each.

A gold answer that the scorer calls wrong is one that no model can give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import report
from dreamer_study.flows.running.curation_warnings import say
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.model.evaluation.ceilings import Ceiling, score_gold_answers
from dreamer_study.pipeline.sources.columns.answers import last_boxed
from dreamer_study.pipeline.storage.store import Output
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS, world_specifications

FAILED = "failed.parquet"  # the items whose gold answer is not called right
_NAMED = 5  # items in a line
_LOW = 0.5  # below this ceiling the benchmark says little of any model
_HALF = (
    "most answers that are right count as wrong: mend filter_list or metric of its task, or choose"
    " another `filter`"
)


def measure_ceilings(plan: Plan, steps: Steps, *, own: bool, trust_code: bool) -> None:
    """Measure the ceilings that are not known yet, and say which are below 1.

    These are the ceilings of the study's `own` benchmarks, or those of the built-in world. Raises
    InputError for items without a right answer.
    """
    for name, output in plan.data.ceilings.items():
        if own != (name != BUILTIN):
            continue
        work = partial(_measure, plan, name, trust_code=trust_code)
        steps.call(
            "data",
            f"ceiling {name}",
            partial(plan.store.build, output, work),
            made_of=output.inputs,
            makes=output.name,
            done=output.done,
        )
        say(ceiling_warnings(output))


def _measure(plan: Plan, name: str, folder: Path, *, trust_code: bool) -> dict[str, Any]:
    """Score the gold answers of a benchmark, or of all benchmarks of the world."""
    progress = partial(report, f"ceiling {name}")
    found: dict[str, Any] = {}
    failed: list[pa.Table] = []
    ceilings = score_gold_answers(
        _tasks(plan, name), trust_code=trust_code, progress=progress, read_answer=_read_answer
    )
    for benchmark, ceiling in ceilings.items():
        rows = ceiling.table()
        names = pa.array([benchmark] * len(rows), pa.string())
        failed.append(rows.add_column(0, "benchmark", names))
        found[benchmark] = _summary(ceiling)
    pq.write_table(pa.concat_tables(failed), folder / FAILED)
    return {"benchmarks": found}


def _tasks(plan: Plan, name: str) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the tasks of a benchmark, or those of each benchmark of the world, by its name."""
    if name != BUILTIN:
        benchmark = next(each for each in plan.study.own_benchmarks if each.name == name)
        return {name: plan.specifications(benchmark)}
    assert plan.data.world is not None, "the world's benchmarks need the world"
    return {
        task["benchmark"]: [task]
        for task in world_specifications(plan.data.world.path)
        if WORLD_BENCHMARKS[task["benchmark"]]["kind"] != "loglikelihood_rolling"
    }


def _read_answer(text: str) -> str:
    return (last_boxed(text) or text).strip()


def _summary(ceiling: Ceiling) -> dict[str, Any]:
    return {
        "items": ceiling.items,
        "failed": len(ceiling.failed),
        "ceiling": ceiling.share,
        "first": [item for item, *_ in ceiling.failed[:_NAMED]],
        "needs_stripping": ceiling.needs_stripping,
        "floors": {rule: round(score, 6) for rule, score in ceiling.floors.items()},
        "frequent": ceiling.frequent,
        "read": ceiling.read,
        "written": ceiling.written,
    }


def ceiling_warnings(output: Output) -> list[str]:
    """Say which benchmarks of an output have gold answers that their scorer does not know."""
    lines = []
    for name, found in output.results["benchmarks"].items():
        where = f"benchmark {name!r}"
        if found["failed"]:
            more = ", ..." if found["failed"] > len(found["first"]) else ""
            line = (
                f"{where}: its scorer calls {found['failed']:,} of {found['items']:,} gold answers"
                f" wrong, so no model can score above {found['ceiling']:.3f}:"
                f" {', '.join(found['first'])}{more}; {output.path / FAILED} lists them"
            )
            lines.append(f"{line}; {_HALF}" if found["ceiling"] < _LOW else line)
        if found["needs_stripping"]:
            lines.append(
                f"{where}: models write a blank before an answer, and its scorer calls a right"
                " answer behind a blank wrong; add the filter remove_whitespace to filter_list of"
                " its task, and name that filter"
            )
    return lines
