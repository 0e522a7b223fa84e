"""Find the gold answers of lm-eval's items, whose bits per byte are measured."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task


def gold_request(task: Task, instances: Sequence[Instance]) -> Instance | None:
    """Return the request for the log-likelihood of an item's gold answer, given the item's requests in lm-eval's order.

    Among choices, and where lm-eval asks for one continuation, the request is one of `instances`; for an answer that is
    generated, a new one: the prompt, then the delimiter and the gold answer. None for a text whose perplexity is
    measured, and where the task has no gold answer in words.
    """
    first = instances[0]
    if first.request_type == "generate_until":
        gold = _gold_text(task, first.doc)
        continuation = f"{task.config.target_delimiter}{gold}"
        return Instance("loglikelihood", first.doc, (first.args[0], continuation), 0, first.metadata) if gold else None
    if first.request_type != "loglikelihood":
        return None
    if task.OUTPUT_TYPE == "multiple_choice":
        return _gold_choice(task, instances)
    return first if len(instances) == 1 else None


def gold_answer(task: Task, request: Instance) -> str:
    """Return the answer that a request of `gold_request` asks for, without the delimiter before it."""
    return request.args[1].removeprefix(task.config.target_delimiter)


def _gold_text(task: Task, document: object) -> str:
    """Return the gold answer as lm-eval compares it, the first of several; "" where there is none.

    A number in the place of the task's target stands for no answer, where there are no choices (as in ifeval).
    """
    if isinstance(task.config.doc_to_target, int) and task.config.doc_to_choice is None:
        return ""
    target = _first(task.doc_to_target(document))
    if isinstance(target, int) and task.config.doc_to_choice is not None:
        target = task.doc_to_choice(document)[target]
    return str(target).strip() if isinstance(target, str | int | float) else ""


def _gold_choice(task: Task, instances: Sequence[Instance]) -> Instance | None:
    """Choose the request of the gold choice, which a task names by number or by text."""
    choices_in_prompts = getattr(task, "multiple_input", False)
    document = instances[0].doc
    gold = _first(task.doc_to_text(document) if choices_in_prompts else task.doc_to_target(document))
    if isinstance(gold, int):
        return instances[gold] if 0 <= gold < len(instances) else None
    return next((one for one in instances if gold_answer(task, one) == gold), None)


def _first(target: object) -> object:
    """Return the first of several targets; a single target unchanged."""
    if isinstance(target, list | tuple):
        return target[0] if target else None
    return target
