"""Dreamer: depth-recurrent attention mixtures (DR, DR+DA), and their layered baseline (LA).

A block adds up attentions along different dimensions: sequence (SA), depth (DA), experts (EA). One
block runs at all depths (recurrent), or each depth has a block of its own (layered):

    recurrent                                    layered
    x_1 = Norm(embedding of the token)           x_1 = embedding of the token
    y_l = x_l + DA(x_:l) + SA(x_l)               the same (Eq. 5; Eq. 4 and 6 are options),
    y_l = y_l + EA(y_l)                          with the weights of layer l
    x_{l+1} = Norm(y_l)                          x_{l+1} = y_l
    logits = x_{L+1} W_head^T                    logits = Norm(x_{L+1}) W_head^T

A recurrent model may have layers of their own before and after its block (`prelude`, `coda`), it
may iterate its block from some point of the training on (`recurrence_after`), and layers may share
one pool of experts (`expert_pool`): docs/model.md.

Norm is RMSNorm with a learned gain. This file and `model/layers/`, which holds the attentions, are
the mathematics; `model/ops/` chooses how an operation is computed, and `model/ops/reference.py`
states each in its plainest form. docs/model.md says what was decided where the paper is silent.

Names of tensors end in their axes: B batch, S sequence, T = B*S tokens, L depth, H hidden, N query
heads, M key/value heads, K head size, C keys that a query may see, E experts, A active experts, F
expert size, R routing size, I and O inputs and outputs of a projection, V vocabulary; P pairs of a
rotary code, of K or R values, with cosine and sine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dreamer_study.model import ops
from dreamer_study.model.dreamer_cache import DreamerNetwork
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.layers.attentions import (
    DepthAttention,
    ProjectedAttention,
    SequenceAttention,
)
from dreamer_study.model.layers.context import Context, History, Memory, Observer, Weights
from dreamer_study.model.layers.experts import (
    ExpertAttention,
    ExpertPool,
    PooledExpertAttention,
    Router,
    SwiGLUExperts,
    balance_step,
)
from dreamer_study.model.layers.rotary import depth_code, position_code
from dreamer_study.model.ops import Attended, Documents
from dreamer_study.pipeline.errors import InputError

ATTENTIONS: dict[str, type[nn.Module]] = {
    "sequence": SequenceAttention,
    "depth": DepthAttention,
    "experts": ExpertAttention,
}
"""Another dimension is another class here, and its name in `dreamer_config.MIXTURES`
(docs/model.md)."""


class Block(nn.Module):
    """Compute one layer: add each group of attentions to the residual stream.

    The groups are those of the mixture, each of which reads the sum of the groups before:

        y_l = x_l + DA(x_:l);  y_l += SA(y_l);  y_l += EA(y_l)       "sequential" (Eq. 4)
        y_l = x_l + DA(x_:l) + SA(x_l);  y_l += EA(y_l)              "partial" (Eq. 5)
        y_l = x_l + DA(x_:l) + SA(x_l) + EA(x_l)                     "parallel" (Eq. 6)
    """

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.order = config.order
        self.recurrent = config.recurrent
        kinds = ATTENTIONS
        if config.expert_pool:
            kinds = {**ATTENTIONS, "experts": PooledExpertAttention}
        self.attentions = nn.ModuleDict(
            {name: kinds[name](config) for group in self.order for name in group}
        )

    def prepare(
        self,
        dtype: torch.dtype,
        code_LP: Tensor | None,
        tokens: int,
        pool: Iterator[tuple[Weights, ...]] | None = None,
    ) -> Iterator[dict[str, Weights]]:
        """Prepare what each attention needs at each depth, for any batch of `tokens` tokens.

        `pool` is what `ExpertPool.prepare` gives, of which each depth takes the next entry. Without
        a code there is one entry. The entry of a depth is made only when that depth runs.
        Autograd goes through newer nodes first, so what was made for some depths alone (the taps of
        a group of depths) is done and freed before the depths below.
        """
        by_name = {
            name: attention.prepare(dtype, code_LP, tokens)
            for name, attention in self.attentions.items()
        }
        for of_depth in zip(*by_name.values(), strict=True):
            weights = dict(zip(by_name, of_depth, strict=True))
            if pool is not None:
                weights["experts"] = (*weights["experts"], *next(pool))
            yield weights

    def forward(
        self,
        x_TH: Tensor,
        weights: dict[str, Weights],
        context: Context,
        histories: dict[str, History],
    ) -> tuple[Tensor, dict[str, Attended]]:
        """Add each group to the residual stream [T, H]; return also the attentions' results."""
        attended: dict[str, Attended] = {}
        for group in self.order:
            for name in group:
                attended[name] = self.attentions[name](
                    x_TH, weights[name], context, histories.get(name, ())
                )
            x_TH = sum((attended[name].output for name in group), start=x_TH)
        return x_TH, attended


