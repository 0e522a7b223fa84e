"""How turns of a conversation, and parts of a message, are written: names of fields and speakers.

{"role": "user", "content": [{"type": "text", "text": "Who?"}, {"type": "image_url", ...}]}
{"from": "gpt", "value": "Ada."}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WHO = ("role", "from", "speaker")
SAID = ("content", "value", "text")
FIELDS = {*WHO, *SAID, "type", "channel"}
USERS = ("user", "human", "prompter")
MODELS = ("assistant", "gpt", "model", "bot", "chatbot", "ai", "chatgpt", "bing", "bard")
SYSTEMS = ("system", "developer")
# The types of parts, and the speakers of turns, that are a reasoning trace.
THOUGHTS = (
    *("thinking", "redacted_thinking", "think", "thought", "thoughts"),
    *("reasoning", "reasoning_text", "reasoning_content", "analysis"),
)
THINKING_CHANNELS = ("analysis", "commentary")  # of gpt-oss
PARTS = (
    *("text", "input_text", "output_text", "image", "image_url", "input_image", "audio", "video"),
    *("file", "tool_use", "tool_result", "tool_call", *THOUGHTS),
)


def turn_fields(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the fields of the role and the text of a turn; None for another object.

    Of several, one with a value: rows of one file may name them differently.
    """
    who = [name for name in WHO if name in fields]
    said = [name for name in SAID if name in fields]
    if not who or not said:
        return None
    filled = [name for name in (*who, *said) if fields[name] is not None]
    return (
        next((name for name in who if name in filled), who[0]),
        next((name for name in said if name in filled), said[0]),
    )


def is_turn_or_part(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is said by one of the usual speakers, or is a part of a message."""
    fields = turn_fields(value)
    if fields is not None:
        speaker = str(value[fields[0]]).lower()
        return speaker in (*USERS, *MODELS, *SYSTEMS, *THOUGHTS, "tool", "function")
    return value.get("type") in PARTS
