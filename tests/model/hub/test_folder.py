"""Exported models: the same numbers as here, in a process that cannot import this project."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Codec

from dreamer_study.model import ops
from dreamer_study.model.architectures.build import build as build_network
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.contract import Network
from dreamer_study.model.evaluation.generate import generate
from dreamer_study.model.evaluation.tokenizer import load_tokenizer
from dreamer_study.model.hub.folder import write_folder
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.pipeline.errors import InputError
from tests.model.tiny_network import FORMS, LATE, VARIANTS, build

pytestmark = pytest.mark.slow

pytest.importorskip("transformers")

VOCABULARY = 50
ROW = 32
PROMPT = [3, 1, 4]
OF_TRANSFORMERS = {
    "llama": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2},
}
ALONE = """
import json, sys
sys.modules["dreamer_study"] = None
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
text, *folders = sys.argv[1:]
for folder in folders:
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    both = tokenizer([text, text + " w5 w6 w7"], return_tensors="pt", padding=True)
    rows = torch.arange(2 * 20).view(2, 20) * 7 % 50
    one = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        print("FOUND", json.dumps({
            "tokens": tokenizer.encode(text),
            "logits": model(rows).logits.tolist(),
            "padded": model(**both).logits[0, -1].tolist(),
            "alone": model(**one).logits[0, -1].tolist(),
            "written": model.generate(**one, max_new_tokens=12, do_sample=False)[0].tolist(),
        }))
"""
OWN = """
import torch
from torch import nn

import lib.parts as parts


class Tied(nn.Module):
    def __init__(self, vocabulary_size, sequence_length, hidden_size=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)
        self.head.weight = self.tokens.weight
        self.scale = parts.Scale(hidden_size)
        self.mask = torch.full((sequence_length, sequence_length), float("-inf")).triu(1)

    def forward(self, *, input_ids):
        from lib.parts import SCALE

        length = input_ids.shape[1]
        states = self.scale(self.tokens(input_ids))
        return (self.head(self.mask[:length, :length].softmax(-1) @ states * SCALE),)
"""
NEEDS_PROJECT = """
import dreamer_study.model.ops
from torch import nn


class Own(nn.Module):
    def __init__(self, vocabulary_size, sequence_length):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, vocabulary_size)

    def forward(self, tokens):
        return self.tokens(tokens)
"""
PARTS = """
import torch
from torch import nn

SCALE = 3.0


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, size), persistent=False)

    def forward(self, x):
        return x * self.table
"""


def described(module: str, sizes: dict, files: dict | None = None) -> ModuleConfig:
    return ModuleConfig(
        module=module,
        config=sizes,
        files=files or {},
        vocabulary_size=VOCABULARY,
        sequence_length=ROW,
    )


def tokenizer_folder(folder: Path, end: int) -> Path:
    """Words w0 to w49, one of which is the end mark; marks around a text, as some tokenizers add."""
    words = {f"w{number}": number for number in range(VOCABULARY)}
    codec = Codec(models.WordLevel(words, unk_token="w0"))
    codec.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    codec.add_special_tokens([AddedToken(f"w{end}")])
    marks = [(f"w{end}", end)]
    codec.post_processor = processors.TemplateProcessing(f"w{end} $A", special_tokens=marks)
    folder.mkdir()
    codec.save(str(folder / "tokenizer.json"))
    meta = {"end_token": end, "end": f"w{end}", "vocabulary_size": VOCABULARY}
    (folder / "tokenizer_meta.json").write_text(json.dumps(meta))
    return folder


def end_for(network: Network, prompt: list[int]) -> int:
    """The token that the network writes after two others, so that it ends there."""
    written = generate(network, [prompt], max_new_tokens=8, end_token=-1)[0]
    return next(
        (token for token in written[2:] if token not in [*prompt, *written[:2]]), written[0]
    )


def export(network: Network, folder: Path, code: Path | None = None) -> Path:
    """Write a folder for transformers, with a tokenizer in whose end mark the network ends."""
    network.eval()
    tokenizer = tokenizer_folder(folder / "tokenizer", end_for(network, PROMPT))
    network.tokenizer = load_tokenizer(tokenizer)
    exported = folder / "exported"
    exported.mkdir()
    write_folder(exported, network, tokenizer, code)
    return exported


def read_alone(folders: list[Path], place: Path) -> list[dict[str, Any]]:
    """Return what another process, which cannot import this project, reads from exported folders.

    One process reads all, as it imports torch and transformers once.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, "w3 w1 w4", *map(str, folders)],
        env={"PATH": os.defpath, "HF_HOME": str(place / "home"), "HF_HUB_OFFLINE": "1"},
        cwd=place,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    return [json.loads(line.removeprefix("FOUND ")) for line in lines]


