"""The `datasets` library takes more than a second to import: only a data set without a record needs it."""

import json
import subprocess
import sys

import pytest
import yaml

from tests.flows.small_study import TINY

PROGRAM = """
import sys
from dreamer_study.flows.commands.cli import main
assert main([sys.argv[1], "study.yaml"]) == 0
print("datasets" in sys.modules)
"""


def imports_datasets(command, folder):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, command], cwd=folder, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1] == "True"


def study(folder, **data):
    content = yaml.safe_load(TINY.read_text())
    content["data"] |= data
    (folder / "study.yaml").write_text(yaml.safe_dump(content))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "status"])
def test_a_study_of_built_in_data_does_not_import_datasets(tmp_path, command):
    study(tmp_path)
    assert not imports_datasets(command, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "status"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_recorded_source_does_not_import_datasets(tmp_path, command, recorded):
    folder = tmp_path / "mirror/a/b"
    (folder / "x").mkdir(parents=True)
    row = json.dumps({"q": "How much is 1 and 1?", "r": "2"})
    (folder / "x/rows.jsonl").write_text(f"{row}\n")
    card = "---\nconfigs:\n- config_name: main\n  data_files: x/*\n---\n"
    (folder / "README.md").write_text(card)
    part = {"configuration": "main", "split": "train", "files": ["x/rows.jsonl"]}
    record = {"repository": "a/b", "revision": "c" * 40, "parts": [part]}
    if recorded:
        (folder / ".download.json").write_text(json.dumps(record))
    source = {"name": "s", "repository": "a/b", "configuration": "main", "question": "q"}
    study(tmp_path, sources=["builtin", source | {"response": "r"}], mirror="mirror")
    assert imports_datasets(command, tmp_path) is not recorded
