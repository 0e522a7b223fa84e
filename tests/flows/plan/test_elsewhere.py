"""A variant of another study joins where all that decides a comparison is equal, and nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dreamer_study.flows.atlas import bundled
from dreamer_study.flows.atlas.collecting import collect
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.elsewhere import costs_elsewhere
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import query
from tests.flows.by_hand import study_file, tiny_settings

pytestmark = pytest.mark.usefixtures("light_reports")

RATIOS = (
    "select depth, variant, task, metric, ratio, low, high, score_low, score_high, at_least"
    " from token_ratios where variant = 'DR' order by all"
)


def written(folder: Path, **changes: Any) -> Path:
    """A study of two short trainings, of the variants that are given or LA and DR."""
    changes = {
        "models": {"variants": ["LA", "DR"], "depths": [2]},
        **changes,
        "training": {"tokens": 6000, "checkpoints": 3, **changes.get("training", {})},
        "evaluation": {"limit": 5, **changes.get("evaluation", {})},
    }
    folder.mkdir(exist_ok=True)
    return study_file(folder, **changes)


@pytest.fixture(scope="module")
def origin(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study of LA and DR."""
    folder = tmp_path_factory.mktemp("origin")
    path = written(folder)
    shutil.copytree(tiny_store, folder / "study" / "store")
    command = ["run", str(path), "--root", str(folder / "study"), "--plain"]
    assert main([*command, "--until", "evaluate"]) == 0
    return folder / "study"


@pytest.fixture
def root(tiny_store: Path, tmp_path: Path) -> Path:
    """The folder of a study whose data are prepared."""
    shutil.copytree(tiny_store, tmp_path / "root" / "store")
    return tmp_path / "root"


def joined(folder: Path, origin: Path, **changes: Any) -> Path:
    variants = {"models": {"variants": [{"name": "LA", "from": str(origin)}, "DR"], "depths": [2]}}
    return written(folder, **{"name": "joined", **variants, **changes})


