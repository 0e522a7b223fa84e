r"""Tell what stands before or behind a question and only frames it: a label, a mark, a courtesy.

A frame says nothing of the problem: it numbers it, names where it is from, what it counts, who
speaks, or asks for help. It is known by what it lacks: figures and mathematics that are no label's,
and more than a few words of its own. So "(5 points)", "3)", "[2019 AMC 10]", "### Question" and
"Hi! Can you help me with this?" are frames, "If x = 3," and "In a right triangle," are none.

>>> [is_frame(text) for text in ("(5 points) ", "Exercise 4 - ", "[2019 AMC 10] ", "Given this, ")]
[True, True, True, True]
>>> [is_frame(text) for text in ("If x = 3, ", "In a right triangle, ", "There are 5 pens. ")]
[False, False, False]
>>> without_frame("3) Hi! Can you help me with this? Find 3 + 4. (2 points)")
'Find 3 + 4.'
"""

from __future__ import annotations

import re

# Words that problems, prompts and people set around any question.
_GENERIC_WORDS = """
a about above advance again ai all also am an and answer answers any anyone anything appreciate
appreciated appropriately are as asap ask asked asks assignment assistant at attempt below bot
brief btw can carefully challenge challenging check class clearly come complete completes compute
confused consider correct correctly could day dear describes detail details difficulty do does
don't each easy everyone ex exam example exercise exercises explain explanation fast favor favour
figure final find follow following follows for friend from fun get give given gives go good got
grade great guys had hard have he hello help here here's hey hi homework hope how human i i'd i'll
i'm i've idea ideas if in input instruction instructions interesting is issue it it's item just
kindly know known last let's level like little look looking math mathematics maths may me medium
mind model moment more my name need needs new next nice no not now of off ok okay on one ones or
our out part pencil please pls point points practice problem problems prompt provide puzzle
puzzled q query question questions quick quickly quiz read ready really reason reasoning request
response riddle said says section see set share she should show simple so solution solve solved
solves solving some someone something sorry step steps stuck student sure system task tasks
teacher tell test text thank thanks that the their them then there there's these they thing think
this those thought thoughts title to today together told topic tough trouble try trying turn two
type understand urgent urgently us use user very want wanted was we welcome well were what what's
which will wise with without wonder wondering word work working worksheet would write yes yet you
your
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_LABEL_WORDS = (
    "problem|prob|exercise|ex|example|question|q|task|item|no|nr|number|part|section|chapter|page"
    "|level|step|day|week|year|grade|set|test|quiz|exam|round|lesson|unit|p|puzzle|riddle|case"
    "|assignment|homework|hw|worksheet|challenge|id|version|turn"
)
_WORTH = r"(?:points?|pts?|marks?|credits?|minutes?|mins?|stars?|%|p)"
_FIGURE = r"\d{1,4}(?:[./-]\d{1,4}){0,3}[a-z]?"
# A role or a field of a chat or a prompt: `<|user|>`, `[INST]`, `### Instruction`, `{{question}}`.
_ROLE = re.compile(
    r"<\|?/?[\w ./-]{1,30}\|?>|\[/?[A-Z]{3,12}\]|<<?/?[A-Z]{2,6}>>?|\{\{?[\w ]{1,20}\}\}?", re.ASCII
)
# A label in brackets of any kind.
_BRACKETS = re.compile(
    r"\(([^()\n]{1,60})\)|\[([^\[\]\n]{1,60})\]|【([^【】\n]{1,60})】|「([^」\n]{1,60})」"
    r"|\{([^{}\n]{1,60})\}"
)
_BRACKETS_SAY_NOTHING = re.compile(
    rf"\W*(?:(?:(?:{_LABEL_WORDS})\W*)?#?{_FIGURE}\W*{_WORTH}?|[a-zA-Z]|[ivxIVX]{{1,5}})\W*"
)
# A number, a letter or a numeral at the beginning of a line, as "3)", "1.1", "(a)", "IV.".
_NUMBERING = re.compile(
    rf"^[^\w\n]*(?:{_FIGURE}(?=$|[\s.):\]-])|(?:[a-hA-HQPSqp]|[ivx]{{1,5}}"
    rf"|[IVX]{{1,5}})(?=\s*[.):\]-]))",
    re.MULTILINE,
)
# A figure beside a word that numbers, counts or dates: "Problem 3.2", "Q12", "5 points".
_LABELLED = re.compile(
    rf"\b(?:{_LABEL_WORDS})\b\.?\s*(?:#|no\.?|number|№|:)?\s*\(?(?:{_FIGURE}|[a-hA-H]"
    rf"|[ivxIVX]{{1,5}})\b\)?"
    rf"|\b(?:q|p|ex|problem|question)\d{{1,4}}\b|[#№]\s*\d{{1,5}}[a-z]?\b"
    rf"|\b\d{{1,3}}\s*{_WORTH}(?![a-z])"
    rf"|\b{_WORTH}\s*[:=]\s*\d{{1,3}}\b",
    re.IGNORECASE,
)
# A contest: its name, its year, the number of the problem.
_KNOWN_CONTEST = (
    r"AMC|AHSME|AIME|AJHSME|IMO|USAMO|USAJMO|HMMT|BMO|APMO|CEMC|SMT|CMIMC|BMT|PUMaC|ARML|TST|EGMO"
    r"|JBMO"
    r"|Putnam|Olympiad|Mathcounts|MATHCOUNTS|Shortlist|(?:19|20)\d\d"
)
_CONTEST = re.compile(
    rf"(?:\b[A-Z][\w.]*\s+){{0,3}}\b(?:{_KNOWN_CONTEST})\b(?:[\s,/:'#.-]*(?:\d{{1,4}}[A-Z]?"
    rf"|[IVX]{{1,4}}|[AB]\d?"
    rf"|{_KNOWN_CONTEST}|[A-Z][a-z]+|[A-Z]\d+|Problems?|[Qq]uestion)\b)*"
)
_BOLD = re.compile(r"\*{2,}|(?<!\S)[-#]+(?!\S)")
# What begins a line of a list, a quotation or a heading; the sign of the arrow is a command.
_LINE_MARK = re.compile(r"\*{2,}|\\to |^[\s>#*+-]+", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+(?:['’][a-z]+)?")
# Figures, and what only mathematics has; a hyphen or a dash between words is none.
_MATHEMATICS = re.compile(r"[\d=+^\\<>%|$/√∑∫≤≥]|(?<=\S)\*(?=\S)")
_LONE_LETTER = re.compile(r"(?<![\w'’])(?![aAIqQ](?![\w]))[^\W\d_](?![\w])", re.ASCII)
# A word that no label holds: neither "no. a" of "exercise noa", nor what a bracket may hold.
_PLAIN_WORD = re.compile(r"(?<![\w'’.])(?!no|number)[a-z]{3,}(?![\w'’])")
_OPENS_BRACKET = re.compile(r"[(\[{<【「]")
_ROMAN = frozenset("ivx")
_WORTH_WORDS = """
credit credits mark marks min mins minute minutes point points pt pts star stars
"""
_OF_LABELS = frozenset([*_LABEL_WORDS.split("|"), *_WORTH_WORDS.split()])
_LONGEST = 320  # characters
_MOST_WORDS = 32
_NEARLY_ALONE = 2  # words
# What parts a frame from the question by more than a blank or a comma.
_CLOSES = re.compile(r"(?:[.?!:;)\]>\n]|\s[-*]+|[-*]{2,})\W*$")
_OPENS = re.compile(r"\W*?(?:[.?!:;(\[<\n]|[-*]+\s)")
_FACTOR = re.compile(r"[\s$})\]*`|~]*[(\[][\s\d./a-z]{1,6}[)\]]")
# Typesetting of the question itself, before its first word and behind its last one.
_OPENING = re.compile(r"(?:\$|\\[(\[]|\\[a-zA-Z]+\*?|[{(\[*_`|~\s-])+$")
_CLOSING = re.compile(r"^(?:\$|\\[)\]]|[})\]*_`|~.?!,;:\s])+")


def frames(before: str, behind: str, own_words: int) -> bool:
    """Test whether the texts before and behind a question only frame it, together.

    `own_words` is how many words beyond the usual ones each may have.
    """
    opening = _OPENING.search(before)
    start = before[: opening.start()] if opening and "\\" in opening[0] else before
    own_before = own_words if _CLOSES.search(start) else 0
    own_behind = own_words if _OPENS.match(behind) else 0
    rest = _CLOSING.sub("", behind)
    # "Find 3 + 7 (5)" asks for a product.
    if _FACTOR.match(behind):
        return False
    return is_frame(start, own_before) and is_frame(rest, own_behind, begins_line=False)


def is_frame(text: str, own_words: int = 0, *, begins_line: bool = True) -> bool:
    """Test whether a text beside a question only frames it.

    `own_words` is how many words beyond the usual ones it may have, where it is parted from the
    question by more than a comma; one such word stands nearly alone, as "Geometry." A number labels
    where a line begins.
    """
    if len(text) > _LONGEST or _says_more(text, own_words):
        return False
    plain = _without_labels(text, begins_line)
    if _MATHEMATICS.search(plain) or _LONE_LETTER.search(plain):
        return False
    words = [word.lower().replace("’", "'") for word in _WORD.findall(plain)]
    own = sum(word not in _GENERIC for word in words)
    if own_words == 1 and len(words) > _NEARLY_ALONE:
        own_words = 0
    return len(words) <= _MOST_WORDS and own <= own_words


def _says_more(text: str, own_words: int) -> bool:
    """Test, fast, whether a text has too many words of its own before its first bracket."""
    bracket = _OPENS_BRACKET.search(text)
    words = _PLAIN_WORD.findall(text, 0, bracket.start() if bracket else len(text))
    own = [word for word in words if word not in _GENERIC and word not in _OF_LABELS]
    return sum(not _ROMAN.issuperset(word) for word in own) > own_words


def _without_labels(text: str, begins_line: bool) -> str:
    """Leave out what only labels: roles, brackets, numbers of problems, contests."""
    first, line_break, others = ("", "", text) if begins_line else text.partition("\n")
    # twice, as in "1. (a)" or "3) a)"
    lines = _NUMBERING.sub(" ", _NUMBERING.sub(" ", _LINE_MARK.sub(" ", _ROLE.sub(" ", others))))
    plain = _BRACKETS.sub(_what_brackets_say, f"{_ROLE.sub(' ', first)}{line_break}{lines}")
    return _CONTEST.sub(" ", _LABELLED.sub(" ", _BOLD.sub(" ", plain)))


def _what_brackets_say(brackets: re.Match[str]) -> str:
    inside = next(group for group in brackets.groups() if group is not None)
    if _BRACKETS_SAY_NOTHING.fullmatch(inside):
        return " "
    rest = _CONTEST.sub(" ", _LABELLED.sub(" ", inside))
    says_nothing = not _MATHEMATICS.search(rest) and not _LONE_LETTER.search(rest)
    return " " if says_nothing and len(rest.split()) <= 6 and not _ASSUMES.search(rest) else inside


# Brackets that say more than where a problem is from.
_ASSUMES = re.compile(
    r"\b(?:assume|suppose|where|let|if|not|in|with|without|has|have|is|are|given|use|using|round"
    r"|only|per"
    r"|not|each|and|or|to|by)\b",
    re.IGNORECASE,
)


def without_frame(question: str) -> str:
    """Remove what only frames a question, from its beginning and its end; its middle stays."""
    return _without_last(_without_first(question))


def _without_first(question: str) -> str:
    """Remove the sentences, lines and labels before a question that only frame it."""
    start = 0
    for end in _BREAK.finditer(question):
        if end.end() > _LONGEST or not question[end.end() :].strip():
            break
        before = question[start : end.end()]
        if _says_more(before, 0):
            break  # and so do all that are longer
        if is_frame(before):
            start = end.end()
        elif end.group().strip() not in ("-", ",") and not end.group().isspace():
            break
    return question[start:]


def _without_last(question: str) -> str:
    """Remove the sentences, lines and brackets behind a question that only frame it."""
    stop = len(question)
    for end in reversed(list(_STOP.finditer(question))):
        if stop - end.end() > _LONGEST or not question[: end.end()].strip():
            break
        last = question[end.end() : stop]
        if last.strip() and not is_frame(last, begins_line=False):
            break
        stop = end.end()
    return question[:stop].rstrip()


# What a framed question begins or ends with, nearly always.
_FIRST_WORDS = (
    "hi|hey|hello|dear|please|pls|here|given|can|could|i'?m?|my|our|questions?|problem|exercise"
    "|example|task|user|human|solve|let'?s|quick|maths?|part|level|step|input|prompt"
    "|instructions?|below|answer|consider|good|try|this|another|what is the answer"
)
_LAST_WORDS = (
    "points?|marks?|thanks|you|help|me|advance|solution|answer|response|assistant|work|ideas|this"
)
MAY_FRAME = (
    r"(?i)^\W*(?:\d{1,3}(?:\.\d+)*\W|[a-hivx]{1,4}[.)]|\w{1,12}\W*:"
    rf"|(?:{_FIRST_WORDS})\b)|^\s*[^\w\s]|[^\w\s.?$}}]\s*$|(?:{_LAST_WORDS})\W*$"
)
# Where a frame before a question may end, and where one behind may begin.
_BREAK = re.compile(r"[)\]>】」]\s*|[.?!:,;]\s+|\s[-–—]+\s|\n+|(?<=[^\w\s$\\(\[{])\s")
_STOP = re.compile(r"(?<=[.?!:;$)\]}])\s+(?=\S)|\n+|(?<=[.?!])(?=<)")
