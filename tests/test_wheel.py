"""Install a wheel, and run the studies of docs/your-own.md beside files that bear the names of our
packages."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import dreamer_study
from tests.docs.test_your_own import FILES, STUDIES
from tests.flows.small_study import PROJECT
from tests.pipeline.documents import lines

OURS = ("flows", "model", "pipeline", "reports", "sql")

NUMBERS = [(number, 7 * number % 31) for number in range(400)]
ASKED = [
    {
        "question": f"A shelf holds {one} books and {two} more come. How many?",
        "answer": f"They are {one + two}. #### {one + two}",
    }
    for one, two in NUMBERS
]
CHATS = [
    {
        "messages": [
            {"role": "user", "content": row["question"].replace("books", "chats")},
            {"role": "assistant", "content": row["answer"]},
        ]
    }
    for row in ASKED
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the files that git tracks."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    for name in subprocess.check_output(["git", "ls-files"], cwd=PROJECT, text=True).splitlines():
        if (PROJECT / name).exists() and name.startswith(
            (*OURS, "src", "pyproject", "README", "LICENSE")
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, folder / name, follow_symlinks=False)
    options = ["--no-deps", "--no-build-isolation", "-q", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", str(folder), *options], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_version_is_said_once() -> None:
    assert dreamer_study.__version__ == importlib.metadata.version("dreamer-study")
    assert f"version: {dreamer_study.__version__}\n" in (PROJECT / "CITATION.cff").read_text()
    assert f"\n## [{dreamer_study.__version__}]" in (PROJECT / "CHANGELOG.md").read_text()
    assert yaml.safe_load((PROJECT / "CITATION.cff").read_text())["cff-version"] == "1.2.0"


@pytest.mark.slow
def test_a_wheel_holds_nothing_of_this_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith(".so")]
    assert {"dreamer_study/py.typed", "dreamer_study/model/ops/native/source/native.c"} <= {*names}


@pytest.fixture(scope="module")
def dreamer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder)
    (packages,) = folder.glob("lib/*/site-packages")
    # without the checkout's own hook
    (packages / "dependencies.pth").write_text(f"{Path(yaml.__file__).parents[1]}\n")
    options = ["--no-deps", "--no-index", "-q", "--ignore-installed", str(wheel)]
    python = str(folder / "bin" / "python")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *options], check=True
    )
    return folder / "bin" / "dreamer"


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_an_installed_study_takes_no_module_of_its_folder(
    dreamer: Path, tmp_path: Path, study: str
) -> None:
    """The study's folder has a file for the name of each of our packages; importing such a file
    ends a process."""
    lines(tmp_path / "mirror" / "openai" / "gsm8k" / "main" / "train.jsonl", ASKED)
    lines(tmp_path / "mirror" / "me" / "my-chats" / "default" / "train.jsonl", CHATS)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for package in OURS:
        (tmp_path / f"{package}.py").write_text(
            "raise SystemExit('a file beside the study was imported')\n"
        )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(dreamer), "run", study, "--mirror", "mirror", "--plain"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / Path(study).stem / "report" / "index.html").exists()
