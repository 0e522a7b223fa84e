"""Files that a class imports, at once or within a method, are its own and are found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.module_config import ModuleConfig

FILES = {
    "own.py": """
import random
import first
from torch import nn


class Own(nn.Module):
    def __init__(self, vocabulary_size, sequence_length):
        super().__init__()
        from lib.parts import Head

        self.tokens = nn.Embedding(vocabulary_size, 8)
        self.head = Head(8, vocabulary_size)

    def forward(self, tokens):
        import second, first as again

        assert again is first
        return self.head(self.tokens(tokens)) * second.TIMES
""",
    "first.py": "",
    "second.py": "TIMES = 2.0\n",
    "lib/parts.py": "from torch import nn\nfrom . import more\nclass Head(nn.Linear): ...\n",
    "lib/more.py": "",
    "lib/unused.py": "",
    "random.py": "raise AssertionError('of the standard library')\n",
    "__init__.py": "raise AssertionError('of no package')\n",
}
NEEDED = ["own.py", "first.py", "second.py", "lib/parts.py", "lib/more.py"]


def written(folder: Path, **changed: str) -> ModuleConfig:
    for name, text in {**FILES, **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    files = digests(folder, ["own.py"])
    return ModuleConfig(
        module="own.py:Own", config={}, files=files, vocabulary_size=9, sequence_length=8
    )


def test_files_that_are_imported_anywhere_belong_to_the_class(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert next(iter(config.files)) == "own.py"
    assert sorted(config.files) == sorted(NEEDED)
    changed = written(tmp_path, **{"second.py": "TIMES = 3.0\n"})
    assert changed.files != config.files, "another model"


def test_files_that_are_imported_late_are_those_of_the_class(tmp_path: Path) -> None:
    networks = {}
    for times in (2.0, 3.0):
        folder = tmp_path / str(times)
        config = written(folder, **{"second.py": f"TIMES = {times}\n"})
        networks[times] = build(config, code=folder, trust_code=True)
    tokens = torch.zeros(1, 3, dtype=torch.long)
    for times in (2.0, 3.0, 2.0):
        module = networks[times].module
        logits = networks[times](tokens)
        torch.testing.assert_close(logits, module.head(module.tokens(tokens)) * times)
    assert not {"first", "second", "lib", "lib.parts"} & set(sys.modules), "out of others' sight"


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"head_dim": 8}, {"head_dim": 4}], ids=str)
def test_a_field_that_only_the_models_code_asks_for_is_one(sizes: dict) -> None:
    pytest.importorskip("transformers")
    small = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    small |= {"num_hidden_layers": 1, "num_experts": 2, "num_experts_per_tok": 1}
    config = ModuleConfig(
        module="transformers:qwen3_moe",
        config={**small, "moe_intermediate_size": 8, **sizes},
        vocabulary_size=9,
        sequence_length=8,
    )
    shapes = {name: weight.shape for name, weight in build(config).named_parameters()}
    (queries,) = (shape for name, shape in shapes.items() if name.endswith("q_proj.weight"))
    assert tuple(queries) == (2 * sizes["head_dim"], 16)