@pytest.mark.slow
def test_rows_of_another_study_give_the_ratios_of_a_study_that_trains_all(
    origin: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = joined(tmp_path, origin)
    assert main(["plan", str(path)]) == 0
    assert f"LA from {origin}" in " ".join(capsys.readouterr().out.split())
    assert main(["run", str(path), "--root", str(root), "--plain"]) == 0
    assert not list(root.glob("store/runs/LA-*"))
    expected = query(origin / "results.duckdb", RATIOS)
    assert len(expected) >= 5
    pd.testing.assert_frame_equal(query(root / "results.duckdb", RATIOS), expected)

    (row,) = query(root / "results.duckdb", "from origins").to_dict("records")
    assert (row["variant"], row["seeds"], row["devices"]) == ("LA", 1, "cpu")
    seconds = query(root / "results.duckdb", "from runs where model_id = 'LA-2'")["seconds"]
    assert seconds.isna().all(), "of another machine"
    assert "measured elsewhere" in (root / "report" / "index.html").read_text()

    assert main(["verify", str(path), "--root", str(root)]) == 0
    capsys.readouterr()
    assert main(["run", str(path), "--root", str(root), "--plain"]) == 0
    assert "Nothing to do" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_of_the_atlas_give_the_ratios_of_a_study_that_trains_all(
    origin: Path,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bundled, "WORLDS", tmp_path / "worlds")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert collect([origin / "results.duckdb"], tmp_path / "worlds" / "tiny") == []
    models = {"variants": [{"name": "LA", "from": "atlas/tiny"}, "DR"], "depths": [2]}
    path = joined(tmp_path, origin, models=models)
    assert main(["run", str(path), "--root", str(root), "--plain"]) == 0
    assert "DR (yours) *" in capsys.readouterr().out, "the row of the table of the atlas"
    assert not list(root.glob("store/runs/LA-*"))
    expected = query(origin / "results.duckdb", RATIOS)
    found = query(root / "results.duckdb", RATIOS)
    # The losses of single items are not in the atlas, and so not in the intervals of losses.
    of_losses = expected["metric"] == "loss"
    for frame in (expected, found):
        frame.loc[of_losses, ["low", "high"]] = None
    pd.testing.assert_frame_equal(found, expected)

    assert main(["verify", str(path), "--root", str(root)]) == 0
    capsys.readouterr()
    assert main(["atlas", "tiny", "--with", str(path), "--root", str(root), "--csv"]) == 0
    names = [line.split(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert {"DR", "DR (yours)"} <= {*names}


OTHER = {
    "training.batch_tokens": {"training": {"batch_tokens": 256}},
    "training.sequence_length": {"training": {"sequence_length": 64}},
    "training.loss_on": {"training": {"loss_on": "answers"}},
    "training.documents": {"training": {"documents": "joined"}},
    "evaluation.limit": {"evaluation": {"limit": 6}},
    "evaluation.max_new_tokens": {"evaluation": {"max_new_tokens": 7}},
    "evaluation.weights": {"evaluation": {"weights": "raw"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", OTHER)
def test_another_setting_is_refused_before_data_are_read(
    setting: str, origin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = joined(tmp_path, origin, **OTHER[setting])
    for command in ("plan", "run"):
        assert main([command, str(path), "--root", str(tmp_path / "root")]) == 2
        error = capsys.readouterr().err
        assert setting in error
        assert error.count(" here and ") == 1, "nothing else differs"
    assert not list((tmp_path / "root").glob("store/documents/*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("the packed tokens", {"data": {"world": {"documents": 1400, "items": 40}}}),
        ("the tokenizer", {"data": {"tokenizer": {"vocabulary_size": 380}}}),
        ("the benchmark world_short", {"data": {"world": {"documents": 1500, "items": 30}}}),
    ],
)
def test_other_data_are_refused_before_anything_is_trained(
    what: str,
    changes: dict[str, Any],
    origin: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = joined(tmp_path, origin, **changes)
    assert main(["run", str(path), "--root", str(tmp_path / "root"), "--plain"]) == 2
    error = capsys.readouterr().err
    assert "the two differ in the " in error
    assert what in error
    assert "that study's file" in error
    assert not list((tmp_path / "root").glob("store/runs/*/checkpoints/*"))


@pytest.mark.slow
def test_an_origin_without_the_variant_the_depth_or_the_file_is_refused(
    origin: Path, tmp_path: Path
) -> None:
    def error(variant: dict[str, Any], depth: int = 2) -> str:
        models = {"variants": [variant, "DR"], "depths": [depth]}
        study = load_study(joined(tmp_path, origin, models=models))
        with pytest.raises(InputError) as caught:
            costs_elsewhere(study)
        return str(caught.value)

    assert "no variant of that name" in error({"name": "Llama", "from": str(origin)})
    assert "depth 2" in error({"name": "LA", "from": str(origin)}, depth=3)
    assert "does not exist" in error({"name": "LA", "from": "nowhere"})


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ({"name": "LA", "from": "a", "family": "LA"}, "give one of"),
        ({"name": "LA", "from": "a", "match": False}, "leave out match"),
        ({"name": "LA", "from": "a", "seeds": [7]}, "leave out seeds"),
        ({"name": "LA", "from": "a", "training": {"learning_rate": 1e-3}}, "leave out training"),
        ({"name": "LA", "form": "a"}, "did you mean 'from'"),
    ],
)
def test_a_variant_from_elsewhere_has_nothing_of_its_own(
    variant: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        load_study(tiny_settings(models={"variants": [variant, "DR"]}))


def test_a_study_trains_at_least_one_variant() -> None:
    with pytest.raises(InputError, match="name one to be trained"):
        load_study(tiny_settings(models={"variants": [{"name": "LA", "from": "a"}]}))
