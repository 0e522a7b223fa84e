"""Name benchmarks, stages and depths as a reader knows them, and put them in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dreamer_study.reports.data import VALIDATION, json_object
from dreamer_study.reports.text.numbers import NOTHING
from dreamer_study.sql.names import AVERAGE

TASKS = {
    "gsm8k": "GSM8K",
    "math": "MATH",
    "mmlu_math": "MMLU (math)",
    "mathqa": "MathQA",
    VALIDATION: "Held-out documents",
    AVERAGE: "Average",
}
STAGES = {
    "documents": "Read",
    "traces": "Strip reasoning traces",
    "clean": "Clean",
    "deduplicate": "Deduplicate",
    "decontaminate": "Decontaminate",
    "tokens": "Tokenise and pack",
}


def architecture_in_words(config: Any) -> str:
    """Say what a model is by its configuration (JSON): `one layer used at every depth`; empty where
    that is unknown."""
    values = json_object(config)
    if "recurrent" not in values:
        return values.get("module", "")
    layers = "a layer of its own for each depth" if values.get("depth") != 1 else "a single layer"
    layers = "one layer used at every depth" if values["recurrent"] else layers
    return layers + ", attention over depths" * bool(values.get("depth_attention"))


def layers_of(config: Any) -> str:
    """Say how many layers a model has by its configuration (JSON), and how often they are used."""
    values = json_object(config)
    depth = values.get("depth")
    return (
        NOTHING
        if depth is None
        else f"1, used {depth} times"
        if values.get("recurrent")
        else str(depth)
    )


def shortened(question: str, answer: str) -> tuple[str, str]:
    """Shorten a question to its end, which asks, and an answer to its end, which gives the
    result."""
    return ending(question, 100), ending(answer, 20)


def ending(text: str, most: int) -> str:
    """Shorten a text to at most so many characters at its end, from a word on."""
    return text if len(text) <= most else f"… {text[-most:].partition(' ')[2] or text[-most:]}"


def task_name(task: str) -> str:
    """Name a benchmark: the paper's spelling of the paper's benchmarks, else the name in the
    results."""
    return TASKS.get(task, task)


def goal_name(task: str) -> str:
    """Name what is to be reached on a task: `average accuracy`, or `accuracy on GSM8K`."""
    return "average accuracy" if task == AVERAGE else f"accuracy on {task_name(task)}"


def task_order(tasks: Iterable[str], average_first: bool = False) -> list[str]:
    """Sort the distinct tasks by name, the average at the end (as in the paper's tables) or at the
    beginning."""
    return sorted(
        set(tasks), key=lambda task: ((task == AVERAGE) != average_first, task_name(task))
    )


def stage_name(stage: str) -> str:
    """Name what a stage of the pipeline does; an unknown stage by its own name."""
    return STAGES.get(stage, stage)


def depth_name(depth: int, short: bool = False) -> str:
    """Name a depth: `Depth 16`, or short `16`. An unknown depth is negative: `Any depth`, or short
    a dash."""
    if depth < 0:
        return NOTHING if short else "Any depth"
    return f"{depth:.0f}" if short else f"Depth {depth:.0f}"


def model_name(row: Mapping[str, Any]) -> str:
    """Name the model of a row with `variant` and `depth`: `DR of depth 16`, or `DR` where the depth
    is unknown."""
    return row["variant"] if row["depth"] < 0 else f"{row['variant']} of depth {row['depth']:.0f}"


def measure_name(row: Mapping[str, Any]) -> str:
    """Name within a sentence what a row with `metric` and `task` measures: `average accuracy`,
    `loss on GSM8K`."""
    if row["metric"] == "accuracy":
        return goal_name(row["task"])
    if row["task"] == AVERAGE:
        return "average correct-answer bits per byte"
    return (
        "loss on held-out documents"
        if row["task"] == VALIDATION
        else f"loss on {task_name(row['task'])}"
    )


def measure_label(row: Mapping[str, Any]) -> str:
    """Name for an axis or a head what a row with `metric` and `task` measures: `Average accuracy`,
    `GSM8K, loss`."""
    if row["task"] == AVERAGE:
        return "Average accuracy" if row["metric"] == "accuracy" else "Average loss"
    return task_name(row["task"]) + ("" if row["metric"] == "accuracy" else ", loss")
