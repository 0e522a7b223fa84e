"""The noise of a study's factors: its own where it has results, else what the presets have measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.commands.cli import main
from flows.study import noise as noise_module
from flows.study.loading import load_study, presets
from flows.study.noise import noise_of
from sql.results import Busy, OutOfDate, connect


def test_every_preset_has_a_noise_before_it_runs(tmp_path: Path) -> None:
    for name in presets():
        noise = noise_of(load_study(name, root=tmp_path / name))
        assert 0 < noise.seed_deviation < 1
        assert 0 <= noise.item_error < 1


def test_a_study_with_results_has_its_own_noise(tmp_path: Path) -> None:
    study = load_study("demo", root=tmp_path)
    with connect(study.database) as connection:
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


def test_a_plan_says_what_the_study_can_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "demo", "--root", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "from 1 in four of five such studies, with" in told
    assert "one more seed would tell" in told
    assert main(["plan", "paper-16", "--root", str(tmp_path)]) == 0
    assert "one seed of each model shows no spread" in " ".join(capsys.readouterr().out.split())


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
