"""A model that is far slower than the rest is told before the study starts, with what it costs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.estimates import measure, slow
from dreamer_study.flows.estimates.rates import Rates
from dreamer_study.flows.estimates.slow import slow_warnings
from dreamer_study.flows.estimates.study_estimate import Machine, estimate_study
from dreamer_study.flows.plan.sizes import sized_models
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.architectures import count_flops
from dreamer_study.model.architectures.count_flops import seconds_of_row
from tests.flows.by_hand import study_file
from tests.model.test_contract import FILE, HERE, described

VARIANTS = [
    "LA",
    {"name": "Fast", "module": f"{FILE}:Mean", "config": {"dropout": 0.0}},
    {"name": "Loop", "module": f"{FILE}:Attention", "seeds": [0, 1]},
]


def study_of(folder: Path, *variants: Any) -> Study:
    shutil.copy(HERE / FILE, folder)
    path = study_file(folder, models={"variants": [*variants]})
    return load_study(path, root=folder / "run")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the models whose steps were timed; a pass of Attention takes 30 ms, others 1 ms."""
    names: list[str] = []

    def steps(folder: Path, model: Any, *_: Any, **__: Any) -> tuple[float, str]:
        names.append(model.name)
        return 400.0 if model.name == "Loop" else 4000.0, "cpu"

    def pass_of(config: Any, **_: Any) -> float:
        return 0.03 if "Attention" in getattr(config, "module", "") else 0.001

    monkeypatch.setattr(measure, "_time_steps", steps)
    monkeypatch.setattr(count_flops, "seconds_of_row", pass_of)
    return names


@pytest.mark.slow
def test_ten_steps_of_the_slow_model_alone_say_what_it_costs(
    tmp_path: Path, measured: list[str]
) -> None:
    study = study_of(tmp_path, *VARIANTS)
    for _ in range(2):  # the second time from the store
        (warning,) = estimate_study(study, trust_code=True).warnings
        assert warning == (
            "Loop is far slower than the rest: 400 tokens/s, over 10 training steps, and its"
            " forward pass takes about 30 times as long as that of the model in the middle; with 2"
            " trainings, 48,000 tokens in all, that is 2.0\u202fmin on one device"
        )
        assert measured == ["Loop"]


@pytest.mark.slow
def test_what_was_measured_once_is_known_to_later_plans(
    tmp_path: Path, measured: list[str]
) -> None:
    study = study_of(tmp_path, *VARIANTS)
    now = estimate_study(study, Machine(measure=True), trust_code=True)
    later = estimate_study(study, trust_code=True)
    assert measured == ["LA", "Fast", "Loop"]
    assert later.rates.by_model == now.rates.by_model
    assert later.rates.origin == "10 steps of each measured before"
    assert later.times == now.times
    for estimate in (now, later):
        (warning,) = estimate.warnings
        assert "Loop is far slower than the rest: 400 tokens/s, its training takes" in warning
        assert "about 10 times as long" in warning
    other = estimate_study(study, Machine(gpus=1), trust_code=True)
    assert other.rates.by_model == {}
    assert other.warnings == ()


@pytest.mark.slow
def test_no_model_is_timed_where_all_are_of_the_family_or_nothing_is_far_slower(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert estimate_study(study_of(tmp_path, "LA", "DR")).warnings == ()
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(slow, "FAR", 31)
    assert estimate_study(study_of(tmp_path, *VARIANTS), trust_code=True).warnings == ()
    assert measured == []


def test_rates_that_are_known_say_which_model_is_far_slower(tmp_path: Path) -> None:
    study = study_of(tmp_path, "LA", "DR", "DR+DA")
    planned = sized_models(study, 300)
    rates = Rates({"LA-2": 1000.0, "DR-2": 900.0, "DR+DA-2": 100.0}, "by hand")
    (warning,) = slow_warnings(study, planned, rates, on_gpu=True)
    assert re.match(r"DR\+DA is far slower than the rest: 100 tokens/s, .* about 9 times", warning)


def test_only_small_models_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = described("Attention", {})
    of_row = seconds_of_row(config, code=HERE, trust_code=True)
    assert of_row is not None
    assert 0 <= of_row < 1
    monkeypatch.setattr(count_flops, "SMALL", 10)
    assert seconds_of_row(config, code=HERE, trust_code=True) is None
