"""Install a wheel, and run it beside files and packages that bear the names of our folders.

A stand-in for jupysql, whose package is named `sql`, is installed beside the wheel: jupysql itself
brings ten more packages, one of which reports its use to a server.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import dreamer_study
from dreamer_study.sql.results import query
from tests.docs.test_your_own import FILES, STUDIES
from tests.flows.small_study import PROJECT, small_study
from tests.one_name import FOLDERS, NAME
from tests.pipeline.documents import lines

NUMBERS = [(number, 7 * number % 31) for number in range(400)]
ASKED = [
    {
        "question": f"A shelf holds {books} books and {more} more come. How many?",
        "answer": f"They are {books + more}. #### {books + more}",
    }
    for books, more in NUMBERS
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
REFUSES_IMPORT = "raise SystemExit('a file beside the study was imported')\n"

MY_MODELS = """
from torch import nn

from model.head import Head


class Bigrams(nn.Module):
    def __init__(self, vocabulary_size, sequence_length, hidden_size):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.head = Head(hidden_size, vocabulary_size)

    def forward(self, tokens):
        return self.head(self.tokens(tokens))
"""
MY_HEAD = """
from torch import nn


class Head(nn.Linear):
    pass
"""
OWN_VARIANT = {
    "name": "Bigrams",
    "module": "my_models.py:Bigrams",
    "files": ["model/__init__.py", "model/head.py"],
    "config": {"hidden_size": 32},
}


def tracked(*beginnings: str) -> list[str]:
    """List the files of the project, of those that git tracks, that begin with one of these."""
    names = subprocess.check_output(["git", "ls-files"], cwd=PROJECT, text=True).splitlines()
    return [name for name in names if name.startswith(beginnings) and (PROJECT / name).exists()]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the files that git tracks, with the links below src/ as links."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("source")
    for name in tracked(""):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, folder / name, follow_symlinks=False)
    return folder


def build_wheel(source: Path, target: Path) -> Path:
    """Build a wheel of a folder or of a source distribution, without a network."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "-q", "-w", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", str(source), *options], check=True)
    (wheel,) = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    program = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=source, check=True)
    (archive,) = folder.glob("*.tar.gz")
    return archive


def test_the_version_is_said_once() -> None:
    assert dreamer_study.__version__ == importlib.metadata.version("dreamer-study")
    assert f"version: {dreamer_study.__version__}\n" in (PROJECT / "CITATION.cff").read_text()
    assert f"\n## [{dreamer_study.__version__}]" in (PROJECT / "CHANGELOG.md").read_text()
    assert yaml.safe_load((PROJECT / "CITATION.cff").read_text())["cff-version"] == "1.2.0"


