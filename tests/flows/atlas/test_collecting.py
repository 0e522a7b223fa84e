"""A world of the atlas has the rows of all complete variants, and their ratios to one baseline."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.flows.atlas import bundled
from dreamer_study.flows.atlas.architectures import WITH_BESTS
from dreamer_study.flows.atlas.collecting import collect
from dreamer_study.flows.atlas.table import read_folder
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import ask, connect, query
from dreamer_study.sql.statistics.compute import compute_statistics
from tests.flows.atlas.made_up import family

pytestmark = pytest.mark.slow

ACCURACIES = (
    "select variant, task, ratio, low, high, score_low, score_high, at_least, reached, near_chance"
    " from token_ratios where metric = 'accuracy' and baseline = 'LA' order by all"
)

RECOMPUTED = [
    *("variant", "task", "metric", "ratio", "low", "high", "at_least", "p_adjusted", "best"),
    "baseline_best",
]
SAME = 1e-9  # sums of more columns round otherwise in their last digit


@pytest.fixture
def world(worlds: Path) -> Path:
    return worlds / "tiny"


def test_ratios_are_those_of_a_study_that_trains_all(world: Path, tmp_path: Path) -> None:
    whole = family(tmp_path / "whole.duckdb", ["LA", "Llama", "DR", "RWKV", "LSTM"])
    expected = query(whole, ACCURACIES)
    ratios = read_folder(world).ratios
    stored = ratios[ratios["metric"] == "accuracy"][expected.columns]
    stored = stored.sort_values(["variant", "task"], ignore_index=True)
    assert expected["ratio"].notna().sum() >= 6
    pd.testing.assert_frame_equal(stored, expected, check_dtype=False, rtol=SAME)


def test_stored_ratios_are_computed_again_from_the_rows(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled, "WORLDS", world.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    check_ratios("tiny")


@pytest.mark.parametrize("bundled_world", bundled.worlds())
def test_ratios_of_the_package_are_computed_again_from_its_rows(
    bundled_world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    check_ratios(bundled_world)


def check_ratios(world: str) -> None:
    stored = read_folder(bundled.world_folder(world)).ratios[RECOMPUTED]
    expected = recompute(world)[RECOMPUTED]
    assert stored["ratio"].notna().any()
    pd.testing.assert_frame_equal(stored, expected, check_dtype=False, rtol=SAME)


def recompute(world: str) -> pd.DataFrame:
    """Compute the ratios of a world of the package again, from the rows of one study after all."""
    path = bundled.results_file(world)
    together = path.with_name("together.duckdb")
    together.write_bytes(path.read_bytes())
    replicates = bundled.read_recipe(world)["evaluation"].get("bootstrap_replicates", 1000)
    with closing(connect(together)) as connection:
        for table in ("models", "runs", "claims", "tuning", "tuning_settings"):
            connection.execute(f"update {table} set study_id = 'all'")
        for table in ("studies", "study_inputs", "benchmark_levels"):
            one = f"select min(study_id) from {table}"
            connection.execute(f"delete from {table} where study_id <> ({one})")
            connection.execute(f"update {table} set study_id = 'all'")
        compute_statistics(connection, "all", replicates=replicates, baselines=["LA"])
    return ask(together, WITH_BESTS, study="all")


def test_what_is_known_of_an_architecture(world: Path) -> None:
    architectures = read_folder(world).architectures.set_index("variant")
    assert set(architectures.index) == {"LA", "Llama", "DR", "LSTM", "RWKV"}
    llama = architectures.loc["Llama"]
    assert (llama["learning_rate"], llama["rates_tried"]) == (2e-3, "0.001 0.002 0.004")
    assert llama["rate_inside"]
    assert (llama["seeds"], llama["tokens_per_second"], llama["made"]) == (3, 1000, "2026-11-29")
    assert llama["configuration"] == "{name: Llama, family: LA, overrides: {expert_size: 48}}"
    assert llama["study"].startswith("dense-")
    assert list(architectures.index[architectures["baseline"]]) == ["LA"]


def test_losses_of_items_stay_behind(world: Path) -> None:
    items = pd.read_parquet(world / "rows" / "items.parquet")
    assert set(items["metric"]) == {"acc"}


def test_studies_that_a_world_has_stay_and_one_that_is_given_anew_takes_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled, "WORLDS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dense = family(tmp_path / "dense.duckdb", ["LA", "Llama"])
    recurrent = family(tmp_path / "recurrent.duckdb", ["LA", "DR"])
    at_once, in_turn = tmp_path / "at_once", tmp_path / "in_turn"
    collect([dense, recurrent], at_once)
    collect([dense], in_turn)
    for study in (recurrent, recurrent):
        assert collect([study], in_turn, kept=bundled.results_file("in_turn")) == []
        for name in ("ratios", "architectures"):
            made = getattr(read_folder(in_turn), name)
            pd.testing.assert_frame_equal(made, getattr(read_folder(at_once), name), rtol=SAME)


def test_families_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    def error(*paths: Path) -> str:
        with pytest.raises(InputError) as caught:
            collect(paths, tmp_path / "world")
        assert not (tmp_path / "world").exists()
        return str(caught.value)

    dense = family(tmp_path / "dense.duckdb", ["LA", "Llama"])
    batch = family(tmp_path / "batch.duckdb", ["LA", "DR"], training={"batch_tokens": 256})
    assert "differ in training.batch_tokens" in error(dense, batch)
    again = family(tmp_path / "again.duckdb", ["LA", "Llama"])
    assert "both have Llama" in error(dense, again)
    part = family(tmp_path / "part.duckdb", ["LA", "DR"], trained={"LA": 1})
    assert "LA is not complete" in error(part)
    fewer = {"trained": {"LA": 2, "DR": 2}, "training": {"seeds": [0, 1]}}
    seeds = family(tmp_path / "seeds.duckdb", ["LA", "DR"], **fewer)
    assert "not the same trainings of the baseline LA" in error(dense, seeds)


def test_a_baseline_that_another_machine_has_trained_is_a_remark(tmp_path: Path) -> None:
    dense = family(tmp_path / "dense.duckdb", ["LA", "Llama"])
    recurrent = family(tmp_path / "recurrent.duckdb", ["LA", "DR"])
    assert collect([dense, recurrent], tmp_path / "world") == []
    with closing(connect(recurrent)) as connection:
        connection.execute(
            "update evaluations set value = value + 0.02 where run_id like 'LA%' and metric = 'acc'"
        )
    (remark,) = collect([dense, recurrent], tmp_path / "world")
    assert remark.startswith("recurrent-")
    assert "its ratios are to LA of dense-" in remark
