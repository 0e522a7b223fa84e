"""What the documents say is so: links, commands, queries, names of tests and code."""

import ast
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.parser import GROUPS
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.job_descriptions import write_run
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import ingest, query
from tests.flows.small_study import small_study
from tests.model.evaluation.evaluation_world import save_small_model
from tests.sql.by_hand import enter_scores
from tests.sql.empty import empty_file

PROJECT = Path(__file__).resolve().parents[2]
LISTED = subprocess.run(
    ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
).stdout
TRACKED = [name for name in LISTED.splitlines() if (PROJECT / name).exists()]
PAGES = [name for name in TRACKED if name.endswith(".md")]
# the log's names are those of the day of an entry
TODAY = [page for page in PAGES if page != "docs/log.md"]

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
# `dreamer_study.sql.results` is a module, `measured.sql(...)` a call
FILE = re.compile(r"(?<![\w./<>-])\w[\w.-]*(?:/[\w.-]+)*\.(?:py|sql|md|yaml|toml)\b(?!\.\w|\()")
MODULE = re.compile(
    r"python -m ((?:benchmarks|dreamer_study|flows|model|pipeline|reports|sql)\b[\w.]*)"
)
COMMAND = re.compile(r"(?:^|[`$]|\(| )\s?dreamer ([a-z][a-z-]+)")
# files that the reader of a page has
OF_READERS = re.compile(r"my[-\w]*\.(?:yaml|py)|(?:study|gpt|first|mine)\.yaml")


def text(page: str) -> str:
    return (PROJECT / page).read_text(encoding="utf-8")


def code(page: str) -> str:
    return "\n".join(CODE.findall(text(page)))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: str) -> Iterator[str]:
    for link in LINK.findall(CODE.sub("", text(page))):
        name, _, anchor = link.partition("#")
        target = (PROJECT / page).parent / name if name else PROJECT / page
        if "://" not in link and not (
            target.exists() and (not anchor or anchor in anchors(target))
        ):
            yield link


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", TODAY)
def test_files_that_are_named_are_there(page: str) -> None:
    named = {name for name in FILE.findall(code(page)) if not OF_READERS.fullmatch(name)}
    assert [
        name
        for name in sorted(named)
        if not any(f"/{path}".endswith(f"/{name}") for path in TRACKED)
    ] == []


@pytest.mark.parametrize("page", TODAY)
def test_modules_and_commands_that_are_named_are_there(page: str) -> None:
    assert [
        name for name in MODULE.findall(code(page)) if importlib.util.find_spec(name) is None
    ] == []
    assert set(COMMAND.findall(code(page))) <= {
        command for group in GROUPS.values() for command in group
    }


def test_functions_that_the_page_of_the_architecture_names_are_there() -> None:
    named = re.findall(
        r"`((?:pipeline|model|sql|reports|flows)/[\w/]+)\.py:(\w+)`", text("docs/architecture.md")
    )
    assert len(named) > 20
    for path, name in named:
        assert callable(
            getattr(importlib.import_module(f"dreamer_study.{path}".replace("/", ".")), name)
        ), f"{path}.py:{name}"


OPERATIONS = text("docs/operations.md").partition("## Faults")[2]
ROWS = [line.strip("| ").split(" | ") for line in OPERATIONS.splitlines() if line.startswith("| ")]
FAULTS = {cells[0]: cells[-1] for cells in ROWS[1:]}
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_the_page_has_a_table_of_faults() -> None:
    assert len(FAULTS) > 25


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_proved_by_a_test_or_is_said_not_to_be(fault: str) -> None:
    named = NAMED.findall(FAULTS[fault])
    assert named or FAULTS[fault].startswith("not proved")
    assert len(named) == FAULTS[fault].count("tests/")
    for path, name in named:
        tree = ast.parse((PROJECT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
def test_curves_as_documented_have_factors_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (table,) = re.findall(r"```csv\n(.*?)```", text("docs/sql.md"), re.DOTALL)
    (command,) = re.findall(r"^\$ dreamer (.*)$", text("docs/sql.md"), re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    Path("curves.csv").write_text(table)
    assert main(shlex.split(command)) == 0
    row = r"looped +average +accuracy +([\d.]+) +([\d.]+) +([\d.]+) +less than one checkpoint apart"
    (found,) = re.findall(row, capsys.readouterr().out)
    ratio, low, high = map(float, found)
    assert low < ratio < high < 1
    assert "looped" in Path("curves.html").read_text()


@pytest.mark.slow
def test_intervals_take_the_resamples_that_the_study_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.duckdb"
    curves = {variant: {"t": {1e6: [0, 0, 1, 0], 2e6: [1, 0, 1, 1]}} for variant in ("LA", "DR")}
    enter_scores(path, curves)
    config = json.dumps({"study": {"evaluation": {"bootstrap_replicates": 7}}})
    ingest(path, {"studies": pa.table({"study_id": ["s"], "name": ["s"], "config": [config]})})
    assert main(["intervals", str(path)]) == 0
    assert set(query(path, "from internal.computed_ratios")["replicates"]) == {7}


def test_a_file_without_models_has_no_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["intervals", str(empty_file(tmp_path / "empty.duckdb"))]) == 2
    assert "empty.duckdb holds no models of any study" in capsys.readouterr().err


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A study of two seeds with two checkpoints each, whose data are prepared; its models were not
    trained."""
    folder = tmp_path_factory.mktemp("study")
    path = small_study(folder, seeds=[0, 1], checkpoints=2)
    plan = Plan(load_study(path, root=folder / "run"))
    prepare_data(plan, Steps())
    for run in plan.runs:
        write_run(plan, run)
        for point in run.points:
            vocabulary = run.model.config.vocabulary_size
            save_small_model(
                run.folder / f"checkpoints/{point:015d}", run.seed, vocabulary_size=vocabulary
            )
    return plan


def folders(capsys: pytest.CaptureFixture[str], plan: Plan, *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["checkpoints", *plan.study.arguments.split(), *options]) == 0
    return [
        line.split(" tokens  ")[1].split("  (")[0] for line in capsys.readouterr().out.splitlines()
    ]


@pytest.mark.slow
def test_the_lines_generate_an_answer(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    (folder,) = folders(capsys, plan, "--model", "LA-2", "--seed", "1")
    assert folder == str(plan.runs[1].folder / "checkpoints/000000000003000")
    (program,) = re.findall(r"```python\n(.*?)```", text("docs/model.md"), re.DOTALL)
    assert re.search(r'folder = "runs/demo/store/runs/<run_id>/checkpoints/<tokens>"', program)
    made: dict[str, object] = {}
    exec(re.sub(r'folder = ".*"', f"folder = {folder!r}", program), made)
    answer, likelihoods = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert answer
    assert len(re.findall(r"-[\d.]+, (?:True|False)", likelihoods)) == 2
    vocabulary = plan.models[0].config.vocabulary_size
    assert made["network"](torch.tensor([[1, 2, 3]])).shape == (1, 3, vocabulary)


@pytest.mark.slow
def test_every_checkpoint_is_listed_when_asked_for(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(folders(capsys, plan)) == 2
    assert len(folders(capsys, plan, "--all")) == 4
    assert main(["checkpoints", *plan.study.arguments.split(), "--seed", "9"]) == 2


def test_the_table_of_studies_is_that_of_the_result_files() -> None:
    script = importlib.util.spec_from_file_location(
        "readme_table", PROJECT / "docs" / "results" / "readme_table.py"
    )
    module = importlib.util.module_from_spec(script)
    script.loader.exec_module(module)
    assert module.with_table(text("README.md")) == text("README.md")
