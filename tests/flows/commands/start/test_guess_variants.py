"""`dreamer new --module` guesses sizes from the arguments of classes, and runs no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.start.guess_variants import variants_of
from dreamer_study.pipeline.errors import InputError

OF_ATLAS = {"forward|ffn": 128, "head": 4, "layer|depth": 4, "d_model|n_embd|hidden": 64}


def guessed(tmp_path: Path, arguments: str, **options: Any) -> dict[str, Any]:
    """The variant of a class with these arguments besides those that every study gives."""
    module = tmp_path / "models.py"
    module.write_text(
        "class Net:\n"
        f"    def __init__(self, vocabulary_size, sequence_length, {arguments}):\n"
        "        raise SystemExit('code runs')\n"
    )
    (variant,) = variants_of(f"{module}:Net", tmp_path, **options)
    return variant


@pytest.mark.parametrize(
    ("arguments", "config", "searched"),
    [
        ("n_layer, n_head, ffn_dim", {"n_layer": 4, "n_head": 4, "ffn_dim": 192}, "ffn_dim"),
        ("dropout, bias, use_norm", {"dropout": 0.0, "bias": False, "use_norm": False}, None),
        ("ffn_dim=64, layers=2", {"ffn_dim": 64}, "ffn_dim"),  # its search begins at its default
        ("n_embd=768, *, n_layer=12", {}, None),
        ("ffn_mult=4, ffn_dim=None", {}, None),  # no whole number at which a search could begin
    ],
)
def test_arguments_without_a_default_are_guessed_and_a_width_is_searched(
    arguments: str, config: dict[str, Any], searched: str | None, tmp_path: Path
) -> None:
    variant = guessed(tmp_path, arguments)
    assert variant["config"] == config
    assert variant.get("match") == (searched and {"flops": searched})


@pytest.mark.parametrize(
    ("arguments", "config", "searched"),
    [
        (
            "n_layer=12, n_head=12, n_embd=768, dropout=0.1, bias=True",
            {"n_layer": 4, "n_head": 4, "n_embd": 64},
            "n_embd",
        ),
        ("d_model=512, *, ffn_dim=2048", {"d_model": 64, "ffn_dim": 128}, "ffn_dim"),
        # sizes of another kind keep their defaults
        (
            "hidden_size=512, state_size=16, head_dim=8, chunk_size=32",
            {"hidden_size": 64},
            "hidden_size",
        ),
        ("experts=8", {}, None),
    ],
)
def test_beside_others_sizes_with_defaults_are_as_theirs(
    arguments: str, config: dict[str, Any], searched: str | None, tmp_path: Path
) -> None:
    variant = guessed(tmp_path, arguments, sizes=OF_ATLAS, like_the_others=True)
    assert variant["config"] == config
    assert variant.get("match") == (searched and {"flops": searched})


@pytest.mark.parametrize(
    ("named", "text", "words"),
    [
        ("m.py:gpt", "class GPT: pass", "did you mean 'GPT'"),
        ("m.py:Other", "class GPT: pass\nclass Net: pass", "it has GPT and Net"),
        ("m.py:GPT", "class GPT:\n def __init__(self, vocab_size): 0", "of GPT takes vocab_size;"),
        ("m.py:GPT", "class GPT: pass", "GPT has no `__init__` of its own"),
        ("m.py", "class A: pass\nclass B: pass", "no class has an `__init__`"),
        ("m.py", "class A(", r"m.py:1: not Python: '\(' was never closed"),
        ("m.py", "import torch\nfrom .parts import x", "m.py:2: a study imports the file alone"),
        (".", "", "name a Python file"),
        ("m.py", "", "no class has an `__init__`"),
    ],
)
def test_a_module_without_a_model_is_refused_with_what_it_has(
    named: str, text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(text)
    with pytest.raises(InputError, match=words):
        variants_of(named, Path())
