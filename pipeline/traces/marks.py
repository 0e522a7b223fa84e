r"""The table of marks: how public data mark a reasoning trace, and the solution behind it.

Tags are the largest family, and their names differ from model to model. So a tag is read by the
words of its name (`THOUGHTS`, `SOLUTIONS`): `<mm:think>`, `<|begin_of_thought|>`,
`<start_working_out>` and `◁think▷` need no line of their own. Upper and lower case are alike, and
so are `</think>`, `<\/think>`, `< / think >`, `&lt;/think&gt;` and `\u003c/think\u003e`. Between
brackets, as in `[REASONING]` or `{think}`, a name opens a trace only where it is closed too.

`EXAMPLES` shows every form, and each of them becomes "So 4.".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

# --- the table ---

EXAMPLES = {
    "tag": "<think>2 + 2?</think>So 4.",
    "tag of a model": "<mm:think>2 + 2?</mm:think>So 4.",
    "tag of a word": "<reasoning>2 + 2?</reasoning>So 4.",
    "tag with pipes": "<|thinking|>2 + 2?<|/thinking|>So 4.",
    "tags of begin and end": "<|begin_of_thought|>2 + 2?<|end_of_thought|>So 4.",
    "tag with attributes": '<think time="3">2 + 2?</think>So 4.',
    "tag in square brackets": "[THINK]2 + 2?[/THINK]So 4.",
    "tag in triangles": "◁think▷2 + 2?◁/think▷So 4.",
    "tag escaped for HTML": "&lt;think&gt;2 + 2?&lt;/think&gt;So 4.",
    "closing tag alone": "2 + 2?</think>So 4.",
    "solution in tags": "<think>2 + 2?</think><answer>So 4.</answer>",
    "channels (gpt-oss)": "<|channel|>analysis<|message|>2 + 2?<|end|>"
    "<|start|>assistant<|channel|>final<|message|>So 4.<|return|>",
    "channels without their tokens": "analysisIs it 2 + 2?assistantfinalSo 4.",
    "channel (Gemma)": "<|channel>thought\n2 + 2?<channel|>So 4.",
    "unused tokens (MedGemma)": "<unused94>thought\n2 + 2?<unused95>So 4.",
    "turns (s1)": "<|im_start|>think\n2 + 2?<|im_end|>\n<|im_start|>answer\nSo 4.<|im_end|>",
    "details": "<details><summary>Thinking</summary>2 + 2?</details>So 4.",
    "name in square brackets": "[REASONING]2 + 2?[/REASONING]So 4.",
    "name in curly brackets": "{think}2 + 2?{/think}So 4.",
    "words (Ollama)": "Thinking...\n2 + 2?\n...done thinking.\n\nSo 4.",
    "fence": "```thinking\n2 + 2?\n```\nSo 4.",
    "heading": "## Thinking\n2 + 2?\n## Answer\nSo 4.",
    "label": "Thinking Process:\n2 + 2?\nFinal answer:\nSo 4.",
    "words (Granite)": "Here is my thought process: 2 + 2?\nHere is my response: So 4.",
    "words (Apriel)": "Here are my reasoning steps:\n2 + 2?\n[BEGIN FINAL RESPONSE]\nSo 4.",
    "parts of a message": '[{"type": "thinking", "thinking": "2 + 2?"},'
    ' {"type": "text", "text": "So 4."}]',
}
# Words in the names of tags around a trace.
THOUGHTS = (
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "reflection",
    "scratchpad",
    "analysis",
    "monologue",
    "deliberation",
    "cot",
    "working_out",
    "scratch_pad",
)
# Names of tags around a solution, of which only the tags are removed.
SOLUTIONS = (
    "answer",
    "final_answer",
    "solution",
    "response",
    "final_response",
    "final",
    "conclusion",
)
# What begins or ends a turn of a chat is removed wherever it stands.
_TURNS = r"""
    <\|(?:return|call|im_end|eot_id|eom_id|endoftext|end_of_text|end_of_turn|eos|turn)\|>
  | <\|(?:start|im_start|start_header_id|turn)\|?>\s{0,3}(?:assistant|model)\b
    (?:<\|end_header_id\|>)?
  | <turn\|>
  | <\|(?:begin|end)_of_box\|>
  | <(?:think|thinking|thought|reasoning)\s{0,9}/>
  | \[END\ FINAL\ RESPONSE\]
  | <end_of_turn>
  | </s>\s{0,9}\Z
  | <start_of_turn>(?:model\b)?
  | <[|｜](?:Assistant|end▁of▁sentence)[|｜]>
