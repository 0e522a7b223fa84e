"""Compute what a model costs from its sizes: parameters, FLOPs per token, memory.

FLOPs are counted as in Table 1: 2 FLOPs per multiply-add; every matrix product, routers and the
output head included; sequence attention at its causal mean length (length + 1) / 2 and depth
attention at its own mean depth; the embedding look-up, norms and activations are free. The shared
experts of the attention mixtures count as parameters but cost no FLOPs, as they are merged before
inference (Eq. 8).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.pipeline.errors import InputError

ELEMENT_BYTES = 2  # bfloat16


@dataclass(frozen=True)
class Resources:
    """What a model costs (Table 1); `remarks` are clauses that a reader of it must know.

    `reads_documents`: whether the model distinguishes the documents of a row by itself.
    `muon_share`: of the parameters, where Muon trains some.
    """

    parameters: int
    flops_per_token: float
    memory_bytes: int
    remarks: tuple[str, ...] = ()
    reads_documents: bool = True
    muon_share: float | None = None


def resources(config: DreamerConfig, length: float = 1024) -> Resources:
    """Count what a model costs; FLOPs are those per token of a text of `length` tokens."""
    flops = flops_per_token(config, length)
    remarks: tuple[str, ...] = ()
    if config.recurrence_after:
        early = dataclasses.replace(config, recurrence_after=0, depth=config.plain_layers + 1)
        share = flops_per_token(early, length) / flops
        remarks = (
            f"FLOPs a token are those of all iterations; before {config.recurrence_after:,} tokens"
            f" it has about {share:.0%} of them",
        )
    return Resources(parameters(config), flops, memory_bytes(config), remarks)


def parameters(config: DreamerConfig) -> int:
    """Count trainable parameters, shared experts included; balance biases are no parameters."""
    return sum(parameters_by_component(config).values())


def parameters_by_component(config: DreamerConfig) -> dict[str, int]:
    """Count parameters of each part of the model, summed over its layers."""
    H, R, layers = config.hidden_size, config.routing_size, config.layers
    counts = {
        "embedding": config.vocabulary_size * H,
        "head": config.vocabulary_size * H,
        "norms": H,  # the gain of the residual stream's norm
    }

    def add(component: str, count: int) -> None:
        counts[component] = counts.get(component, 0) + count

    # A mixture, of the recurrent layer, holds one projection per expert, and a shared one.
    mixed = config.attention_experts + config.shared_expert if config.recurrent else 0
    for name, (_, _, head_size) in _attentions(config).items():
        copies = config.plain_layers + mixed
        add(f"{name}_projections", copies * _projection_size(config, name))
        if config.recurrent:
            add(f"{name}_routing", H * R + config.attention_experts * R)
            add("norms", R)
        add("norms", layers * (H + 2 * head_size))
    add("experts", config.pools * config.experts * _expert_size(config))
    add("expert_routing", layers * (H * R + config.experts * R))
    add("norms", layers * (H + R))
    return counts


def flops_per_token(config: DreamerConfig, length: float = 1024) -> float:
    """Count forward FLOPs per token, averaged over the generation of `length` tokens."""
    return sum(flops_by_component(config, length).values())


def flops_by_component(config: DreamerConfig, length: float = 1024) -> dict[str, float]:
    """Count forward FLOPs per token of each part of the model, summed over its depths.

    Raises InputError for a length below 1.
    """
    if not length >= 1:
        raise InputError(f"length is {length!r}, but it must be at least 1 token")
    H, R, L = config.hidden_size, config.routing_size, config.depth
    products: dict[str, float] = {"head": config.vocabulary_size * H}  # multiply-adds
    window = min(config.depth_window or L, L)
    # Mean number of keys that a query sees. Depth l sees min(l, window) depths: without a window
    # the mean over l = 1..L is (L + 1) / 2.
    visible = {"sequence": (length + 1) / 2, "depth": window - window * (window - 1) / (2 * L)}
    for name, (heads, _, head_size) in _attentions(config).items():
        products[f"{name}_projections"] = L * _projection_size(config, name)
        # scores q k^T, and the weighted sum of values
        products[f"{name}_attention"] = L * 2 * heads * head_size * visible[name]
        if config.recurrent:
            routing = H * R + config.attention_experts * R
            products[f"{name}_routing"] = config.iterations * routing
    products["experts"] = L * config.active_experts * _expert_size(config)
    products["expert_routing"] = L * (H * R + config.experts * R)
    return {component: 2.0 * count for component, count in products.items()}


def training_flops_per_token(
    config: DreamerConfig, length: float | None = None, targets: float = 1.0
) -> float:
    """Count FLOPs per token of a training step: forward, and twice as much backward.

    `length` is the mean length of documents (None: the model's sequence length), `targets` the
    share of tokens that have a target, which alone are multiplied by the head. Model FLOPs
    utilisation is computed from this count; recomputation and the product of the shared experts do
    not count.
    """
    counts = flops_by_component(config, length or config.sequence_length)
    return 3 * (sum(counts.values()) - (1 - targets) * counts["head"])


def memory_bytes(config: DreamerConfig, length: int = 1024) -> int:
    """Compute the mean bytes held while `length` tokens are generated, in bfloat16."""
    return sum(memory_by_component(config, length).values())


def memory_by_component(config: DreamerConfig, length: int = 1024) -> dict[str, int]:
    """Compute the bytes of the weights, of both caches and of one token's activations, in bfloat16.

    The sequence cache grows with every token and counts at its mean, half of its final size; the
    depth cache is overwritten by every token. Activations are the widest values of one depth, and
    the logits in float32.
    """
    L, H = config.depth, config.hidden_size
    per_token = 2 * config.key_value_heads * config.head_size * L  # keys and values
    depth_cache = 0
    if config.depth_attention:
        visible = min(L, config.depth_window or L)
        depth_cache = 2 * config.depth_key_value_heads * config.depth_head_size * visible
    of_experts = config.active_experts * (H + 3 * config.expert_size)
    of_attention = 2 * (config.query_heads + config.key_value_heads) * config.head_size
    widest = max(of_experts, of_attention)
    return {
        "weights": ELEMENT_BYTES * parameters(config),
        "sequence_cache": ELEMENT_BYTES * per_token * (length + 1) // 2,
        "depth_cache": ELEMENT_BYTES * depth_cache,
        "activations": ELEMENT_BYTES * (H + widest) + 4 * config.vocabulary_size,
    }


def _attentions(config: DreamerConfig) -> dict[str, tuple[int, int, int]]:
    """Return query heads, key/value heads and head size of each attention that has projections."""
    sizes = {"sequence": (config.query_heads, config.key_value_heads, config.head_size)}
    if config.depth_attention:
        sizes["depth"] = (config.depth_heads, config.depth_key_value_heads, config.depth_head_size)
    return sizes


def _projection_size(config: DreamerConfig, name: str) -> int:
    """Count elements of one fused query/key/value projection and one output projection."""
    heads, key_value_heads, head_size = _attentions(config)[name]
    return config.hidden_size * head_size * (2 * heads + 2 * key_value_heads)


def _expert_size(config: DreamerConfig) -> int:
    """Count elements of one SwiGLU expert: gate, up and down projection."""
    return 3 * config.hidden_size * config.expert_size
