"""What a study will take: documents, bytes, epochs, seconds on several devices."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.flows.commands.planning.data_plan import data_lines, source_table
from dreamer_study.flows.estimates.benchmark_sizes import scored_by, unknown_benchmarks
from dreamer_study.flows.estimates.data_needs import data_needs
from dreamer_study.flows.estimates.rates import Rates
from dreamer_study.flows.estimates.times import estimate_times
from dreamer_study.flows.plan.model_plan import plan_models
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.sources.sizes import SIZES
from dreamer_study.pipeline.sources.table import SOURCES
from tests.flows.by_hand import tiny


def test_every_source_of_the_table_has_a_size_or_is_said_to_be_unknown() -> None:
    assert set(SIZES) == set(SOURCES)


def test_files_at_hand_are_measured(tmp_path: Path) -> None:
    folder = tmp_path / "owner" / "set" / "data"
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"q": ["question"] * 100, "r": ["response"] * 100}), folder / "train-00000.parquet"
    )
    source = {"name": "set", "repository": "owner/set", "question": "q", "response": "r"}
    chosen = tiny(tmp_path, data={"sources": [source], "mirror": str(tmp_path)})
    needs = data_needs(chosen)
    sources = source_table(needs)
    lines = data_lines(chosen, needs)
    assert sources.to_dict("records")[0]["documents"] == "100"
    assert sources.to_dict("records")[0]["to download"] == "at hand"
    assert lines["data"].startswith("100 documents; 0 B to download")
    assert lines["stages"].endswith("of disk; nothing is counted as dropped")


def test_bytes_of_data_grow_with_the_documents_and_their_signatures(tmp_path: Path) -> None:
    def needed(documents: int, **deduplicate: object) -> float:
        data = {"world": {"documents": documents}, "deduplicate": deduplicate}
        return data_needs(tiny(tmp_path, data=data)).written

    assert needed(1000) > 1000 * 100
    assert needed(2000) == pytest.approx(2 * needed(1000))
    # 25 band hashes and a place, 8 bytes each, for every document that is signed
    hashes = 1000 * 26 * 8
    assert needed(1000, guards=[]) - needed(1000, near=False) == pytest.approx(hashes)
    assert needed(1000) - needed(1000, near=False) == pytest.approx(0.24 * hashes)


def study(root: Path, per_gpu: int = 1, **training: object) -> Study:
    recipe = {"tokens": 1000, "checkpoints": 2, "warmup_steps": 1, "seeds": [0, 1], **training}
    return tiny(
        root,
        training=recipe,
        evaluation={"depths": [1, 2, 4]},
        compute={"per_gpu": per_gpu},
        workers=None,  # as many as there are devices
    )


def scored_tokens(chosen: Study) -> float:
    return sum(one.items * one.tokens for one in scored_by(chosen))


def times(on: int = 2, *, shared: bool = False, **changed: object) -> tuple[float, float, float]:
    """Seconds of training, of evaluation and of work where every model trains as fast."""
    chosen = study(Path("run"), **changed)
    planned = plan_models(chosen, 400)
    # 10 tokens are trained in a second, 30 evaluated
    rates = Rates({model.model_id: 10.0 for model in planned}, "by hand", shared=shared)
    found = estimate_times(chosen, planned, rates, on)
    return found.training, pytest.approx(found.evaluation), pytest.approx(found.busy)


def test_runs_in_turn_on_the_devices() -> None:
    # 3 models of 2 seeds take 100 s each; of 2 recurrent ones the last of 2 checkpoints is read at
    # 2 more depths.
    evaluated = (3 * 2 * 2 + 2 * 2 * 2) * scored_tokens(study(Path("run"))) / 30
    assert times() == (300.0, evaluated / 2, 600 + evaluated)
    assert times(seeds=[0])[0] == 200.0  # three runs on two devices
    assert times(on=4)[0] == 200.0  # six runs on four


def test_trainings_that_share_a_gpu_share_its_rate() -> None:
    assert times(per_gpu=3) == times(), (
        "three at a time on each of two devices, each a third as fast"
    )
    # the rates of the store were taken from trainings that shared: six at a time on two devices
    assert times(per_gpu=3, shared=True)[0] == 100.0


def test_screening_trains_all_seeds_first_and_then_one() -> None:
    assert times(screening=0.25, on=6)[0] == 25 + 37.5  # then two devices for each of three runs


@pytest.mark.slow
def test_evaluations_count_items_of_known_benchmarks(tmp_path: Path) -> None:
    mine = {"name": "mine", "repository": "a/b", "task": "t", "metric": "acc"}
    chosen = tiny(tmp_path, evaluation={"benchmarks": ["gsm8k", mine], "limit": None})
    assert unknown_benchmarks(chosen) == ["mine"]
    assert scored_tokens(chosen) == pytest.approx(1319 * 393, rel=0.01)
    few = chosen.model_copy(
        update={"evaluation": chosen.evaluation.model_copy(update={"limit": 10})}
    )
    assert scored_tokens(few) == pytest.approx(10 * 393, rel=0.01)


@pytest.mark.slow
def test_epochs_are_those_of_the_packed_tokens_and_the_estimate_is_near(tmp_path: Path) -> None:
    chosen = study(tmp_path)
    bigger = dataclasses.replace(chosen.data.world, documents=3000)
    chosen = chosen.model_copy(update={"data": chosen.data.model_copy(update={"world": bigger})})
    estimate = data_needs(chosen).epochs.count
    plan = Plan(chosen)
    prepare_data(plan, Steps())
    packed = plan.data.packed.results["tokens"]
    assert data_lines(chosen, data_needs(chosen))["epochs"].startswith(
        f"{1000 / packed:,.3g} over {packed:,} packed tokens"
    )
    assert estimate == pytest.approx(1000 / packed, rel=0.15)
