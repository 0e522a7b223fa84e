"""Read conversations: the role and the text of each turn, and which response is learnt.

One row gives one pair: the last response, and all that was said before it.

    [{"role": "system", "content": "Be kind."},
     {"role": "user", "content": "How many?"}, {"role": "assistant", "content": "There are 5."},
     {"role": "user", "content": "And twice that?"}, {"role": "assistant", "content": "10."}]

is the question "How many?", "There are 5.", "And twice that?", with a blank line between them, and
the response "10.". What a system was told and what a model thinks are left out; what a tool gives
is said. Turns behind the last response, which nobody answered, are left out.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from dreamer_study.pipeline.sources.files.json_values import NotText, text_of
from dreamer_study.pipeline.sources.files.turns import (
    MODELS,
    SYSTEMS,
    THINKING_CHANNELS,
    THOUGHTS,
    turn_fields,
)


class Turn(NamedTuple):
    """What a model, or somebody else, says."""

    of_model: bool
    text: str


def asked(text: str) -> str:
    """Return what was said before the last response of a conversation; "" without a response."""
    before, _ = _before_and_response(text)
    return "\n\n".join(turn.text for turn in before)


def said(text: str) -> str:
    """Return all turns of a conversation, as `asked` writes them; "" where the model is first."""
    turns = turns_of(text)
    if not turns or turns[0].of_model:
        return ""
    return "\n\n".join(turn.text for turn in turns)


def answered(text: str) -> str:
    """Return the last response of a conversation; "" without one."""
    _, response = _before_and_response(text)
    return response


def has_several_questions(turns: Sequence[Turn]) -> bool:
    """Tell whether somebody speaks again after a response."""
    return any(before.of_model and not turn.of_model for before, turn in pairwise(turns))


def _before_and_response(text: str) -> tuple[list[Turn], str]:
    """Split a conversation at its last response: the turns before, and the response.

    Without a turn of somebody else nothing was asked.
    """
    turns = turns_of(text)
    while turns and not turns[-1].of_model:
        turns.pop()  # what nobody answered
    if not turns:
        return [], ""
    before = turns[:-1]
    if all(turn.of_model for turn in before):
        before = []
    return before, turns[-1].text


def turns_of(text: str) -> list[Turn]:
    """Read the turns of a conversation, which a column may hold as JSON or Python text.

    None where an element is no turn, and where a turn holds no text.
    """
    turns = []
    for element in read_list(text) or ():
        fields = turn_fields(element) if isinstance(element, dict) else None
        if fields is None:
            return []
        role, what = fields
        speaker = str(element[role] or "").strip().lower()
        if speaker in SYSTEMS or speaker in THOUGHTS:
            continue
        if str(element.get("channel")).lower() in THINKING_CHANNELS:
            continue
        try:
            content = text_of(element.get(what) or "").strip()
        except NotText:
            return []
        if content:  # a call of a tool has none
            turns.append(Turn(speaker in MODELS, content))
    return turns


def read_list(text: str) -> list[Any] | None:
    """Read a list as JSON or Python writes it; None for any other text."""
    if text.strip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(text.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue  # not this notation: the text itself may be meant
            return value if isinstance(value, list) else None
    return None