"""
# The rest of a channel's head: an addressee, a type of content.
_HEAD = r"\b[^<]{0,100}(?:<\|constrain\|>[^<]{0,30})?(?:<\|message\|>|\Z)"
_START = r"(?:<\|start\|>\s{0,3}assistant\s{0,3})?"
# Forms that are no tags, each with its opening and its closing mark. A closing mark in the first
# group ends traces of its own form only, as it means something else elsewhere.
_OPENINGS = {
    "channel": rf"{_START}<\|channel\|>\s{{0,3}}(?:analysis|commentary){_HEAD}",
    "gemma": r"<\|channel>\s{0,3}(?:thought|thinking|analysis)\n?",
    "unused": r"<unused94>(?:\s{0,3}thought)?",
    "turn": r"<\|im_start\|>\s{0,3}(?:think|thinking|thought)\b",
    "details": r"""<details\b[^<>]{0,200}\b(?:type|class|id)=["']?[\w-]{0,20}
          (?:reasoning|thinking|thought)[^<>]{0,200}>
        | <details[^<>]{0,200}>\s{0,9}<summary>(?:<\w{1,9}>)?
          (?:[^\w<\n]{0,9}reasoning|[^<\n]{0,60}?\b(?:thinking|thought))\b""",
    "fence": r"(?:```|~~~)[ ]?(?:think|thinking|thoughts?|reasoning|scratchpad)[ ]*\n",
}
_CLOSINGS_OF_THEIR_OWN = {
    "channel": r"<\|end\|>",
    "turn": r"<\|im_start\|>\s{0,3}(?:answer|final)\b",
    "details": r"</details\s{0,3}>",
    "fence": r"(?:```|~~~)[ ]*(?=\n|\Z)",
}
_NESTED = {"details": r"<details\b[^<>]{0,200}>"}  # opens what a closing mark of its own form ends
_CLOSINGS = {
    "channel_final": rf"{_START}<\|channel\|>\s{{0,3}}final{_HEAD}",
    "gemma_final": r"<channel\|>",
    "unused_final": r"<unused95>",
}
_TAG = r"""
    [<＜◁⟨‹〈] (?P<pipe>[|｜]?) \s{0,9} (?P<slash>\\{0,9}[/／]?) \s{0,9}
    (?P<name>[^\W\d_](?:[\w▁:.-]{0,60}[^\W_])?)
    (?:\s{1,9}[\w:.-]{1,40}\s{0,3}=\s{0,3}(?:"[^"]{0,200}"|'[^']{0,200}'|[^\s"'<>]{1,200})){0,9}
    \s{0,9} \\{0,9} [/／]? [|｜]? [>＞▷⟩›〉]
"""
# Brackets of prose and code. A link of Markdown is no mark.
_BRACKETS = r"""
    \[\s{0,9}(?P<closes>(?:\\{0,9}/)?)\s{0,9}(?P<square>[a-z][\w:.-]{0,60})\s{0,9}\](?!\()
  | \{\s{0,9}(?P<ends>(?:\\{0,9}/)?)\s{0,9}(?P<curly>[a-z][\w:.-]{0,60})\s{0,9}\}
"""


class Phrase(NamedTuple):
    """Words that begin a trace where a response begins, and words that end the trace.

    In such a response `again` begins more traces. Without an end the words are prose, unless
    `cut_off`: then the trace was cut off, or the words are a heading, which `strip` decides.
    """

    begins: re.Pattern[str]
    ends: tuple[re.Pattern[str], ...]  # in the order in which they are tried
    again: re.Pattern[str]
    cut_off: bool


def _label(words: str, *, alone: bool) -> str:
    """Write the expression of a label, which is a heading, bold, or has a colon."""
    heading = rf"\#{{1,6}}[ ]+\**(?:{words})\**:?\**(?=[ \t]*(?:\n|\Z))"
    bold = rf"\*\*(?:{words})(?::\*\*|\*\*:?)"
    plain = rf"(?:{words}):"
    end = r"[ \t]*(?=\n|\Z)" if alone else ""
    return rf"[ \t]*(?:{heading}|{bold}|{plain}){end}"


_FLAGS = re.IGNORECASE | re.VERBOSE
_PROCESS = r"(?:my[ ])?(?:thinking|thought|reasoning)[ ]process"
_MY_WORDS = r"""[ \t]*(?:\*\*)?Here(?:[ ](?:is|are)|['’]s)[ ](?:my|the|a)[ ]
    (?:thinking|thought|reasoning)[ ](?:process|steps)[^:\n]{0,80}:(?:\*\*)?"""
_MY_SOLUTION = r"""[ \t]*(?:(?:\*\*)?Here(?:[ ]is|['’]s)[ ]my[ ](?:final[ ])?
    (?:response|answer|solution):(?:\*\*)?|\[BEGIN[ ]FINAL[ ]RESPONSE\])"""
_SOLUTION_LABELS = r"(?:my[ ])?(?:final[ ])?(?:answer|response|solution)|final[ ]output"
# A label alone on its line is removed; one before the answer stays, as in "Final answer: 4".
_SOLUTION = re.compile(
    rf"^(?:{_MY_SOLUTION}|{_label(_SOLUTION_LABELS, alone=True)}"
    rf"|(?={_label(_SOLUTION_LABELS, alone=False)}))",
    _FLAGS | re.MULTILINE,
)
# Where no line begins with a solution, these words within a line begin it.
_SOLUTION_INLINE = re.compile(rf"(?<=\s){_MY_SOLUTION}|(?<=\s)(?=final[ ]answer:)", _FLAGS)
_MY_SOLUTION_ANYWHERE = re.compile(rf"(?:^|(?<=\s)){_MY_SOLUTION}", _FLAGS | re.MULTILINE)


def _phrase(begins: str, *ends: re.Pattern[str], cut_off: bool) -> Phrase:
    again = re.compile(rf"^{begins}", _FLAGS | re.MULTILINE)
    return Phrase(re.compile(begins, _FLAGS), ends, again, cut_off)


_CHANNEL = r"(?:analysis|commentary)(?=[^\W_]|[\"“‘'$\\*]|[ \t]*(?:\n|\Z))"
# Alone on its line such a word may be a heading, unless more of the channels' words follow.
_CHANNEL_SURELY = re.compile(
    r"assistant(?:analysis|commentary)"
    r"|(?:analysis|commentary)(?=\S|[\s\S]*assistant\s{0,3}(?:analysis|commentary))"
)
PHRASES = (
    # lower-case words, glued to the text or alone on a line: what is left of gpt-oss's channels
    Phrase(
        begins=re.compile(rf"(?:assistant)?{_CHANNEL}"),
        ends=(re.compile(r"assistant\s{0,3}final(?: ?json(?=[\s{\[]))?"),),
        again=re.compile(rf"(?:assistant|^){_CHANNEL}", re.MULTILINE),
        cut_off=True,
    ),
    _phrase(_MY_WORDS, _SOLUTION, _SOLUTION_INLINE, cut_off=True),
    _phrase(_label(_PROCESS, alone=True), _SOLUTION, _SOLUTION_INLINE, cut_off=True),
    _phrase(_label(_PROCESS, alone=False), _SOLUTION, _SOLUTION_INLINE, cut_off=False),
    _phrase(_label("thinking|thoughts?", alone=False), _SOLUTION, cut_off=False),
    _phrase(
        r"Thinking(?:\.\.\.|…)[ \t]*(?=\n)",
        re.compile(r"(?:\.\.\.|…)\s?done thinking\b\.?", re.IGNORECASE),
        cut_off=True,
    ),
    # a reasoning may be the worked solution: only such words behind it tell that it is not
    _phrase(
        r"(?:\*\*)?Here(?:[ ]is|['’]s)[ ]my[ ](?:thinking|reasoning|thoughts?):(?:\*\*)?",
        _MY_SOLUTION_ANYWHERE,
        cut_off=False,
    ),
)

# --- reading marks ---

OPENING, CLOSING, SOLUTION, SOLUTION_END, TURN, UNKNOWN = range(6)
PAIRED = "paired"  # the form of opening marks that are none without a closing mark
QUOTES = "`\"'“”‘’«»„"
Own = tuple[tuple[str, str], ...]  # opening and closing marks that a study adds


class Mark(NamedTuple):
    """A mark in a text, from `start` to `end`.

    `form` is "" or, of a trace, the only form of closing mark that may end it beside those of "";
    of a solution it is the name. A mark that is `sure` is no word of prose or code.
    """

    start: int
    end: int
    side: int
    form: str
    sure: bool


def _groups(forms: dict[str, str], prefix: str) -> list[str]:
    return [f"(?P<{prefix}_{name}>{pattern})" for name, pattern in forms.items()]


_MARK = re.compile(
    "|".join(
        [
            *_groups(_OPENINGS, "opening"),
            *_groups(_NESTED, "nested"),
            *_groups(_CLOSINGS, "closing"),
            *_groups(_CLOSINGS_OF_THEIR_OWN, "own"),
            f"(?P<turn>{_TURNS})",
            f"(?P<brackets>{_BRACKETS})",
            f"(?P<tag>{_TAG})",
        ]
    ),
    _FLAGS,
)
# Where a mark may begin; searching for one character of a few is fast.
_CANDIDATES = r"""[<＜◁⟨‹〈\[`~](?:
    (?<=<)[|｜/\\／\s]{0,9}[^\W\d_]
  | (?<=[＜◁⟨‹〈])[|｜/\\／\s]{0,9}[^\W\d_]
  | (?<=\[)[/\\\s]{0,9}(?:think|end[ _]|begin_|start_)
  | (?<=[`~])(?:``|~~)
)"""
_CANDIDATE = re.compile(_CANDIDATES, _FLAGS)
# Other names in brackets are marks only in a text with a closing mark in brackets.
_CANDIDATE_OF_BRACKETS = re.compile(rf"{_CANDIDATES}|[\[{{][/\\\s]{{0,9}}[a-z]", _FLAGS)
_FIRST_WORDS = re.compile(
    r"[\s#*]*(?:assistant|analysis|commentary|here|think|thought|reasoning|my|\[\{)", re.IGNORECASE
)
# The closing word of gpt-oss's channels where no opening word stands.
_GLUED = re.compile(r"assistantfinal(?: ?json(?=[\s{\[]))?(?=[^\s.,;:!?'\")\]]|\s*\n)")
_SWITCH = re.compile(r"\s*/(?:no_?)?think\s*(?=<)")  # a setting of Qwen's prompts
_ESCAPED = re.compile(
    r"(?:&(?:amp;){0,9}(?:lt|#60|#x3c);|\\{1,9}u003c)"
    r"([^<>&]{1,80}?)"
    r"(?:&(?:amp;){0,9}(?:gt|#62|#x3e);|\\{1,9}u003e)",
    re.IGNORECASE,
)
_WORD_BREAK = re.compile(r"[_▁:.-]+")
_EDGES = {"begin", "start", "end", "of"}
# As whole names these are words of prose and code too.
_PROSE = frozenset(THOUGHTS) - {"think"}


def may_have_marks(text: str, own: Own = ()) -> bool:
    """Test quickly whether a text may have marks: most texts have none."""
    if _CANDIDATE.search(text) or _FIRST_WORDS.match(text):
        return True
    if ("&" in text or "u003" in text) and _ESCAPED.search(text):
        return True
    if "assistantfinal" in text or ("/" in text and ("[/" in text or "{/" in text)):
        return True
    if not own:
        return False
    return any(pattern.search(text) for pattern, _ in _own_patterns(own))


def unescape(text: str, own: Own = ()) -> str:
    """Write marks that were escaped for HTML or JSON as the marks that they were."""

    def unescaped(found: re.Match[str]) -> str:
        tag = f"<{found[1]}>"
        return tag if find_marks(tag, own) else found[0]

    if "&" in text or "u003" in text:
        return _ESCAPED.sub(unescaped, text)
    return text


def find_marks(text: str, own: Own = ()) -> list[Mark]:
    """List the marks of a text by their places, but for those between quotation marks."""
    marks: list[Mark] = []
    has_brackets = "[/" in text or "{/" in text
    candidates = _CANDIDATE_OF_BRACKETS if has_brackets else _CANDIDATE
    end = 0
    for candidate in candidates.finditer(text):
        start = candidate.start()
        if start < end:
            continue
        tag = text[start : text.find(">", start, start + 40) + 1]
        read = _read_common(tag)
        mark: Mark | None
        if read is not None:
            mark = Mark(start, start + len(tag), *read)
        else:
            mark = _read(_MARK.match(text, start))
        if mark is not None:
            escaped = text.startswith("\\", start - 1) and text.startswith("\\", mark.end - 2)
            marks.append(mark._replace(start=start - 1) if escaped and start else mark)
            end = mark.end
    number = len(marks)
    if own:
        marks = _with_own(text, marks, own)
    if _FIRST_WORDS.match(text) or "assistantfinal" in text:
        marks += _read_phrases(text)
    switch = _SWITCH.match(text) if text[:1] == "/" else None
    if switch is not None:
        marks.append(Mark(*switch.span(), TURN, "", True))
    if own or len(marks) != number:
        marks.sort()
    return [mark for mark in marks if not is_quoted(text, mark.start, mark.end)]


def _with_own(text: str, marks: list[Mark], own: Own) -> list[Mark]:
    """Add the marks that a study names; a mark of the table within one of them is none."""
    added = []
    for pattern, side in _own_patterns(own):
        added += [Mark(*found.span(), side, "", True) for found in pattern.finditer(text)]
    places = {place for mark in added for place in range(mark.start, mark.end)}
    return [*(mark for mark in marks if mark.start not in places), *added]


def is_quoted(text: str, start: int, end: int) -> bool:
    """Test whether quotation marks or backticks enclose a part of a text."""
    return start > 0 and text[start - 1] in QUOTES and end < len(text) and text[end] in QUOTES


@lru_cache(maxsize=1024)
def _read_common(tag: str) -> tuple[int, str, bool] | None:
    """Read a tag that means the same wherever it stands; None for other marks and no marks.

    It is remembered, which makes reading of most responses fast.
    """
    found = _MARK.fullmatch(tag)
    if found is None or found.lastgroup != "tag":
        return None
    mark = _read(found)
    return None if mark is None or mark.side == UNKNOWN else mark[2:]


def _read(found: re.Match[str] | None) -> Mark | None:
    """Read a match of `_MARK`; None for no match, and for a tag that marks nothing."""
    if found is None:
        return None
    kind, _, form = str(found.lastgroup).partition("_")
    start, end = found.span()
    if kind == "tag":
        special = found["pipe"] != "" or found[0][0] != "<"
        read = _read_tag(found["name"].lower(), found["slash"] != "", special)
        if read is None:
            return None
        return Mark(start, end, *read)
    if kind == "brackets":
        return _read_brackets(found)
    if kind == "turn":
        return Mark(start, end, TURN, "", True)
    if kind == "opening":
        return Mark(start, end, OPENING, form, True)
    if kind == "nested":
        return Mark(start, end, UNKNOWN, form, True)
    return Mark(start, end, CLOSING, form if kind == "own" else "", True)


def _read_brackets(found: re.Match[str]) -> Mark | None:
    """Read a name between square or curly brackets, which prose and code write too.

    So a word there marks a trace only with its closing mark, and a solution only behind a trace;
    a name of more words, as in "[BEGIN_OF_THOUGHT]", is sure.
    """
    start, end = found.span()
    name = (found["square"] or found["curly"]).lower()
    slash = bool(found["closes"] or found["ends"])
    read = _read_tag(name, slash, False)
    if read is None:
        return None
    side, form, _ = read
    is_named = not _EDGES.isdisjoint(_WORD_BREAK.split(name))
    is_known = is_named or (name in ("think", "thinking") and found["square"] is not None)
    if found["curly"] and side in (SOLUTION, SOLUTION_END):
        return None
    if side == OPENING and not is_known:
        is_index = found.string[start - 1 : start].isalnum()
        return None if is_index else Mark(start, end, OPENING, PAIRED, True)
    return Mark(start, end, side, form, is_known or side == CLOSING)


@lru_cache(maxsize=4096)
def _read_tag(name: str, slash: bool, special: bool) -> tuple[int, str, bool] | None:
    """Read the name of a tag: its side, form, and whether it is sure.

    A tag is `special` when no language of code or text has its brackets.
    """
    words = _WORD_BREAK.split(name)
    closes = slash or "end" in (words[0], words[-1])
    named = [word for word in words if word not in _EDGES]
    known_by_form = special or len(named) < len(words)
    joined = "_".join(named)
    if joined in SOLUTIONS:
        sure = known_by_form or joined == "answer"
        return SOLUTION_END if closes else SOLUTION, joined, sure
    if any(word in THOUGHTS or word.endswith(("think", "thinking")) for word in (*named, joined)):
        sure = known_by_form or len(named) > 1 or joined not in _PROSE
        return CLOSING if closes else OPENING, "", sure
    if special and len(joined) > 2 and name.isascii():
        return UNKNOWN, "", True
    return None


@lru_cache(maxsize=64)
def _own_patterns(own: Own) -> list[tuple[re.Pattern[str], int]]:
    """Compile the marks that a study adds; of tags, blanks and attributes do not matter."""
    patterns = []
    for pair in own:
        for mark, side in zip(pair, (OPENING, CLOSING), strict=True):
            tag = re.fullmatch(r"<(/?)([\w:.-]+)>", mark)
            if tag is None:
                expression = re.escape(mark)
            else:
                slash = r"\\{0,9}/\s{0,9}" if tag[1] else ""
                name = re.escape(tag[2])
                expression = rf"<\s{{0,9}}{slash}{name}(?:\s[^<>]{{0,200}})?\\?>"
            patterns.append((re.compile(expression, re.IGNORECASE), side))
    return patterns


def _read_phrases(text: str) -> list[Mark]:
    """List the phrases of traces in a text that begins with one, and where these traces end."""
    marks: list[Mark] = []
    first = len(text) - len(text.lstrip())
    for number, phrase in enumerate(PHRASES):
        form = f"phrase {number}"
        begins = phrase.begins.match(text, first)
        while begins is not None:
            found = (end.search(text, begins.end()) for end in phrase.ends)
            ends = next(filter(None, found), None)
            if ends is None and not phrase.cut_off:
                break
            sure = bool(marks) or _CHANNEL_SURELY.match(text, first) is not None
            marks.append(Mark(*begins.span(), OPENING, form, sure or ends is not None))
            if ends is None:
                break
            marks.append(Mark(*ends.span(), CLOSING, form, True))
            begins = phrase.again.search(text, ends.end())
        if marks:
            return marks
    return [Mark(*found.span(), CLOSING, "", False) for found in _GLUED.finditer(text)]
