r"""Strip reasoning traces from responses and keep the worked solution.

The paper trains without traces ("we aim for latent reasoning instead"). Public sets mark them in several ways, and mix
them; the text alone decides:

    paired     <think> ... </think> solution, also with other names (see `MARKS`); "several" when there is more than one
    thought    <|begin_of_thought|> ... <|end_of_thought|> <|begin_of_solution|> solution <|end_of_solution|>
    closing    reasoning ... </think> solution: the opening mark belonged to the prompt
    unclosed   a trace without an end, because generation was cut off: dropped
    none       no marks: the response stays as it is

An opening mark starts a trace, which ends at the next closing mark of its kind. A closing mark alone ends a trace that
began where the previous trace ended, or at the start. Common words (`LEADING`) are marks only of a closed trace that
begins the response and leaves a solution.

Mentions are no marks: in code (backticks, fenced blocks), in quotation marks and, where the question contains such a
mark, everywhere except a trace that begins the response or is closed and begins a line. A question that ends with an
opening mark means that the response begins inside the trace.

The rest stays byte for byte, except white space: none at the ends, and a blank line in place of a trace (a space within
a line). <answer> ... </answer> around everything that follows a trace is removed too.

Example: "<think>1 + 1?</think>\n\nIt is 2." becomes "It is 2.", kind "paired".
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.progress import Progress, quiet
from pipeline.storage.documents import DocumentWriter, read_shard
from pipeline.storage.resumable import shard_by_shard

NONE, PAIRED, SEVERAL, THOUGHT, CLOSING, UNCLOSED = "none", "paired", "several", "thought", "closing", "unclosed"
BATCH_ROWS = 1024  # traces are long
DROP_UNCLOSED = "trace never closed"
DROP_EMPTY = "nothing after the trace"
NO_CLOSING = "traces of this source end with a closing mark, and this response has none"

# Opening and closing marks of traces in public sets. Case, and blanks before the final ">", are ignored.
MARKS: tuple[tuple[str, str], ...] = (
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "thoughts", "reasoning", "reflection")),
    *((f"<{name}>", f"</{name}>") for name in ("scratchpad", "chain_of_thought", "inner_thoughts", "inner_monologue")),
    *((f"<{name}>", f"</{name}>") for name in ("thinking_process", "reasoning_process", "internal_thinking")),
    *((f"<{name}>", f"</{name}>") for name in ("seed:think", "longcat_think", "antthinking")),
    *((f"<|begin_of_{name}|>", f"<|end_of_{name}|>") for name in ("thought", "thinking", "reasoning")),
    ("<begin_of_thought>", "<end_of_thought>"),
    *((f"<|{name}_start|>", f"<|{name}_end|>") for name in ("think", "thinking")),
    *((f"<|{name}|>", f"<|/{name}|>") for name in ("think", "thinking")),
    ("<|start_thinking|>", "<|end_thinking|>"),
    ("<|im_start|>think", "<|im_start|>answer"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("<unused94>thought", "<unused95>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
)
# Marks around a solution: only the marks are removed.
WRAPPING: tuple[str, ...] = (
    "<|begin_of_solution|>",
    "<|end_of_solution|>",
    "<begin_of_solution>",
    "<end_of_solution>",
    "<|start_response|>",
    "<|end_response|>",
    "<|start|>assistant",
    "<|return|>",
)
# Names of marks, <name> ... </name>, that count only for a trace at the beginning of the response.
LEADING: tuple[str, ...] = ("analysis", "reason", "cot", "rationale")

_CLOSING = dict(MARKS)
_OPENING = {close: opening for opening, close in MARKS}
_ALL = sorted((*_CLOSING, *_OPENING, *WRAPPING), key=len, reverse=True)


def _pattern(mark: str) -> str:
    return re.escape(mark[:-1]) + "[ \\t]*>" if mark.endswith(">") else re.escape(mark)


_LEADS = rf"\A\s*<({'|'.join(LEADING)})[ \t]*>"
_LEADING = re.compile(_LEADS + r".*?</\1[ \t]*>(?=\s*\S)", re.IGNORECASE | re.DOTALL)
_ANSWER = re.compile(r"<answer[ \t]*>((?:(?!</?answer\b).)*)</answer[ \t]*>", re.IGNORECASE | re.DOTALL)
_ANY = "|".join((*map(_pattern, _ALL), _LEADS))
# One expression for each first character: a literal start is what makes the search fast (500 MB/s against 50).
_MARK = {
    first: re.compile("|".join(_pattern(mark) for mark in _ALL if mark[0] == first), re.IGNORECASE)
    for first in dict.fromkeys(mark[0] for mark in _ALL)
}
_FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
_TICKS = re.compile(r"(`+)[^`]+\1")
_QUOTES = "\"'“”‘’"


class Stripped(NamedTuple):
    """A response without its traces, and the kind of their marks. The text of an unclosed trace is empty."""

    text: str
    kind: str


class _Mark(NamedTuple):
    start: int
    end: int
    name: str


def strip_trace(response: str, question: str = "") -> Stripped:
    """Strip the reasoning traces from one response, by the rules at the top of this module."""
    marks = _marks(response)
    mentioned = _mentioned(question) if marks else set()
    kept: list[tuple[int, int]] = []  # ranges of the response
    traces: list[str] = []  # the kind of each trace so far
    end = 0  # of the previous trace or wrapping mark
    leading = _LEADING.match(response)
    if leading:
        end = leading.end()
        traces.append(PAIRED)
    first_end = end  # of the first trace
    for mark in marks:
        if mark.start < end or _is_code(response, end, mark):
            continue
        if mark.name in WRAPPING:
            ends_trace = any(other.start == mark.end and other.name in _OPENING for other in marks)
            if _pair(mark.name) not in mentioned and not ends_trace:
                kept.append((end, mark.start))
                end = mark.end
        elif mark.name in _CLOSING:
            before = response[end : mark.start]
            close = next((m for m in marks if m.start >= mark.end and m.name == _CLOSING[mark.name]), None)
            if _pair(mark.name) in mentioned and before.strip() and (not close or before.rpartition("\n")[2].strip()):
                continue
            if not close:
                return Stripped("", UNCLOSED)
            kept.append((end, mark.start))
            end = close.end
            traces.append(THOUGHT if mark.name in ("<|begin_of_thought|>", "<begin_of_thought>") else PAIRED)
        elif _pair(mark.name) not in mentioned:
            end = mark.end
            traces.append(CLOSING)
        first_end = first_end or (end if traces else 0)
    if not end:
        return Stripped(response, NONE)
    kept.append((end, len(response)))
    text = _join(response, kept)
    begins = next((start for start, stop in kept if response[start:stop].strip()), 0)
    answer = _ANSWER.fullmatch(text) if first_end and begins >= first_end else None
    return Stripped(answer[1].strip() if answer else text, _kind(traces))


def _marks(text: str) -> list[_Mark]:
    return sorted(
        _Mark(found.start(), found.end(), _name(found[0]))
        for first, mark in _MARK.items()
        if first in text
        for found in mark.finditer(text)
    )


def _name(mark: str) -> str:
    return "".join(mark.lower().split())  # no name has a blank in it


def _mentioned(question: str) -> set[str]:
    """Return the kinds of marks that a question mentions; an opening mark at its very end starts the trace instead."""
    marks = _marks(question)
    if marks and marks[-1].name in _CLOSING and not question[marks[-1].end :].strip():
        begun = _pair(marks[-1].name)
        return {_pair(mark.name) for mark in marks} - {begun}
    return {_pair(mark.name) for mark in marks}


def _is_code(response: str, start: int, mark: _Mark) -> bool:
    """Tell whether the mark is in quotation marks, between backticks or in a fenced block of the text from `start` on.

    A closing mark alone on its line, in a block without its opening mark, is real: the fence before it was left open
    inside a trace without an opening mark, and the fence after it begins a block of the solution.
    """
    around = response[max(mark.start - 1, 0) : mark.start] + response[mark.end : mark.end + 1]
    if len(around) == 2 and all(character in _QUOTES for character in around):
        return True
    line_start = response.rfind("\n", start, mark.start) + 1 or start
    line_end = response.find("\n", mark.end)
    line = response[line_start : line_end if line_end >= 0 else len(response)]
    place = mark.start - line_start
    if any(code.start() < place < code.end() for code in _TICKS.finditer(line)):
        return True
    opened: int | None = None
    if "```" not in response and "~~~" not in response:
        return False
    for fence in _FENCE.finditer(response, start):
        if opened is None:
            if fence.start() > mark.start:
                return False
            opened = fence.start()
        elif fence.start() < mark.start:
            opened = None
        else:
            alone = mark.name in _OPENING and _name(line) == mark.name
            return not (alone and _OPENING[mark.name] not in response[opened : fence.start()].lower())
    return False


def _pair(mark: str) -> str:
    """Return the name of a mark's kind, equal for the opening and the closing mark."""
    mark = mark.lower()
    return _OPENING.get(mark, "solution" if mark in WRAPPING else mark)


