"""`dreamer compare --tokens`: print what a step of curation is worth, in training tokens."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.results.printing import print_part
from dreamer_study.flows.commands.results.query import find_results, has_place
from dreamer_study.flows.commands.tables import print_csv, print_table
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.text.numbers import counted, three_digits
from dreamer_study.reports.text.ratios import finding_in_short, ratio_or_bound, read_for, scores
from dreamer_study.sql.statistics.comparison import study_of
from dreamer_study.sql.statistics.corpora import ALL_TASKS, compare_corpora

DASH = "-"
TEXTS = ("study", "model", "task", "metric", "finding", "items")  # columns set to the left


def compare_on_other_data(options: argparse.Namespace) -> None:
    """Print the tokens of each study over those of the first one, at equal quality."""
    if options.csv and options.json:
        raise InputError("--csv and --json are two forms of one output; give one of them")
    named = [options.first, options.second, *options.more]
    chosen = [options.first_study, options.second_study, *[None] * len(options.more)]
    studies = [_find(name, study, options.root) for name, study in zip(named, chosen, strict=True)]
    corpora = compare_corpora(studies, despite=options.despite_differences)
    if options.json:
        print_document(ratios=corpora.ratios, leaks=corpora.leaks, notes=corpora.notes)
        return
    if options.csv:
        print_csv(corpora.ratios)
        return
    headlines = read_for(corpora.ratios)
    shown = corpora.ratios if options.all else headlines
    first = corpora.ratios["over"].iloc[0]
    print_part("")
    for row in headlines.to_dict("records"):
        print_part(sentence(row))
    print_part(f"Training tokens of each study over those of {first}, for equal scores.")
    table = _ratio_table(shown)
    print_table(table, right=_numbers(table))
    print_part("")
    if len(corpora.leaks):
        leaks = corpora.leaks
        if not options.all:
            leaks = leaks[leaks["task"] == ALL_TASKS]
        print_part(
            "Accuracy at the last checkpoint, in percentage points: on benchmark items of which a"
            f" study's training documents hold a copy and those of {first} do not (leaked), and on"
            " items of which neither do (others). p without a correction."
        )
        table = _leak_table(leaks)
        print_table(table, right=_numbers(table))
        print_part("")
    for note in corpora.notes:
        print_part(note)
    further = len(corpora.ratios) - len(shown)
    if further:
        print_part(
            f"Not shown: {counted(further, 'ratio')} of single benchmarks; --all prints them."
        )


def _find(name: str, study: str | None, root: str | None) -> tuple[Path, str]:
    path, found = find_results(name, None if has_place(name) else root)
    return path, study_of(path, study or found)


def sentence(row: Mapping[str, Any]) -> str:
    """Say how many tokens a study takes for those of the first one."""
    of_held_out = "held-out" if row["task"] == "validation" else row["task"]
    subject = f"{row['study']}, {_model(row)}, {of_held_out} {row['metric']}:"
    sign, value = ratio_or_bound(row)
    if pd.isna(value):
        return f"{subject} no ratio, as the curves have no scores in common."
    bound = "at least " if sign == "≥" else ""
    bound = "at most " if sign == "≤" else bound
    text = f"{subject} {bound}{three_digits(value)} times the tokens of {row['over']}"
    if pd.isna(row["ratio"]) or pd.isna(row["low"]):
        return f"{text} ({finding_in_short(row)})."
    interval = f"{three_digits(row['low'])} to {three_digits(row['high'])}"
    return f"{text} (95 % CI {interval}; {finding_in_short(row)})."


def _ratio_table(ratios: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for row in ratios.to_dict("records"):
        sign, value = ratio_or_bound(row)
        has_ratio = pd.notna(row["ratio"])
        rows.append(
            {
                "study": row["study"],
                "model": _model(row),
                "task": row["task"],
                "metric": row["metric"],
                "ratio": f"{sign}{_digits(value)}",
                "95 % low": _digits(row["low"]) if has_ratio else DASH,
                "high": _digits(row["high"]) if has_ratio else DASH,
                "finding": finding_in_short(row),
                "scores": scores(row) or DASH,
                "seeds": DASH if pd.isna(row["seeds"]) else int(row["seeds"]),
                "detectable": _digits(row["detectable"]),
            }
        )
    return pd.DataFrame(rows)


def _leak_table(leaks: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for row in leaks.to_dict("records"):
        rows.append(
            {
                "study": row["study"],
                "model": _model(row),
                "task": row["task"],
                "items": row["items"],
                "number": row["number"],
                "first": f"{100 * row['first']:.1f}",
                "study's": f"{100 * row['second']:.1f}",
                "too high by": f"{100 * row['difference']:+.1f}",
                "95 % low": _points(row["low"]),
                "high": _points(row["high"]),
                "p": DASH if pd.isna(row["p"]) else f"{row['p']:.2g}",
            }
        )
    return pd.DataFrame(rows)


def _model(row: Mapping[str, Any]) -> str:
    return row["variant"] if pd.isna(row["depth"]) else f"{row['variant']} of depth {row['depth']}"


def _numbers(table: pd.DataFrame) -> list[str]:
    return [name for name in table if name not in TEXTS]


def _digits(value: Any) -> str:
    return DASH if pd.isna(value) else three_digits(value)


def _points(value: float) -> str:
    return DASH if pd.isna(value) else f"{100 * value:+.1f}"
