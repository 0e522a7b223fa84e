"""A study takes rows of the atlas where all that decides a comparison is equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.atlas import bundled
from dreamer_study.flows.plan.elsewhere import costs_elsewhere, read_origins
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from tests.flows.atlas.made_up import settings

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def in_package(worlds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "WORLDS", worlds)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def joined(origin: str = "atlas/tiny", name: str = "Llama", **changes: Any) -> dict[str, Any]:
    """The settings of a study that takes two variants from the atlas and trains one."""
    content = settings("mine", ["DR"], **changes)
    taken = [{"name": "LA", "from": "atlas/tiny"}, {"name": name, "from": origin}]
    return {
        **content,
        "models": {**content["models"], "variants": [*taken, {"name": "Mine", "family": "DR"}]},
    }


def test_rows_come_from_the_package_with_their_origin() -> None:
    origins = read_origins(load_study(joined()))
    assert [*origins] == ["LA", "Llama"]
    llama = origins["Llama"]
    assert llama.study_id.startswith("dense-")
    assert len(llama.run_ids) == 3
    assert llama.costs[2].flops_per_token == 75_000
    assert "2026-11-29, with version 0.1.0 (1a2b3c4)" in llama.remark
    (kept,) = Path("cache/dreamer-study").glob("atlas-tiny-*.duckdb")
    assert llama.results == kept.resolve()
    assert costs_elsewhere(load_study(joined())).keys() == {"LA", "Llama"}


def test_a_cache_that_cannot_be_written_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", "file")
    assert read_origins(load_study(joined()))["LA"].results.exists()


def test_a_cache_that_was_cleaned_is_filled_again() -> None:
    kept = bundled.results_file("tiny")
    kept.unlink()
    assert bundled.results_file("tiny") == kept
    assert kept.exists()


@pytest.mark.parametrize("bytes_left", [0, 10_000])
def test_a_damaged_cache_is_filled_again(bytes_left: int) -> None:
    kept = bundled.results_file("tiny")
    whole = kept.stat().st_size
    with kept.open("r+b") as file:
        file.truncate(bytes_left)
    assert read_origins(load_study(joined()))["LA"].run_ids
    assert kept.stat().st_size == pytest.approx(whole, rel=0.2)


def test_a_name_that_the_atlas_does_not_have_is_one_line() -> None:
    def error(**given: str) -> str:
        with pytest.raises(InputError) as caught:
            read_origins(load_study(joined(**given)))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "no world 'tinny'; did you mean 'tiny'" in error(origin="atlas/tinny")
    assert "no variant of that name; did you mean 'Llama'" in error(name="Llamas")
    assert "atlas/tiny" in error(origin="nowhere")
    assert "no variant of that name" in error(name="Late"), "it was not complete, and left out"


def test_a_folder_of_the_same_name_is_not_taken_in_silence() -> None:
    Path("atlas/tiny").mkdir(parents=True)
    with pytest.raises(InputError, match=r"write \./atlas/tiny for the folder"):
        read_origins(load_study(joined()))
    Path("atlas/tiny").rename("atlas/other")
    with pytest.raises(InputError, match=r"atlas/other/results\.duckdb does not exist"):
        read_origins(load_study(joined("atlas/other")))


@pytest.mark.parametrize(
    ("setting", "changes"),
    [
        ("training.batch_tokens", {"training": {"batch_tokens": 256}}),
        ("training.sequence_length", {"training": {"sequence_length": 64}}),
        ("training.loss_on", {"training": {"loss_on": "answers"}}),
        ("training.documents", {"training": {"documents": "joined"}}),
        ("evaluation.limit", {"evaluation": {"limit": 6}}),
        ("evaluation.weights", {"evaluation": {"weights": "raw"}}),
    ],
)
def test_another_setting_is_refused(setting: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        costs_elsewhere(load_study(joined(**changes)))
    assert setting in str(caught.value)
    assert str(caught.value).count(" here and ") == 1, "nothing else differs"
