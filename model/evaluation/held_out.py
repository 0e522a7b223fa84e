"""Ask and score tasks from files of plain items, which need no definition of lm-eval.

Each line is a JSON object with the texts `id`, `prompt` and `target`. An item with `choices` is
multiple choice, its target one of the choices; with `until`, one stop string or several, the model
writes an answer, which is compared with the target; with neither, the target is a text: after the
prompt its bits per byte are measured, without a prompt also its perplexity. Scores equal those of
lm-eval's task of the same form (tests compare the two on one model); lm-eval has no texts after a
prompt.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from dreamer_study.model.evaluation.language_model import MAX_NEW_TOKENS, Generation
from dreamer_study.model.evaluation.metrics import (
    Answer,
    MetricValues,
    TaskScores,
    bits_per_unit,
    digest_of_items,
    gold_bits_per_byte,
    perplexity,
    token_perplexity,
)
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.settings import Count, checked

Words = Annotated[str, Field(min_length=1)]

Text = tuple[str, str, float, int | None]
"""A text's item id, the text, its log-probability, and its number of tokens; None where a prompt
was before it."""


@checked("not an item", extra="ignore")
class _Item:
    id: str
    prompt: str
    target: str
    choices: list[Words] | None = None
    until: Words | list[Words] | None = None
    max_new_tokens: Count | None = None


class PlainTask:
    """One file of items as requests to any model, and scores from the answers; same interface as
    HarnessTask."""

    def __init__(
        self,
        specification: Mapping[str, Any],
        *,
        limit: int | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
    ) -> None:
        """`limit` is the number of items to ask; `max_new_tokens` applies where neither overrides
        nor item set it."""
        self.specification = specification
        self._lines = read_items(Path(specification["plain"]))[:limit]
        longest = (specification.get("overrides") or {}).get("max_new_tokens")
        self.requests: dict[str, list[Any]] = defaultdict(list)
        for item in self._lines:
            prompt = item["prompt"]
            if item.get("choices"):
                self.requests["loglikelihood"].extend(
                    (prompt, f" {choice}") for choice in item["choices"]
                )
            elif item.get("until"):
                tokens = longest or item.get("max_new_tokens") or max_new_tokens
                settings = Generation.from_arguments({"until": item["until"]}, tokens)
                self.requests["generate_until"].append((prompt, settings))
                if gold := item["target"].strip():
                    self.requests["loglikelihood"].append((prompt, f" {gold}"))
            elif prompt:
                self.requests["loglikelihood"].append((prompt, f" {item['target']}"))
            else:
                self.requests["loglikelihood_rolling"].append(item["target"])

    def score(self, answers: Mapping[str, Sequence[Any]]) -> TaskScores:
        """Score every item from the answers, which are in the order of the requests."""
        given = {kind: iter(found) for kind, found in answers.items()}
        metric, filter_ = self.specification["metric"], self.specification["filter"]
        gold: list[tuple[str, str, float]] = []
        said: dict[str, Answer] = {}
        texts: list[Text] = []
        for item in self._lines:
            name, target = item["id"], item["target"]
            if choices := item.get("choices"):
                values = [next(given["loglikelihood"])[0] for _ in choices]
                gold.append((name, target, values[choices.index(target)]))
                if metric == "acc_norm":
                    values = [
                        value / len(choice) for value, choice in zip(values, choices, strict=True)
                    ]
                said[name] = choices[int(np.argmax(values))], item["prompt"], target
            elif item.get("until"):
                said[name] = next(given["generate_until"]).strip(), item["prompt"], target
                if text := target.strip():
                    gold.append((name, text, next(given["loglikelihood"])[0]))
            elif item["prompt"]:
                texts.append((name, target, next(given["loglikelihood"])[0], None))
            else:
                texts.append((name, target, *next(given["loglikelihood_rolling"])))
        accuracy = {name: float(text == target) for name, (text, _, target) in said.items()}
        measures = [MetricValues(metric, filter_, accuracy)] if accuracy else []
        if texts:
            measures += _perplexities(texts)
        if gold:
            measures.append(gold_bits_per_byte(gold))
        versions = dict.fromkeys(str(item["version"]) for item in self._lines if "version" in item)
        return TaskScores(
            self.specification["benchmark"],
            ", ".join(versions) or None,
            self.specification.get("chance"),
            measures,
            data_version=digest_of_items(self._lines),
            harness_version="plain items",
            answers=said,
        )


def read_items(path: Path) -> list[dict[str, Any]]:
    """Read a file of items. Raises InputError, naming file and line, if missing or empty, or a line
    is no item."""
    items: list[dict[str, Any]] = []
    lines: dict[str, int] = {}  # by id
    try:
        # where only \n ends a line: a text may hold U+2028 and its like
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                where = f"{path}, line {number}"
                items.append(item := _item(line, where))
                if (other := lines.setdefault(item["id"], number)) != number:
                    raise InputError(
                        f"{where}: id is {item['id']!r} as in line {other}; give every item its"
                        " own id"
                    )
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file of items; write the benchmark again"
        ) from None
    if not items:
        raise InputError(f"{path}: the file holds no item; write the benchmark again")
    return items


def _item(line: bytes, where: str) -> dict[str, Any]:
    """Read and check one item. Raises InputError, beginning with `where`, for what cannot be asked
    or scored."""
    try:
        item = json.loads(line)
        _Item(**item)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: not an item ({error})") from None
    if item.get("choices") and item["target"] not in item["choices"]:
        raise InputError(
            f"{where}: target is {item['target']!r}, but it must be one of the choices"
        )
    return item


def _perplexities(texts: Sequence[Text]) -> list[MetricValues]:
    """Build lm-eval's three perplexities, with words and bytes counted as in lm-eval, and that of
    tokens.

    Bits per byte alone where some text came after a prompt.
    """
    bytes_ = {item: (value, len(text.encode())) for item, text, value, _ in texts}
    bits = MetricValues("bits_per_byte", "none", bytes_, bits_per_unit, single=True)
    if any(tokens is None for *_, tokens in texts):
        return [bits]
    words = {item: (value, len(re.split(r"\s+", text))) for item, text, value, _ in texts}
    return [
        MetricValues("word_perplexity", "none", words, perplexity, single=True),
        MetricValues("byte_perplexity", "none", bytes_, perplexity, single=True),
        bits,
        token_perplexity((item, value, tokens) for item, _, value, tokens in texts),
    ]
