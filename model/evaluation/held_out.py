"""Ask and score held-out documents, for which lm-eval has no task.

A file of items has one document in each line, as `pipeline/tokens/validation.py` writes them:

    {"id": "world/41", "prompt": "Question: Ann has 3 coins.\\nAnswer:", "target": "She has 3."}

After a prompt, the bits per byte of the target are measured. A target without a prompt (`""`) is
a whole text; where all are, the perplexities of lm-eval's tasks of texts are measured too.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_study.model.evaluation.metrics import (
    MetricValues,
    TaskScores,
    bits_per_unit,
    digest_of_items,
    perplexity,
    token_perplexity,
)
from dreamer_study.model.evaluation.sampled_items import sampled_items
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.settings import checked

ASKED_BY = "plain items"  # stands in the results where others have the version of lm-eval

Text = tuple[str, str, float, int | None]
"""An item's id, its text, the text's log-probability, and its number of tokens; None after a
prompt."""


@checked("not an item", extra="ignore")
class _Item:
    id: str
    prompt: str
    target: str


class HeldOutTask:
    """Held-out documents as requests to any model; the same interface as LmEvalTask."""

    def __init__(self, specification: Mapping[str, Any], *, limit: int | None = None) -> None:
        """Read the file of items that the specification names; ask `limit` of them (None: all)."""
        self.specification = specification
        items = read_items(Path(specification["plain"]))
        chosen = sampled_items(specification["task"], len(items), limit)
        self._items = [items[number] for number in chosen]
        self.requests: dict[str, list[Any]] = defaultdict(list)
        for item in self._items:
            if item["prompt"]:
                self.requests["loglikelihood"].append((item["prompt"], f" {item['target']}"))
            else:
                self.requests["loglikelihood_rolling"].append(item["target"])

    def score(self, answers: Mapping[str, Sequence[Any]]) -> TaskScores:
        """Score every item from the answers, which are in the order of the requests."""
        after_prompt = iter(answers.get("loglikelihood", ()))
        whole = iter(answers.get("loglikelihood_rolling", ()))
        texts: list[Text] = []
        for item in self._items:
            if item["prompt"]:
                log_probability, _ = next(after_prompt)
                tokens = None
            else:
                log_probability, tokens = next(whole)
            texts.append((item["id"], item["target"], log_probability, tokens))
        return TaskScores(
            self.specification["benchmark"],
            None,
            self.specification.get("chance"),
            _perplexities(texts),
            data_version=digest_of_items(self._items),
            harness_version=ASKED_BY,
        )


def is_held_out(specification: Mapping[str, Any]) -> bool:
    """Tell whether a task's specification is one of held-out documents."""
    return "plain" in specification


def read_items(path: Path) -> list[dict[str, Any]]:
    """Read a file of items.

    Raises InputError, naming file and line, if the file is missing or empty, or a line is no item.
    """
    items: list[dict[str, Any]] = []
    line_of: dict[str, int] = {}  # by id
    try:
        # in bytes, where only \n ends a line: a text may hold U+2028 and its like
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                where = f"{path}, line {number}"
                item = _read_item(line, where)
                first = line_of.setdefault(item["id"], number)
                if first != number:
                    raise InputError(
                        f"{where}: id {item['id']!r} is the same as in line {first}; give every"
                        " item a different id"
                    )
                items.append(item)
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file of items; write the benchmark again"
        ) from None
    if not items:
        raise InputError(f"{path}: the file holds no item; write the benchmark again")
    return items


def _read_item(line: bytes, where: str) -> dict[str, Any]:
    """Read and check one item. Raises InputError, beginning with `where`, for anything else."""
    try:
        item = json.loads(line)
        _Item(**item)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: not an item ({error})") from None
    return item


def _perplexities(texts: Sequence[Text]) -> list[MetricValues]:
    """Build lm-eval's three perplexities, and that of tokens; words and bytes count as in lm-eval.

    Only bits per byte where some text came after a prompt.
    """
    by_bytes = {item: (value, len(text.encode())) for item, text, value, _ in texts}
    bits = MetricValues("bits_per_byte", "none", by_bytes, bits_per_unit, single=True)
    if any(tokens is None for *_, tokens in texts):
        return [bits]
    by_words = {item: (value, len(re.split(r"\s+", text))) for item, text, value, _ in texts}
    return [
        MetricValues("word_perplexity", "none", by_words, perplexity, single=True),
        MetricValues("byte_perplexity", "none", by_bytes, perplexity, single=True),
        bits,
        token_perplexity((item, value, tokens) for item, _, value, tokens in texts),
    ]
