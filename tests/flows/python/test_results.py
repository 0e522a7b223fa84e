"""Results in Python: curves from anywhere, a results file, and what they are asked."""

from __future__ import annotations

import gc
import math
import re
from pathlib import Path

import altair as alt
import pandas as pd
import pytest

import dreamer_study
from dreamer_study import InputError, Results
from dreamer_study.flows.commands.cli import main
from dreamer_study.reports.curves.entering import EXAMPLE
from tests.reports.small_results import STUDY, entered, trained, whole_study

CURVES = pd.read_csv(EXAMPLE)


@pytest.fixture(scope="module")
def measured() -> Results:
    return dreamer_study.factors(CURVES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("whole")
    return dreamer_study.results(whole_study(folder / "results.duckdb"))


@pytest.mark.slow
def test_a_frame_says_what_the_command_prints_of_the_file(
    measured: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["factors", str(EXAMPLE)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert measured.answer in printed
    assert [warning for warning in measured.warnings if warning not in printed] == []
    assert [
        note for note in measured.notes if note.removeprefix("intervals: ") not in printed
    ] == []


@pytest.mark.slow
def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    found = dreamer_study.factors(CURVES, every_pair=True)
    found.factors(), found.answer, found._repr_html_()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_factors_are_the_rows_of_the_public_view(measured: Results) -> None:
    rows = measured.factors()
    view = measured.sql("from token_ratios")
    assert list(rows) == list(view)
    keys = ["variant", "task", "metric"]
    pd.testing.assert_frame_equal(
        rows.sort_values(keys, ignore_index=True), view.sort_values(keys, ignore_index=True)
    )
    assert list(rows["variant"].unique()) == ["Looped", "LSTM"]  # in the order of the curves
    assert list(rows["task"][:3]) == ["average", "arithmetic", "choices"]


@pytest.mark.slow
def test_curves_are_those_that_were_given(measured: Results) -> None:
    points = measured.curves()
    given = points[points["task"] != "average"].rename(columns={"value": "score"})
    columns = ["task", "variant", "seed", "tokens", "score"]
    expected = CURVES[columns].sort_values(columns[:-1], ignore_index=True)
    pd.testing.assert_frame_equal(
        given[columns].sort_values(columns[:-1], ignore_index=True), expected, check_dtype=False
    )


@pytest.mark.slow
def test_losses_alone_are_curves_too() -> None:
    losses = CURVES.drop(columns=["score", "items", "chance"]).assign(loss=1 - CURVES["score"])
    found = dreamer_study.factors(losses, target="arithmetic:loss=0.7")
    assert set(found.curves()["metric"]) == {"loss"}
    (in_advance,) = found.factors().query("in_advance and variant == 'LSTM'").to_dict("records")
    assert in_advance["score_low"] == in_advance["score_high"] == 0.7


@pytest.mark.slow
def test_the_baseline_is_the_one_that_is_named() -> None:
    found = dreamer_study.factors(EXAMPLE, baseline="LSTM")
    assert set(found.factors()["baseline"]) == {"LSTM"}
    ratios = found.factors().set_index(["variant", "task"])["ratio"]
    other = dreamer_study.factors("example").factors().set_index(["variant", "task"])["ratio"]
    assert ratios["GPT", "choices"] == pytest.approx(1 / other["LSTM", "choices"], rel=0.2)


@pytest.mark.slow
def test_steps_are_turned_into_tokens() -> None:
    steps = CURVES.assign(step=CURVES["tokens"] // 1000).drop(columns="tokens")
    found = dreamer_study.factors(steps, tokens_per_step=1000)
    assert set(found.curves()["tokens"]) == set(CURVES["tokens"])


WRONG = {
    "a percentage": ({"curves": CURVES.assign(score=71.0)}, "curves.iloc[0]: score 71.0 is not"),
    "no such file": ({"curves": "nowhere.csv"}, "nowhere.csv: no such file"),
    "another baseline": ({"curves": CURVES, "baseline": "GTP"}, "no variant 'GTP'; did you mean"),
    "another target": ({"curves": CURVES, "target": 0.5}, "--target 0.5: of which task?"),
    "no step": ({"curves": CURVES, "tokens_per_step": 5}, "curves: --tokens-per-step: the curves"),
    "logs in a frame": ({"curves": CURVES, "log": "loss {loss}"}, "curves: --log is of a folder"),
}


@pytest.mark.parametrize(("asked", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_curves_are_one_line_and_leave_no_file(
    asked: dict[str, object],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InputError) as refused:
        dreamer_study.factors(**asked)  # type: ignore[arg-type]
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_the_file_of_curves_lives_as_long_as_its_results() -> None:
    found = dreamer_study.factors(CURVES)
    path = found.path
    assert path.exists()
    del found
    gc.collect()
    assert not path.parent.exists()


@pytest.mark.slow
def test_a_query_has_parameters_and_changes_nothing(measured: Results) -> None:
    rows = measured.sql("select model_id from runs where seed = $seed", seed=1)
    assert set(rows["model_id"]) == set(CURVES["variant"])
    for query in ("drop table runs", "from nowhere", "select 1; select 2", ""):
        with pytest.raises(InputError, match="query refused"):
            measured.sql(query)


@pytest.mark.slow
def test_a_study_has_its_answer_and_its_checkpoints(whole: Results) -> None:
    assert whole.study_id == STUDY
    assert "training tokens" in whole.answer
    assert whole.warnings
    checkpoints = whole.checkpoints()
    assert not checkpoints.empty
    assert checkpoints["folder"].isna().all()  # rows alone: no model was trained


@pytest.mark.slow
def test_folders_of_checkpoints_are_those_of_the_store(tmp_path: Path) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    first = dreamer_study.results(path).checkpoints().iloc[0]
    folder = tmp_path / "store/runs" / first["run_id"] / "checkpoints" / f"{first['tokens']:015d}"
    folder.mkdir(parents=True)
    assert dreamer_study.results(path).checkpoints()["folder"].dropna().tolist() == [str(folder)]


@pytest.mark.slow
def test_a_notebook_shows_the_answer_the_warnings_and_the_ratios(whole: Results) -> None:
    shown = whole._repr_html_()
    assert "none: one seed" in shown
    assert shown.count("<li>") == len(whole.warnings) > 0
    with_intervals = dreamer_study.factors(CURVES)._repr_html_()
    assert re.search(r"<td>[0-9.]+x</td><td>[0-9.]+ to [0-9.]+</td>", with_intervals)


@pytest.mark.slow
def test_names_in_curves_are_no_markup() -> None:
    named = CURVES.replace({"variant": {"Looped": "<script>alert(1)</script>"}})
    assert "<script>" not in dreamer_study.factors(named)._repr_html_()


@pytest.mark.slow
def test_a_figure_is_an_altair_chart_that_needs_no_network(whole: Results) -> None:
    chart = whole.plot("accuracy-depth-4")
    assert isinstance(chart, alt.TopLevelMixin)
    assert chart.to_dict()["title"]["text"]
    shown = chart._repr_mimebundle_()["text/html"]
    assert shown.startswith('<div id="figure-')
    assert "<svg" in shown  # what is seen without script
    assert re.findall(r"""(?:src|href)=["'](?!#)|import\(|fetch\(""", shown) == []


@pytest.mark.slow
def test_a_chart_is_saved_as_a_picture(measured: Results, tmp_path: Path) -> None:
    measured.plot().save(tmp_path / "answer.png")
    assert (tmp_path / "answer.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_another_figure_is_refused_with_those_that_there_are(measured: Results) -> None:
    with pytest.raises(InputError, match=r"no figure 'anwser' of curves; did you mean 'answer'"):
        measured.plot("anwser")


@pytest.mark.slow
def test_a_report_is_a_file_or_a_folder(measured: Results, tmp_path: Path) -> None:
    file = measured.report(tmp_path / "mine.html", price=2)
    assert file == tmp_path / "mine.html"
    assert "Looped" in file.read_text()
    assert measured.report(str(tmp_path / "whole")) == tmp_path / "whole" / "index.html"
    assert list((tmp_path / "whole" / "figures").glob("answer.*"))
    with pytest.raises(InputError, match="must be a file in a folder that exists"):
        measured.report(tmp_path / "nowhere" / "mine.html")


@pytest.mark.slow
def test_results_that_are_not_there_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such results file"):
        dreamer_study.results(tmp_path / "results.duckdb")
    with pytest.raises(InputError, match="no results yet"):
        dreamer_study.results("demo", root=tmp_path / "demo")
    with pytest.raises(InputError, match="neither a preset"):
        dreamer_study.results("dem")
    with pytest.raises(InputError, match=f"no results of other, only of {STUDY}"):
        dreamer_study.results(whole_study(tmp_path / "r.duckdb"), study_id="other")


@pytest.mark.slow
def test_two_studies_are_compared(tmp_path: Path) -> None:
    right = {"LA": (4, 8, 12, 16, 20), "DR": (8, 13, 16, 22, 24)}
    fewer = {"LA": (4, 8, 12, 16, 20), "DR": (3, 5, 6, 7, 8)}
    first = entered(tmp_path / "first.duckdb", trained(right, seeds=2))
    second = entered(tmp_path / "second.duckdb", trained(fewer, seeds=2))
    found = dreamer_study.compare(first, dreamer_study.results(second))
    assert found.verdict
    assert not found.accuracies.empty
    assert math.isfinite(found.accuracies["difference"].iloc[0])
    with pytest.raises(InputError, match="both sides are study"):
        dreamer_study.compare(first, first)
