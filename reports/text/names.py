"""Name benchmarks, stages and depths as a reader knows them, and put them in order."""

from __future__ import annotations

from collections.abc import Iterable

from reports.data import AVERAGE
from reports.text.numbers import NOTHING

TASKS = {"gsm8k": "GSM8K", "math": "MATH", "mmlu_math": "MMLU (math)", "mathqa": "MathQA", AVERAGE: "Average"}
STAGES = {
    "documents": "Read",
    "traces": "Strip reasoning traces",
    "clean": "Clean",
    "deduplicate": "Deduplicate",
    "decontaminate": "Decontaminate",
    "tokens": "Tokenise and pack",
}


def task_name(task: str) -> str:
    """Name a benchmark: the paper's spelling of the paper's benchmarks, else the name in the results."""
    return TASKS.get(task, task)


def goal_name(task: str) -> str:
    """Name what is to be reached on a task: `average accuracy`, or `accuracy on GSM8K`."""
    return "average accuracy" if task == AVERAGE else f"accuracy on {task_name(task)}"


def task_order(tasks: Iterable[str], average_first: bool = False) -> list[str]:
    """Sort the distinct tasks by name, the average at the end (as in the paper's tables) or at the beginning."""
    return sorted(set(tasks), key=lambda task: ((task == AVERAGE) != average_first, task_name(task)))


def stage_name(stage: str) -> str:
    """Name what a stage of the pipeline does; an unknown stage by its own name."""
    return STAGES.get(stage, stage)


def depth_name(depth: int, short: bool = False) -> str:
    """Name a depth: `Depth 16`, short `16`; negative (unknown): `Unknown depth`, short a dash."""
    if depth < 0:
        return NOTHING if short else "Unknown depth"
    return f"{depth:.0f}" if short else f"Depth {depth:.0f}"