def _kind(traces: list[str]) -> str:
    if THOUGHT in traces or not traces:
        return THOUGHT
    if PAIRED not in traces:
        return CLOSING
    return SEVERAL if len(traces) > 1 else PAIRED


def _join(response: str, kept: list[tuple[int, int]]) -> str:
    """Join the kept ranges, trimmed: by a blank line where the gap has a line break, else by a space."""
    text = ""
    before = 0
    for start, end in kept:
        part = response[start:end]
        if not part.strip():
            continue
        lead = start + len(part) - len(part.lstrip())
        gap = response[before:lead]
        text += (("\n\n" if "\n" in gap else " ") if text else "") + part.strip()
        before = start + len(part.rstrip())
    return text


def strip_traces(
    source: Path | str,
    output: Path | str,
    *,
    marking: str = "none",
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: strip the reasoning traces from the documents of `source`.

    Marks are found whatever `marking`, the source's `trace`, says; but with "closing", a response without a mark is a
    trace that was cut off. Drops documents whose trace is not closed, and those without a solution. Returns `counts`,
    and as `traces` the number of documents of each source and kind. Finished shards survive an interruption.
    """
    work = partial(_strip_shard, marking)
    counts, traces = shard_by_shard(source, output, {"marking": marking}, work, kind="kind", progress=progress)
    return {"counts": counts, "traces": traces}


def _strip_shard(marking: str, path: Path, writer: DocumentWriter) -> Counter[tuple[str, str]]:
    """Strip one shard; return the number of documents of each (source, kind)."""
    kinds: Counter[tuple[str, str]] = Counter()
    for batch in read_shard(path, batch_rows=BATCH_ROWS):
        marked = pc.match_substring_regex(batch["response"], _ANY, ignore_case=True)
        rows = zip(*(batch.filter(marked)[name].to_pylist() for name in ("response", "question")), strict=True)
        stripped = [strip_trace(response, question or "") for response, question in rows]
        kind = _scatter(marked, [found.kind for found in stripped], pa.array([NONE] * len(batch), pa.string()))
        cut_off = pc.and_(pc.equal(kind, NONE), marking == CLOSING)
        kind = pc.if_else(cut_off, UNCLOSED, kind)
        kinds.update(zip(batch["source"].to_pylist(), kind.to_pylist(), strict=True))
        response = _scatter(marked, [found.text for found in stripped], batch["response"])
        documents = batch.set_column(batch.schema.get_field_index("response"), "response", response)
        unclosed = pc.equal(kind, UNCLOSED)
        empty = pc.and_(pc.not_equal(kind, NONE), pc.and_not(pc.equal(response, ""), unclosed))
        because = pc.if_else(cut_off, NO_CLOSING, pa.scalar(None, pa.string()))
        writer.drop(batch.filter(unclosed), DROP_UNCLOSED, because.filter(unclosed))
        writer.drop(batch.filter(empty), DROP_EMPTY)
        writer.keep(documents.filter(pc.invert(pc.or_(unclosed, empty))))
    return kinds


def _scatter(where: pa.Array, values: list[str], into: pa.Array) -> pa.Array:
    return pc.replace_with_mask(into, where, pa.array(values, pa.string()))