def package_files(wheel: Path) -> set[str]:
    """List what a wheel installs, without the description of the distribution."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name}


@pytest.mark.slow
def test_a_wheel_holds_all_files_of_the_folders_and_nothing_of_this_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    below = tracked(*(f"{folder}/" for folder in FOLDERS))
    top = {f"{NAME}/__init__.py", f"{NAME}/py.typed"}
    assert package_files(wheel) == top | {f"{NAME}/{name}" for name in below}


@pytest.mark.slow
def test_a_source_distribution_makes_the_same_wheel(
    sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    assert [name for name, member in members.items() if member.issym() or member.islnk()] == []
    assert f"src/{NAME}/model/ops/native/source/native.c" in members
    assert package_files(build_wheel(sdist, tmp_path)) == package_files(wheel)


@pytest.fixture(scope="module")
def dreamer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment in which the wheel is installed, beside a package `sql`."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder)
    (packages,) = folder.glob("lib/*/site-packages")
    # without the checkout: the files *.pth of a folder that is named so are not read
    (packages / "dependencies.pth").write_text(f"{Path(yaml.__file__).parents[1]}\n")
    (packages / "sql").mkdir()
    (packages / "sql" / "__init__.py").write_text("OWNER = 'jupysql'\n")
    options = ["--no-deps", "--no-index", "-q", "--ignore-installed", str(wheel)]
    python = str(folder / "bin" / "python")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *options], check=True
    )
    return folder / "bin" / "dreamer"


def output(folder: Path, *command: object) -> str:
    """Run a command as a user does in a folder; return what the command prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A folder with a file for the name of each of our folders; importing such a file ends a
    process."""
    for folder in FOLDERS:
        (tmp_path / f"{folder}.py").write_text(REFUSES_IMPORT)
    return tmp_path


@pytest.mark.slow
def test_an_installed_study_takes_no_module_of_its_folder(dreamer: Path, crowded: Path) -> None:
    """Each study of the page until all that is special in it was read: data of the user are
    prepared, benchmarks of the user evaluated, and the recipe searches and trains."""
    lines(crowded / "mirror" / "openai" / "gsm8k" / "main" / "train.jsonl", ASKED)
    lines(crowded / "mirror" / "me" / "my-chats" / "default" / "train.jsonl", CHATS)
    for name, text in FILES.items():
        (crowded / name).parent.mkdir(parents=True, exist_ok=True)
        (crowded / name).write_text(text, encoding="utf-8")
    for study, stage in zip(STUDIES, ("prepare", "evaluate", "train"), strict=True):
        if stage != "prepare":
            make_short(crowded / study)
        command = ("run", study, "--mirror", "mirror", "--plain", "--until", stage)
        output(crowded, dreamer, *command)
    results = crowded / "runs" / "my-benchmarks" / "results.duckdb"
    asked = query(results, "select distinct task from evaluations")["task"]
    assert {"capitals", "sums"} <= set(asked)
    assert list(crowded.glob("runs/my-recipe/store/runs/DR-decayed-2-s1-*/checkpoints/*"))


def make_short(path: Path) -> None:
    """Let a study of the page train a few steps, in one process."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    short = {"tokens": 3000, "checkpoints": 1}
    content["training"] |= short
    if "tune" in content["training"]:
        content["training"] |= {"seeds": [0]}
        content["training"]["tune"]["tokens"] = 2000
    content["workers"] = 1
    path.write_text(yaml.safe_dump(content), encoding="utf-8")


@pytest.mark.slow
def test_a_study_imports_the_package_model_of_its_user(dreamer: Path, crowded: Path) -> None:
    """To its report, beside files with the names of our folders."""
    (crowded / "model.py").unlink()
    (crowded / "model").mkdir()
    (crowded / "model" / "__init__.py").write_text("")
    (crowded / "model" / "head.py").write_text(MY_HEAD)
    (crowded / "my_models.py").write_text(MY_MODELS)
    study = small_study(crowded)
    content = yaml.safe_load(study.read_text())
    content["models"]["variants"] = ["LA", OWN_VARIANT]
    content["workers"] = 1
    study.write_text(yaml.safe_dump(content))
    output(crowded, dreamer, "run", study, "--plain", "--trust-code")
    (report,) = crowded.glob("runs/*/report/index.html")
    assert "<title>" in report.read_text(encoding="utf-8")
    question = "select distinct variant from token_accuracy order by variant"
    printed = output(crowded, dreamer, "sql", study, question)
    assert [name for name in ("Bigrams", "LA") if name in printed] == ["Bigrams", "LA"]


@pytest.mark.slow
def test_commands_and_a_package_sql_of_others_work_side_by_side(
    dreamer: Path, crowded: Path
) -> None:
    assert "tokens" in output(crowded, dreamer, "factors", "example")
    program = "import sql, dreamer_study.sql; print(sql.OWNER, dreamer_study.sql.__name__)"
    printed = output(crowded, dreamer.with_name("python"), "-P", "-c", program)
    assert printed == "jupysql dreamer_study.sql\n"


@pytest.mark.slow
def test_the_notebook_runs_beside_a_model_and_a_package_sql_of_others(
    dreamer: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(REFUSES_IMPORT)
    notebook = json.loads((PROJECT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]) for cell in cells]
    chart = "measured.plot()._repr_mimebundle_()"  # which a notebook asks for
    script = tmp_path / "ten_lines.py"
    script.write_text("\n".join([*code, chart, "import sql", "print(sql.OWNER, measured.answer)"]))
    printed = output(tmp_path, dreamer.with_name("python"), script)
    assert printed.startswith("jupysql Looped ")
    assert (tmp_path / "report.html").exists()
