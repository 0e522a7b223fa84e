"""The form of a training source: its files, and how a row becomes one or several documents."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.sql import takes_elements
from dreamer_study.pipeline.sources.entries import (
    CONFIG,
    Column,
    ColumnList,
    Flag,
    Name,
    Patterns,
    Repository,
    Revision,
    Rule,
    Texts,
)
from dreamer_study.pipeline.sources.files.text_files import LONGEST

Trace = Literal["none", "paired", "thought", "closing", "unmarked", "kept"]


def _pairs(value: Any) -> Any:
    """Write one pair of marks as a list of pairs."""
    is_pair = isinstance(value, (list, tuple)) and all(isinstance(mark, str) for mark in value)
    return [value] if is_pair and value else value


def _checked_marks(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    for opening, closing in pairs:
        if not opening.strip() or not closing.strip():
            raise InputError(f"of the marks {opening!r} and {closing!r} one is blank")
        if opening.lower() == closing.lower():
            raise InputError(f"{opening!r} cannot be both the opening and the closing mark")
    return pairs


Marks = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(_pairs, json_schema_input_type=tuple[str, str] | tuple[tuple[str, str], ...]),
    AfterValidator(_checked_marks),
    Rule("a pair of texts, such as ['<plan>', '</plan>'], or a list of such pairs"),
]


@dataclass(frozen=True, config=CONFIG)
class Source:
    """One data set and how its rows become documents.

    Every field can be written in a study's YAML file:

        - name: svamp
          repository: svamp/svamp
          question: "concat(Body, ' ', Question)"
          response: Answer
        - {name: mine, files: data/*.jsonl, question: q, response: r}
        - {name: openstax, repository: openstax/algebra, split: validation, text: text}
        # an entry of the table with one field changed
        - {name: gsm8k, remove_response: ["<<[^<>]*>>"]}

    The data are a `repository`, or `files`: paths and patterns relative to the study file, and
    beside a repository within it. They are Parquet, Arrow, JSON, CSV with any `delimiter` (without
    one the first line decides), and text with one document a file (its column is `text`). `escape`
    is the sign before a quote inside a quoted text of CSV, where such a quote is not doubled;
    `field` the name of the list that holds the rows of a JSON file of one object.

    Columns are SQL expressions (`pipeline/sources/columns/sql.py`). Give `text` (a document without
    a question), or `question` with `response`, or with `responses` (several columns, each a
    document of its own). A response with "unnest(...)" gives a document for every element of a
    list;
    `keep_if` are conditions, of the flags beside that list, which must all be true for an element
    to be kept.

    `where` are conditions of the rows that are kept. `remove_question` and `remove_response` are
    regular expressions of what is cut out; what a group `(?P<kept>...)` matches stays. `longest` is
    the most bytes of a row. `revision` pins a commit and becomes part of every document's id.
    `trace` says how reasoning is marked: marks are found whatever it says, but with "closing" a
    response without a mark is dropped as cut off, and with "paired" or "thought" one of more than
    `longest_unmarked` characters as a trace whose marks are lost; with "kept" nothing is stripped
    or dropped, to measure what stripping is worth. `trace_marks` are opening and closing marks
    that the table of marks lacks, as ["<plan>", "</plan>"]; upper and lower case are alike, and
    what such marks enclose is removed. `limit` reads that many rows.
    `weight` mixes sources: 2 packs every curated document twice, 0.5 half of the documents, chosen
    at random.
    """

    name: Name
    """Name of the source, part of every document's id; a name of the table changes that entry."""
    repository: Repository = ""
    """Data set on the hub: owner/name."""
    files: Texts = ()
    """Paths or patterns of files, relative to the study file, or within the repository."""
    delimiter: Annotated[str, Field(max_length=1), Rule("one character")] = ""
    """Character between the columns of a CSV file; without one the first line decides."""
    escape: Annotated[str, Field(max_length=1), Rule("one character")] = ""
    """Character before a quote inside a quoted text of a CSV file, where quotes are not doubled."""
    field: str = ""
    """Name of the list that holds the rows, in a JSON file of one object."""
    longest: Annotated[int, Field(strict=True, ge=1), Rule("a number of bytes above 0")] = LONGEST
    """Most bytes of a row."""
    question: Column = ""
    """Column of the question, or an SQL expression."""
    response: Column = ""
    """Column of the response, or an SQL expression; unnest(...) makes a document of each element.
    """
    responses: ColumnList = ()
    """Several columns of responses, each of which makes a document."""
    text: Column = ""
    """Column of a document without a question, or an SQL expression."""
    answer: Column = ""
    """Column of the short final answer, or an SQL expression."""
    configurations: Annotated[Texts, Field(min_length=1)] = ("default",)
    """Configurations of the data set."""
    split: str = "train"
    """Split of the data set."""
    revision: Revision = None
    """Commit of the repository, part of every document's id."""
    where: Annotated[
        ColumnList, Rule("SQL, such as source like 'data/CoT/%', or a list of these")
    ] = ()
    """Conditions in SQL of the rows that are kept."""
    keep_if: ColumnList = ()
    """Conditions in SQL of the elements that are kept, where a response has unnest(...)."""
    remove_question: Patterns = ()
    """Regular expressions of what is cut out of questions; a group (?P<kept>...) stays."""
    remove_response: Patterns = ()
    """Regular expressions of what is cut out of responses; a group (?P<kept>...) stays."""
    trace: Trace = "none"
    """How reasoning is marked. Marks are always found; `closing` drops a response without a mark as
    cut off, `paired` and `thought` drop a long one; `kept` strips nothing.
    """
    trace_marks: Marks = ()
    """Opening and closing marks of reasoning that the built-in table lacks."""
    longest_unmarked: Annotated[
        int, Field(strict=True, ge=1), Rule("a number of characters above 0")
    ] = 20_000
    """Characters from which a response without marks is dropped, with `paired` or `thought`."""
    use: Literal["train", "validation"] = "train"
    """Whether the text trains, or is validation text that never trains."""
    licence: str = "not stated"
    """Licence of the data, which reports and published folders show."""
    non_commercial: Flag = False
    """The licence forbids commercial use."""
    gated: Flag = False
    """The hub asks for consent before it gives the data."""
    limit: Annotated[
        int | None, Field(strict=True, ge=1), Rule("a whole number of rows above 0")
    ] = None
    """Rows that are read; null: all."""
    weight: Annotated[
        float, Field(strict=True, gt=0, le=100), Rule("a number above 0, at most 100")
    ] = 1.0
    """How often each curated document is packed: 2 is twice, 0.5 half of the documents at random.
    """

    @model_validator(mode="after")
    def _fields_agree(self) -> Source:
        given = [key for key in ("text", "response", "responses") if getattr(self, key)]
        if len(given) != 1 or bool(self.question) == bool(self.text):
            raise InputError(
                f"give either text, or question with one of response and responses; it has {given}"
            )
        if self.keep_if and not takes_elements(self.response):
            raise InputError("keep_if needs a response of elements, such as unnest(generations)")
        one_a_row = (self.question, self.answer, self.text, *self.responses, *self.where)
        if any(map(takes_elements, one_a_row)):
            raise InputError("unnest gives several texts a row: it is for response and keep_if")
        if not self.files and not self.repository:
            raise InputError("give repository or files")
        return self

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are read."""
        return (self.split,)

    @property
    def prefix(self) -> str:
        """The beginning of every document's id: the name, and a pinned revision."""
        return f"{self.name}@{self.revision[:8]}" if self.revision else self.name


def notices(source: Source) -> list[str]:
    """Return what a person should know before the source is used; mostly nothing."""
    lines = []
    if source.non_commercial:
        lines.append(f"{source.name}: {source.licence}, for non-commercial use only")
    if source.gated:
        lines.append(f"{source.name}: gated; accept {source.licence} on the hub and set HF_TOKEN")
    if source.trace == "unmarked":
        lines.append(
            f"{source.name}: its responses are reasoning that no mark tells apart, so the reasoning"
            " trains too"
        )
    if source.licence == "not stated":
        lines.append(f"{source.name}: states no licence")
    return lines
