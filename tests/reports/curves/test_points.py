"""Tables of curves that anybody wrote: what fits is read, and what is wrong is one line with the row."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import InputError
from reports.curves.points import read_curves

HEAD = "variant,seed,tokens,task,score"
ROWS = ("A,0,10,t,0.1", "A,0,20,t,0.2", "B,0,10,t,0.3", "B,0,20,t,0.4")
WRONG = {
    "a missing column": ("variant,seed,token,task,score", ROWS, r"no column 'tokens' \(nearest: 'token'\)"),
    "no value": ("variant,seed,tokens,task,accuracy", ROWS, "no column 'score' or loss"),
    "no rows": (HEAD, (), "holds no rows"),
    "a word": (HEAD, (*ROWS[:3], "B,0,20,t,high"), "line 5: score 'high' is not a share"),
    "per cent": (HEAD, (*ROWS[:2], "B,0,10,t,30", ROWS[3]), "line 4: score '30' is not a share"),
    "no tokens": (HEAD, ("A,0,0,t,0.1", *ROWS[1:]), "line 2: tokens '0' is not a number of 1 or more"),
    "half a seed": (HEAD, ("A,0.5,10,t,0.1", *ROWS[1:]), "line 2: seed '0.5' is not a whole number"),
    "a name that is not missing": (HEAD, (*ROWS[:3], "NA,0,20,t,0.1"), "line 4: the only point of B on t"),
    "an empty name": (HEAD, (*ROWS[:3], ",0,20,t,0.1"), "line 5: variant nan is empty"),
    "an empty value": (HEAD, (*ROWS[:3], "B,0,20,t,"), "line 5: score nan is empty"),
    "a taken name": (HEAD, ("A,0,10,average,0.1", *ROWS[1:]), "line 2: task 'average' is the name of the mean"),
    "a point twice": (HEAD, (*ROWS, ROWS[1]), "line 6: task 't' is there a second time"),
    "one point": (HEAD, ROWS[:3], "line 4: the only point of B on t"),
    "one variant": (HEAD, ROWS[:2], "one variant only, 'A'"),
    "a negative error": (f"{HEAD},stderr", tuple(f"{row},-1" for row in ROWS), "line 2: stderr '-1' is not a number"),
}


def table(path: Path, head: str, rows: tuple[str, ...]) -> Path:
    path.write_text("\n".join((head, *rows)) + "\n")
    return path


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_with_the_row(tmp_path: Path, name: str) -> None:
    head, rows, said = WRONG[name]
    with pytest.raises(InputError, match=said) as error:
        read_curves(table(tmp_path / "curves.csv", head, rows))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "curves.csv"))


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no Parquet")
    for name, said in (("a.parquet", "cannot be read"), ("b.csv", "no such file"), ("a.xlsx", "a table ends in")):
        if name == "a.xlsx":
            (tmp_path / name).touch()
        with pytest.raises(InputError, match=said):
            read_curves(tmp_path / name)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_scores_and_losses_are_values_of_their_own_in_every_format(tmp_path: Path, kind: str) -> None:
    frame = pd.DataFrame({"variant": ["A", "A", "B", "B"], "seed": 0, "tokens": [10, 20] * 2, "task": "t"})
    frame = frame.assign(score=[0.1, 0.2, 0.3, None], loss=[3.0, 2.0, 2.5, 1.5], stderr=0.05, note="mine")
    path = tmp_path / f"curves.{kind}"
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "jsonl": frame.to_json}[kind]
    write(path, **{"orient": "records", "lines": True} if kind == "jsonl" else {"index": False})
    read = read_curves(path)
    assert read.ignored == ["note"]
    found = read.points[["metric", "tokens", "value", "stderr"]].to_numpy().tolist()
    assert found[:3] == [["accuracy", 10, 0.1, 0.05], ["accuracy", 20, 0.2, 0.05], ["accuracy", 10, 0.3, 0.05]]
    losses = read.points[read.points["metric"] == "gold_bits_per_byte"]
    assert losses["value"].tolist() == [3.0, 2.0, 2.5, 1.5]
    assert losses["stderr"].isna().tolist() == [True, True, True, False], "of the score, where there is one"


def test_items_belong_to_points_and_have_their_mean(tmp_path: Path) -> None:
    points = table(tmp_path / "curves.csv", HEAD, ROWS)
    head = "variant,seed,tokens,task,item,score"
    right = read_curves(points, table(tmp_path / "items.csv", head, ("A,0,10,t,x,0", "A,0,10,t,y,0.2")))
    assert right.items["item_id"].tolist() == ["x", "y"]
    for row, said in (
        ("A,0,10,t,y,1", "line 2: the items have the mean score 0.55"),
        ("A,0,30,t,y,1", "line 3: items of"),
    ):
        with pytest.raises(InputError, match=said):
            read_curves(points, table(tmp_path / "items.csv", head, ("A,0,10,t,x,0.1", row)))
