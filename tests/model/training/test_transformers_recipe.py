"""Models of transformers under Muon: fused weights apart, and what is no matrix by AdamW."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from dreamer_study.model.architectures.build import build
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.training.check_recipe import check_recipe
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.parameter_groups import Trained, trained_parameters

RECIPE = TrainingConfig(tokens=1, batch_tokens=1, optimizer="muon", weight_decay=0.1)
HEADS = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
OF_KIND: dict[str, dict[str, Any]] = {
    "llama": {**HEADS, "intermediate_size": 48},
    "gpt2": {"n_embd": 32, "n_layer": 1, "n_head": 4},
    "phi3": {**HEADS, "num_key_value_heads": 2, "intermediate_size": 48, "pad_token_id": 0},
    "qwen3_moe": {
        **HEADS,
        "num_key_value_heads": 2,
        "moe_intermediate_size": 24,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "mamba": {"hidden_size": 32, "num_hidden_layers": 1},
}


def described(kind: str, **values: Any) -> ModuleConfig:
    config = {**OF_KIND[kind], **values}
    sizes = {"vocabulary_size": 50, "sequence_length": 16}
    return ModuleConfig(module=f"transformers:{kind}", config=config, **sizes)


def trained(kind: str) -> dict[str, Trained]:
    """How each weight is trained, by the end of its name."""
    groups = trained_parameters(build(described(kind)), RECIPE)
    return {each.name.removesuffix(".weight").rpartition(".")[2]: each for each in groups}


@pytest.mark.slow
def test_fused_weights_are_split_as_their_models_do() -> None:
    assert {each.parts for each in trained("llama").values()} == {()}
    of_gpt2 = trained("gpt2")["c_attn"]
    assert (of_gpt2.parts, of_gpt2.axis) == ((32, 32, 32), -1)
    of_phi3 = trained("phi3")
    assert (of_phi3["qkv_proj"].parts, of_phi3["qkv_proj"].axis) == ((32, 16, 16), -2)
    assert (of_phi3["gate_up_proj"].parts, of_phi3["gate_up_proj"].axis) == ((48, 48), -2)
    bank = trained("qwen3_moe")["gate_up_proj"]
    assert bank.parameter.ndim == 3
    assert bank.parts == (24, 24)
    assert bank.parameter.shape[bank.axis] == 48


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_KIND)
def test_only_maps_between_hidden_states_are_by_muon(kind: str) -> None:
    by_name = trained(kind)
    assert any(each.rule == "muon" for each in by_name.values())
    for name, each in by_name.items():
        is_other = name in (
            "embed_tokens",
            "embeddings",
            "wte",
            "wpe",
            "lm_head",
            "A_log",
            "conv1d",
        )
        if is_other or each.parameter.ndim < 2:
            assert each.rule == "adamw", name
        assert (each.weight_decay > 0) == (each.parameter.ndim >= 2), name


def test_an_auxiliary_loss_of_routers_that_is_not_trained_on_is_a_remark() -> None:
    assert check_recipe(described("qwen3_moe"), {}).remarks == ()
    (remark,) = check_recipe(described("qwen3_moe", output_router_logits=True), {}).remarks
    assert "auxiliary loss of its routers is not trained on" in remark
