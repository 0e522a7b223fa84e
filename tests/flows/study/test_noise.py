"""The noise of a study's factors: its own where it has results, else what the presets have measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.study import noise as noise_module
from flows.study.loading import load_study
from flows.study.noise import noise_of
from sql.results import Busy, OutOfDate, connect


def test_a_study_with_results_has_its_own_noise(tmp_path: Path) -> None:
    study = load_study("demo", root=tmp_path)
    with connect(study.database) as connection:
        connection.execute("insert into studies (study_id, baseline) values (?, 'LA')", [study.study_id])
        connection.execute("insert into models (study_id, model_id) values (?, 'DR')", [study.study_id])
        for task, seed_error in (("average", 0.2), ("validation", 0.1), ("world_short", 0.01)):
            connection.execute(
                "insert into computed_factors (study_id, depth, variant, baseline, task, metric, seeds, "
                "baseline_seeds, seed_error, item_error, digest) "
                "values (?, 4, 'DR', 'LA', ?, 'loss', 5, 5, ?, 0.03, '')",
                [study.study_id, task, seed_error],
            )
    noise = noise_of(study)
    assert noise.seed_deviation == pytest.approx(0.2 * (5 / 2) ** 0.5), "the average before the held-out documents"
    assert noise.item_error == pytest.approx(0.03)
    assert "own results" in noise.measured_on


@pytest.mark.parametrize("error", [Busy("a program holds the file"), OutOfDate("an older program wrote the file")])
def test_a_results_file_that_cannot_be_read_now_hinders_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    study = load_study("demo", root=tmp_path)
    before = noise_of(study)
    study.database.touch()
    monkeypatch.setattr(noise_module, "ask", refuse)
    assert noise_of(study) == before
