"""Read a response that is a list of a message's parts, thinking and text."""

from __future__ import annotations

import ast
import json

from dreamer_study.pipeline.traces.examined import STRIPPED, Examined

# Kinds of a message's parts.
_SPOKEN = ("text", "output_text")
_THOUGHT = ("thinking", "redacted_thinking", "reasoning", "thought")


def read_parts(response: str) -> Examined | None:
    """Read a response that is a list of a message's parts: {"type": "thinking"}, {"type": "text"}.

    None for any other response.
    """
    text = response.strip()
    if not (text.startswith("[") and text.endswith("]") and "type" in text and "{" in text[:9]):
        return None
    try:
        parts = json.loads(text)
    except ValueError:
        try:
            parts = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    if not (isinstance(parts, list) and parts):
        return None
    texts = []
    for part in parts:
        if not isinstance(part, dict) or part.get("type") not in (*_SPOKEN, *_THOUGHT):
            return None
        said = part.get("text")
        if part["type"] in _SPOKEN and isinstance(said, str):
            texts.append(said.strip())
    return Examined("\n\n".join(filter(None, texts)), STRIPPED, "")
