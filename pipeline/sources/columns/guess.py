"""Guess which columns of a data set are question and response, or its text.

A person looks at the guess (`dreamer new`); no source is read by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.conversations import answered, asked, said
from dreamer_study.pipeline.sources.columns.sql import parse, quoted
from dreamer_study.pipeline.sources.files.turns import turn_fields

# Names in public data sets, the most telling first; compared without case.
_QUESTIONS = ("question", "problem", "prompt", "instruction", "query", "input", "body", "q")
_RESPONSES = (
    "response",
    "solution",
    "completion",
    "generation",
    "output",
    "rationale",
    "answer",
    "r",
    "a",
)
_ANSWERS = ("final_answer", "answer", "ground_truth")  # the short one, beside a response
# of two responses, the better one is learnt
_RESPONSES_TO_TURNS = ("completion", "chosen", *_RESPONSES)
_TEXTS = ("text", "content", "document")
_NO_TEXT = (
    r"(.*[_ ])?"
    r"(id|index|idx|nr|no|number|url|source|split|subject|topic|type|level|date|licen[cs]e|version"
    r"|thinking|thoughts?|reasoning|reasoning_content|chain_of_thought|cot|trace|scratchpad)"
)
# Of lists whose elements have no role, and of objects: no text, but what a person means.
_CONVERSATIONS = (
    *("conversations", "conversation", "messages", "turns", "dialog", "dialogue", "dialogs"),
    *("dialogues", "chat", "utterances", "answers", "responses", "completions", "generations"),
)
# What a question needs before it: the story, or behind it: the input of an instruction.
_CONTEXTS = (
    ("instruction", "input"),
    ("instruction", "context"),
    ("body", "question"),
    ("context", "question"),
    ("passage", "question"),
)


def guess_columns(table: pa.Table) -> dict[str, str]:
    """Guess the columns of a source: `question`, `response` and perhaps `answer`, or `text`.

    Turns of a conversation come first, then names, then what is longest: the two longest columns in
    their order. Nothing where no column fits. Raises InputError for a column that is meant by its
    name, but holds no text.
    """
    conversations = [name for name in table.column_names if _holds_turns(table[name])]
    nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    plain = [name for name in table.column_names if name not in nested]
    if conversations:
        return _of_turns(table, conversations, plain)
    question = _first_named(plain, _QUESTIONS)
    response = _first_named(plain, _RESPONSES)
    text = _first_named(plain, _TEXTS)
    if not (text or (question and response)):
        _check_not_meant(table, nested)
    texts = [name for name in plain if not re.fullmatch(_NO_TEXT, name, re.IGNORECASE)]
    longest = _longest(table, texts)
    if question and not response and longest != [question]:
        response = next((name for name in longest if name != question), "")
    if question and response:
        columns = {"question": question, "response": response}
        others = [name for name in plain if name.lower() != response.lower()]
        answer = _first_named(others, _ANSWERS)
        if answer:
            columns["answer"] = answer
    elif text or len(longest) == 1:
        columns = {"text": text or longest[0]}
    else:
        in_order = sorted(longest[:2], key=texts.index)
        columns = dict(zip(("question", "response"), in_order, strict=False))
    expressions = {kind: _expression(name) for kind, name in columns.items()}
    return expressions | _question_in_context(plain, columns)


def _check_not_meant(table: pa.Table, nested: list[str]) -> None:
    """Raise InputError for a column that is meant by its name, but holds no text."""
    meant = _first_named(nested, (*_QUESTIONS, *_RESPONSES, *_CONVERSATIONS))
    if not meant:
        return
    kind = table.schema.field(meant).type
    is_list = pa.types.is_list(kind)
    inner = kind.value_type if is_list else kind
    fields = [field.name for field in inner] if pa.types.is_struct(inner) else []
    what = "lists of " if is_list else ""
    what += f"objects with the fields {', '.join(fields)}" if fields else "texts"
    expression = _expression(meant)
    if is_list:
        expression += "[1]"
    if fields:
        expression += f".{_expression(fields[0])}"
    raise InputError(
        f"`{meant}` holds {what}, and no text by itself: name the texts in a study by hand, such as"
        f" `{expression}`"
    )


def _of_turns(table: pa.Table, conversations: list[str], plain: list[str]) -> dict[str, str]:
    """Take a prompt and its completion, of turns or of text, or one whole conversation."""
    question = _first_named(conversations, _QUESTIONS)
    others = [name for name in (*conversations, *plain) if name != question]
    response = _first_named(others, _RESPONSES_TO_TURNS)
    if question and response:
        answer = _expression(response)
        if response in conversations:
            answer = f"answered({answer})"
        return {"question": f"said({_expression(question)})", "response": answer}
    response = _first_named(conversations, _RESPONSES_TO_TURNS)
    question = _first_named(plain, _QUESTIONS)
    if question and response and not any(map(asked, _json_of(table[response]))):
        return {"question": _expression(question), "response": f"answered({_expression(response)})"}
    turns = _expression(conversations[0])
    return {"question": f"asked({turns})", "response": f"answered({turns})"}


def _json_of(column: pa.ChunkedArray) -> Iterator[str]:
    """Write the conversations of a column as the functions of conversations read them."""
    for value in column.to_pylist():
        yield value if isinstance(value, str) else json.dumps(value)


def _question_in_context(plain: list[str], columns: dict[str, str]) -> dict[str, str]:
    """Join a question and the column it needs, such as an instruction and its input."""
    for pair in _CONTEXTS:
        names = [_first_named(plain, (name,)) for name in pair]
        if all(names) and columns.get("question") in names and columns["response"] not in names:
            first, second = (f"nullif({_expression(name)}, '')" for name in names)
            return {"question": f"concat_ws(chr(10), {first}, {second})"}
    return {}


def _holds_turns(column: pa.ChunkedArray) -> bool:
    """Tell whether a column holds conversations: lists of turns, or such lists as JSON text."""
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return turn_fields({field.name: None for field in kind.value_type}) is not None
    if not pa.types.is_string(kind):
        return False
    texts = [text for text in column.to_pylist() if text]
    with_turns = sum(bool(answered(text) or said(text)) for text in texts)
    return 2 * with_turns > len(texts)


def _first_named(columns: list[str], names: tuple[str, ...]) -> str:
    """Return the column with the first of the names, whatever its case, or ""."""
    by_name = {column.lower(): column for column in reversed(columns)}
    by_name |= {column: column for column in columns}  # the exact one of two
    for name in names:
        if name in by_name:
            return by_name[name]
    return ""


def _longest(table: pa.Table, columns: list[str]) -> list[str]:
    """Sort columns by the length of their texts, the longest first."""
    length = {name: sum(len(str(value)) for value in table[name].to_pylist()) for name in columns}
    return sorted(columns, key=lambda name: -length[name])


def _expression(name: str) -> str:
    """Write the name of a column as SQL: in quotes where it is no plain word."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return quoted(name)
    try:
        return parse(name)
    except InputError:  # a word of SQL, such as "order"
        return quoted(name)
