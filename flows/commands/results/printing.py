"""Print paragraphs and tables of the report's page, and the answer at the end of a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pandas as pd
from rich.text import Text

from dreamer_study.flows.commands.tables import (
    LONGEST_WORD,
    coloured,
    console,
    empty_table,
    fold_at_words,
    print_table,
    printable,
)
from dreamer_study.flows.progress.colour import WARNING
from dreamer_study.flows.progress.folding import WIDEST, fold, width_of
from dreamer_study.reports.page.answer import Answer, read_answer
from dreamer_study.reports.tables.cells import Cell, Table
from dreamer_study.reports.text.answer import RANKED_FROM
from dreamer_study.reports.text.names import owner, shortest_of_kinds
from dreamer_study.reports.text.numbers import counted, three_digits
from dreamer_study.reports.text.ratios import (
    LEAST,
    MOST,
    Row,
    finding_in_short,
    leading,
    ratio_or_bound,
    read_for,
    scores,
)
from dreamer_study.sql.results import ask

DASH = "-"
NAMES = ("variant", "task")  # columns of names
LEFT = ("variant", "task", "metric", "finding", "near_chance")  # columns of texts
MOST_ROWS = 16  # of a table: more rows do not fit a terminal beside the answer
CUT_WORD = 28  # columns to which a word of a table is cut that is longer than LONGEST_WORD
NARROW = 96  # columns: a terminal with fewer, where the words of a table are cut further
CUT_WORD_NARROW = 16
WARNING_MARK = "! "
MARKS = {"strong": "bold", "best": "bold", "second": "underline"}  # of the kinds of cells


def with_short_names(rows: pd.DataFrame) -> pd.DataFrame:
    """Shorten names of variants and tasks, where a terminal has no room for them."""
    width = width_of(sys.stdout)
    if width is None:
        return rows
    named = [name for name in NAMES if name in rows]
    short = shortest_of_kinds(([str(cell) for cell in rows[name]] for name in named), width // 3)
    return rows.assign(**{name: rows[name].map(short) for name in named})


@dataclass(frozen=True)
class PrintedAnswer:
    """What is printed of a study's answer: its sentences and warnings, and its ratios."""

    said: Answer
    ratios: pd.DataFrame


def read_printed(database: Path, study_id: str, said: Answer | None = None) -> PrintedAnswer:
    """Read what `print_answer` prints; `said` is the answer where a report has read it already."""
    ratios = ask(database, "outcome_ratios", study=study_id)
    return PrintedAnswer(said or read_answer(database, study_id), ratios)


def print_answer(printed: PrintedAnswer, baseline: str, *, every_row: str) -> None:
    """Print the sentences of a study's answer, its warnings, and the table of ratios.

    `every_row` says how to see the rows that are too many for a terminal.
    """
    answer = printed.said
    ratios = printed.ratios
    print_part("")
    for sentence in answer.sentences:
        print_part(sentence)
    for block in answer.ranked:
        print_part(block.content)
    for sentence in answer.second:
        print_part(sentence)
    if answer.warnings:
        print_part("\n".join(f"! {warning}" for warning in answer.warnings))
    if ratios["outdated"].any():
        print_part(
            "Results changed after the ratios were computed: `dreamer intervals` computes them"
            " again."
        )
    current = ratios[~ratios["outdated"]]
    is_ranked = current.index.isin(_ranked(current).index)
    shown = fitting(current[current["is_printed"] & ~is_ranked])
    _print_rows(ratio_table(shown, baseline))
    further = len(current) - len(shown) - is_ranked.sum()
    if further:
        console.print(f"{counted(further, 'further ratio')}: {every_row}")