def check_same(network: Network, exported: Path, found: dict[str, Any]) -> None:
    """Compare what another process has read from a folder with the network here."""
    end = network.tokenizer.end_token
    rows = torch.arange(2 * 20).view(2, 20) * 7 % VOCABULARY
    with torch.no_grad(), ops.engine("torch"):
        logits = network(rows)
    scale = float(logits.abs().max())
    assert float((torch.tensor(found["logits"]) - logits).abs().max()) < 1e-6 * max(1.0, scale)
    assert found["tokens"] == PROMPT, "a text is encoded as in training, without marks"
    if list(exported.glob("*.py")):  # models of transformers have rules of their own
        assert found["padded"] == pytest.approx(found["alone"], abs=1e-5 * scale)
    here = generate(network, [PROMPT], max_new_tokens=12, end_token=end)[0]
    assert found["written"] == [*PROMPT, *here, end][: len(PROMPT) + 12]
    assert found["written"][-1] == end, "the case is one in which the model ends"


@pytest.mark.parametrize("config", VARIANTS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mixture": "sequential"},
        {"mixture": "parallel"},
        {"depth_window": 2},
        {"shared_expert": False},
    ],
    ids=str,
)
def test_the_exported_network_computes_the_mathematics_of_dreamer(config, changes) -> None:
    from dreamer_study.model.hub.code.configuration_dreamer import SIZES, DreamerConfig
    from dreamer_study.model.hub.code.modeling_dreamer import Dreamer

    config = dataclasses.replace(config, **changes)
    model = build(config).eval()
    assert dataclasses.asdict(type(config)()) == SIZES, "names and defaults are the same"
    exported = Dreamer(DreamerConfig(**config.to_dict())).double()
    unexpected = exported.load_state_dict(model.state_dict(), strict=False)
    assert not unexpected.missing_keys
    assert all(name.endswith("router.counts") for name in unexpected.unexpected_keys)
    tokens = torch.randint(config.vocabulary_size, (3, 17))
    with torch.no_grad():
        torch.testing.assert_close(exported(tokens), model(tokens), rtol=0, atol=1e-12)


def own_class(folder: Path) -> Network:
    """A class with a helper, a table that is no weight, and one tensor in two places."""
    code = folder / "code"
    (code / "lib").mkdir(parents=True)
    (code / "own.py").write_text(OWN)
    (code / "lib" / "parts.py").write_text(PARTS)
    files = digests(code, ["own.py"])
    config = described("own.py:Tied", {"hidden_size": 8}, files)
    torch.manual_seed(0)
    return build_network(config, code=code, trust_code=True)


def of_transformers(kind: str, sizes: dict[str, int]) -> Network:
    config = described(f"transformers:{kind}", sizes)
    torch.manual_seed(0)
    network = build_network(config)
    with torch.no_grad():
        for parameter in network.parameters():  # away from logits that are all alike
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network


def test_exported_models_load_without_this_project(tmp_path: Path) -> None:
    """A Dreamer of every part, a class with its helpers, and models of transformers as they are."""
    networks = {"dreamer": build(FORMS["DR+DA+own+pool"], torch.float32)}
    networks["own class"] = own_class(tmp_path)
    networks |= {kind: of_transformers(kind, sizes) for kind, sizes in OF_TRANSFORMERS.items()}
    exported = []
    for name, network in networks.items():
        (tmp_path / name).mkdir()
        code = tmp_path / "code" if name == "own class" else None
        exported.append(export(network, tmp_path / name, code))
    read = read_alone(exported, tmp_path)
    for network, folder, found in zip(networks.values(), exported, read, strict=True):
        check_same(network, folder, found)
    with_code = [folder.parent.name for folder in exported if list(folder.glob("*.py"))]
    assert with_code == ["dreamer", "own class"]


def test_a_class_that_needs_this_project_is_refused(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "own.py").write_text(NEEDS_PROJECT)
    config = described("own.py:Own", {}, digests(code, ["own.py"]))
    network = build_network(config, code=code, trust_code=True)
    tokenizer = tokenizer_folder(tmp_path / "tokenizer", 1)
    network.tokenizer = load_tokenizer(tokenizer)
    exported = tmp_path / "exported"
    exported.mkdir()
    with pytest.raises(InputError, match=r"cannot load the model without this project: .*dreamer"):
        write_folder(exported, network, tokenizer, code)


def test_a_model_is_exported_when_its_recurrence_has_begun(tmp_path: Path) -> None:
    network = build(LATE, torch.float32).eval()
    tokenizer = tokenizer_folder(tmp_path / "tokenizer", 1)
    network.tokenizer = load_tokenizer(tokenizer)
    exported = tmp_path / "exported"
    exported.mkdir()
    with pytest.raises(InputError, match=r"100 tokens.*export a later checkpoint"):
        write_folder(exported, network, tokenizer)
    assert not any(exported.iterdir())
    network.begin_step(100)
    write_folder(exported, network, tokenizer)
