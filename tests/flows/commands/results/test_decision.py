"""The exit status of `dreamer factors --below`."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.results.decision import decide
from dreamer_study.pipeline.errors import InputError
from tests.flows.commands.results.test_factors import curves_in

NAN = float("nan")
INF = float("inf")


def rows(**changes: object) -> dict[str, object]:
    """A row of `token_ratios`, as far as a decision reads it."""
    row = {
        "depth": None,
        "variant": "B",
        "baseline": "A",
        "task": "average",
        "metric": "accuracy",
        "ratio": 0.9,
        "low": 0.8,
        "high": 0.95,
        "seeds": 3,
        "outdated": False,
        "in_advance": False,
    }
    return {**row, **changes}


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.8, 0.95, 0),
        (0.8, 0.97, 0),  # the end counts
        (0.8, 0.98, 4),
        (0.97, 1.1, 4),
        (0.98, 1.1, 3),
        (NAN, 0.9, 0),  # at most 0.9
        (NAN, 1.1, 4),
        (1.1, NAN, 3),  # at least 1.1
        (0.9, NAN, 4),
        (1.1, INF, 3),
        (0.9, INF, 4),
        (NAN, NAN, 4),  # one seed
    ],
)
def test_the_whole_interval_decides(low: float, high: float, status: int) -> None:
    found = decide(pd.DataFrame([rows(low=low, high=high)]), 0.97, None, None)
    assert found.status == status
    assert "below 0.97x" in found.sentence


def test_the_average_is_meant_unless_a_task_is_named() -> None:
    table = pd.DataFrame(
        [
            rows(task="math", low=1.2, high=1.4),
            rows(),
            rows(metric="loss", low=1.2, high=1.4),
        ]
    )
    assert decide(table, 0.97, None, None).verdict == "below"
    assert decide(table, 0.97, None, "average").verdict == "below"
    assert decide(table, 0.97, "B", "average:loss").verdict == "above"
    assert decide(table, 0.97, None, "math").verdict == "above"
    with pytest.raises(InputError, match=r"--task mth: .*did you mean 'math'"):
        decide(table, 0.97, None, "mth")
    with pytest.raises(InputError, match=r"--task math:loss: .* math:accuracy"):
        decide(table, 0.97, None, "math:loss")


def test_an_average_of_which_nothing_is_known_is_not_yet_known() -> None:
    unknown = rows(ratio=NAN, low=NAN, high=NAN, seeds=NAN)
    assert decide(pd.DataFrame([unknown]), 0.97, None, None).status == 4


def test_the_only_task_needs_no_name_and_one_of_several_does() -> None:
    only = [rows(task="t", low=0.1, high=0.2)]
    assert decide(pd.DataFrame(only), 0.97, None, None).task == "t"
    with pytest.raises(InputError, match="there is no average; --task NAME, one of t, u"):
        decide(pd.DataFrame([*only, rows(task="u")]), 0.97, None, None)


def test_one_of_several_variants_must_be_named() -> None:
    table = pd.DataFrame([rows(), rows(variant="C", low=1.2, high=1.4)])
    with pytest.raises(InputError, match="--variant NAME, one of B, C"):
        decide(table, 0.97, None, None)
    assert decide(table, 0.97, "C", None).verdict == "above"
    with pytest.raises(InputError, match="--variant A is the baseline"):
        decide(table, 0.97, "A", None)
    with pytest.raises(InputError, match="--variant D is none of the variants"):
        decide(table, 0.97, "D", None)


@pytest.fixture
def curves(tmp_path: Path) -> str:
    """Curves of A and B with seeds; B takes fewer tokens."""
    path = curves_in(tmp_path / "t.csv", value="score", seeds={"A": 3, "B": 3})
    return str(path)


@pytest.mark.slow
def test_the_status_of_the_command(
    curves: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["factors", curves, "--json"]) == 0
    (row,) = [
        row for row in json.loads(capsys.readouterr().out)["ratios"] if row["task"] == "average"
    ]
    assert row["low"] < row["high"]
    middle = (row["low"] + row["high"]) / 2
    for below, status in ((row["high"], 0), (row["low"] / 2, 3), (middle, 4)):
        assert main(["factors", curves, "--below", str(below)]) == status
        assert "B on average (accuracy): " in capsys.readouterr().out.splitlines()[-1]
    assert main(["factors", curves, "--below", str(middle), "--json"]) == 4
    below = json.loads(capsys.readouterr().out)["below"]
    assert below["verdict"] == "not yet known"
    assert (below["limit"], below["low"]) == (middle, row["low"])

    one_seed = curves_in(tmp_path / "one.csv", value="loss", seeds={"A": 1, "B": 1})
    assert main(["factors", str(one_seed), "--below", "5"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--below", "0"], "--below is 0"),
        (["--below", "nan"], "--below is nan"),
        (["--below", "inf"], "--below is inf"),
        (["--variant", "B"], "give --below too"),
        (["--task", "t"], "give --below too"),
        (["--below", "1", "--variant", "b"], "--variant b is none of the variants"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    given: list[str], said: str, curves: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["factors", curves, *given]) == 2
    assert said in capsys.readouterr().err


def test_statuses_of_bad_input_and_of_an_answer_differ() -> None:
    from dreamer_study.flows.commands.results.decision import STATUSES

    for first, second in itertools.combinations([1, 2, *STATUSES.values()], 2):
        assert first != second
