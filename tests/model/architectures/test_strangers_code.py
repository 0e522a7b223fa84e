"""Code that somebody else has put beside a model's own is not run."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import py_compile
from pathlib import Path

import pytest
import torch

from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import FOLDER as CODE
from dreamer_study.model.architectures.code import check_code, digests
from dreamer_study.model.checkpoints.models import check_model_code, save_weights
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.pipeline.errors import InputError

MODEL = """
import torch
from beside import SIZE

class Mean(torch.nn.Module):
    def __init__(self, vocabulary_size, sequence_length):
        super().__init__()
        self.table = torch.nn.Embedding(vocabulary_size, vocabulary_size)

    def forward(self, tokens):
        return self.table(tokens)
"""
PLANTED = "import pathlib\npathlib.Path({mark!r}).touch()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / CODE
    folder.mkdir()
    (folder / "mean.py").write_text(MODEL)
    (folder / "beside.py").write_text("SIZE = 2\n")
    return folder


def _config(folder: Path) -> ModuleConfig:
    files = digests(folder, ["mean.py", "beside.py"])
    return ModuleConfig(module="mean.py:Mean", files=files, vocabulary_size=8, sequence_length=4)


@pytest.mark.parametrize("name", ["mean", "beside"])
def test_compiled_code_of_another_text_is_not_run(folder: Path, tmp_path: Path, name: str) -> None:
    config = _config(folder)
    mark = tmp_path / "ran"
    planted = tmp_path / "planted.py"
    source = folder / f"{name}.py"
    planted.write_text(PLANTED.format(mark=str(mark)) + source.read_text())
    py_compile.compile(
        str(planted),
        cfile=importlib.util.cache_from_source(str(source)),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    build(config, code=folder, trust_code=True)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["statistics.py", "beside.pyc", "torch/__init__.py", "beside.so"])
def test_a_file_beside_the_models_own_is_refused(folder: Path, name: str) -> None:
    files = _config(folder).files
    check_code(files, folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    with pytest.raises(InputError, match="is no file of the model as planned"):
        check_code(files, folder)


def test_a_link_to_a_folder_of_code_is_refused(folder: Path, tmp_path: Path) -> None:
    files = _config(folder).files
    os.symlink(tmp_path, folder / "package")
    with pytest.raises(InputError, match="is no file of the model as planned"):
        check_code(files, folder)


def test_the_code_of_a_checkpoint_is_that_of_the_plan(folder: Path, tmp_path: Path) -> None:
    config = _config(folder)
    checkpoint = tmp_path / "checkpoint"
    save_weights(checkpoint, config, {"table.weight": torch.zeros(8, 8)}, code=folder)
    check_model_code(checkpoint, config.files)
    check_model_code(checkpoint, None)
    # who forges the code writes its digest into the configuration too
    (checkpoint / CODE / "mean.py").write_text(MODEL + "print('forged')\n")
    forged = dataclasses.replace(config, files=digests(checkpoint / CODE, config.files))
    (checkpoint / "config.json").write_text(json.dumps(forged.to_dict()))
    checksums = checkpoint / "checksums.json"
    del_config = {k: v for k, v in json.loads(checksums.read_text()).items() if k != "config.json"}
    checksums.write_text(json.dumps(del_config))
    with pytest.raises(InputError, match="is not the code that the study has planned"):
        check_model_code(checkpoint, config.files)
