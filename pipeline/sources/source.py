"""The form of a training source: its files, and how a row becomes one or several documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.sources.columns.expressions import as_text, parse
from pipeline.sources.entries import CONFIG, ColumnList, Columns, Flag, Name, Patterns, Repository, Revision, Texts

Trace = Literal["none", "paired", "thought", "closing", "unmarked"]


def _wanted_values(where: Any) -> Any:
    """Turn the values of `where` into texts, as rows are compared: true becomes "true", 1.0 becomes "1"."""
    if not isinstance(where, Mapping):
        return where
    return {
        str(column): tuple(as_text(value) or "" for value in wanted)
        if isinstance(wanted, list | tuple)
        else as_text(wanted) or ""
        for column, wanted in where.items()
    }


@dataclass(frozen=True, config=CONFIG)
class Source:
    """One data set and how its rows become documents. Every field can be written in a study's YAML file:

        - {name: svamp, repository: svamp/svamp, question: "{Body} {Question}", response: Answer, answer: Answer}
        - {name: openstax, repository: openstax/algebra, split: validation, text: text}
        - {name: gsm8k, remove_response: ["<<[^<>]*>>"]}      # an entry of the table with one field changed

    Columns are expressions of `pipeline.sources.columns.expressions`. Give `text` (a document without a question), or
    `question` with `response`, or with `responses` (several columns, each a document of its own). A response with
    "[*]" gives a document for every element of a list; `keep_if` names lists of flags beside that list, which must all
    be true for an element to be kept ("a | b": either).

    `where` keeps the rows whose column has one of the values, as text; `*` matches anything. `remove_question` and
    `remove_response` are regular expressions of what is cut out; a first group `(?P<kept>...)` stays. `revision` pins a
    commit and becomes part of every document's id. `trace` says how reasoning is marked: marks are found whatever it
    says, but with "closing" a response without a mark is dropped as cut off. `limit` reads that many rows. `weight`
    mixes sources: 2 packs every curated document twice, 0.5 half of the documents, chosen at random.
    """

    name: Name
    repository: Repository
    question: Columns = ""
    response: Columns = ""
    responses: ColumnList = ()
    text: Columns = ""
    answer: Columns = ""
    configurations: Annotated[Texts, Field(min_length=1)] = ("default",)
    split: str = "train"
    revision: Revision = None
    where: Annotated[
        Mapping[str, str | tuple[str, ...]],
        BeforeValidator(_wanted_values),
        Field(description="a mapping of columns to values"),
    ] = field(default_factory=dict)
    keep_if: ColumnList = ()
    remove_question: Patterns = ()
    remove_response: Patterns = ()
    trace: Trace = "none"
    use: Literal["train", "validation"] = "train"
    licence: str = "not stated"
    non_commercial: Flag = False
    gated: Flag = False
    limit: Annotated[int | None, Field(strict=True, ge=1, description="a whole number of rows above 0")] = None

    weight: Annotated[float, Field(strict=True, gt=0, le=100, description="a number above 0, at most 100")] = 1.0

    @model_validator(mode="after")
    def _fields_agree(self) -> Source:
        given = [key for key in ("text", "response", "responses") if getattr(self, key)]
        if len(given) != 1 or bool(self.question) == bool(self.text):
            raise InputError(f"give either text, or question with one of response and responses; it has {given}")
        for column in self.where:
            parse(column)
        if self.keep_if and "[*]" not in str(self.response):
            raise InputError("keep_if needs a response with [*], such as generations[*]")
        return self

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are read."""
        return (self.split,)

    @property
    def prefix(self) -> str:
        """The beginning of every document's id: the name, and the pinned revision if there is one."""
        return f"{self.name}@{self.revision[:8]}" if self.revision else self.name


def notices(source: Source) -> list[str]:
    """Return what a person should know before the source is used: licence, reasoning that stays; mostly nothing."""
    found = []
    if source.non_commercial:
        found.append(f"{source.name}: {source.licence}, for non-commercial use only")
    if source.gated:
        found.append(f"{source.name}: gated; accept {source.licence} on the hub and set HF_TOKEN")
    if source.trace == "unmarked":
        found.append(
            f"{source.name}: its responses are reasoning that no mark tells apart, so the reasoning trains too"
        )
    if source.licence == "not stated":
        found.append(f"{source.name}: states no licence")
    return found
