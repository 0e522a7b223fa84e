"""What all trainings of a study took: hours, tokens, FLOPs, and money."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dreamer_study.reports.data import read_study
from dreamer_study.reports.text.costs import total_cost
from tests.reports.small_results import STUDY, Tables, entered, models_and_runs

pytestmark = pytest.mark.slow

# Two trainings of 7,300 seconds, 16M tokens, and 3 x 9.389e8 FLOPs a token.
TOTAL = "The 2 trainings took 4.1\u202fh, 32M tokens and 9.01e16 FLOPs in all."


def cost(
    tmp_path: Path,
    price: float | None = None,
    details: list[dict[str, Any]] | None = None,
    **columns: Any,
) -> str:
    tables: Tables = models_and_runs("LA", "DR")
    tables["runs"][1] |= columns
    tables["run_details"] = details or []
    data = read_study(entered(tmp_path / "results.duckdb", tables), STUDY)
    return total_cost(data, price)


def test_hours_tokens_and_flops_are_summed(tmp_path: Path) -> None:
    assert cost(tmp_path) == TOTAL


@pytest.mark.parametrize(
    ("price", "columns", "devices", "said"),
    [
        # 2 x 7,300 s = 4.06 h
        (2.5, {}, {}, "At 2.5 for a core-hour the 4.06 core-hours cost 10.14,"),
        (0, {}, {}, "At 0 for a core-hour the 4.06 core-hours cost 0.00,"),
        (1, {"device": "NVIDIA H100"}, {}, "At 1 for a device-hour the 4.06 device-hours"),
        # 7,300 s + 8 x 7,300 s = 18.25 h
        (1000, {}, {"DR": 8}, "the 18.2 core-hours cost 18,250.00, without searches and"),
        (1, {"seconds": None}, {}, "cost 2.03, without searches and evaluations. The times of 1"),
    ],
)
def test_a_price_makes_money_of_the_hours_of_all_devices(
    tmp_path: Path,
    price: float,
    columns: dict[str, Any],
    devices: dict[str, int],
    said: str,
) -> None:
    details = [{"run_id": run, "devices": count} for run, count in devices.items()]
    assert said in cost(tmp_path, price, details, **columns)


def test_trainings_of_gpus_have_gpu_hours(tmp_path: Path) -> None:
    tables = models_and_runs("LA")
    tables["runs"][0]["device"] = "NVIDIA H100"
    data = read_study(entered(tmp_path / "results.duckdb", tables), STUDY)
    assert "At 2.5 for a GPU-hour the 2.03 GPU-hours cost 5.07" in total_cost(data, 2.5)


def test_what_is_not_known_has_no_number(tmp_path: Path) -> None:
    tables = models_and_runs("LA")
    tables["runs"][0]["seconds"] = None
    tables["models"][0]["flops_per_token"] = None
    data = read_study(entered(tmp_path / "results.duckdb", tables), STUDY)
    assert not total_cost(data)
    assert total_cost(data, 2.5).startswith("What the trainings cost is not known: the results")
