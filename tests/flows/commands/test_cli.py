"""The dreamer command: bad input is one clear line and status 2, within seconds, and nothing is lost."""

import errno
import gzip
import json
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.commands import cli
from flows.commands.cli import main
from flows.commands.parser import GROUPS, parser
from tests.sql.empty import empty_file

TINY = Path(__file__).parents[2] / "studies" / "tiny.yaml"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study file with one source, `owner/rows`, that a test puts into the mirror as it likes."""
    text = TINY.read_text().replace(
        "sources: [builtin]",
        "sources: [builtin, {name: rows, repository: owner/rows, question: question, response: response}]",
    )
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return path


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command, which must refuse; its one line."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: ")]
    assert len(said) == 1
    return said[0]


def test_misspelt_key(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    study.write_text(study.read_text().replace("learning_rate", "learning_rat"))
    assert "did you mean 'learning_rate'?" in refusal(capsys, "run", study)


def test_study_that_is_no_text(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    study.write_bytes(b"name: \xff\xfe")
    assert "study.yaml: not " in refusal(capsys, "plan", study)


@pytest.mark.parametrize(
    ("query", "count"), [("", "no"), (";", "no"), ("-- nothing", "no"), ("select 1; select 2", "2")]
)
def test_a_query_is_one_statement(capsys: pytest.CaptureFixture[str], tmp_path: Path, query: str, count: str) -> None:
    empty_file(tmp_path / "results.duckdb")
    assert f"it holds {count} statements" in refusal(capsys, "sql", tmp_path / "results.duckdb", query)


def test_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path) -> None:
    empty_file(tmp_path / "results.duckdb")
    assert str(study) in refusal(capsys, "export", tmp_path / "results.duckdb", study / "tables")


def test_source_that_is_nowhere(capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path) -> None:
    said = refusal(capsys, "run", study, "--mirror", tmp_path / "mirror", "--root", tmp_path / "run")
    assert "owner/rows" in said
    assert str(tmp_path / "mirror") in said
    assert "dreamer download" in said


def rows_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror" / "owner" / "rows" / "default"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.slow
def test_missing_column_names_both_lists(capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path) -> None:
    with gzip.open(rows_folder(tmp_path) / "train.jsonl.gz", "wt") as file:
        file.write(json.dumps({"question": "q", "solution": "s"}) + "\n")
    said = refusal(capsys, "run", study, "--mirror", tmp_path / "mirror", "--root", tmp_path / "run")
    for word in ("response", "question", "solution"):
        assert word in said


@pytest.mark.slow
def test_truncated_parquet(capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path) -> None:
    path = rows_folder(tmp_path) / "train.parquet"
    pq.write_table(pa.table({"question": ["q"] * 1000, "response": ["r"] * 1000}), path)
    path.write_bytes(path.read_bytes()[:-100])
    said = refusal(capsys, "run", study, "--mirror", tmp_path / "mirror", "--root", tmp_path / "run")
    assert str(path) in said


def test_results_locked_by_another_process(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    database = str(root / "results.duckdb")
    code = f"import duckdb, sys; c = duckdb.connect({database!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        said = refusal(capsys, "sql", database, "select 1")
        assert str(holder.pid) in said
        assert holder.stdin
        holder.stdin.close()


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    command = f"set -o pipefail; '{sys.executable}' -m flows.commands.cli sources --long | head -1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(("command", "status"), [("run", 1), ("clean", 1), ("plan", 0)])
def test_work_that_a_broken_pipe_ends_is_not_done(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, status: int
) -> None:
    def breaks(_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(cli, "import_module", lambda name: SimpleNamespace(**{command: breaks}))
    monkeypatch.setattr(cli.os, "dup2", lambda *_: None)
    assert main([command, "demo"]) == status
    assert ("Broken pipe" in capfd.readouterr().err) == bool(status)


def test_no_results_yet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (["sql", TINY, "SELECT 1"], ["report", TINY], ["preview", TINY]):
        said = refusal(capsys, *command, "--root", tmp_path)
        assert " yet; " in said
        assert f"`dreamer run {TINY} --root {tmp_path}`" in said  # which would work as it stands
    assert "no such results file" in refusal(capsys, "sql", tmp_path / "results.duckdb", "SELECT 1")


def test_sql_that_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty_file(tmp_path / "results.duckdb")
    said = refusal(capsys, "sql", tmp_path / "results.duckdb", "SELECT nothing_such FROM data_efficiency")
    assert "data_efficiency" in said or "nothing_such" in said


def test_sql_shows_texts_as_they_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty_file(tmp_path / "results.duckdb")
    assert main(["sql", str(tmp_path / "results.duckdb"), "select 'ends [/think], [b]so[/b]' as text"]) == 0
    assert "ends [/think], [b]so[/b]" in capsys.readouterr().out


@pytest.mark.parametrize("preset", ["demo", "gpu-small", "paper-mini", "paper-16", "paper-32"])
def test_plan_of_every_preset(capsys: pytest.CaptureFixture[str], preset: str) -> None:
    assert main(["plan", preset]) == 0
    said = capsys.readouterr().out
    assert "DR+DA" in said
    assert "time" in said


def test_plan_finds_the_sizes_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "paper-16"]) == 0
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "517" in rows["DR-16"]
    assert "504" in rows["DR-16"]
    assert "537" in rows["DR+DA-16"]
    assert "480" in rows["DR+DA-16"]


def test_sources_shows_licences_and_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources"]) == 0
    said = capsys.readouterr().out
    assert "openai/gsm8k" in said
    assert "gated" in said
    assert "mmlu_math" in said


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    said = capsys.readouterr().out
    for command in ("run", "plan", "status", "report", "sql", "sources", "download", "intervals"):
        assert f"\n  {command} " in said


def test_a_mistyped_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no command 'stauts'; did you mean 'status'?" in refusal(capsys, "stauts", "demo")
    assert "`dreamer --help` lists them" in refusal(capsys, "xyz")


def test_every_command_has_a_group_and_an_example_that_it_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    top = parser()
    for examples in GROUPS.values():
        for name, example in examples.items():
            program, *arguments = shlex.split(example)
            assert (program, arguments[0]) == ("dreamer", name)
            assert top.parse_args(arguments).command
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"dreamer {version('dreamer-study')}\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("run --foo", "unrecognized arguments: --foo; `dreamer run --help` shows how"),
        ("sql demo", "required: QUERY; `dreamer sql --help` shows how"),
        ("--foo", "required: COMMAND; `dreamer --help` shows how"),
        ("plan --price -1", "'-1' is no price: give a number of 0 or more; `dreamer plan --help`"),
        ("plan --price nan", "'nan' is no price"),
        ("plan --gpus 0", "'0' is no whole number of at least 1"),
    ],
)
def test_a_usage_error_is_one_line(capsys: pytest.CaptureFixture[str], given: str, said: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(given.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dreamer: ")
    assert said in line


@pytest.mark.parametrize("command", ["run", "plan", "status", "verify", "clean", "report", "preview"])
def test_a_file_as_root_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    file = tmp_path / "LICENSE"
    file.touch()
    for root in (file, file / "below"):
        assert f"{file} is a file, and the study writes to a folder {root}" in refusal(
            capsys, command, TINY, "--root", root
        )


def test_an_error_of_the_system_begins_with_the_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/study/results.duckdb")

    monkeypatch.setattr(cli, "import_module", lambda name: SimpleNamespace(plan=fails))
    assert refusal(capsys, "plan", "demo") == "dreamer: /study/results.duckdb: Permission denied"


def test_preview_of_a_seed_that_the_study_has_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = refusal(capsys, "preview", TINY, "--root", tmp_path, "--seed", "9")
    assert "--seed is 9, but tiny trains with the seeds 0, 1" in said
