"""What `from` names is read with the study that has trained it, or refused in one line."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.states import read_states
from dreamer_study.flows.plan.elsewhere import costs_elsewhere, read_origins
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import connect
from tests.flows.atlas.made_up import family, settings

pytestmark = pytest.mark.slow


def joined(origin: Path | str, **of_models: Any) -> dict[str, Any]:
    """The settings of a study that takes LA from elsewhere and trains DR."""
    content = settings("mine", ["DR"])
    variants = [{"name": "LA", "from": str(origin)}, {"name": "Mine", "family": "DR"}]
    return {**content, "models": {**content["models"], "variants": variants, **of_models}}


def error(content: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        costs_elsewhere(load_study(content))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def change(path: Path, query: str) -> None:
    with closing(connect(path)) as connection:
        connection.execute(query)


def test_a_study_cannot_be_its_own_origin(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    family(tmp_path / "runs" / "results.duckdb", ["LA"])
    content = {**joined(tmp_path / "runs"), "root": str(tmp_path / "runs")}
    assert "the results of this study itself" in error(content)
    read_origins(load_study({**content, "root": str(tmp_path / "others")}))


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ("mine.yaml", "this is a study file; name the folder of its results"),
        ("~nobody-of-that-name/runs", "there is no such user"),
        ("", "at least 1 character"),
    ],
)
def test_other_things_than_results_are_refused(origin: str, words: str) -> None:
    assert words in error(joined(origin))


def test_a_damaged_file_is_refused_with_its_place_in_the_study(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    where = f"models.variants: LA: from {path}: {path}"
    path.touch()
    assert error(joined(path)).startswith(f"{where}: an empty file")
    path.write_text("a,b\n1,2\n")
    broken = f"{where} is no results file of a study, or is damaged"
    assert error(joined(path)).startswith(broken)
    path.unlink()
    family(path, ["LA"])
    change(path, "drop table internal.study_inputs cascade")
    said = error(joined(path))
    assert said.startswith(broken)
    assert "study_inputs does not exist" in said


def test_a_study_whose_origin_has_moved_does_not_seem_not_to_have_begun(tmp_path: Path) -> None:
    study = load_study(joined(tmp_path / "moved.duckdb"))
    with pytest.raises(InputError, match=r"moved\.duckdb does not exist"):
        read_states(Plan(study))


def test_of_several_studies_of_a_file_the_newest_counts(tmp_path: Path) -> None:
    path = family(tmp_path / "a.duckdb", ["LA"])
    change(path, "update studies set created_at = '2026-11-28'")
    other = family(tmp_path / "b.duckdb", ["LA", "DR"])
    with closing(connect(path)) as connection:
        connection.execute(f"attach '{other}' as other")
        for table in ("studies", "models", "runs"):
            connection.execute(f"insert into {table} by name from other.{table}")
        connection.execute(
            "insert into internal.study_inputs by name from other.internal.study_inputs"
        )
    origin = read_origins(load_study(joined(path)))["LA"]
    assert origin.study_id.startswith("b-")
    assert len(origin.run_ids) == 3


def test_a_study_that_has_not_ended_is_refused_and_failed_seeds_are_left_out(
    tmp_path: Path,
) -> None:
    path = family(tmp_path / "a.duckdb", ["LA"])
    change(path, "update runs set status = 'failed' where seed = 0")
    assert len(read_origins(load_study(joined(path)))["LA"].run_ids) == 2
    change(path, "update runs set status = 'training' where seed = 1")
    assert "has not ended: 1 of 3 trainings" in error(joined(path))


def test_the_length_over_which_flops_are_counted_is_compared(tmp_path: Path) -> None:
    path = family(tmp_path / "a.duckdb", ["LA"])
    said = error(joined(path, counted_length=16))
    assert "models.counted_length is 16 here and not set there" in said
    length = load_study(joined(path)).training.sequence_length
    assert costs_elsewhere(load_study(joined(path, counted_length=length)))
    change(
        path,
        "insert into internal.study_inputs select study_id, 'models.counted_length', '16'"
        " from studies",
    )
    assert "models.counted_length is not set here and 16 there" in error(joined(path))


def test_rows_that_come_from_elsewhere_for_the_second_time_name_who_trained_them(
    tmp_path: Path,
) -> None:
    path = family(tmp_path / "a.duckdb", ["LA"])
    assert "the study a-" in read_origins(load_study(joined(path)))["LA"].remark
    change(
        path,
        "insert into origins by name select study_id, 'LA' as variant, 'first-1234' as origin,"
        " '0.0.9' as code_version, timestamp '2026-11-01' as created_at from studies",
    )
    origin = read_origins(load_study(joined(path)))["LA"]
    assert origin.remark.endswith(
        "trained by the study first-1234 of 2026-11-01, with version 0.0.9 of this program"
    )
    assert origin.study_id.startswith("a-"), "whose rows are read"
