"""Commands: what they print, refuse, and say in one line."""

from __future__ import annotations

import errno
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest

from dreamer_study.flows.commands import cli
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.parser import GROUPS, parser
from tests.flows.commands.refusals import refusal
from tests.flows.small_study import PROJECT, TINY
from tests.sql.empty import empty_file


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return empty_file(tmp_path / "results.duckdb")


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_study_file_that_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    (tmp_path / "study.yaml").write_bytes(b"name: \xff\xfe")
    assert "study.yaml: not valid" in refusal(capsys, command, tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (";", "it has no statements"),
        ("-- nothing", "it has no statements"),
        ("select 1; select 2", "it has 2 statements"),
        ("SELECT nothing_such FROM data_efficiency", "nothing_such"),
    ],
)
def test_a_query_that_is_wrong(
    capsys: pytest.CaptureFixture[str], results: Path, query: str, words: str
) -> None:
    assert words in refusal(capsys, "sql", results, query)


def test_sql_shows_texts_as_they_are(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    assert main(["sql", str(results), "select 'ends [/think], [b]so[/b]' as text"]) == 0
    assert "ends [/think], [b]so[/b]" in capsys.readouterr().out


def test_sql_prints_no_cell_that_a_spreadsheet_runs(
    capsys: pytest.CaptureFixture[str], results: Path
) -> None:
    cells = "select unnest(['=1', '-x', '-1e3', null]) as \"@a\", -1.5 as b"
    assert main(["sql", str(results), cells, "--csv"]) == 0
    assert capsys.readouterr().out.split() == [
        "'@a,b",
        "'=1,-1.5",
        "'-x,-1.5",
        "-1e3,-1.5",
        ",-1.5",
    ]


def test_values_steer_no_terminal_and_stay_as_they_are_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    cells = "select chr(27) || '[2J' || chr(155) || chr(10) || 'next' as \"\x1b]0;a\x07\""
    assert main(["sql", str(results), cells, "--csv"]) == 0
    assert capsys.readouterr().out == '\x1b]0;a\x07\n"\x1b[2J\x9b\nnext"\n'
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["sql", str(results), cells, "--csv"]) == 0
    assert capsys.readouterr().out == '\\x1b]0;a\\x07\n"\\x1b[2J\\x9b\nnext"\n'


def test_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    assert str(results) in refusal(capsys, "export", results, results / "tables")


def test_no_results_yet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (
        ["sql", TINY, "SELECT 1"],
        ["report", TINY],
        ["preview", TINY],
        ["dropped", TINY],
    ):
        said = refusal(capsys, *command, "--root", tmp_path)
        assert " yet; " in said
        assert f"`dreamer run {TINY} --root {tmp_path}`" in said  # which would work as it stands
    assert "no such results file" in refusal(capsys, "sql", tmp_path / "results.duckdb", "SELECT 1")


@pytest.mark.slow
# schema: at the end
@pytest.mark.parametrize(
    "given",
    [
        "sources",
        "schema",
        "factors example --report {}/page.html",
        "new {}/study.yaml --data {}/a.jsonl",
    ],
)
def test_a_reader_that_leaves_early_is_no_failure(given: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "How many?", "answer": "Three it is."}\n')
    given = given.replace("{}", str(tmp_path))
    command = f"set -o pipefail; '{sys.executable}' -m dreamer_study.flows.commands.cli {given} | head -c 0"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    # A slow machine is told what takes long.
    said = [line for line in ran.stderr.splitlines() if not line.startswith("computing")]
    assert (ran.returncode, said) == (0, [])
    assert (tmp_path / "page.html").exists() == ("--report" in given)
    assert (tmp_path / "study.yaml").exists() == given.startswith("new")


@pytest.mark.parametrize(("command", "status"), [("run", 1), ("clean", 1), ("plan", 0)])
def test_work_that_a_broken_pipe_ends_is_not_done(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, status: int
) -> None:
    fail = Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe"))
    monkeypatch.setattr(cli, "import_module", lambda name: Mock(**{command: fail}))
    monkeypatch.setattr(cli.os, "dup2", lambda *_: None)
    assert main([command, "demo"]) == status
    assert ("Broken pipe" in capfd.readouterr().err) == bool(status)


@pytest.mark.parametrize(
    "command", ["run", "plan", "status", "verify", "clean", "report", "preview"]
)
def test_a_file_as_root_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    file = tmp_path / "LICENSE"
    file.touch()
    for root in (file, file / "below"):
        assert f"{file} is a file, but the study" in refusal(capsys, command, TINY, "--root", root)


@pytest.mark.parametrize("price", ["-1", "nan", "inf"])
def test_a_report_refuses_a_price_without_sense(
    capsys: pytest.CaptureFixture[str], price: str
) -> None:
    assert f"--price is {price}, but" in refusal(capsys, "report", "demo", "--price", price)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("run demo --foo", "unrecognized arguments: --foo; `dreamer run --help` shows how"),
        ("sql demo", "required: QUERY; `dreamer sql --help` shows how"),
        ("--foo", "unrecognized arguments: --foo; `dreamer --help` shows how"),
        ("plan --price x", "argument --price: invalid float value: 'x'; `dreamer plan --help`"),
    ],
)
def test_a_usage_error_is_one_line(
    capsys: pytest.CaptureFixture[str], given: str, said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(given.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dreamer: ")
    assert said in line


def test_every_command_is_in_the_help_and_has_an_example_in_the_documents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = parser().format_help()
    pages = [PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")]
    documents = "\n".join(page.read_text() for page in pages)
    for name in (name for names in GROUPS.values() for name in names):
        assert f"\n  {name} " in words
        assert f"dreamer {name} " in documents or f"dreamer {name}`" in documents, name
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"dreamer {version('dreamer-study')}\n"


def test_sources_shows_licences_and_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources"]) == 0
    said = capsys.readouterr().out
    for word in ("openai/gsm8k", "gated", "mmlu_math"):
        assert word in said