class Dreamer(DreamerNetwork):
    """Compute LA, DR, DR+DA or a form of them: `Dreamer(config)(tokens[B, S]) -> logits [B, S, V]`.

    `dtype` is that of the matrix products, by default the parameters' own. Parameters in float32
    with products in bfloat16 are cast once per forward, so the gradients of one forward add up over
    the depths in bfloat16; those of experts on a GPU are made together (`ops.gradient_taps`).
    Routing stays in float32.
    """

    def __init__(self, config: DreamerConfig, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.embedding = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        self.blocks = nn.ModuleList(Block(of_layer) for of_layer in _of_layers(config))
        self.pool = ExpertPool(config) if config.expert_pool else None
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.head = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        if config.recurrence_after:
            # whether the block is iterated by now; saved with the weights, as they depend on it
            self.register_buffer("iterates", torch.zeros((), dtype=torch.bool))
        if not self.embedding.is_meta:  # no values to set, and torch takes seconds to find that out
            self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights (Table 3).

        N(0, 1 / (5 H)), output projections N(0, 1 / (2.5 H L D)) where D is the number of attention
        dimensions (3 with DA, else 2); gains are 1.
        """
        H, L = self.config.hidden_size, self.config.depth
        dimensions = 3 if self.config.depth_attention else 2
        for name, parameter in self.named_parameters():
            if name.endswith("gain"):
                parameter.fill_(1.0)
                continue
            if name.endswith("outward"):
                variance = 1 / (2.5 * H * L * dimensions)
            else:
                variance = 1 / (5 * H)
            parameter.normal_(std=variance**0.5)

    def forward(
        self,
        tokens_BS: Tensor,
        *,
        documents: Tensor | None = None,
        positions: Tensor | None = None,
        memory: Memory | None = None,
        depth: int | None = None,
        return_hidden: bool = False,
        observer: Observer | None = None,
    ) -> Tensor:
        """Compute logits [B, S, V], or with `return_hidden` the normalised hidden states [B, S, H].

        `documents` [B, S] labels tokens: attention stays within a run of equal labels, and -1 is
        padding, which does not count in the experts' balance. `positions` [B, S] are those within
        the document; by default they follow from the labels. A `memory` takes the place of both.
        `depth` runs a recurrent model at another depth than it was made for. `observer` is called
        with depth index, name and result of every attention at every depth. Raises InputError where
        these do not fit each other.
        """
        _check_shapes(tokens_BS, documents, positions, memory)
        L = self.checked_depth(depth)
        dtype = self.dtype or self.embedding.dtype
        memory = memory or Documents(tokens_BS, documents, positions)
        counted = self.training and isinstance(memory, Documents)  # for the experts' balance
        real_T = memory.real if counted else None
        position_codes, depth_codes, routing_codes = self._codes(memory.positions, L, dtype)
        passes = self._passes(L, dtype, routing_codes, tokens_BS.numel())

        x_TH = F.embedding(tokens_BS.flatten(), self.embedding).to(dtype)
        histories: dict[str, History] = {}  # of depth attention: keys and values of earlier depths
        for index, (block, weights) in zip(range(L), passes, strict=True):
            if block.recurrent and index == self.config.prelude:  # before its first iteration
                x_TH = self.norm(x_TH)
            context = Context(index, position_codes, depth_codes[index], memory)
            x_TH, attended = self.layer(block, x_TH, weights, context, histories)
            histories = {name: result.history for name, result in attended.items()}
            for name, result in attended.items():
                if counted and result.ids is not None:
                    block.attentions[name].router.count(result.ids, real_T)
                if observer is not None:
                    observer(index, name, result)
        hidden_TH = x_TH if block.recurrent else self.norm(x_TH)
        hidden_BSH = hidden_TH.view(*tokens_BS.shape, -1)
        return hidden_BSH if return_hidden else self.logits(hidden_BSH)

    def _passes(
        self, depth: int, dtype: torch.dtype, routing_codes_LP: Tensor | None, tokens: int
    ) -> Iterator[tuple[Block, dict[str, Weights]]]:
        """Yield, for each depth, its block and what this has prepared.

        The recurrent block comes at each depth between prelude and coda, every other block once.
        """
        pool = self.pool.prepare(dtype, depth, tokens) if self.pool else None
        for block in self.blocks:
            codes_LP = None
            if block.recurrent:
                assert routing_codes_LP is not None, "a recurrent model has routing codes"
                codes_LP = routing_codes_LP[self.config.prelude : depth - self.config.coda]
            for weights in block.prepare(dtype, codes_LP, tokens, pool):
                yield block, weights

    def layer(
        self,
        block: Block,
        x_TH: Tensor,
        weights: dict[str, Weights],
        context: Context,
        histories: dict[str, History],
    ) -> tuple[Tensor, dict[str, Attended]]:
        """Run one depth: x_{l+1} = Norm(y_l) where one block is iterated (section 3.7), else
        y_l."""
        y_TH, attended = block(x_TH, weights, context, histories)
        if block.recurrent:
            y_TH = self.norm(y_TH)
        return y_TH, attended

    def norm(self, x_TH: Tensor) -> Tensor:
        """Normalise the residual stream: before the head, and when recurrent before every depth."""
        return ops.rms_norm(x_TH, self.gain, self.config.norm_epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute logits [..., V] of normalised hidden states [..., H]."""
        return hidden @ self.head.to(hidden.dtype).T

    def _codes(
        self, positions_BS: Tensor, depth: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute the rotary codes of positions, of depths for heads, and of depths for routing.

        Their shapes are [T, 1, P, 2], [L, P, 2] and [L, P, 2]. Layers with weights of their own
        need no depth code for routing: there it is None.
        """
        config = self.config
        device = positions_BS.device
        wide = torch.promote_types(dtype, torch.float32)
        positions_T = positions_BS.flatten()
        of_positions = position_code(positions_T, config.head_size, config.rope_base, wide)
        base = config.depth_rope_base
        of_heads = depth_code(depth, config.depth_head_size, base, device, wide)
        of_routing = None
        if config.recurrent:
            of_routing = depth_code(depth, config.routing_size, base, device, wide)
        return of_positions.unsqueeze(1), of_heads, of_routing

    def checked_depth(self, depth: int | None) -> int:
        """Return the depth to run at, by default that at which the model is trained by now.

        Raises InputError where the model cannot run at `depth`.
        """
        if depth is None:
            iterates = not self.config.recurrence_after or bool(self.iterates)
            return self.config.depth if iterates else self.config.plain_layers + 1
        if not self.config.recurrent and depth != self.config.depth:
            raise InputError(
                f"depth is {depth!r}, but a layered model has weights for exactly"
                f" {self.config.depth} layers; only a recurrent model runs at another depth"
            )
        least = self.config.plain_layers + 1 if self.config.recurrent else 1
        if type(depth) is not int or depth < least:
            raise InputError(
                f"depth is {depth!r}, but it must be a whole number of at least {least}"
            )
        return depth

    def routers(self) -> dict[str, Router]:
        """List the routers by their names in the state dict."""
        return {name: module for name, module in self.named_modules() if isinstance(module, Router)}

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Say how parameters are trained: gains without decay, the others with that of the recipe.

        For Muon: which matrices lie side by side in fused ones, and that embedding, head and
        routing keys, which are lists of vectors, are none.
        """
        vectors = [self.embedding, self.head, *(router.keys for router in self.routers().values())]
        groups: list[dict[str, Any]] = [{"params": vectors, "optimizer": "adamw"}]
        for module in self.modules():
            if isinstance(module, (SwiGLUExperts, ProjectedAttention)):
                groups.append({"params": module.fused(), "parts": module.parts(), "axis": -1})
        grouped = {id(parameter) for group in groups for parameter in group["params"]}
        others = [parameter for parameter in self.parameters() if id(parameter) not in grouped]
        gains = [parameter for parameter in others if parameter.ndim < 2]
        matrices = [parameter for parameter in others if parameter.ndim >= 2]
        return [*groups, {"params": matrices}, {"params": gains, "weight_decay": 0.0}]

    def begin_step(self, tokens: int) -> bool:
        """Iterate the recurrent block from `recurrence_after` tokens of training on."""
        if not self.config.recurrence_after:
            return False
        before = self.checked_depth(None)
        self.iterates.fill_(tokens >= self.config.recurrence_after)
        return self.checked_depth(None) != before

    def counts(self) -> list[Tensor]:
        """List how often each router has selected each of its experts since the last update."""
        return [router.counts for router in self.routers().values()]

    def update_balance(self) -> None:
        """Move every router's bias (Eq. 3).

        Once per optimiser step, on the counts of all its forward passes and ranks. The routers of a
        pool move by the sum of their counts: the pool is balanced, not each layer's choice in it.
        """
        pooled = [
            attention.router
            for attention in self.modules()
            if isinstance(attention, PooledExpertAttention)
        ]
        counts_E = sum(router.counts for router in pooled)
        for router in self.routers().values():
            router.update_balance(counts_E if router in pooled else None)

    def merged(self) -> Dreamer:
        """Fold the shared experts into the routable ones, for inference: W_e + W_shared (Eq. 8).

        The outputs are the same, up to rounding, by fewer weights. The merged model owns what was
        folded, and shares every other tensor with this one.
        """
        config = dataclasses.replace(self.config, shared_expert=False)
        with torch.device("meta"):
            model = Dreamer(config, dtype=self.dtype)
        state = self.state_dict()
        shared = {name: state.pop(name) for name in list(state) if "shared_" in name}
        for name, weights in shared.items():
            routable = name.replace("shared_", "")
            state[routable] = state[routable] + weights
        model.load_state_dict(state, assign=True)
        return model.train(self.training)


def _of_layers(config: DreamerConfig) -> list[DreamerConfig]:
    """Describe each layer that has weights of its own, in the order in which they are first used.

    The layers of prelude and coda are those of LA.
    """
    if not config.recurrent:
        return [config] * config.depth
    none = {"recurrent": False, "prelude": 0, "coda": 0, "recurrence_after": 0}
    plain = dataclasses.replace(config, **none)
    return [*[plain] * config.prelude, config, *[plain] * config.coda]


def _check_shapes(
    tokens: Tensor, documents: Tensor | None, positions: Tensor | None, memory: Memory | None
) -> None:
    """Raise InputError for shapes that do not fit: engines trust them."""
    if tokens.ndim != 2 or not tokens.numel():
        raise InputError(
            f"tokens have shape {list(tokens.shape)}, but it must be [batch, sequence] with one"
            " token or more"
        )
    if memory is not None and (documents is not None or positions is not None):
        raise InputError(
            "with a memory, forward takes no documents and no positions: each row is one document"
        )
    for name, tensor in (("positions", positions), ("documents", documents)):
        if tensor is not None and tensor.shape != tokens.shape:
            raise InputError(
                f"{name} have shape {list(tensor.shape)}, but it must be the shape of the tokens,"
                f" {list(tokens.shape)}"
            )


__all__ = [
    "ATTENTIONS",
    "Block",
    "Context",
    "DepthAttention",
    "Dreamer",
    "ExpertAttention",
    "ExpertPool",
    "History",
    "Memory",
    "Observer",
    "PooledExpertAttention",
    "Router",
    "SequenceAttention",
    "Weights",
    "balance_step",
    "depth_code",
    "position_code",
]
