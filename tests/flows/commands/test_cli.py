"""The dreamer command: bad input is one clear line and status 2, within seconds, and nothing is lost."""

import errno
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest

from flows.commands import cli
from flows.commands.cli import main
from flows.commands.parser import GROUPS, parser
from tests.flows.small_study import TINY
from tests.sql.empty import empty_file


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return empty_file(tmp_path / "results.duckdb")


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command, which must refuse; its one line."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: ")]
    return said


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_study_file_that_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    (tmp_path / "study.yaml").write_bytes(b"name: \xff\xfe")
    assert "study.yaml: not valid" in refusal(capsys, command, tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (";", "it holds no statements"),
        ("-- nothing", "it holds no statements"),
        ("select 1; select 2", "it holds 2 statements"),
        ("SELECT nothing_such FROM data_efficiency", "nothing_such"),
    ],
)
def test_a_query_that_is_wrong(capsys: pytest.CaptureFixture[str], results: Path, query: str, words: str) -> None:
    assert words in refusal(capsys, "sql", results, query)


def test_sql_shows_texts_as_they_are(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    assert main(["sql", str(results), "select 'ends [/think], [b]so[/b]' as text"]) == 0
    assert "ends [/think], [b]so[/b]" in capsys.readouterr().out


def test_sql_prints_no_cell_that_a_spreadsheet_runs(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    cells = "select unnest(['=1', '-x', '-1e3', null]) as \"@a\", -1.5 as b"
    assert main(["sql", str(results), cells, "--csv"]) == 0
    assert capsys.readouterr().out.split() == ["'@a,b", "'=1,-1.5", "'-x,-1.5", "-1e3,-1.5", ",-1.5"]


def test_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    assert str(results) in refusal(capsys, "export", results, results / "tables")


def test_no_results_yet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (["sql", TINY, "SELECT 1"], ["report", TINY], ["preview", TINY]):
        said = refusal(capsys, *command, "--root", tmp_path)
        assert " yet; " in said
        assert f"`dreamer run {TINY} --root {tmp_path}`" in said  # which would work as it stands
    assert "no such results file" in refusal(capsys, "sql", tmp_path / "results.duckdb", "SELECT 1")


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_failure() -> None:
    command = f"set -o pipefail; '{sys.executable}' -m flows.commands.cli sources | head -1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(("command", "status"), [("run", 1), ("clean", 1), ("plan", 0)])
def test_work_that_a_broken_pipe_ends_is_not_done(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, status: int
) -> None:
    fail = Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe"))
    monkeypatch.setattr(cli, "import_module", lambda name: Mock(**{command: fail}))
    monkeypatch.setattr(cli.os, "dup2", lambda *_: None)
    assert main([command, "demo"]) == status
    assert ("Broken pipe" in capfd.readouterr().err) == bool(status)


def test_an_error_of_the_system_begins_with_the_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail = Mock(side_effect=PermissionError(errno.EACCES, "Permission denied", "/study/results.duckdb"))
    monkeypatch.setattr(cli, "import_module", lambda name: Mock(plan=fail))
    assert refusal(capsys, "plan", "demo") == "dreamer: /study/results.duckdb: Permission denied"


@pytest.mark.parametrize("command", ["run", "plan", "status", "verify", "clean", "report", "preview"])
def test_a_file_as_root_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    file = tmp_path / "LICENSE"
    file.touch()
    for root in (file, file / "below"):
        assert f"{file} is a file, and the study" in refusal(capsys, command, TINY, "--root", root)


def test_a_mistyped_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'status'?" in refusal(capsys, "stauts", "demo")
    assert "`dreamer --help` lists them" in refusal(capsys, "xyz")


@pytest.mark.parametrize("given", [("--price", "-1"), ("--price", "nan"), ("--gpus", "0")])
def test_a_plan_refuses_numbers_without_sense(capsys: pytest.CaptureFixture[str], given: tuple[str, str]) -> None:
    assert f"{given[0]} " in refusal(capsys, "plan", "demo", *given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("run --foo", "unrecognized arguments: --foo; `dreamer run --help` shows how"),
        ("sql demo", "required: QUERY; `dreamer sql --help` shows how"),
        ("--foo", "required: COMMAND; `dreamer --help` shows how"),
        ("plan --price x", "argument --price: invalid float value: 'x'; `dreamer plan --help`"),
    ],
)
def test_a_usage_error_is_one_line(capsys: pytest.CaptureFixture[str], given: str, said: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(given.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dreamer: ")
    assert said in line


def test_every_command_is_in_the_help_with_an_example_that_it_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    top = parser()
    for name, example in (pair for examples in GROUPS.values() for pair in examples.items()):
        program, *arguments = shlex.split(example)
        assert (program, arguments[0]) == ("dreamer", name)
        assert top.parse_args(arguments).command
        assert f"\n  {name} " in top.format_help()
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"dreamer {version('dreamer-study')}\n"


def test_sources_shows_licences_and_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources"]) == 0
    said = capsys.readouterr().out
    for word in ("openai/gsm8k", "gated", "mmlu_math"):
        assert word in said
