"""Links in a folder of somebody else: nothing outside of the folder is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import atomic_file
from dreamer_study.pipeline.storage.links import refuse_links
from dreamer_study.pipeline.storage.locks import open_lock
from tests.flows.small_study import TINY

TEXT = "alias ll='ls -l'\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of the user's, outside of the stranger's folder."""
    file = tmp_path / "home" / ".bashrc"
    file.parent.mkdir()
    file.write_text(TEXT)
    return file


@pytest.mark.parametrize(
    "link",
    [".running.lock", "results.duckdb", "store/runs/a.json", "report/figures", ".prefect"],
)
@pytest.mark.parametrize("whole_folder", [False, True])
def test_a_study_is_refused_where_a_link_leads_out_of_its_folder(
    tmp_path: Path, mine: Path, link: str, whole_folder: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs" / link
    path.parent.mkdir(parents=True)
    path.symlink_to(mine.parent if whole_folder else mine)
    data = tmp_path / "data"
    data.mkdir()
    root = str(tmp_path / "runs")
    assert main(["run", str(TINY), "--root", root, "--mirror", str(data), "--plain"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert str(mine.parent) in line
    assert [file.name for file in mine.parent.iterdir()] == [mine.name]
    assert mine.read_text() == TEXT


def test_links_within_a_folder_and_the_folder_itself_may_be_links(tmp_path: Path) -> None:
    real = tmp_path / "scratch"
    (real / "store").mkdir(parents=True)
    (real / "store/newest").symlink_to(real / "store")
    (tmp_path / "runs").symlink_to(real)
    refuse_links(tmp_path / "runs", ["store"])
    refuse_links(tmp_path / "absent", ["store"])
    (real / "store/up").symlink_to("../..")
    with pytest.raises(InputError, match="up is a link to"):
        refuse_links(tmp_path / "runs", ["store"])


def test_other_links_in_a_folder_that_is_the_root_stay(tmp_path: Path, mine: Path) -> None:
    """As in a folder of work, which holds data and an environment too."""
    (tmp_path / "data").symlink_to(mine.parent)
    load_study(TINY, root=tmp_path)


def test_a_link_at_the_place_of_a_partial_file_is_replaced(tmp_path: Path, mine: Path) -> None:
    (tmp_path / "a.json.partial").symlink_to(mine)
    with atomic_file(tmp_path / "a.json") as partial:
        partial.write_text("new")
    assert (tmp_path / "a.json").read_text() == "new"
    assert not (tmp_path / "a.json").is_symlink()
    assert mine.read_text() == TEXT


def test_a_lock_is_no_link(tmp_path: Path, mine: Path) -> None:
    (tmp_path / ".lock").symlink_to(mine)
    with pytest.raises(OSError, match=r"\.lock"), open_lock(tmp_path / ".lock"):
        pass
    assert mine.read_text() == TEXT
