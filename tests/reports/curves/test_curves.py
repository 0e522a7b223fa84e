"""Factors and report of curves from elsewhere."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.entering import EXAMPLE, enter_curves
from dreamer_study.reports.curves.points import Curves
from dreamer_study.reports.curves.reading import read, read_curves
from dreamer_study.sql.results import connect, query
from dreamer_study.sql.statistics.compute import compute_statistics
from tests.reports.small_results import STUDY, whole_study

HEAD = "variant,seed,tokens,task,score"
ROWS = ("A,0,10,t,0.1", "A,0,20,t,0.2", "B,0,10,t,0.3", "B,0,20,t,0.4")
WRONG = {
    "a missing column": (
        "variant,seed,token,task,score",
        ROWS,
        "no column 'tokens'; did you mean 'token'",
    ),
    "no value": ("variant,seed,tokens,task,points", ROWS, "no column 'score' or loss"),
    "an endless loss": (
        HEAD.replace("score", "loss"),
        (*ROWS[:3], "B,0,20,t,inf"),
        "line 5: loss 'inf' is not a number of 0 or more; leave out the points",
    ),
    "half a token": (
        HEAD,
        ("A,0,1.5,t,0.1", *ROWS[1:]),
        "line 2: tokens '1.5' is not a whole number of tokens",
    ),
    "no rows": (HEAD, (), "holds no rows"),
    "a word": (HEAD, (*ROWS[:3], "B,0,20,t,high"), "line 5: score 'high' is not a share"),
    "per cent": (HEAD, (*ROWS[:2], "B,0,10,t,30", ROWS[3]), "line 4: score '30' is not a share"),
    "fewer tokens than none": (
        HEAD,
        ("A,0,-1,t,0.1", *ROWS[1:]),
        "line 2: tokens '-1' is not a number of 1 or more",
    ),
    "half a seed": (
        HEAD,
        ("A,0.5,10,t,0.1", *ROWS[1:]),
        "line 2: seed '0.5' is not a whole number",
    ),
    "a name that is not missing": (
        HEAD,
        (*ROWS[:3], "NA,0,20,t,0.1"),
        "line 4: the only point of B on t",
    ),
    "an empty name": (HEAD, (*ROWS[:3], ",0,20,t,0.1"), "line 5: variant nan is empty"),
    "an empty value": (HEAD, (*ROWS[:3], "B,0,20,t,"), "line 5: score nan is empty"),
    "a taken name": (
        HEAD,
        ("A,0,10,average,0.1", *ROWS[1:]),
        "line 2: task 'average' is the name of the mean",
    ),
    "a point twice": (HEAD, (*ROWS, ROWS[1]), "line 6: task 't' is there a second time"),
    "a point twice, by a column that is not read": (
        f"{HEAD},world",
        (*(f"{row},one" for row in ROWS), *(f"{row},two" for row in ROWS)),
        "not read: world. Where such a column",
    ),
    "one point": (HEAD, ROWS[:3], "line 4: the only point of B on t"),
    "one variant": (HEAD, ROWS[:2], "one variant only, 'A'"),
    "endless tokens": (HEAD, ("A,0,inf,t,0.1", *ROWS[1:]), "tokens 'inf' is not a number of 1"),
    "a line that is empty": (
        f"\n{HEAD}",
        (*ROWS[:2], "", "B,0,10,t,30", ROWS[3]),
        "line 6: score '30' is not a share",
    ),
    "a negative error": (
        f"{HEAD},stderr",
        tuple(f"{row},-1" for row in ROWS),
        "line 2: stderr '-1' is not a number",
    ),
}


TWO = pd.DataFrame(
    {"variant": ["A", "A", "B", "B"], "seed": 0, "tokens": [10, 20] * 2, "task": "t"}
)


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


def test_a_number_is_said_as_it_stands_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "curves.jsonl").write_text(
        '{"variant": "A", "seed": 0, "tokens": 10, "task": "t", "score": 30.5}'
    )
    with pytest.raises(InputError, match=r"line 1: score 30\.5 is not a share"):
        read_curves(tmp_path / "curves.jsonl")


def test_a_name_that_no_figure_can_show_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    rows = [f"{name},0,{tokens},0.5" for name in ("LA", "N" * 300) for tokens in (1000, 2000)]
    path.write_text("\n".join(["variant,seed,tokens,score", *rows]) + "\n")
    with pytest.raises(InputError, match=r"variant 'N{40}'... has 300 characters; a name has at"):
        read(path)


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no Parquet")
    (tmp_path / "a.xlsx").touch()
    for name, said in (
        ("a.parquet", "cannot be read"),
        ("b.csv", "no such file"),
        ("a.xlsx", "a table ends in"),
    ):
        with pytest.raises(InputError, match=said):
            read_curves(tmp_path / name)


@pytest.mark.parametrize("kind", ["csv", "semicolons.csv", "parquet", "jsonl"])
def test_scores_and_losses_are_values_of_their_own_in_every_format(
    tmp_path: Path, kind: str
) -> None:
    frame = TWO.assign(
        score=[0.1, 0.2, 0.3, None], loss=[3.0, 2.0, 2.5, 1.5], stderr=0.05, note="mine"
    )
    path = tmp_path / f"curves.{kind}"
    write = {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".jsonl": frame.to_json}[
        path.suffix
    ]
    options = {
        "semicolons.csv": {"sep": ";", "decimal": ","},
        "jsonl": {"orient": "records", "lines": True},
    }
    write(path, **{"index": False, **options.get(kind, {})})
    curves = read_curves(path)
    assert curves.ignored == ["note"]
    found = curves.points[["metric", "tokens", "value", "stderr"]].to_numpy().tolist()
    assert found[:3] == [
        ["accuracy", 10, 0.1, 0.05],
        ["accuracy", 20, 0.2, 0.05],
        ["accuracy", 10, 0.3, 0.05],
    ]
    losses = curves.points[curves.points["metric"] == "gold_bits_per_byte"]
    assert losses["value"].tolist() == [3.0, 2.0, 2.5, 1.5]
    assert losses["stderr"].isna().tolist() == [True, True, True, False], (
        "of the score, where there is one"
    )


def test_an_index_of_parquet_is_columns(tmp_path: Path) -> None:
    TWO.assign(score=0.5).groupby(["variant", "seed", "tokens", "task"]).mean().to_parquet(
        tmp_path / "curves.parquet"
    )
    assert read_curves(tmp_path / "curves.parquet").points["tokens"].tolist() == [10, 20, 10, 20]


@pytest.mark.slow
def test_seeds_with_few_checkpoints_in_common_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for second, status, said in (
        (
            (3, 6, 12),
            2,
            "A on t: seeds share fewer than two checkpoints (within 5 %); interpolate them",
        ),
        (
            (1, 2),
            0,
            "! Cut short: A at 2 tokens and B at 2 tokens, where one seed ends; others continued.",
        ),
    ):
        points = [
            f"{v},{s},{n},t,0.{n}"
            for v in "AB"
            for s, steps in enumerate(((1, 2, 4), second))
            for n in steps
        ]
        assert main(["factors", str(table(tmp_path / "curves.csv", HEAD, tuple(points)))]) == status
        assert said in " ".join("".join(capsys.readouterr()).split())


@pytest.mark.slow
def test_curves_of_losses_alone_say_the_answer_of_one_task_and_point_to_the_ratios_of_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tasks, said in (
        ("t", "B and A are less than one checkpoint apart, no finding: 0.92 times"),
        ("tu", "no average over tasks, and so no one answer; the ratios stand below"),
    ):
        points = itertools.product("AB", (0, 1), (1, 2, 3), tasks)
        rows = tuple(f"{v},{s},{n},{t},{3 - n / 2 - (v == 'B') / 10}" for v, s, n, t in points)
        path, page = (
            table(tmp_path / "curves.csv", HEAD.replace("score", "loss"), rows),
            tmp_path / "page.html",
        )
        assert main(["factors", str(path), "--report", str(page)]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
        assert ("ratio-by-value" in page.read_text()) == (tasks == "t")


@pytest.mark.slow
def test_items_belong_to_points_and_have_their_mean(tmp_path: Path) -> None:
    points = table(tmp_path / "curves.csv", HEAD, ROWS)
    head = "variant,seed,tokens,task,item,score"
    right = read_curves(
        points, table(tmp_path / "items.csv", head, ("A,0,10,t,x,0", "A,0,10,t,y,0.2"))
    )
    assert right.items["item_id"].tolist() == ["x", "y"]
    wrong = {
        "A,0,10,t,y,1": "line 2: the items have the mean score 0.55",
        "A,0,30,t,y,1": "line 3: items of",
    }
    for row, said in wrong.items():
        with pytest.raises(InputError, match=said):
            read_curves(points, table(tmp_path / "items.csv", head, ("A,0,10,t,x,0.1", row)))


# Data efficiency at depth 16 and 32 in Table 2 of the paper: GSM8K, MATH, MMLU, MathQA.
TABLE_2 = {
    "DR-16": (1.6, 2.8, 4.8, 5.4),
    "DR+DA-16": (2.4, 3.5, 3.4, 3.2),
    "DR-32": (1.5, 2.1, 1.9, 5.4),
}
TABLE_2["DR+DA-32"] = (2.3, 2.6, 4.0, 8.3)


def factors_of(database: Path) -> pd.DataFrame:
    return query(
        database, "select variant, task, metric, factor, low, high from mean_factors order by all"
    )


@pytest.mark.slow
def test_curves_with_the_factors_of_table_2_give_them_back(tmp_path: Path) -> None:
    rows = ["variant,seed,tokens,task,score"]
    for variant, factors in {"LA": (1, 1, 1, 1), **TABLE_2}.items():
        for task, factor in zip(("gsm8k", "math", "mmlu", "mathqa"), factors, strict=True):
            rows += [
                f"{variant},0,{round(n * 1e12 / factor)},{task},{0.3 + 0.02 * n}"
                for n in (1, 2, 4, 8)
            ]
    (tmp_path / "curves.csv").write_text("\n".join(rows))
    enter_curves(tmp_path / "results.duckdb", read_curves(tmp_path / "curves.csv"), baseline="LA")
    for view in ("mean_factors", "data_efficiency"):
        found = query(tmp_path / "results.duckdb", f"select variant, task, factor from {view}")
        found = found.set_index(["variant", "task"])["factor"]
        for variant, factors in TABLE_2.items():
            expected = pytest.approx(factors, rel=1e-9)
            assert [
                found[variant, task] for task in ("gsm8k", "math", "mmlu", "mathqa")
            ] == expected, view


def exported(database: Path, folder: Path) -> tuple[Path, Path]:
    """Write the points and the items of a study as tables of curves; return both paths."""
    with connect(database, read_only=True) as connection:
        named = "select variant, seed, {} from {} join model_runs using (run_id) where {}"
        points = connection.execute(
            named.format(
                "tokens, task, value as score, chance",
                "evaluations",
                "task in ('gsm8k', 'mmlu_math')",
            )
        ).df()
        items = connection.execute(
            named.format("tokens, task, item_id as item, value as score", "items", "true")
        ).df()
    points.to_csv(folder / "curves.csv", index=False)
    items.to_parquet(folder / "items.parquet", index=False)
    return folder / "curves.csv", folder / "items.parquet"


@pytest.mark.slow
def test_an_export_of_a_study_has_its_factors_and_with_items_its_intervals(tmp_path: Path) -> None:
    right = {"LA": (4, 8, 12, 16, 20), "DR": (6, 9, 14, 20, 24), "DR+DA": (5, 12, 17, 21, 30)}
    database = whole_study(tmp_path / "results.duckdb", right)
    with connect(database) as connection:
        connection.execute("delete from evaluations where task not in ('gsm8k', 'mmlu_math')")
        more = "select * replace ('{0}' || run_id as run_id{1}) from {2}"
        for table, changed in (
            ("runs", ", 1 as seed"),
            ("evaluations", ", value * 0.98 as value"),
            ("items", ""),
        ):
            connection.execute(
                f"insert into {table} by name {more.format('again ', changed, table)}"
            )
        connection.execute("update items set value = value * 0.98 where run_id like 'again %'")
        connection.execute("delete from internal.claims")
        compute_statistics(connection, STUDY)
    points, items = exported(database, tmp_path)
    enter_curves(tmp_path / "curves.duckdb", read_curves(points, items), baseline="LA")
    expected, found = (
        factors_of(database).query("metric == 'accuracy'"),
        factors_of(tmp_path / "curves.duckdb"),
    )
    assert expected["low"].notna().any()
    pd.testing.assert_frame_equal(found, expected.reset_index(drop=True), rtol=1e-12)


@pytest.mark.slow
def test_without_items_the_interval_has_the_standard_errors(tmp_path: Path) -> None:
    head, rows = "variant,seed,tokens,task,score{}", []
    for variant, start in (("A", 0.2), ("B", 0.25), ("C", 0.3)):
        for seed in range(4):
            rows += [
                f"{variant},{seed},{2**n},t,{start + 0.1 * n + 0.002 * seed}" for n in range(4)
            ]
    widths = []
    for error in (None, 0.0, 0.01, 0.02):
        path = tmp_path / "curves.csv"
        extra = "" if error is None else f",{error}"
        path.write_text(
            "\n".join([head.format(",stderr" * bool(extra)), *(row + extra for row in rows)])
        )
        database = tmp_path / f"{error}.duckdb"
        enter_curves(database, read_curves(path), baseline=None)
        one = factors_of(database).query("variant == 'B' and task == 't'").iloc[0]
        assert one["factor"] == pytest.approx(2**0.5)
        widths.append(math.log(one["high"] / one["low"]))
    assert widths[0] == pytest.approx(widths[1])
    assert widths[1] < widths[2] < widths[3]
    # The shift of a curve by its error moves the log factor by the error over the slope, for each
    # of two models.
    assert widths[3] / 2 / 1.96 == pytest.approx(2**0.5 * 0.02 / 0.1 * math.log(2), rel=0.1)


@pytest.mark.slow
def test_a_curve_that_begins_above_the_other_has_a_bound(tmp_path: Path) -> None:
    curves = Curves(TWO.assign(metric="accuracy", filter="none", value=[0.1, 0.2, 0.3, 0.4]))
    enter_curves(tmp_path / "results.duckdb", curves, baseline=None)
    row = query(tmp_path / "results.duckdb", "from token_ratios where task = 't'").iloc[0]
    assert pd.isna(row["ratio"])
    assert pd.isna(row["low"])
    assert row["high"] == pytest.approx(1 / 2), "B had it at its first checkpoint, A never"


@pytest.mark.slow
def test_no_common_range_and_an_unknown_baseline_are_one_line(tmp_path: Path) -> None:
    curves = Curves(TWO.assign(metric="accuracy", filter="none", value=[0.1, 0.1, 0.1, 0.1]))
    with pytest.raises(InputError, match="no variant can be compared with A"):
        enter_curves(tmp_path / "a.duckdb", curves, baseline=None)
    with pytest.raises(InputError, match="no variant 'a'; they are A, B"):
        enter_curves(tmp_path / "b.duckdb", curves, baseline="a")


def lm_eval_folder(folder: Path) -> Path:
    """What lm-eval writes of two models at two checkpoints: a task with samples, and a group of two
    tasks."""
    for variant, better in (("A", 0), ("B", 1)):
        for tokens in (1000, 2000):
            place = folder / variant / f"step-{tokens}" / "model"
            place.mkdir(parents=True)
            right = [float(n < tokens // 1000 + better * (tokens > 1000)) for n in range(4)]
            values = {"alias": "x", "acc,none": float(np.mean(right)), "acc_stderr,none": 0.1}
            results = {"t": values, "group": values, "part": values, "other part": values}
            report = {
                "results": results,
                "group_subtasks": {"group": ["part", "other part"], "t": []},
            }
            (place / "results_2026.json").write_text(
                json.dumps({**report, "n-samples": {"t": {"effective": 4}}})
            )
            sample = {"metrics": ["acc"], "filter": "none"}
            samples = [
                json.dumps({**sample, "doc_id": n, "acc": value}) for n, value in enumerate(right)
            ]
            (place / "samples_t_2026.jsonl").write_text("\n".join(samples))
    return folder


@pytest.mark.slow
def test_a_folder_of_lm_eval_is_read_by_the_pattern_of_its_paths(tmp_path: Path) -> None:
    folder = lm_eval_folder(tmp_path / "results")
    curves = read(folder, Asked(pattern="{variant}/step-{tokens}"))
    assert sorted(curves.points["task"].unique()) == ["group", "t"]
    assert curves.points.query("task == 't'")[
        ["variant", "tokens", "value", "items"]
    ].to_numpy().tolist() == [
        *(["A", 1000, 0.25, 4], ["A", 2000, 0.5, 4], ["B", 1000, 0.25, 4], ["B", 2000, 0.75, 4])
    ]
    assert len(curves.items) == 16
    enter_curves(tmp_path / "results.duckdb", curves, baseline=None)
    for pattern, said in (
        ("{variant}-{tokens}", "does not fit its path"),
        ("{variant}", "--pattern '{variant}' lacks {tokens}"),
    ):
        with pytest.raises(InputError, match=said):
            read(folder, Asked(pattern=pattern))
    samples = folder / "B" / "step-1000" / "model" / "samples_t_2026.jsonl"
    samples.write_text("no JSON")
    with pytest.raises(InputError, match="line 1: not a sample of lm-eval"):
        read(folder, Asked(pattern="{variant}/step-{tokens}"))
    samples.unlink()
    (folder / "A" / "step-1000" / "model" / "results_2026.json").write_text("{}")
    with pytest.raises(InputError, match="not a result file of lm-eval"):
        read(folder, Asked(pattern="{variant}/step-{tokens}"))


@pytest.mark.slow
def test_the_example_has_a_table_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            ["factors", "example", "--baseline", "LSTM", "--report", str(tmp_path / "report.html")]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "times as many training tokens" in said
    assert "Looped" in said
    page = (tmp_path / "report.html").read_text()
    assert "table-ratios" in page
    assert len(page) > 100_000


def test_a_report_never_takes_the_place_of_the_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curves = tmp_path / "curves.csv"
    curves.write_text(text := EXAMPLE.read_text())
    assert (
        main(["factors", str(curves), "--report", str(tmp_path / "x" / ".." / "curves.csv")]) == 2
    )
    assert "holds the curves; name another file" in capsys.readouterr().err
    assert curves.read_text() == text
    for wrong in (tmp_path, tmp_path / "absent" / "page.html"):
        assert main(["factors", str(curves), "--report", str(wrong)]) == 2
        assert f"{wrong} must be a file in a folder that exists" in capsys.readouterr().err


IMPORTED = """
import sys

from dreamer_study.flows.commands.cli import main

main(["factors", "example"])
sys.exit(bool({"torch", "prefect", "lm_eval"} & {*sys.modules}))
"""


@pytest.mark.slow
def test_neither_torch_nor_prefect_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], stdout=subprocess.DEVNULL)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "content",
    [
        '{"results": {"t": {"acc,none": 0.5}}, "n-samples": 5}',
        '{"results": {"t": {"acc,none": 0.5}}, "group_subtasks": [1], "config": 7}',
        '{"results": {"t": {"acc,none": 0.5}}, "group_subtasks": {"t": 3}}',
        '{"results": {"t": {"acc,none": 0.5}}, "config": {"model_args": [1]}}',
        f'{{"results": {"[" * 100_000}{"]" * 100_000}}}',
    ],
)
def test_a_results_file_of_another_form_is_one_line(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m/1000/results_2024.json"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    assert main(["factors", str(tmp_path), "--pattern", "{variant}/{tokens}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dreamer: ")
