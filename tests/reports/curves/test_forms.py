"""Curves in the forms that tools write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.entering import enter_curves, metrics_taken
from dreamer_study.reports.curves.points import Curves
from dreamer_study.reports.curves.reading import read
from dreamer_study.sql.results import query

STEPS = (10, 20, 40)
LOSSES = {"A": (4.0, 3.0, 2.5), "B": (3.5, 2.8, 2.4)}
SCORES = {"A": (0.1, 0.2, 0.4), "B": (0.15, 0.3, 0.5)}
OF_RUNS = "{variant}/s{seed}"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_json(path: Path, content: object) -> Path:
    return write(path, json.dumps(content))


def found(curves: Curves, metric: str | None = None) -> dict[tuple[str, int], float]:
    """Return the values of seed 0 by variant and tokens, of one metric where it is given."""
    points = curves.points[curves.points["seed"] == 0]
    if metric is not None:
        points = points[points["metric"] == metric]
    return {
        (row.variant, row.tokens): round(row.value, 6) for row in points.itertuples(index=False)
    }


def expected(values: Mapping[str, tuple[float, ...]], size: int = 1) -> dict:
    return {
        (variant, step * size): value
        for variant, curve in values.items()
        for step, value in zip(STEPS, curve, strict=True)
    }


def said(curves: Curves) -> str:
    return "\n".join(curves.notes)


def a_log(folder: Path) -> None:
    source = 'print(f"step:{step}/{steps} val_loss:{val_loss:.4f}")\n'
    for variant, curve in LOSSES.items():
        lines = [
            f"step:{step}/40 val_loss:{loss} ms:3\n"
            for step, loss in zip(STEPS, curve, strict=True)
        ]
        train = "step:15/40 train_loss:9.9\nstep:0/40 val_loss:11 ms:1\n"
        resumed = "step:20/40 val_loss:7.7 ms:1\n" if variant == "B" else ""
        write(folder / variant / "s0.log", source + train + resumed + "".join(lines))


def tensorboard_csv(folder: Path) -> None:
    for variant, curve in LOSSES.items():
        rows = [
            f"1714.5,{step},{loss}" for step, loss in zip((0, *STEPS), (11, *curve), strict=True)
        ]
        write(
            folder / f"run-{variant}_s0-tag-eval_loss.csv",
            "\r\n".join(["Wall time,Step,Value", *rows]),
        )
    write(folder / "notes" / "other.csv", "Wall time,Step,Value\n1,10,3\n")


def wandb(path: Path) -> None:
    head = ["Step"]
    for variant in LOSSES:
        head += [f"{variant}-s0 - eval/loss{end}" for end in ("", "__MIN", "__MAX")]
    head.append("A-s0 - _step")
    rows = [
        [step, *(v for c in LOSSES.values() for v in [c[n]] * 3), n] for n, step in enumerate(STEPS)
    ]
    # a run that was resumed over the runs' own axis: where the other is empty or NaN
    twice = [[20, "NaN", "", "", 2.8, 2.8, 2.8, 9]]
    rows[1][4:7] = [9.9, 9.9, 9.9]
    lines = [",".join(f'"{cell}"' for cell in row) for row in [head, *rows, *twice]]
    write(path, "\n".join(lines))


def trackio(path: Path) -> None:
    rows = [
        f"{step},{loss},15b4,{variant}-s0"
        for variant, curve in LOSSES.items()
        for step, loss in zip(STEPS, curve, strict=True)
    ]
    write(path, "\n".join(["step,val_loss,series_key,run", "20,9.9,15b4,B-s0", *rows]))


def trackio_parquet(path: Path) -> None:
    rows = [
        {
            "timestamp": "2026-01-01",
            "run_name": f"{variant}-s0",
            "step": step,
            "val_loss": loss,
            "lr": 0.1,
        }
        for variant, curve in LOSSES.items()
        for step, loss in zip(STEPS, curve, strict=True)
    ]
    pd.DataFrame(rows).to_parquet(path)


def trainer_state(folder: Path, tokens: int = 7) -> None:
    for variant, curve in LOSSES.items():
        history: list[dict[str, float]] = []
        for step, loss in zip(STEPS, curve, strict=True):
            seen = {"num_input_tokens_seen": step * tokens, "step": step}
            history += [{"loss": 9.9, **seen}, {"eval_loss": loss, "eval_runtime": 1.8, **seen}]
        history.append({"train_loss": 3.6, "step": 40, "num_input_tokens_seen": 40 * tokens})
        state = {"global_step": 40, "log_history": history}
        write_json(folder / variant / "s0" / "trainer_state.json", state)


def lightning(folder: Path) -> None:
    for variant, curve in LOSSES.items():
        rows = [
            f"0,{step - 1},9.9,\n0,{step - 1},,{loss}"
            for step, loss in zip(STEPS, curve, strict=True)
        ]
        path = folder / variant / "s0" / "version_0" / "metrics.csv"
        write(path, "\n".join(["epoch,step,train_loss,val_loss", *rows]))


def tasks_as_columns(path: Path) -> None:
    rows = [
        f"{variant},{step * 7},{loss},9.9,"
        for variant, curve in LOSSES.items()
        for step, loss in zip(STEPS, curve, strict=True)
    ]
    write(path, "\n".join(["model,tokens_seen,val_loss,grad_norm,empty_acc", *rows]))


FORMS: dict[str, tuple[Callable[[Path], None], str, dict[str, Any]]] = {
    "plain logs": (
        a_log,
        "logs",
        {"pattern": "{variant}/s{seed}.log", "logs": ["step:{step}/{} val_loss:{loss}"]},
    ),
    "TensorBoard's CSV": (
        tensorboard_csv,
        "scalars",
        {"pattern": "run-{variant}_s{seed}-tag-{task}.csv"},
    ),
    "W&B's wide table": (wandb, "wandb.csv", {}),
    "trackio's CSV": (trackio, "val_loss.csv", {}),
    "trackio's Parquet": (trackio_parquet, "project.parquet", {}),
    "trainer_state.json": (trainer_state, "runs", {"pattern": OF_RUNS, "tokens_per_step": None}),
    "Lightning's CSV": (lightning, "runs", {"pattern": OF_RUNS}),
    "tasks as columns": (tasks_as_columns, "table.csv", {"tokens_per_step": None}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_gives_the_points_that_were_measured(tmp_path: Path, form: str) -> None:
    make, name, options = FORMS[form]
    make(tmp_path / name)
    asked = Asked(**{"tokens_per_step": "7", **options})
    assert found(read(tmp_path / name, asked)) == expected(LOSSES, 7)


@pytest.mark.slow
def test_event_files_are_read_by_tensorboards_own_reader(tmp_path: Path) -> None:
    writers = pytest.importorskip("tensorboard.summary")
    for variant, curve in LOSSES.items():
        writer = writers.Writer(str(tmp_path / variant / "s0"))
        for step, loss in zip(STEPS, curve, strict=True):
            writer.add_scalar("train/loss", 9.9, step)
            writer.add_scalar("eval/loss", loss, step)
        writer.close()
    curves = read(tmp_path, Asked(pattern=OF_RUNS, tokens_per_step="7"))
    assert found(curves) == expected(LOSSES, 7)
    assert curves.ignored == ["train/loss"]


@pytest.mark.slow
def test_what_was_left_out_guessed_or_doubled_is_said(tmp_path: Path) -> None:
    a_log(tmp_path / "logs")
    logs = Asked(pattern="{variant}/s{seed}.log", logs=["step:{step}/{} val_loss:{loss}"])
    curves = read(tmp_path / "logs", logs)
    assert "in steps, not in tokens" in said(curves)
    assert curves.unit == "steps"
    assert "1 point stood twice" in said(curves)
    assert "2 values before training (step 0) left out" in said(curves)
    tensorboard_csv(tmp_path / "scalars")
    pattern = "run-{variant}_s{seed}-tag-{task}.csv"
    assert "1 file that --pattern does not fit is left out: notes/other.csv" in said(
        read(tmp_path / "scalars", Asked(pattern=pattern))
    )
    wandb(tmp_path / "wandb.csv")
    assert "1 cell NaN" in said(read(tmp_path / "wandb.csv"))
    tasks_as_columns(tmp_path / "table.csv")
    assert "read as variant: model, tokens: tokens_seen, losses: val_loss" in said(
        read(tmp_path / "table.csv")
    )


def test_columns_are_sql(tmp_path: Path) -> None:
    rows = [
        f"{v},small aux 2,{s},{x * 100}"
        for v, c in SCORES.items()
        for s, x in zip(STEPS, c, strict=True)
    ]
    path = write(tmp_path / "t.csv", "\n".join(["size,who,Step,percent", *rows]))
    asked = Asked(
        columns=["variant=size", "seed=who", "tokens=step*7", "score=percent/100", "task='m'"]
    )
    curves = read(path, asked)
    assert found(curves) == expected(SCORES, 7)
    assert "seeds by name: 0 = small aux 2" in said(curves)
    for column, message in (
        ("tokens=steps*7", "Referenced column"),
        ("tokns=step", "NAME='SQL' is wanted"),
        ("score", "NAME='SQL' is wanted"),
    ):
        with pytest.raises(InputError, match=message):
            read(path, Asked(columns=["variant=size", column]))


def results(values: float, **more: object) -> dict[str, object]:
    return {"results": {"t": {"acc,none": values, "acc_stderr,none": 0.01}}, **more}


def write_results(
    folder: Path, make: Callable[[float], object], name: str = "results_1.json"
) -> Path:
    for variant, curve in SCORES.items():
        for step, value in zip(STEPS, curve, strict=True):
            write_json(folder / variant / f"step{step}" / name, make(value))
    return folder


BY_STEP = Asked(pattern="{variant}/step{step}", tokens_per_step="7")


def test_results_of_lm_eval_before_filters_have_any_name(tmp_path: Path) -> None:
    old = {"versions": {"t": 0}}
    folder = write_results(
        tmp_path,
        lambda value: {"results": {"t": {"acc": value, "acc_stderr": 0.1}}} | old,
        "x.json",
    )
    assert found(read(folder, BY_STEP)) == expected(SCORES, 7)


def test_an_average_of_lighteval_stands_for_its_parts(tmp_path: Path) -> None:
    def make(value: float) -> dict[str, object]:
        parts = {f"m:{name}|5": {"acc": value, "acc_stderr": 0.03} for name in "xy"}
        average = {"m:_average|5": {"acc": value, "acc_stderr": 0.03}}
        counts = {f"m:{name}": {"effective_num_docs": 9} for name in "xy"}
        return {
            "config_general": {"model_name": "m"},
            "config_tasks": counts,
            "results": {**parts, **average, "all": {"acc": value}},
        }

    curves = read(write_results(tmp_path, make), BY_STEP)
    assert curves.points["task"].unique().tolist() == ["m:_average|5"]
    assert found(curves) == expected(SCORES, 7)
    # of the mean of two independent parts, not lighteval's mean of their errors
    assert curves.points["stderr"].iloc[0] == pytest.approx(0.03 / 2**0.5)
    assert curves.points["items"].iloc[0] == 18


@pytest.mark.slow
def test_records_of_every_eval_ever_say_unit_and_direction(tmp_path: Path) -> None:
    for variant in SCORES:
        for place, step in enumerate(STEPS):
            metric = {"metric_unit": "percent", "max_score": 100, "lower_is_better": False}
            values = {
                "riddles": ({"metric_name": "accuracy", **metric}, SCORES[variant][place] * 100),
                "held-out": (
                    {"metric_name": "bits", "lower_is_better": True, "max_score": "Infinity"},
                    LOSSES[variant][place],
                ),
            }
            record = {
                "schema_version": "0.3.0",
                "model_info": {
                    "id": variant,
                    "additional_details": {"revision": f"step{step}"},
                },
                "evaluation_results": [
                    {
                        "evaluation_name": name,
                        "metric_config": config,
                        "score_details": {"score": value},
                    }
                    for name, (config, value) in values.items()
                ],
            }
            write_json(tmp_path / "data" / f"{variant}{step}.json", record)
    curves = read(tmp_path, Asked(tokens_per_step="7"))
    assert found(curves, "accuracy") == expected(SCORES, 7)
    assert found(curves, "bits") == expected(LOSSES, 7)
    assert curves.kinds == {"bits": "loss"}
    enter_curves(tmp_path / "r.duckdb", curves, baseline=None)
    kinds = query(tmp_path / "r.duckdb", "select distinct metric from token_ratios order by 1")
    assert kinds["metric"].tolist() == ["accuracy", "loss"]


def test_percent_in_a_folder_is_refused_whatever_the_first_value(tmp_path: Path) -> None:
    folder = write_results(tmp_path, lambda value: results(value if value < 0.5 else value * 100))
    with pytest.raises(InputError, match=r"B/step40/results_1\.json: t: acc 50\.0 is no share"):
        read(folder, BY_STEP)


def test_two_revisions_of_one_point_are_refused_with_both_names(tmp_path: Path) -> None:
    write_results(tmp_path, results)
    args = "pretrained=org/m,revision=step10"
    write_json(tmp_path / "A/step10/results_1.json", results(0.1, config={"model_args": args}))
    other = results(0.2, config={"model_args": args.replace("10", "20")})
    write_json(tmp_path / "A/step10/results_2.json", other)
    with pytest.raises(InputError, match=r"revision step20.*revision step10.*would be one point"):
        read(tmp_path, BY_STEP)


def test_revisions_are_checkpoints_where_paths_name_none(tmp_path: Path) -> None:
    for variant, curve in SCORES.items():
        for step, value in zip(STEPS, curve, strict=True):
            config = {
                "model_args": {"pretrained": variant, "revision": f"step{step}-tokens{step}M"}
            }
            write_json(tmp_path / f"a/results_{variant}{step}.json", results(value, config=config))
            config["model_args"]["revision"] = f"checkpoint-{step}"
            write_json(tmp_path / f"b/results_{variant}{step}.json", results(value, config=config))
    assert found(read(tmp_path / "a")) == expected(SCORES, 10**6)
    assert found(read(tmp_path / "b", Asked(tokens_per_step="7"))) == expected(SCORES, 7)


def test_a_percent_sign_has_a_hint_that_reads_it(tmp_path: Path) -> None:
    rows = [
        f"{variant},{step},t,{value:.0%}"
        for variant, curve in SCORES.items()
        for step, value in zip(STEPS, curve, strict=True)
    ]
    path = write(tmp_path / "t.csv", "\n".join(["variant,tokens,task,score", *rows]))
    with pytest.raises(InputError, match="reads percent signs") as error:
        read(path)
    column = str(error.value).partition('--column score="')[2].partition('"')[0]
    assert found(read(path, Asked(columns=[f"score={column}"]))) == expected(SCORES)


def test_a_group_without_a_value_stands_for_nothing(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path,
        lambda value: {
            "results": {"t": {"acc,none": value}, "group": {"alias": "group"}},
            "group_subtasks": {"group": ["t"]},
        },
    )
    assert found(read(folder, BY_STEP)) == expected(SCORES, 7)


def test_a_line_of_samples_may_hold_other_ends_of_lines(tmp_path: Path) -> None:
    folder = write_results(tmp_path, results)
    for variant in SCORES:
        for step in STEPS:
            sample = {"doc_id": 0, "doc": "a\u2028b", "metrics": ["acc"], "acc": 1.0}
            text = json.dumps(sample, ensure_ascii=False)
            (folder / variant / f"step{step}" / "samples_t_1.jsonl").write_text(text)
    assert len(read(folder, BY_STEP).items) == 6


@pytest.mark.slow
def test_a_metric_may_be_chosen_and_is_said(tmp_path: Path) -> None:
    folder = write_results(
        tmp_path / "lm", lambda value: {"results": {"t": {"acc,none": 0.5, "acc_norm,none": value}}}
    )
    asked = Asked(pattern="{variant}/step{step}", tokens_per_step="7", metric="acc_norm")
    curves = read(folder, asked)
    assert found(curves) == expected(SCORES, 7)
    enter_curves(tmp_path / "r.duckdb", curves, baseline=None)
    assert metrics_taken(tmp_path / "r.duckdb") == ["accuracy: acc_norm of t"]
    with pytest.raises(InputError, match=r"no value of --metric bleu; there are acc,none"):
        read(folder, Asked(pattern="{variant}/step{step}", metric="bleu"))


def test_every_task_that_a_metric_leaves_out_is_named(tmp_path: Path) -> None:
    def make(value: float) -> dict[str, object]:
        tasks = {"t": {"acc,none": value}, "u": {"em,none": value}, "v": {"bleu,none": 3.0}}
        return {"results": tasks}

    folder = write_results(tmp_path / "lm", make)
    steps = {"pattern": "{variant}/step{step}", "tokens_per_step": "7"}
    chosen = said(read(folder, Asked(**steps, metric="acc")))
    assert "! 2 tasks left out, as --metric acc is none of theirs: u (em), v (bleu)" in chosen
    assert "! 1 task left out, as no metric of theirs is known: v (bleu)" in said(
        read(folder, Asked(**steps))
    )


@pytest.mark.parametrize("form", ["long", "columns"])
def test_tables_name_the_tasks_that_a_metric_leaves_out(tmp_path: Path, form: str) -> None:
    rows = []
    for variant, curve in SCORES.items():
        for step, value in zip(STEPS, curve, strict=True):
            if form == "long":
                rows += [f"{variant},{step},t,acc,{value}", f"{variant},{step},u,em,0.1"]
            else:
                rows += [f"{variant},{step},t,{value},0.1", f"{variant},{step},u,,0.1"]
    head = "variant,tokens,task,metric,value" if form == "long" else "variant,tokens,task,acc,em"
    curves = read(write(tmp_path / "t.csv", "\n".join([head, *rows])), Asked(metric="acc"))
    assert found(curves) == expected(SCORES)
    assert "! 1 task left out, as --metric acc is none of theirs: u" in said(curves)
    with pytest.raises(InputError, match="--metric bleu: no such"):
        read(tmp_path / "t.csv", Asked(metric="bleu"))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("{variant}/*/{tokens}B/{variant}", "{0}/x/{1}B/{0}"),
        ("{variant}-*-{tokens}/", "{0}-y-{1}B"),
        ("**/{variant}_{tokens}", "a/b/{0}_{1}B"),
    ],
)
def test_patterns_have_wildcards_units_and_names_twice(
    tmp_path: Path, pattern: str, names: str
) -> None:
    for variant, curve in SCORES.items():
        for billions, value in zip(("0.5", "1", "2"), curve, strict=True):
            write_json(tmp_path / names.format(variant, billions) / "results.json", results(value))
    tokens = {tokens for _, tokens in found(read(tmp_path, Asked(pattern=pattern)))}
    assert tokens == {5 * 10**8, 10**9, 2 * 10**9}


def test_missing_points_are_named(tmp_path: Path) -> None:
    rows = [
        f"{variant},{seed},{step},{task},{score}"
        for variant, curve in SCORES.items()
        for seed in (0, 1)
        for task in ("easy", "hard", "rare")
        for step, score in zip(STEPS, curve, strict=True)
        if not (task == "hard" and variant == "B" and step == 40)
        and not (task == "easy" and variant == "B" and step == 20)
        and not (task == "rare" and (variant, seed) == ("A", 1))
    ]
    path = write(tmp_path / "t.csv", "\n".join(["variant,seed,tokens,task,score", *rows]))
    assert [*read(path).notes] == [
        "! rare is missing for A, seed 1",
        "! easy is missing for B at 20, where other tasks are not: averages leave these"
        " checkpoints out",
        "! hard is missing for B at its last checkpoint, 40 (seed 0, 1): averages end at 20",
    ]


MESSAGES = {
    "no folder": ("absent", Asked(), "absent: no such folder"),
    "no variant in a pattern": (
        "",
        Asked(pattern="s{seed}"),
        "--pattern 's{seed}' lacks {variant}",
    ),
    "no pattern": ("", Asked(), "needs --pattern, such as '{variant}/seed{seed}/{tokens}'"),
    "a field that nobody knows": ("", Asked(pattern="{model}"), "no field {model}"),
    "a brace left open": ("", Asked(pattern="{variant}/{step"), "a brace is opened and not closed"),
    "half a token": ("", Asked(tokens_per_step="1.5"), "1.5 is no whole number of tokens"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_is_wrong_is_one_line(tmp_path: Path, name: str) -> None:
    path, asked, message = MESSAGES[name]
    write_json(tmp_path / "results" / "s0" / "results_1.json", results(0.5))
    with pytest.raises(InputError) as error:
        read(tmp_path / "results" / path, asked)
    assert message in str(error.value) or "does not fit" in str(error.value)
    assert "\n" not in str(error.value)


def test_of_many_columns_ten_are_named(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(97)]
    path = write(tmp_path / "t.csv", ",".join(names) + "\n" + ",".join("1" * 97))
    with pytest.raises(InputError, match=r"c9 and 87 more of 97 columns") as error:
        read(path)
    assert "c10" not in str(error.value)
