"""Find the items of a task that no answer can be right for.

Such an item has no right answer among its choices, or none at all. lm-eval scores it as wrong,
whatever a model answers, and says so in a log at most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.task import Task

from dreamer_study.pipeline.errors import InputError

_HIDDEN = ("", "?", "-1", "-100", "null", "nan")  # how publishers write a label that they keep back
_LETTER = re.compile(r"\(?[A-Za-z][).]?")
_NAMED = 5  # items in a message


def check_right_answers(task: Task, specification: Mapping[str, Any]) -> None:
    """Raise InputError, by benchmark and item, for items without a right answer."""
    faults = faulty_items(task)
    if not faults:
        return
    name = specification["task"]
    where = f"benchmark {specification['benchmark']!r}"
    items = len(task.eval_docs)
    (number, reason), *others = faults.items()
    if 2 * len(faults) > items:
        raise InputError(
            f"{where}: {len(faults):,} of {items:,} items have no right answer, so no model can"
            f" answer them: item {name}/{number}: {reason}{_other_splits(task)}"
        )
    more = ""
    if others:
        ids = ", ".join(f"{name}/{other}" for other, _ in others[:_NAMED])
        more = f"; so have {len(others):,} others ({ids}{', ...' if others[_NAMED:] else ''})"
    raise InputError(
        f"{where}: item {name}/{number} has no right answer: {reason}{more}; repair or remove"
        " these rows"
    )


def faulty_items(task: Task) -> dict[int, str]:
    """Say of each item without a right answer why it has none, by its number."""
    reasons = {number: _fault(task, item) for number, item in enumerate(task.eval_docs)}
    return {number: reason for number, reason in reasons.items() if reason}


def _fault(task: Task, item: Any) -> str:
    """Say why an item has no right answer; "" where it has one."""
    has_choices = task.config.doc_to_choice is not None
    if task.OUTPUT_TYPE == "multiple_choice" or (
        has_choices and task.OUTPUT_TYPE == "generate_until"
    ):
        return _fault_among_choices(task, item)
    scores_itself = callable(task.config.process_results)
    if task.OUTPUT_TYPE not in ("generate_until", "loglikelihood") or scores_itself:
        return ""
    if isinstance(task.config.doc_to_target, int):  # stands for no target, as in ifeval
        return ""
    return _fault_of_text(task, item)


def _fault_among_choices(task: Task, item: Any) -> str:
    """Say why none of an item's choices is the right one."""
    try:
        choices = task.doc_to_choice(item)
    except Exception as error:  # of templates and functions of the task
        return f"its choices cannot be read ({type(error).__name__}: {error})"
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not len(choices):
        return "its choices are null or empty" if not choices else "its choices are no list"
    for number, choice in enumerate(choices):
        if not isinstance(choice, str) or not choice.strip():
            return f"its choice {number} is {choice!r}, and not a text"
    # where the choices stand in the prompts, lm-eval takes the label from doc_to_text
    in_prompts = getattr(task, "multiple_input", 0)
    try:
        label = task.doc_to_text(item) if in_prompts else task.doc_to_target(item)
    except Exception as error:
        return f"its label cannot be read ({type(error).__name__}: {error})"
    if isinstance(label, list | tuple):
        faults = [_fault_of_label(each, choices) for each in label]
        return "its list of right answers is empty" if not faults else min(faults)
    return _fault_of_label(label, choices)


def _fault_of_label(label: Any, choices: Sequence[str]) -> str:
    """Say why a label names none of the choices."""
    if isinstance(label, int):
        if 0 <= label < len(choices):
            return ""
        if label < 0:
            return f"its label is hidden ({label})"
        hint = ": are labels counted from 1?" if label == len(choices) else ""
        return f"its label is {label} of {len(choices)} choices, counted from 0{hint}"
    if isinstance(label, str) and label in choices:
        return ""
    if label is None or str(label).strip().lower() in (*_HIDDEN, "none"):
        return f"its label is hidden ({label if str(label).strip() else repr(label)})"
    listed = ", ".join(map(repr, choices[:4]))
    fault = f"its label {label!r} is none of its choices {listed}"
    if isinstance(label, str) and _LETTER.fullmatch(label.strip()):
        return f"{fault}: give the number of the choice ('{{{{\"ABCD\".index(label)}}}}')"
    if str(label).strip().removesuffix(".0").isdigit():
        return f"{fault}: a number as text; write doc_to_target as a template of a whole number"
    return fault


def _fault_of_text(task: Task, item: Any) -> str:
    """Say why an item to be answered in words has no right answer."""
    try:
        targets = task.doc_to_target(item)
    except Exception as error:
        return f"its answer cannot be read ({type(error).__name__}: {error})"
    if not isinstance(targets, list | tuple):
        targets = [targets]
    has_null = isinstance(item, Mapping) and any(value is None for value in item.values())
    hidden = {"", "?"} | ({"None"} if has_null else set())  # how a template writes null
    if any(str(target).strip() not in hidden for target in targets if target is not None):
        return ""
    return f"its answer is {targets[0]!r}" if targets else "its list of right answers is empty"


def _other_splits(task: Task) -> str:
    named = task.config.test_split or task.config.validation_split
    return (
        f"; labels of split {named!r} may be hidden or written in another way: give `split` with"
        " another name, or mend doc_to_target of the task file"
    )
