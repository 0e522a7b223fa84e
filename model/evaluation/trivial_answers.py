"""The answers of trivial rules to an item: what a model scores that has read no question.

Of a multiple choice the rules take the first, the last, the longest or the shortest choice; of an
item whose answer is written, the empty answer. What the most frequent answer scores follows from
the gold answers (`answer_text`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task

EMPTY = "empty answer"
UNLIKELY = -1000.0  # log-likelihood of a choice that is not taken


def trivial_answers(task: Task, instances: Sequence[Instance]) -> dict[str, Any]:
    """Return what each rule answers to an item, in the form in which a model gives it."""
    if task.OUTPUT_TYPE == "generate_until":
        # a scorer of the task's own may hang on an answer that nobody gives
        return {} if callable(task.config.process_results) else {EMPTY: ""}
    if task.OUTPUT_TYPE != "multiple_choice":
        return {}
    choices = [str(choice) for choice in task.doc_to_choice(instances[0].doc)]
    lengths = [len(choice) for choice in choices]
    taken = {
        "first choice": 0,
        "last choice": len(choices) - 1,
        "longest choice": lengths.index(max(lengths)),
        "shortest choice": lengths.index(min(lengths)),
    }
    return {rule: choose(number, choices, instances) for rule, number in taken.items()}


def choose(number: int, choices: Sequence[str], instances: Sequence[Instance]) -> list[Any]:
    """Make the log-likelihoods by which one choice is the likeliest."""
    answers = [
        (0.0 if each == number else UNLIKELY, each == number) for each in range(len(choices))
    ]
    # some metrics ask for the choices without the question too
    return answers + [(-1.0, False)] * (len(instances) - len(choices))


def answer_text(task: Task, gold: str, filtered: Any) -> str:
    """Return the gold answer as the benchmark's filter reads it where it is written."""
    is_written = task.OUTPUT_TYPE == "generate_until" and isinstance(filtered, str)
    return filtered if is_written else gold


def bytes_read(task: Task, instances: Sequence[Instance], gold: str) -> int:
    """Count the bytes that a model reads of an item: its prompts, and for its loss the answer."""
    read = sum(
        len(part.encode())
        for instance in instances
        for part in instance.args[:2]
        if isinstance(part, str)
    )
    if task.OUTPUT_TYPE == "generate_until":  # the prompt again, with the gold answer
        read += len(instances[0].args[0].encode()) + len(gold.encode())
    return read


def tokens_written(task: Task, instances: Sequence[Instance], usual: int) -> int:
    """Return how many tokens a model writes for an item at most; 0 where it chooses."""
    if task.OUTPUT_TYPE != "generate_until":
        return 0
    return int((instances[0].args[1] or {}).get("max_gen_toks") or usual)
