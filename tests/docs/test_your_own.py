"""docs/your-own.md: its files as they stand are studies that pass every check, with items and
documents as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.preflight import check_study
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study, read_yaml
from dreamer_study.model.evaluation.ceilings import score_gold_answers
from dreamer_study.model.evaluation.lm_eval_definitions import build_task
from dreamer_study.pipeline.benchmarks.items import benchmark_items, task_specifications
from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.repositories.folders import source_files
from tests.flows.commands.start.test_new import errors
from tests.flows.small_study import PROJECT
from tests.pipeline.documents import read

PAGE = (PROJECT / "docs" / "your-own.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
STUDIES = [name for name, text in FILES.items() if text.startswith("name: ")]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files of the page."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_its_files() -> None:
    assert STUDIES == ["my-data.yaml", "my-benchmarks.yaml", "my-recipe.yaml"]
    assert PAGE.count("```") == 2 * len(FILES)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_the_page_is_right_and_planned(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    check_study(load_study(name))
    assert main(["plan", name]) == 0
    assert errors(read_yaml(name, FILES[name])) == []


def test_data_of_the_page_are_read_as_it_says(here: Path) -> None:
    found = {}
    for source in load_study("my-data.yaml").own_sources:
        if source.files:
            read_source(source, source_files(source, here), here / "read" / source.name)
            *_, document = read(here / "read" / source.name)
            found[source.name] = (document["question"], document["response"])
    assert found == {
        "questions": ("What is 4 times 6?", "4 times 6 is 24."),
        "chats": ("2 and 3?\n\n5.\n\nTwice that?", "10."),
        "problems": ("Ann has 3 pens and finds 4. How many pens has she?", "7"),
        "notes": ("", "The sum of two numbers does not depend on their order."),
    }


def test_benchmarks_of_the_page_are_read_as_it_says(here: Path) -> None:
    study = load_study("my-benchmarks.yaml")
    choice, answer = study.own_benchmarks
    (item,) = benchmark_items(choice, here / "mirror/me/capitals").to_pylist()
    assert (item["answer"], item["options"]) == ("Paris", "Rome\nParis")
    for benchmark, right in ((choice, 1), (answer, "50")):
        place = here / "mirror" / benchmark.repository
        (described,) = task_specifications(
            benchmark, place, here / "texts", beside=here, mirror=study.mirror
        )
        task = build_task(described)
        assert task.doc_to_target(task.eval_docs[0]) == right


@pytest.mark.slow
def test_right_answers_of_the_page_score_behind_the_blank_that_models_write(here: Path) -> None:
    study = load_study("my-benchmarks.yaml")
    for benchmark in study.own_benchmarks:
        place = here / "mirror" / benchmark.repository
        tasks = task_specifications(
            benchmark, place, here / "texts", beside=here, mirror=study.mirror
        )
        ceiling = score_gold_answers({benchmark.name: tasks})[benchmark.name]
        assert ceiling.share == 1
        assert not ceiling.needs_stripping, benchmark.name


def test_the_recipe_of_the_page_has_its_baseline_and_seeds(here: Path) -> None:
    study = load_study("my-recipe.yaml")
    assert study.models.compared_with == "DR"
    assert study.seeds_of("DR-decayed") == [0, 1]
    assert not Plan(study).described
