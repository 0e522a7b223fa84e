"""Tests and studies, with all their processes, import `dreamer_study` and no bare name."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dreamer_study
from tests.faults.processes import environment
from tests.flows.prepared import with_database
from tests.flows.small_study import PROJECT, small_study
from tests.one_name import FOLDERS, bare_modules

# As `sitecustomize` on the path, this watches the imports of a process and of all its children.
# A finder sees every import by name, also in a process that is killed; what is put into
# `sys.modules` by other ways is seen at the end of a process.
WATCH = f"""
import atexit
import os
import sys

FOLDERS = {FOLDERS!r}
COMMAND = " ".join(sys.orig_argv[1:])


def write(file, line):
    with open(os.path.join(os.path.dirname(__file__), file), "a") as notes:
        notes.write(line + "\\n")


class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in FOLDERS:
            write("bare.txt", f"{{name}}: {{COMMAND}}")


def at_the_end():
    for name in FOLDERS:
        if name in sys.modules:
            write("bare.txt", f"{{name}}: {{COMMAND}}")


write("processes.txt", COMMAND)
sys.meta_path.insert(0, Watch())
atexit.register(at_the_end)
"""


def watched(folder: Path, *arguments: str) -> tuple[str, str]:
    """Run Python in the project's folder; return the bare imports, and the commands of all
    processes that it has started."""
    (folder / "sitecustomize.py").write_text(WATCH)
    command = [sys.executable, *arguments]
    variables = environment(PYTHONPATH=str(folder))
    done = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    bare = folder / "bare.txt"
    return bare.read_text() if bare.exists() else "", (folder / "processes.txt").read_text()


@pytest.mark.slow
def test_a_study_and_its_processes_import_no_bare_name(tmp_path: Path) -> None:
    """The study trains without Prefect, and is evaluated and reported with it."""
    study = small_study(tmp_path)
    root = tmp_path / "run"
    command = ["-m", "dreamer_study.flows.commands.cli", "run", str(study), "--root", str(root)]
    watched(tmp_path, *command, "--plain", "--until", "train")
    with_database(root / ".prefect")
    bare, processes = watched(tmp_path, *command)
    assert (root / "report" / "index.html").exists()
    for name in ("model.train", "model.evaluate"):
        assert f"dreamer_study.{name}" in processes
    assert "prefect server start" in processes
    # of both commands
    assert bare == ""


@pytest.mark.parametrize("planted", ["import sql", "import sys; sys.modules['sql'] = sys"])
def test_a_bare_name_in_a_child_is_seen(tmp_path: Path, planted: str) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {planted!r}])"
    bare, _ = watched(tmp_path, "-c", child)
    assert f"sql: -c {planted}\n" in bare


@pytest.mark.slow
def test_tests_that_import_a_bare_name_fail(tmp_path: Path) -> None:
    path = tmp_path / "test_planted.py"
    path.write_text("def test_passes():\n    import sql\n")
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", "-q", *options, str(path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "imported without `dreamer_study.`: sql" in done.stdout
    assert "1 passed, 1 error" in done.stdout


def test_these_tests_have_imported_no_bare_name() -> None:
    assert bare_modules() == []
    assert dreamer_study.__name__ in sys.modules


NAMED_BARE = re.compile(rf"`({'|'.join(FOLDERS)})\.(?!py\b|safetensors\b)[a-z_]+")


def test_text_names_modules_by_their_whole_names_or_as_files() -> None:
    """A reader types what a page says; docs/log.md has the names of the day of an entry."""
    command = ["git", "ls-files", "*.md", "*.py", "*.yaml", "*.sql"]
    files = subprocess.check_output(command, cwd=PROJECT, text=True).splitlines()
    bare = []
    for name in files:
        if name == "docs/log.md" or not (PROJECT / name).exists():
            continue
        for line in (PROJECT / name).read_text(encoding="utf-8").splitlines():
            if NAMED_BARE.search(line):
                bare.append(f"{name}: {line.strip()}")
    assert bare == []


DISTRIBUTION = importlib.metadata.distribution("dreamer-study")
ORIGIN = json.loads(DISTRIBUTION.read_text("direct_url.json") or "{}")
needs_editable = pytest.mark.skipif(
    not ORIGIN.get("dir_info", {}).get("editable"), reason="needs an editable install"
)


@needs_editable
def test_an_editable_install_is_a_plain_path() -> None:
    """Type checkers and editors follow a path, but no import hook."""
    packages = Path(str(DISTRIBUTION.locate_file("")))
    assert list(packages.glob("__editable__*dreamer_study*finder*")) == []
    (pointer,) = packages.glob("__editable__*dreamer_study*.pth")
    assert Path(pointer.read_text().strip()).samefile(PROJECT / "src")


@needs_editable
def test_an_editable_install_takes_no_folder_of_the_current_folder(tmp_path: Path) -> None:
    """An import hook of setuptools searched a folder of this name."""
    planted = tmp_path / "__editable__.dreamer_study-0.1.0.finder.__path_hook__"
    planted.mkdir()
    (planted / "planted.py").write_text("")
    program = "import dreamer_study.flows, planted"
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'planted'\n")
