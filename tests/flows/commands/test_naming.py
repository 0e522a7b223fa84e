"""A study is named in the same way everywhere: by a preset, a study file, or its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.parser import parser
from dreamer_study.flows.commands.results.query import find_results
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.study.loading import find_study, load_study, note_name
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import study_file
from tests.sql.empty import empty_file

# of every command that takes STUDY, with what it takes besides
ASKED = {
    "run": ["--until", "prepare", "--plain"],
    "plan": [],
    "status": [],
    "checkpoints": [],
    "report": [],
    "sql": ["select 1"],
    "export": ["tables"],
    "publish": ["public"],
    "intervals": [],
    "items": [],
    "dropped": [],
    "preview": [],
    "verify": [],
    "clean": [],
}
Outcome = tuple[int, str, str]


@pytest.fixture
def outcome(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """A function that runs a command; status, answer and messages, without how the study is named."""

    def run(command: str, named: list[str]) -> Outcome:
        capsys.readouterr()
        if command == "compare":
            status = main(["compare", named[0], named[0], *named[1:]])
        else:
            status = main([command, *named, *ASKED[command]])
        answer, messages = capsys.readouterr()
        return status, answer, messages

    return run


def test_every_command_with_a_study_is_tried_here() -> None:
    (subparsers,) = [
        action.choices for action in parser()._actions if isinstance(action.choices, dict)
    ]
    takes = {
        name
        for name, sub in subparsers.items()
        if any(
            action.dest in ("study", "first") and not action.option_strings
            for action in sub._actions
        )
    }
    assert takes == {*ASKED, "compare"}
    # each of them can be told where the study writes
    assert all("--root" in subparsers[name].format_help() for name in takes)


@pytest.mark.parametrize("command", [*ASKED, "compare"])
def test_a_preset_and_its_folder_are_one_study(
    command: str,
    outcome: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if command == "run":
        pytest.skip("would run the demo")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "moved"
    (folder / "store").mkdir(parents=True)
    note_name(load_study("demo", root=folder))
    by_preset = outcome(command, ["demo", "--root", str(folder)])
    by_folder = outcome(command, [str(folder)])
    assert by_folder == by_preset
    assert "is neither a preset" not in by_folder[2]


@pytest.mark.slow
@pytest.mark.parametrize("command", [*ASKED, "compare"])
def test_a_file_and_its_folder_are_one_study(
    command: str,
    outcome: Callable[..., Outcome],
    prepared: Callable[..., Plan],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = prepared().study.folder
    study = load_study(study_file(tmp_path), root=folder)
    with recorded(study):  # as a run does
        pass
    outcome(command, [str(folder)])  # a first run prepares what the second one has
    by_file = outcome(command, ["study.yaml", "--root", str(folder)])
    by_folder = outcome(command, [str(folder)])
    assert by_file[0] == by_folder[0]
    # the file's path is now whole: what is advised works from anywhere
    whole = str(tmp_path / "study.yaml")
    seconds = [text.partition(" s  ")[2] for text in by_folder[2].splitlines()]
    assert [text.partition(" s  ")[2] for text in by_file[2].splitlines()] == seconds
    assert by_file[1] == by_folder[1].replace(whole, "study.yaml")
    if by_file[0]:
        assert by_file[2] == by_folder[2].replace(whole, "study.yaml")


def test_a_folder_may_have_moved(tmp_path: Path) -> None:
    study = load_study(study_file(tmp_path), root=tmp_path / "first")
    with recorded(study):
        pass
    (tmp_path / "first").rename(tmp_path / "second")
    found = load_study(tmp_path / "second")
    assert found.study_id == study.study_id
    assert found.folder == tmp_path / "second"
    assert found.arguments == f"{tmp_path}/study.yaml --root {tmp_path}/second"


def test_a_folder_whose_study_file_is_gone_says_so(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    with recorded(load_study(file, root=tmp_path / "run")):
        pass
    file.unlink()
    with pytest.raises(
        InputError, match=rf"was made from {file}, which no longer exists; name the"
    ):
        load_study(tmp_path / "run")
    # what a report or a changed study has written there serves as well
    study_file(tmp_path / "run")
    assert load_study(tmp_path / "run").folder == tmp_path / "run"


def test_a_preset_comes_before_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    study_file(tmp_path / "demo")
    assert find_study("demo") == ("demo", None)
    assert find_study("./demo") == ("demo/study.yaml", Path("demo"))


def test_a_folder_and_another_root_are_refused(tmp_path: Path) -> None:
    study_file(tmp_path)
    assert load_study(tmp_path, root=tmp_path).folder == tmp_path
    with pytest.raises(InputError, match="give one of the two"):
        load_study(tmp_path, root=tmp_path / "other")
    database = empty_file(tmp_path / "results.duckdb")
    for name in (tmp_path, database):
        with pytest.raises(InputError, match=r"--root"):
            find_results(str(name), tmp_path / "other")
        assert find_results(str(name), None) == (database, None)


def test_a_folder_of_anything_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not the folder of a study: .* name a preset"):
        load_study(tmp_path)


def test_compare_wants_no_root_that_nobody_uses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(empty_file(tmp_path / "results.duckdb"))
    assert main(["compare", database, str(tmp_path), "--root", "x"]) == 2
    assert "say where they are; leave it out" in capsys.readouterr().err
    # of one that is named by a file the root counts
    assert main(["compare", database, "demo", "--root", str(tmp_path / "x")]) == 2
    assert f"{tmp_path}/x/results.duckdb: no results yet" in capsys.readouterr().err
