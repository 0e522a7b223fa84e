"""Dreamer: depth-recurrent attention mixtures (DR, DR+DA), and the layered baseline (LA) that they
are compared with.

A block adds up attentions along different dimensions: sequence (SA), depth (DA), experts (EA). One
block runs at all depths (recurrent), or each depth has a block of its own (layered). This file is
the mathematics; `model/ops/` chooses how an operation is computed. docs/model.md says what was
decided where the paper is silent.

Names of tensors end in their axes: B batch, S sequence, T = B*S tokens, L depth, H hidden, N query
heads, M key/value heads, K head size, C keys that a query may see, E experts, A active experts, F
expert size, R routing size, I and O inputs and outputs of a projection, V vocabulary; P pairs of a
rotary code, of K or R values, with cosine and sine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dreamer_study.model import ops
from dreamer_study.model.dreamer_cache import DreamerNetwork
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.ops import (
    Attended,
    AttentionOperands,
    Documents,
    ExpertOperands,
    Routing,
    Visible,
)
from dreamer_study.pipeline.errors import InputError

History = tuple[tuple[Tensor, Tensor], ...]  # keys and values [T, M, K] of earlier depths
Observer = Callable[[int, str, Attended], None]
# the output of `prepare` for one depth: casts of weights and routing keys, independent of tokens
Weights = Any


# Rotary codes


def position_code(positions: Tensor, size: int, base: float, dtype: torch.dtype) -> Tensor:
    """Compute the cosines and sines [..., size/2, 2] of RoPE for heads of `size` at `positions`
    [...].

    The angles are computed in float64: in float32 they are off by 1e-4 at position 4096.
    """
    exponents = torch.arange(size // 2, device=positions.device, dtype=torch.float64) / (size // 2)
    angles = positions[..., None] * base**-exponents
    return torch.stack((angles.cos(), angles.sin()), dim=-1).to(dtype)


def depth_code(
    depth: int, size: int, base: float, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Compute the cosines and sines [L, size/2, 2] of RoPE for the depths l = 1..L (section 3.4).

    The first half of the pairs rotates with l. The second half, at the same frequencies, rotates
    with L - l: this half tells how many depths are still to come.
    """
    depths = torch.arange(1, depth + 1, device=device)
    halves = [
        position_code(direction, size // 2, base, dtype) for direction in (depths, depth - depths)
    ]
    return torch.cat(halves, dim=-2)


# What an attention sees besides its input


class Memory(Protocol):
    """Hold what sequence attention attends over: tokens of this forward (Documents), or a cache
    with earlier ones."""

    positions: Tensor  # [B, S]

    def recall(self, depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Visible]:
        """Return all keys and values [B, C, M, K] of depth index `depth`, given those [T, M, K] of
        the new tokens."""


class Context(NamedTuple):
    """Hold what all attentions of one depth are given besides their input."""

    depth: int  # index, from 0
    position_code: Tensor  # [T, 1, P, 2]
    depth_code: Tensor  # of this depth, for the heads of depth attention, [P, 2]
    memory: Memory


# Experts


class Router(nn.Module):
    """Choose experts by low-rank routing (Eq. 2): a query per token against a learned key per
    expert, both normalised.

    Computed in float32 at least. The bias takes part in the selection only; `update_balance` moves
    the bias, never the optimiser.
    """

    def __init__(
        self, config: DreamerConfig, experts: int, active: int, *, rate: float, normalised: bool
    ) -> None:
        super().__init__()
        self.active, self.rate, self.normalised, self.epsilon = (
            active,
            rate,
            normalised,
            config.norm_epsilon,
        )
        self.query = nn.Parameter(torch.empty(config.hidden_size, config.routing_size))
        self.query_gain = nn.Parameter(torch.empty(config.routing_size))
        self.keys = nn.Parameter(torch.empty(experts, config.routing_size))
        self.register_buffer("bias", torch.zeros(experts))
        # selections since the last update
        self.register_buffer("counts", torch.zeros(experts, dtype=torch.long))

    def prepare(self, code_LP: Tensor | None) -> list[Weights]:
        """Prepare what `forward` needs at each depth of the code; one entry without a code."""
        dtype = torch.promote_types(self.keys.dtype, torch.float32)
        query, query_gain, keys = (
            each.to(dtype) for each in (self.query, self.query_gain, self.keys)
        )
        return ops.routing_keys(query, query_gain, keys, self.epsilon, code_LP)

    def forward(self, x_TH: Tensor, keys: Weights) -> Routing:
        """Choose `active` experts for each token."""
        return ops.route(x_TH, keys, self.bias, self.active, self.normalised, self.epsilon)

    @torch.no_grad()
    def count(self, ids_TA: Tensor, real_T: Tensor | None) -> None:
        """Count the selections of the tokens that are real: padding is not."""
        ones = (
            torch.ones_like(ids_TA)
            if real_T is None
            else real_T.to(ids_TA.dtype)[:, None].expand_as(ids_TA)
        )
        self.counts.scatter_add_(0, ids_TA.flatten(), ones.flatten())

    @torch.no_grad()
    def update_balance(self) -> None:
        """Move the bias by the counts since the last update (Eq. 3), and count from zero again."""
        self.bias += self.rate * balance_step(self.counts)
        self.counts.zero_()


def balance_step(counts_E: Tensor) -> Tensor:
    """Compute sign(median(N) - N) of the selection counts N, in float32 (Eq. 3). Example: 4, 2, 1,
    1 -> -1, -1, 1, 1.

    For an even number of experts the median is the mean of the two middle counts: torch's own takes
    the lower one, so that the signs would not cancel and the biases would drift together.
    """
    ordered, largest = counts_E.sort().values, len(counts_E) - 1
    doubled_median = ordered[largest // 2] + ordered[(largest + 1) // 2]
    return torch.sign(doubled_median - 2 * counts_E).float()


class ExpertAttention(nn.Module):
    """EA: add up the chosen SwiGLU experts of each token, weighted by their scores (section
    3.5)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        E, H, F = config.experts, config.hidden_size, config.expert_size
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(H))
        self.router = Router(
            config, E, config.active_experts, rate=config.expert_bias_rate, normalised=True
        )
        self.inward = nn.Parameter(torch.empty(E, H, 2 * F))  # gate and up projection side by side
        self.outward = nn.Parameter(torch.empty(E, F, H))

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> Iterator[Weights]:
        """Prepare the routing keys of each depth, and cast the weights to the dtype of the
        products."""
        inward, outward = (
            ops.expert_weights(self.inward, dtype),
            ops.expert_weights(self.outward, dtype),
        )
        keys = self.router.prepare(code_LP)
        taps = ops.gradient_taps(inward, outward, len(keys), tokens, self.router.active)
        return ((each, inward, outward, tap) for each, tap in zip(keys, taps, strict=True))

    def forward(
        self, x_TH: Tensor, weights: Weights, context: Context, history: History
    ) -> Attended:
        """Route the normalised x, and sum its experts."""
        keys, inward_EHF, outward_EFH, taps = weights
        given = (
            x_TH,
            self.gain,
            keys,
            self.router.bias,
            inward_EHF,
            outward_EFH,
            self.router.active,
            self.epsilon,
        )
        if whole := ops.whole_attention(ExpertOperands(*given)):
            return whole
        x_TH = ops.rms_norm(x_TH, self.gain, self.epsilon)
        routing = self.router(x_TH, keys)
        return Attended(
            ops.swiglu_experts(x_TH, routing, inward_EHF, outward_EFH, taps), routing.ids
        )


# Projections


class PlainProjections(nn.Module):
    """Project to queries, keys and values (fused), and attended values to the output, as in any
    Transformer."""

    router = None

    def __init__(self, config: DreamerConfig, outputs: int, inputs: int) -> None:
        super().__init__()
        self.inward = nn.Parameter(torch.empty(config.hidden_size, outputs))
        self.outward = nn.Parameter(torch.empty(inputs, config.hidden_size))

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None) -> list[Weights]:
        """Cast the weights to the dtype of the products: each depth has its own layer, and nothing
        is routed."""
        return [(None, self.inward.to(dtype), self.outward.to(dtype))]

    def route(self, x_TH: Tensor, keys: None) -> Routing:
        """Return an empty routing: there is nothing to choose from."""
        return Routing(None, None)

    def project(self, x_TI: Tensor, routing: Routing, weights_IO: Tensor) -> Tensor:
        """Multiply x by the weights: [T, O]."""
        return x_TI @ weights_IO


class MixedProjections(nn.Module):
    """Project in and out by mixtures of `depth` linear experts, top 1, with one router for both
    (section 3.7).

    Eq. 7: the chosen expert is scaled by its score, and a shared expert by the same score with
    stopped gradient.
    """

    def __init__(self, config: DreamerConfig, outputs: int, inputs: int) -> None:
        super().__init__()
        E, H = config.attention_experts, config.hidden_size
        self.router = Router(config, E, 1, rate=config.attention_bias_rate, normalised=False)
        self.inward = nn.Parameter(torch.empty(E, H, outputs))
        self.outward = nn.Parameter(torch.empty(E, inputs, H))
        self.shared_inward = nn.Parameter(torch.empty(H, outputs)) if config.shared_expert else None
        self.shared_outward = nn.Parameter(torch.empty(inputs, H)) if config.shared_expert else None

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None) -> list[Weights]:
        """Prepare the routing keys of each depth, and both banks with their shared experts."""
        inward = ops.mixed_weights(self.inward, self.shared_inward, dtype)
        outward = ops.mixed_weights(self.outward, self.shared_outward, dtype)
        return [(keys, inward, outward) for keys in self.router.prepare(code_LP)]

    def route(self, x_TH: Tensor, keys: Weights) -> Routing:
        """Choose one expert for each token."""
        return self.router(x_TH, keys)

    def project(self, x_TI: Tensor, routing: Routing, weights_EIO: Weights) -> Tensor:
        """Multiply x by the chosen expert and the shared one: [T, O]."""
        return ops.mixed_product(x_TI, routing, weights_EIO)


# Attentions


class _ProjectedAttention(nn.Module):
    """What SA and DA have in common: projections to queries, keys and values, and back to the
    hidden size.

    Each says what is `seen`: a rotary code, a memory or None, earlier depths; and how to `attend`
    over that.
    """

    def __init__(
        self, config: DreamerConfig, heads: int, key_value_heads: int, head_size: int
    ) -> None:
        super().__init__()
        projections = MixedProjections if config.recurrent else PlainProjections
        self.heads, self.key_value_heads, self.epsilon = heads, key_value_heads, config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.query_gain = nn.Parameter(torch.empty(head_size))
        self.key_gain = nn.Parameter(torch.empty(head_size))
        self.projections = projections(
            config, (heads + 2 * key_value_heads) * head_size, heads * head_size
        )

    @property
    def router(self) -> Router | None:
        """The router of the projections, where there is a choice."""
        return self.projections.router

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> list[Weights]:
        """Prepare what the projections need at each depth."""
        return self.projections.prepare(dtype, code_LP)

    def forward(
        self, x_TH: Tensor, weights: Weights, context: Context, history: History
    ) -> Attended:
        """Project x in, attend over what `seen` returns, and project out; by one function where the
        engine has one."""
        code, visible, earlier = self.seen(context, history)
        if self.router is not None:
            keys, inward, outward = weights
            gains, heads = (self.query_gain, self.key_gain), (self.heads, self.key_value_heads)
            given = (
                x_TH,
                self.gain,
                keys,
                self.router.bias,
                inward,
                outward,
                *gains,
                code,
                heads,
                self.epsilon,
            )
            if whole := ops.whole_attention(AttentionOperands(*given, visible, earlier)):
                return whole
        *heads, routing = self.project_in(x_TH, weights, code)
        attended = self.attend(*heads, context, history)
        return attended._replace(
            output=self.project_out(attended.output, weights, routing), ids=routing.ids
        )

    def project_in(
        self, x_TH: Tensor, weights: Weights, code: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Routing]:
        """Project x to queries [T, N, K], keys and values [T, M, K]; return also the choice of
        projections.

        Queries and keys are rotated by `code` [T or 1, 1, P, 2], then normalised.
        """
        keys, inward, _ = weights
        x_TH = ops.rms_norm(x_TH, self.gain, self.epsilon)
        routing = self.projections.route(x_TH, keys)
        projected = self.projections.project(x_TH, routing, inward)
        heads = self.heads, self.key_value_heads
        return (
            *ops.split_heads(projected, self.query_gain, self.key_gain, heads, self.epsilon, code),
            routing,
        )

    def project_out(self, attended_TNK: Tensor, weights: Weights, routing: Routing) -> Tensor:
        """Project the attended values to the output [T, H]."""
        return self.projections.project(attended_TNK.flatten(1), routing, weights[-1])


class SequenceAttention(_ProjectedAttention):
    """SA: attend causally along the sequence (Eq. 1), queries grouped over key/value heads (section
    3.3)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__(config, config.query_heads, config.key_value_heads, config.head_size)

    def seen(self, context: Context, history: History) -> tuple[Tensor, Memory, History]:
        """Return the code of the positions, and the memory of this depth."""
        return context.position_code, context.memory, ()

    def attend(
        self, query_TNK: Tensor, key_TMK: Tensor, value_TMK: Tensor, context: Context, _: History
    ) -> Attended:
        """Attend between the projections: the output is [T, N, K]."""
        key_BCMK, value_BCMK, visible = context.memory.recall(context.depth, key_TMK, value_TMK)
        return Attended(ops.attend_sequence(query_TNK, key_BCMK, value_BCMK, visible))


class DepthAttention(_ProjectedAttention):
    """DA: attend along each token's own depths up to the current one (section 3.4, Algorithm 1)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__(
            config, config.depth_heads, config.depth_key_value_heads, config.depth_head_size
        )
        self.window = config.depth_window

    def visible(self, history: History) -> History:
        """Keep the latest earlier depths that lie within the window."""
        return history[max(0, len(history) + 1 - self.window) :] if self.window else history

    def seen(self, context: Context, history: History) -> tuple[Tensor, None, History]:
        """Return the code of the depth, and the keys and values of the earlier depths that are
        visible."""
        return context.depth_code, None, self.visible(history)

    def attend(
        self,
        query_TNK: Tensor,
        key_TMK: Tensor,
        value_TMK: Tensor,
        context: Context,
        history: History,
    ) -> Attended:
        """Attend between the projections: the output is [T, N, K]."""
        history = (*self.visible(history), (key_TMK, value_TMK))
        attended_TNK, scores = ops.attend_depth(query_TNK, *zip(*history, strict=True))
        return Attended(attended_TNK, history=history, scores=scores)


ATTENTIONS: dict[str, type[nn.Module]] = {
    "sequence": SequenceAttention,
    "depth": DepthAttention,
    "experts": ExpertAttention,
}
"""Another dimension is another class here, and its name in `architecture.MIXTURES`
(docs/model.md)."""


# The network


class Block(nn.Module):
    """Compute one layer: add the output of each group of attentions to the residual stream (Eq. 4,
    5 or 6)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.order = config.order
        self.attentions = nn.ModuleDict(
            {name: ATTENTIONS[name](config) for group in self.order for name in group}
        )

    def prepare(
        self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int
    ) -> Iterator[dict[str, Weights]]:
        """Prepare what each attention needs at each depth, for any batch of so many tokens; one
        entry without a code.

        The entry of a depth is made only when that depth runs. Autograd goes through newer nodes
        first, so what was made for some depths alone (the taps of a group of depths) is done and
        freed before the depths below.
        """
        prepared = {
            name: attention.prepare(dtype, code_LP, tokens)
            for name, attention in self.attentions.items()
        }
        for each in zip(*prepared.values(), strict=True):
            yield dict(zip(prepared, each, strict=True))

    def forward(
        self,
        x_TH: Tensor,
        weights: dict[str, Weights],
        context: Context,
        histories: dict[str, History],
    ) -> tuple[Tensor, dict[str, Attended]]:
        """Add each group to the residual stream [T, H]; return also what each attention
        returned."""
        attended: dict[str, Attended] = {}
        for group in self.order:
            for name in group:
                attended[name] = self.attentions[name](
                    x_TH, weights[name], context, histories.get(name, ())
                )
            x_TH = sum((attended[name].output for name in group), start=x_TH)
        return x_TH, attended


class Dreamer(DreamerNetwork):
    """Compute LA, DR or DR+DA, as configured: `Dreamer(config)(tokens[B, S]) -> logits [B, S, V]`.

    `dtype` is that of the matrix products, by default the parameters' own. Parameters in float32
    with products in bfloat16 are cast once per forward, so the gradients of one forward add up over
    the depths in bfloat16; those of experts on a GPU are made together (`ops.gradient_taps`).
    Routing stays in float32.
    """

    def __init__(self, config: DreamerConfig, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.config, self.dtype = config, dtype
        self.embedding = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.head = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        if not self.embedding.is_meta:  # no values to set, and torch takes seconds to find that out
            self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights (Table 3): N(0, 1/(5 H)), output projections N(0, 1/(2.5 H depth
        dimensions)), gains 1."""
        H, L = self.config.hidden_size, self.config.depth
        dimensions = 3 if self.config.depth_attention else 2
        for name, parameter in self.named_parameters():
            if name.endswith("gain"):
                parameter.fill_(1.0)
            else:
                variance = (
                    1 / (2.5 * H * L * dimensions) if name.endswith("outward") else 1 / (5 * H)
                )
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
        L, dtype = self.checked_depth(depth), self.dtype or self.embedding.dtype
        memory = memory or Documents(tokens_BS, documents, positions)
        counted = self.training and isinstance(memory, Documents)
        real_T = memory.real if counted else None
        positions_T, depths_LP, routing_LP = self._codes(memory.positions, L, dtype)
        prepared = (
            each
            for block in self.blocks
            for each in block.prepare(dtype, routing_LP, tokens_BS.numel())
        )

        x_TH = F.embedding(tokens_BS.flatten(), self.embedding).to(dtype)
        x_TH = self.norm(x_TH) if self.config.recurrent else x_TH
        histories: dict[str, History] = {}
        for index, weights in zip(range(L), prepared, strict=True):
            block = self.blocks[0 if self.config.recurrent else index]
            context = Context(index, positions_T, depths_LP[index], memory)
            x_TH, attended = self.layer(block, x_TH, weights, context, histories)
            histories = {name: result.history for name, result in attended.items()}
            for name, result in attended.items():
                if counted and result.ids is not None:
                    block.attentions[name].router.count(result.ids, real_T)
                if observer is not None:
                    observer(index, name, result)
        hidden_TH = x_TH if self.config.recurrent else self.norm(x_TH)
        hidden_BSH = hidden_TH.view(*tokens_BS.shape, -1)
        return hidden_BSH if return_hidden else self.logits(hidden_BSH)

    def layer(
        self,
        block: Block,
        x_TH: Tensor,
        weights: dict[str, Weights],
        context: Context,
        histories: dict[str, History],
    ) -> tuple[Tensor, dict[str, Attended]]:
        """Run one depth: a block, and where one block is iterated the norm: x_{l+1} = Norm(y_l)
        (section 3.7)."""
        x_TH, attended = block(x_TH, weights, context, histories)
        return self.norm(x_TH) if self.config.recurrent else x_TH, attended

    def norm(self, x_TH: Tensor) -> Tensor:
        """Normalise the residual stream: before the head, and when recurrent before every depth
        (section 3.7)."""
        return ops.rms_norm(x_TH, self.gain, self.config.norm_epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute logits [..., V] of normalised hidden states [..., H]."""
        return hidden @ self.head.to(hidden.dtype).T

    def _codes(
        self, positions_BS: Tensor, depth: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute the codes of positions [T, 1, P, 2], and of depths for heads and for routing [L,
        P, 2].

        Layers with weights of their own need no depth code for routing.
        """
        config, device = self.config, positions_BS.device
        wide = torch.promote_types(dtype, torch.float32)
        code = position_code(
            positions_BS.flatten(), config.head_size, config.rope_base, wide
        ).unsqueeze(1)
        of_heads, of_routing = (
            depth_code(depth, size, config.depth_rope_base, device, wide)
            for size in (config.depth_head_size, config.routing_size)
        )
        return code, of_heads, of_routing if config.recurrent else None

    def checked_depth(self, depth: int | None) -> int:
        """Return the depth to run at, by default the model's own. Raises InputError where the model
        cannot."""
        if depth is None:
            return self.config.depth
        if not self.config.recurrent and depth != self.config.depth:
            raise InputError(
                f"depth is {depth!r}, but a layered model has weights for exactly"
                f" {self.config.depth} layers; only a recurrent model runs at another depth"
            )
        if type(depth) is not int or depth < 1:
            raise InputError(f"depth is {depth!r}, but it must be a whole number of at least 1")
        return depth

    def routers(self) -> dict[str, Router]:
        """List the routers by their names in the state dict."""
        return {name: module for name, module in self.named_modules() if isinstance(module, Router)}

    def counts(self) -> list[Tensor]:
        """List how often each router has selected each of its experts since the last update."""
        return [router.counts for router in self.routers().values()]

    def update_balance(self) -> None:
        """Move every router's bias (Eq. 3): once per optimiser step, on the counts of all its
        forwards and ranks."""
        for router in self.routers().values():
            router.update_balance()

    def merged(self) -> Dreamer:
        """Fold the shared experts into the routable ones (Eq. 8), for inference: same outputs,
        fewer weights.

        The merged model owns what was folded, and shares every other tensor with this one.
        """
        config = dataclasses.replace(self.config, shared_expert=False)
        with torch.device("meta"):
            model = Dreamer(config, dtype=self.dtype)
        state = self.state_dict()
        shared = {name: state.pop(name) for name in list(state) if "shared_" in name}
        for name, weights in shared.items():
            state[name.replace("shared_", "")] = state[name.replace("shared_", "")] + weights
        model.load_state_dict(state, assign=True)
        return model.train(self.training)


def _check_shapes(
    tokens: Tensor, documents: Tensor | None, positions: Tensor | None, memory: Memory | None
) -> None:
    """Raise InputError for shapes that do not fit: engines trust them."""
    if tokens.ndim != 2 or not tokens.numel():
        raise InputError(
            f"tokens are {list(tokens.shape)}, but they must be [batch, sequence] and at least one"
        )
    if memory is not None and (documents is not None or positions is not None):
        raise InputError(
            "a forward with a memory takes neither documents nor positions: a row is one document"
        )
    for name, given in (("positions", positions), ("documents", documents)):
        if given is not None and given.shape != tokens.shape:
            raise InputError(
                f"{name} are {list(given.shape)}, but for these tokens they must be"
                f" {list(tokens.shape)}"
            )
