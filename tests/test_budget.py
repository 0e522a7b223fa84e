"""The house has a size: no top-level folder holds more lines than pyproject.toml allows."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COUNTED = (".py", ".sql", ".c", ".h", ".js", ".css", ".j2", ".yaml", ".yml", ".toml")
BUDGET = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["budget"]


def lines(folder: str) -> int:
    """Count the lines of the files that git tracks in a folder."""
    names = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in names.splitlines() if name.endswith(COUNTED)]
    return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())


@pytest.mark.parametrize("folder", BUDGET)
def test_a_folder_keeps_to_its_budget(folder: str) -> None:
    found = lines(folder)
    assert 0 < found <= BUDGET[folder], (
        f"{folder} has {found} lines of at most {BUDGET[folder]}: take something out, or raise the budget in a commit "
        "of its own that says why"
    )
