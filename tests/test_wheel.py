"""Install the package from a wheel, and run a study beside files of the user's that bear its packages' names."""

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

import flows
from tests.flows.small_study import PROJECT, small_study

OURS = ("flows", "model", "pipeline", "reports", "sql")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the files that git tracks."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    for name in subprocess.check_output(["git", "ls-files"], cwd=PROJECT, text=True).splitlines():
        if (PROJECT / name).exists() and name.startswith((*OURS, "pyproject", "README", "LICENSE")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, folder / name)
    options = ["--no-deps", "--no-build-isolation", "-q", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", str(folder), *options], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_version_is_said_once() -> None:
    assert flows.__version__ == importlib.metadata.version("dreamer-study")
    assert f"version: {flows.__version__}\n" in (PROJECT / "CITATION.cff").read_text()
    assert f"\n## [{flows.__version__}]" in (PROJECT / "CHANGELOG.md").read_text()
    assert yaml.safe_load((PROJECT / "CITATION.cff").read_text())["cff-version"] == "1.2.0"


@pytest.mark.slow
def test_a_wheel_holds_nothing_of_this_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith(".so")]
    assert {f"{package}/py.typed" for package in OURS} | {"model/ops/native/source/native.c"} <= {*names}


@pytest.mark.slow
def test_an_installed_study_takes_no_module_of_its_folder(wheel: Path, tmp_path: Path) -> None:
    """Every package has a namesake beside the study that would end any process which imports it."""
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    (packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(f"{Path(yaml.__file__).parents[1]}\n")  # without the checkout's own hook
    options = ["--no-deps", "--no-index", "-q", "--ignore-installed", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", *options], check=True)
    home = tmp_path / "home"
    home.mkdir()
    study = small_study(home)
    for package in OURS:
        (home / f"{package}.py").write_text("raise SystemExit('a file beside the study was imported')\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python.with_name("dreamer")), "run", study.name, "--plain"]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (home / "runs" / "tiny" / "report" / "index.html").exists()
