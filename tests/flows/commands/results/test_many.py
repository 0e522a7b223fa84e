"""What `dreamer factors` prints of many variants and tasks with long names."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.results.printing import MOST_ROWS

pytestmark = pytest.mark.slow

WIDTH = 80
SEEDS = 2
CHECKPOINTS = 4


def long_name(kind: str, number: int) -> str:
    """A name of 60 characters that differs from others in its middle."""
    return f"{kind}-of-a-sweep-{number:02d}-over-widths-and-rates".ljust(60, "z")


def curves(path: Path, *, variants: int, tasks: int) -> Path:
    """Write a table of curves; later variants learn faster."""
    noise = random.Random(0)
    rows = []
    for place in range(variants):
        for seed in range(SEEDS):
            for task in range(tasks):
                for checkpoint in range(CHECKPOINTS):
                    score = 0.3 + 0.1 * checkpoint + 0.02 * place + noise.gauss(0, 0.002)
                    tokens = 1000 * 2**checkpoint
                    names = (long_name("variant", place), seed, tokens, long_name("task", task))
                    rows.append((*names, score))
    frame = pd.DataFrame(rows, columns=["variant", "seed", "tokens", "task", "accuracy"])
    frame.to_csv(path, index=False)
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main(["factors", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_many_rows_fit_a_terminal_and_the_rest_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variants, tasks = 7, 4
    table = curves(tmp_path / "curves.csv", variants=variants, tasks=tasks)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    text = printed(capsys, table)
    lines = text.splitlines()
    assert len(lines) <= 60
    names = [f"…sweep-{place:02d}…" for place in range(1, variants)]
    rows = [line for line in lines if line.split("  ")[0] in names]
    for name in names:
        of_variant = [row for row in rows if row.split()[0] == name]
        assert len(of_variant) == 2, "a line of the ranks, and one of the tokens to the best"
    assert len(rows) == 2 * (variants - 1), "no name is folded"
    assert f"{(variants - 1) * tasks} further ratios: --csv" in text
    assert f"{(variants - 1) * tasks} further rows of tokens" in text


def test_every_ratio_is_there_as_comma_separated_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants, tasks = 3, 2
    table = curves(tmp_path / "curves.csv", variants=variants, tasks=tasks)
    rows = pd.read_csv(io.StringIO(printed(capsys, table, "--csv")))
    asked = json.loads(printed(capsys, table, "--json"))["ratios"]
    assert len(rows) == len(asked) == (variants - 1) * (tasks + 1)
    assert set(rows["variant"]) == {long_name("variant", place) for place in range(1, variants)}
    assert rows["ratio"].tolist() == pytest.approx([row["ratio"] for row in asked])


def test_few_rows_are_all_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = curves(tmp_path / "curves.csv", variants=3, tasks=2)
    text = printed(capsys, table)
    assert len([line for line in text.splitlines() if long_name("task", 1) in line]) == 2
    assert "further rows" not in text
    assert MOST_ROWS >= 2 * 3


def test_many_notes_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = curves(tmp_path / "curves.csv", variants=3, tasks=10)
    rows = pd.read_csv(table)
    is_hole = (rows["variant"] == long_name("variant", 1)) & (rows["seed"] == 1)
    rows[~(is_hole & (rows["task"] != long_name("task", 0)))].to_csv(table, index=False)
    text = printed(capsys, table)
    shown = text.count("is missing for")
    assert f"! {9 - shown} further notes of this kind: --json" in text
    assert shown <= 5
    notes = json.loads(printed(capsys, table, "--json"))["notes"]
    assert len([note for note in notes if "is missing for" in note]) == 9


def test_twelve_variants_on_forty_tasks_fit_sixty_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = curves(tmp_path / "curves.csv", variants=12, tasks=40)
    # at 80 columns the cells of the ranked table take two lines
    for columns, lines in (("80", 66), ("100", 60)):
        monkeypatch.setenv("COLUMNS", columns)
        assert len(printed(capsys, table).splitlines()) <= lines
