"""`dreamer plan`: what a study needs in data, time, devices and money, and what it can tell."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from flows.commands.cli import main
from flows.commands.planning import time_plan
from flows.commands.planning.data_plan import data_bytes, data_tables
from flows.commands.planning.time_plan import estimate_times, scored_tokens, unknown_benchmarks
from flows.models import plan_models
from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.sources.sizes import SIZES
from pipeline.sources.table import SOURCES
from tests.flows.by_hand import at_once
from tests.flows.small_study import TINY


def test_every_source_of_the_table_has_a_size_or_is_said_to_be_unknown() -> None:
    assert set(SIZES) == set(SOURCES)


def test_the_paper_study_prints_totals_and_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "paper-16"]) == 0
    out = capsys.readouterr().out
    assert "at least 135,914,853 (2 of 15 sources unknown) documents" in out
    assert "core-hours" in out
    (line,) = [line for line in out.splitlines() if line.startswith("nemotron-sft-math")]
    assert line.split()[1:] == ["unknown"] * 4
    (line,) = [line for line in out.splitlines() if line.startswith("DR+DA-16")]
    assert "+0.24 %" in line


def test_files_at_hand_are_measured(tmp_path: Path) -> None:
    folder = tmp_path / "owner" / "set" / "data"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"q": ["question"] * 100, "r": ["response"] * 100}), folder / "train-00000.parquet")
    source = {"name": "set", "repository": "owner/set", "question": "q", "response": "r"}
    content = {
        "name": "s",
        "data": {"sources": [source], "mirror": str(tmp_path)},
        "training": {"tokens": 1000},
        "evaluation": {"benchmarks": ["builtin"]},
    }
    sources, stages, lines = data_tables(load_study(content))
    assert sources.to_dict("records")[0]["documents"] == "100"
    assert sources.to_dict("records")[0]["to download"] == "at hand"
    assert lines["data"].startswith("100 documents, 0 B to download")
    assert list(stages["stage"]) == ["documents", "traces", "clean", "deduplicate", "decontaminate", "tokens"]


def test_a_mirror_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "demo", "--mirror", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err == f"dreamer: data.mirror: there is no folder {tmp_path / 'nowhere'}\n"


def test_bytes_of_data_grow_with_the_documents() -> None:
    content = {"name": "s", "training": {"tokens": 1000}, "evaluation": {"benchmarks": ["builtin"]}}
    few, more = (
        data_bytes(load_study({**content, "data": {"sources": ["builtin"], "world": {"documents": documents}}}))
        for documents in (1000, 2000)
    )
    assert few > 1000 * 100
    assert more == pytest.approx(2 * few)


def test_signatures_take_room_beside_the_documents() -> None:
    """25 band hashes and a place, 8 bytes each, for every document that is signed."""
    content = {"name": "s", "training": {"tokens": 1000}, "evaluation": {"benchmarks": ["builtin"]}}
    data = {"sources": ["builtin"], "world": {"documents": 1000}}
    keys, some, every = (
        data_bytes(load_study({**content, "data": {**data, "deduplicate": settings}}))
        for settings in ({"near": False}, {}, {"guards": []})
    )
    assert every - keys == pytest.approx(1000 * 26 * 8)
    assert some - keys == pytest.approx(0.24 * 1000 * 26 * 8)


def study(root: Path | None = None, **training: object) -> Study:
    content = yaml.safe_load(TINY.read_text())
    content["training"] |= {"tokens": 1000, "checkpoints": 2, "warmup_steps": 1, "screening": 0.0, **training}
    content["evaluation"] |= {"weights": "averaged", "depths": [1, 2, 4]}
    return load_study(content, root=root)


def times(on: int = 2, **changed: object) -> tuple[float, float, float]:
    """Seconds of training, of evaluation and of work where every model trains as fast."""
    chosen = study(**changed)
    with pytest.MonkeyPatch.context() as patched:  # 10 tokens trained in a second, an evaluation in three
        patched.setattr(time_plan, "training_flops_per_token", lambda config, length: 1)
        patched.setattr(time_plan, "flops_per_token", lambda config, length: 30 / scored_tokens(chosen))
        found = estimate_times(chosen, plan_models(chosen, 400), 10.0, on)
    return found.training, pytest.approx(found.evaluation), pytest.approx(found.busy)


def test_runs_in_turn_on_the_devices() -> None:
    # 3 models of 2 seeds take 100 s each; of 2 recurrent ones the last of 2 checkpoints is read at 2 more depths.
    evaluations = 3 * 2 * 2 + 2 * 2 * 2
    assert times() == (300.0, evaluations * 3 / 2, 600 + evaluations * 3)
    assert times(seeds=[0])[0] == 200.0  # three runs on two devices
    assert times(on=4)[0] == 200.0  # six runs on four


def test_more_devices_than_runs_share_them() -> None:
    assert times(seeds=[0], on=3)[0] == 100.0
    assert times(seeds=[0], on=7)[0] == pytest.approx(50.0)  # two, two and three devices


def test_screening_trains_all_seeds_first_and_then_one() -> None:
    assert times(screening=0.25, on=6)[0] == 25 + 37.5  # then two devices for each of three runs


def test_evaluations_count_items_of_known_benchmarks() -> None:
    content = yaml.safe_load(TINY.read_text())
    content["evaluation"] = {
        "benchmarks": ["gsm8k", {"name": "mine", "repository": "a/b", "task": "t", "metric": "acc"}]
    }
    chosen = load_study(content)
    assert unknown_benchmarks(chosen) == ["mine"]
    assert scored_tokens(chosen) == pytest.approx(1319 * 393, rel=0.01)
    few = chosen.model_copy(update={"evaluation": chosen.evaluation.model_copy(update={"limit": 10})})
    assert scored_tokens(few) == pytest.approx(10 * 393, rel=0.01)


def test_epochs_are_those_of_the_packed_tokens_and_the_estimate_is_near(tmp_path: Path) -> None:
    chosen = study(tmp_path)
    bigger = dataclasses.replace(chosen.data.world, documents=3000)
    chosen = chosen.model_copy(update={"data": chosen.data.model_copy(update={"world": bigger})})
    estimate = float(data_tables(chosen)[2]["epochs"].split()[1])
    plan = Plan(chosen)
    prepare_data(plan, at_once)
    packed = plan.data.packed.results["tokens"]
    assert data_tables(chosen)[2]["epochs"].startswith(f"{1000 / packed:,.3g} over {packed:,} packed tokens")
    assert estimate == pytest.approx(1000 / packed, rel=0.15)


def test_price_and_gpus_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "paper-16", "--gpus", "8", "--price", "2.5"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "8 x GPU at 148 TFLOP/s" in lines["time"]
    hours = float(lines["hours"].split()[1])
    assert float(lines["price"].split()[1].replace(",", "")) == pytest.approx(2.5 * hours, rel=0.01)
