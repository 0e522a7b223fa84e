"""The imports of a user's files, written anew for one flat package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dreamer_study.model.hub.own_files import flat_files
from dreamer_study.pipeline.errors import InputError

OWN = '''import torch, helpers
import helpers as others
import lib.blocks as blocks
from lib import blocks as again, missing
from lib.blocks import (
    Block,
    Other as Another,
)


class Net(torch.nn.Module):
    def forward(self, x):
        """Größe"""; from helpers import scale; return scale(x)
'''
FLAT = '''import torch; from . import helpers as helpers
from . import helpers as others
from . import lib_blocks as blocks
from . import lib_blocks as again; from lib import missing
from .lib_blocks import Block, Other as Another


class Net(torch.nn.Module):
    def forward(self, x):
        """Größe"""; from .helpers import scale; return scale(x)
'''
BLOCKS = "from . import parts\nfrom .parts import Part\nfrom helpers import scale\nimport math\n"
FLAT_BLOCKS = (
    "from . import lib_parts as parts\nfrom .lib_parts import Part\n"
    "from .helpers import scale\nimport math\n"
)


def written(folder: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return list(files)


def test_imports_of_own_files_become_relative_ones_wherever_they_stand(tmp_path: Path) -> None:
    files = {
        "own.py": OWN,
        "helpers.py": "",
        "lib/blocks.py": BLOCKS,
        "lib/parts.py": "",
        "table.json": "{}",
    }
    texts = flat_files(tmp_path, "own.py:Net", written(tmp_path, files))
    assert sorted(texts) == sorted(
        ["own.py", "own_class.py", "helpers.py", "lib_blocks.py", "lib_parts.py"]
    )
    assert texts["own.py"] == FLAT
    assert texts["lib_blocks.py"] == FLAT_BLOCKS
    own_class = texts["own_class.py"]
    assert "from .own import Net as OwnClass" in own_class
    for module in ("helpers", "lib_blocks", "lib_parts"):
        assert f"from .{module} import" in own_class, "transformers copies what this file imports"
    for text in texts.values():
        ast.parse(text)


def test_a_class_in_a_folder_imports_its_neighbours(tmp_path: Path) -> None:
    files = {
        "lib/net.py": "from blocks import Block\nimport lib.blocks as b\n",
        "lib/blocks.py": "",
    }
    texts = flat_files(tmp_path, "lib/net.py:Net", written(tmp_path, files))
    assert texts["lib_net.py"] == "from .lib_blocks import Block\nfrom . import lib_blocks as b\n"


@pytest.mark.parametrize("name", ["own_class.py", "my-net.py", "2nd.py"])
def test_a_file_of_any_name_gets_one_that_can_be_imported(tmp_path: Path, name: str) -> None:
    texts = flat_files(tmp_path, f"{name}:Net", written(tmp_path, {name: "class Net: ...\n"}))
    (module,) = [each.removesuffix(".py") for each in texts if each != "own_class.py"]
    assert module.isidentifier()
    assert f"from .{module} import Net as OwnClass" in texts["own_class.py"]


def test_an_import_that_a_flat_folder_cannot_have_is_named(tmp_path: Path) -> None:
    files = written(tmp_path, {"own.py": "x = 1\nimport lib.blocks\n", "lib/blocks.py": ""})
    with pytest.raises(InputError, match=r"own\.py:2: `import lib\.blocks` cannot be written"):
        flat_files(tmp_path, "own.py:Net", files)