def _ranked(ratios: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that the answer ranks in tables: those of depths with many variants."""
    rows = leading(ratios)
    variants = rows.groupby("depth", dropna=False)["variant"].transform("size")
    return rows[variants >= RANKED_FROM]


def fitting(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep few rows, and of many rows those of averages and held-out losses, if these are few."""
    if len(rows) <= MOST_ROWS:
        return rows
    chosen = read_for(rows)
    return chosen if len(chosen) <= MOST_ROWS else rows[:0]


def ratio_table(ratios: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Tabulate ratios for a terminal: three digits, bounds with their signs, findings in words.

    Where the terminal is narrow the first columns are shown.
    """
    rows = with_short_names(ratios).to_dict("records")
    return pd.DataFrame([_cells(row, baseline) for row in rows])


def _cells(row: Row, baseline: str) -> dict[str, object]:
    is_bound = pd.isna(row["ratio"])
    ends = [DASH if is_bound else _digits(row[name]) for name in ("low", "high")]
    to_the_best = DASH
    if row["reached"] and not row["in_advance"]:
        to_the_best = three_digits(row["at_least"])
    elif pd.notna(row["reached"]) and not row["in_advance"] and pd.notna(row["at_least"]):
        to_the_best = f"{LEAST}{three_digits(row['at_least'])}"
    return {
        "depth": row["depth"],
        "variant": row["variant"],
        "task": row["task"],
        "metric": row["metric"],
        "ratio": _ratio(row),
        "95 % low": ends[0],
        "high": ends[1],
        "finding": finding_in_short(row),
        "scores": scores(row) or DASH,
        f"to {owner(baseline)}'s best": to_the_best,
        "seeds": row["seeds"],
        "detectable": _digits(row["detectable"]),
        "factor": _digits(row["factor"]),
    }


def _ratio(row: Row) -> str:
    """Format a ratio, or the bound that stands for one."""
    sign, value = ratio_or_bound(row)
    return f"{sign}{_digits(value)}"


def _digits(value: float) -> str:
    return DASH if pd.isna(value) else three_digits(value)


def print_targets(targets: pd.DataFrame, baseline: str, unit: str) -> int:
    """Print the tokens, or steps, of each model to the scores that were fixed in advance.

    Returns how many rows are too many for a terminal.
    """
    shown = fitting(targets)
    rows = [
        {
            "depth": row["depth"],
            "variant": row["variant"],
            "task": row["task"],
            "metric": row["metric"],
            "score": _digits(row["score"]),
            f"{owner(baseline)}'s {unit}": row["baseline_tokens"],
            f"its {unit}": row["variant_tokens"],
            "ratio": _ratio(row),
        }
        for row in with_short_names(shown).to_dict("records")
    ]
    _print_titled(f"{unit.capitalize()} to the scores fixed in advance.", rows)
    return len(targets) - len(shown)


def print_crossings(crossings: pd.DataFrame, baseline: str, unit: str) -> int:
    """Print the tokens, or steps, of each model to the baseline's best.

    Returns how many rows are too many for a terminal.
    """
    signs = {"at least": LEAST, "at most": MOST}
    shown = fitting(crossings)
    rows = [
        {
            "depth": row["depth"],
            "variant": row["variant"],
            "task": row["task"],
            "metric": row["metric"],
            f"{owner(baseline)}'s best": _digits(row["best"]),
            f"{owner(baseline)}'s {unit}": row["baseline_tokens"],
            f"its {unit}": row["variant_tokens"],
            "ratio": signs.get(row["bound"], "") + _digits(row["ratio"]),
            "near_chance": row["near_chance"],
        }
        for row in with_short_names(shown).to_dict("records")
    ]
    title = (
        f"{unit.capitalize()} to {owner(baseline)}'s best at a checkpoint, the paper's rule (its"
        " factor is 1 over the ratio)."
    )
    if "at least" in set(shown["bound"]):
        title += " ≥: a lower bound, as the model never reached it."
    if "at most" in set(shown["bound"]):
        title += " ≤: an upper bound, as its first checkpoint has it."
    _print_titled(title, rows)
    return len(crossings) - len(shown)


def _print_titled(title: str, rows: list[dict[str, object]]) -> None:
    if rows:
        _print_text(title)
        _print_rows(pd.DataFrame(rows))
        console.print()


def _print_rows(table: pd.DataFrame) -> None:
    """Print rows, texts to the left and numbers to the right, without empty columns."""
    if len(table):
        table = table.loc[:, ~(table.isna() | table.eq(DASH)).all()]
        print_table(table, right=[name for name in table if name not in LEFT])


def print_part(part: str | Table) -> None:
    """Print a paragraph or a table."""
    if isinstance(part, Table):
        _print_captioned(part)
    else:
        _print_text(part)


def _print_text(text: str) -> None:
    """Print lines of text, folded where they are too wide to be read well, and an empty line.

    Further lines of a list's point are indented.
    """
    for line in printable(text).split("\n"):
        is_warning = line.startswith(WARNING_MARK)
        is_point = is_warning or line.startswith("- ")
        shown = Text(fold(line, _width(), "  " if is_point else ""))
        if is_warning:
            shown.stylize(WARNING, 0, len(WARNING_MARK))
        console.print(shown)
    console.print()


def _print_captioned(table: Table) -> None:
    """Print a table with its caption above and its notes below; very long words are shortened."""
    _print_text(table.caption)
    heads = _heads(table)
    cells = [[_in_words(cell) for cell in row.cells] for row in table.rows]
    texts = [[head.text for head in heads], *cells]
    most = CUT_WORD if _width() >= NARROW else CUT_WORD_NARROW
    by_kind = [texts[0], *zip(*cells, strict=True)]  # heads and columns have names of a kind
    short = shortest_of_kinds(map(_long_words, by_kind), most)

    def shortened(text: str) -> str:
        return re.sub(r"\S+", lambda word: short.get(word[0], word[0]), text)

    texts = [[shortened(text) for text in row] for row in texts]
    columns = zip(texts[0], heads, strict=True)
    shown = empty_table((text, head.kind != "left") for text, head in columns)
    for row, row_texts in zip(table.rows, texts[1:], strict=True):
        marked = [
            coloured(text, MARKS.get(cell.kind, ""))
            for cell, text in zip(row.cells, row_texts, strict=True)
        ]
        shown.add_row(*marked)
    fold_at_words(shown, list(zip(*texts, strict=True)), _width())
    console.print(shown, width=_width())
    console.print()
    for note in table.notes:
        _print_text(note)


def _long_words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in text.split() if len(word) > LONGEST_WORD]


def _width() -> int:
    return width_of(sys.stdout) or min(console.width, WIDEST)


def _heads(table: Table) -> list[Cell]:
    """Return one head for each column; a head over several columns comes before the heads below."""
    top, *below = table.head
    if not below:
        return [*top]
    second_row = iter(below[0])
    heads: list[Cell] = []
    for cell in top:
        if cell.rows > 1:  # which has nothing below
            heads.append(cell)
            continue
        inner = [
            replace(head, text=f"{cell.text} {head.text}") for head in islice(second_row, cell.span)
        ]
        heads += inner or [cell]
    return heads


def _in_words(cell: Cell) -> str:
    """Join text and note of a cell."""
    text = f"{cell.text} ({cell.note})" if cell.note else cell.text
    return printable(text)
