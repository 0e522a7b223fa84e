"""Dreamer: depth-recurrent attention mixtures (DR, DR+DA), and their layered baseline (LA).

A block adds up attentions along different dimensions: sequence (SA), depth (DA), experts (EA). One
block runs at all depths (recurrent), or each depth has a block of its own (layered):

    recurrent                                    layered
    x_1 = Norm(embedding of the token)           x_1 = embedding of the token
    y_l = x_l + DA(x_:l) + SA(x_l)               the same (Eq. 5; Eq. 4 and 6 are options),
    y_l = y_l + EA(y_l)                          with the weights of layer l
    x_{l+1} = Norm(y_l)                          x_{l+1} = y_l
    logits = x_{L+1} W_head^T                    logits = Norm(x_{L+1}) W_head^T

Norm is RMSNorm with a learned gain. This file is the mathematics; `model/ops/` chooses how an
operation is computed, and `model/ops/reference.py` states each in its plainest form. docs/model.md
says what was decided where the paper is silent.

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
    """Compute the cosines and sines [..., size/2, 2] of RoPE at `positions` [...].

    Pair i of a head of `size` turns by the angle position * base^(-i / (size/2)). The angles are
    computed in float64: in float32 they are off by 1e-4 at position 4096.
    """
    exponents = torch.arange(size // 2, device=positions.device, dtype=torch.float64) / (size // 2)
    angles = positions[..., None] * base**-exponents  # [..., size/2]
    return torch.stack((angles.cos(), angles.sin()), dim=-1).to(dtype)


def depth_code(
    depth: int, size: int, base: float, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Compute the cosines and sines [L, size/2, 2] of RoPE for the depths l = 1..L (section 3.4).

    The first half of the pairs rotates with l. The second half, at the same frequencies, rotates
    with L - l: this half tells how many depths are still to come.
    """
    depths = torch.arange(1, depth + 1, device=device)
    passed = position_code(depths, size // 2, base, dtype)  # [L, size/4, 2]
    to_come = position_code(depth - depths, size // 2, base, dtype)
    return torch.cat((passed, to_come), dim=-2)


# What an attention sees besides its input


class Memory(Protocol):
    """Hold what sequence attention attends over.

    These are the tokens of this forward (Documents), or a cache with earlier ones.
    """

    positions: Tensor  # [B, S]

    def recall(self, depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Visible]:
        """Return all keys and values [B, C, M, K] of depth index `depth`.

        Given are those [T, M, K] of the new tokens.
        """


class Context(NamedTuple):
    """Hold what all attentions of one depth are given besides their input."""

    depth: int  # index, from 0
    position_code: Tensor  # [T, 1, P, 2]
    depth_code: Tensor  # of this depth, for the heads of depth attention, [P, 2]
    memory: Memory


# Experts


class Router(nn.Module):
    """Choose experts by low-rank routing (Eq. 2): a query per token against a key per expert.

        q = Norm(RoPE_l(x W_q))                              [T, R]; RoPE_l where depths share it
        k = Norm(keys)                                       [E, R], learned
        s = q k^T / sqrt(R)                                  [T, E]
        ids = the A largest of s + b                         [T, A]
        scores = sigmoid(s) at ids                           [T, A]; EA divides them by their sum

    Computed in float32 at least. The bias b takes part in the selection only, so it has no
    gradient; `update_balance` moves it (Eq. 3).
    """

    def __init__(
        self, config: DreamerConfig, experts: int, active: int, *, rate: float, normalised: bool
    ) -> None:
        super().__init__()
        self.active = active
        self.rate = rate
        self.normalised = normalised
        self.epsilon = config.norm_epsilon
        self.query = nn.Parameter(torch.empty(config.hidden_size, config.routing_size))  # W_q
        self.query_gain = nn.Parameter(torch.empty(config.routing_size))
        self.keys = nn.Parameter(torch.empty(experts, config.routing_size))
        self.register_buffer("bias", torch.zeros(experts))  # b
        # N: selections since the last update
        self.register_buffer("counts", torch.zeros(experts, dtype=torch.long))

    def prepare(self, code_LP: Tensor | None) -> list[Weights]:
        """Prepare what `forward` needs at each depth of the code; one entry without a code."""
        dtype = torch.promote_types(self.keys.dtype, torch.float32)
        query = self.query.to(dtype)
        query_gain = self.query_gain.to(dtype)
        keys = self.keys.to(dtype)
        return ops.routing_keys(query, query_gain, keys, self.epsilon, code_LP)

    def forward(self, x_TH: Tensor, keys: Weights) -> Routing:
        """Choose `active` experts for each token."""
        return ops.route(x_TH, keys, self.bias, self.active, self.normalised, self.epsilon)

    @torch.no_grad()
    def count(self, ids_TA: Tensor, real_T: Tensor | None) -> None:
        """Count the selections of the tokens that are real: padding is not."""
        if real_T is None:
            counted_TA = torch.ones_like(ids_TA)
        else:
            counted_TA = real_T.to(ids_TA.dtype)[:, None].expand_as(ids_TA)
        self.counts.scatter_add_(0, ids_TA.flatten(), counted_TA.flatten())

    @torch.no_grad()
    def update_balance(self) -> None:
        """Move the bias, b <- b + rate * sign(median(N) - N) (Eq. 3), and count from zero again."""
        self.bias += self.rate * balance_step(self.counts)
        self.counts.zero_()


def balance_step(counts_E: Tensor) -> Tensor:
    """Compute sign(median(N) - N) of the selection counts N, in float32 (Eq. 3).

    Example: the counts 4, 2, 1, 1 have the median 1.5, and give -1, -1, 1, 1. For an even number of
    experts the median is the mean of the two middle counts: torch's own takes the lower one, so
    that the signs would not cancel and the biases would drift together.
    """
    ordered = counts_E.sort().values
    last = len(counts_E) - 1
    doubled_median = ordered[last // 2] + ordered[(last + 1) // 2]  # doubled to stay whole
    return torch.sign(doubled_median - 2 * counts_E).float()


class ExpertAttention(nn.Module):
    """EA: add up the chosen SwiGLU experts of each token, weighted by their scores (section 3.5).

        n = Norm(x)                                          [T, H]
        ids, scores = the router's choice for n              [T, A] (Eq. 2)
        EA(x) = sum over a of scores_a (SiLU(n G_e) * (n U_e)) D_e, e = ids_a       [T, H]

    An expert e has the matrices G_e and U_e [H, F] (gate and up) and D_e [F, H] (down).
    """

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        E, H, F = config.experts, config.hidden_size, config.expert_size
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(H))
        self.router = Router(
            config, E, config.active_experts, rate=config.expert_bias_rate, normalised=True
        )
        self.inward = nn.Parameter(torch.empty(E, H, 2 * F))  # G and U side by side
        self.outward = nn.Parameter(torch.empty(E, F, H))  # D

    def fused(self) -> list[nn.Parameter]:
        """List the parameters in which matrices lie side by side: those of gate and up."""
        return [self.inward]

    def parts(self) -> list[int]:
        """List how many outputs each of these matrices has."""
        size = self.inward.shape[-1] // 2
        return [size, size]

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> Iterator[Weights]:
        """Prepare the routing keys of each depth, and cast the weights to `dtype`."""
        inward = ops.expert_weights(self.inward, dtype)
        outward = ops.expert_weights(self.outward, dtype)
        keys = self.router.prepare(code_LP)  # of each depth
        # All depths use the same experts: their gradients may be collected and made together.
        taps = ops.gradient_taps(inward, outward, len(keys), tokens, self.router.active)
        return (
            (keys_of_depth, inward, outward, tap)
            for keys_of_depth, tap in zip(keys, taps, strict=True)
        )

    def forward(
        self, x_TH: Tensor, weights: Weights, context: Context, history: History
    ) -> Attended:
        """Route the normalised x, and sum its experts."""
        keys, inward_EHF, outward_EFH, taps = weights
        operands = ExpertOperands(
            x_TH,
            self.gain,
            keys,
            self.router.bias,
            inward_EHF,
            outward_EFH,
            self.router.active,
            self.epsilon,
        )
        whole = ops.whole_attention(operands)  # all of the below in one call
        if whole:
            return whole
        normalised_TH = ops.rms_norm(x_TH, self.gain, self.epsilon)
        routing = self.router(normalised_TH, keys)  # ids and scores [T, A]
        output_TH = ops.swiglu_experts(normalised_TH, routing, inward_EHF, outward_EFH, taps)
        return Attended(output_TH, routing.ids)


# Projections


class PlainProjections(nn.Module):
    """Project x to queries, keys and values, and attended values out, as in any Transformer.

    One matrix W_qkv [H, (N + 2M) K] inward, one W_out [N K, H] outward.
    """

    router = None

    def __init__(self, config: DreamerConfig, outputs: int, inputs: int) -> None:
        super().__init__()
        self.inward = nn.Parameter(torch.empty(config.hidden_size, outputs))
        self.outward = nn.Parameter(torch.empty(inputs, config.hidden_size))

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None) -> list[Weights]:
        """Cast the weights to `dtype`; for one depth, as each has its own layer."""
        return [(None, self.inward.to(dtype), self.outward.to(dtype))]

    def route(self, x_TH: Tensor, keys: None) -> Routing:
        """Return an empty routing: there is nothing to choose from."""
        return Routing(None, None)

    def project(self, x_TI: Tensor, routing: Routing, weights_IO: Tensor) -> Tensor:
        """Multiply x by the weights: [T, O]."""
        return x_TI @ weights_IO


class MixedProjections(nn.Module):
    """Project in and out by mixtures of `depth` linear experts, top 1 (section 3.7).

        y = s x W_e + stop(s) x W_shared                     Eq. 7; e and its score s by the router

    One router chooses for both projections. The gradient of a score is that of the chosen expert
    alone: in the product with the shared expert it is stopped. Merged (Eq. 8) the same output is
    y = s x (W_e + W_shared).
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
    """What SA and DA have in common: projections to queries, keys and values, and back.

        q, k, v = heads of Norm(x) W_qkv                     [T, N, K], [T, M, K], [T, M, K]
        q, k = Norm(RoPE(q)), Norm(RoPE(k))
        a = softmax(q k^T / sqrt(K)) v                       [T, N, K] (Eq. 1), over visible keys
        output = a W_out                                     [T, H]

    SA and DA each say what is `seen`: a rotary code, a memory or None, earlier depths; and how to
    `attend` over that.
    """

    def __init__(
        self, config: DreamerConfig, heads: int, key_value_heads: int, head_size: int
    ) -> None:
        super().__init__()
        self.heads = heads
        self.key_value_heads = key_value_heads
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.query_gain = nn.Parameter(torch.empty(head_size))
        self.key_gain = nn.Parameter(torch.empty(head_size))
        projections = MixedProjections if config.recurrent else PlainProjections
        self.projections = projections(
            config, outputs=(heads + 2 * key_value_heads) * head_size, inputs=heads * head_size
        )

    @property
    def router(self) -> Router | None:
        """The router of the projections, where there is a choice."""
        return self.projections.router

    def fused(self) -> list[nn.Parameter]:
        """List the parameters in which matrices lie side by side: of queries, keys and values."""
        shared = getattr(self.projections, "shared_inward", None)
        return [self.projections.inward] if shared is None else [self.projections.inward, shared]

    def parts(self) -> list[int]:
        """List how many outputs each of these matrices has."""
        head_size = len(self.query_gain)
        of_keys = self.key_value_heads * head_size
        return [self.heads * head_size, of_keys, of_keys]

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> list[Weights]:
        """Prepare what the projections need at each depth."""
        return self.projections.prepare(dtype, code_LP)

    def forward(
        self, x_TH: Tensor, weights: Weights, context: Context, history: History
    ) -> Attended:
        """Project x in, attend over what `seen` returns, and project out."""
        code, visible, earlier = self.seen(context, history)
        if self.router is not None:
            keys, inward, outward = weights
            operands = AttentionOperands(
                x_TH,
                self.gain,
                keys,
                self.router.bias,
                inward,
                outward,
                self.query_gain,
                self.key_gain,
                code,
                (self.heads, self.key_value_heads),
                self.epsilon,
                visible,
                earlier,
            )
            whole = ops.whole_attention(operands)  # all of the below in one call
            if whole:
                return whole
        query_TNK, key_TMK, value_TMK, routing = self.project_in(x_TH, weights, code)
        attended = self.attend(query_TNK, key_TMK, value_TMK, context, history)
        output_TH = self.project_out(attended.output, weights, routing)
        return attended._replace(output=output_TH, ids=routing.ids)

    def project_in(
        self, x_TH: Tensor, weights: Weights, code: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Routing]:
        """Project x to queries [T, N, K], keys and values [T, M, K]; return also the routing.

        Queries and keys are rotated by `code` [T or 1, 1, P, 2], then normalised.
        """
        keys, inward, _ = weights
        normalised_TH = ops.rms_norm(x_TH, self.gain, self.epsilon)
        routing = self.projections.route(normalised_TH, keys)
        projected = self.projections.project(normalised_TH, routing, inward)  # [T, (N + 2M) K]
        heads = (self.heads, self.key_value_heads)
        query_TNK, key_TMK, value_TMK = ops.split_heads(
            projected, self.query_gain, self.key_gain, heads, self.epsilon, code
        )
        return query_TNK, key_TMK, value_TMK, routing

    def project_out(self, attended_TNK: Tensor, weights: Weights, routing: Routing) -> Tensor:
        """Project the attended values to the output [T, H]."""
        _, _, outward = weights
        return self.projections.project(attended_TNK.flatten(1), routing, outward)


class SequenceAttention(_ProjectedAttention):
    """SA: attend causally along the sequence (Eq. 1, section 3.3).

    Each of the M key/value heads serves a group of N / M query heads.
    """

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
        """Keep the latest earlier depths that lie within the window, the current one included."""
        if not self.window:
            return history
        return history[max(0, len(history) + 1 - self.window) :]

    def seen(self, context: Context, history: History) -> tuple[Tensor, None, History]:
        """Return the code of the depth, and the keys and values of the visible earlier depths."""
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
        history = (*self.visible(history), (key_TMK, value_TMK))  # the current depth included
        keys, values = zip(*history, strict=True)
        attended_TNK, scores = ops.attend_depth(query_TNK, keys, values)
        return Attended(attended_TNK, history=history, scores=scores)


ATTENTIONS: dict[str, type[nn.Module]] = {
    "sequence": SequenceAttention,
    "depth": DepthAttention,
    "experts": ExpertAttention,
}
"""Another dimension is another class here, and its name in `dreamer_config.MIXTURES`
(docs/model.md)."""


# The network


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
        self.attentions = nn.ModuleDict(
            {name: ATTENTIONS[name](config) for group in self.order for name in group}
        )

    def prepare(
        self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int
    ) -> Iterator[dict[str, Weights]]:
        """Prepare what each attention needs at each depth, for any batch of `tokens` tokens.

        Without a code there is one entry. The entry of a depth is made only when that depth runs.
        Autograd goes through newer nodes first, so what was made for some depths alone (the taps of
        a group of depths) is done and freed before the depths below.
        """
        by_name = {
            name: attention.prepare(dtype, code_LP, tokens)
            for name, attention in self.attentions.items()
        }
        for of_depth in zip(*by_name.values(), strict=True):
            yield dict(zip(by_name, of_depth, strict=True))

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
    """Compute LA, DR or DR+DA, as configured: `Dreamer(config)(tokens[B, S]) -> logits [B, S, V]`.

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
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.head = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
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
        # L entries: of the one block at each depth, or of each layer's block once
        prepared = (
            weights
            for block in self.blocks
            for weights in block.prepare(dtype, routing_codes, tokens_BS.numel())
        )

        x_TH = F.embedding(tokens_BS.flatten(), self.embedding).to(dtype)
        if self.config.recurrent:
            x_TH = self.norm(x_TH)
        histories: dict[str, History] = {}  # of depth attention: keys and values of earlier depths
        for index, weights in zip(range(L), prepared, strict=True):
            block = self.blocks[0 if self.config.recurrent else index]
            context = Context(index, position_codes, depth_codes[index], memory)
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
        """Run one depth: x_{l+1} = Norm(y_l) where one block is iterated (section 3.7), else
        y_l."""
        y_TH, attended = block(x_TH, weights, context, histories)
        if self.config.recurrent:
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
        """Return the depth to run at, by default the model's own.

        Raises InputError where the model cannot run at `depth`.
        """
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

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Say how parameters are trained: gains without decay, the others with that of the recipe.

        For Muon: which matrices lie side by side in fused ones, and that embedding, head and
        routing keys, which are lists of vectors, are none.
        """
        vectors = [self.embedding, self.head, *(router.keys for router in self.routers().values())]
        groups: list[dict[str, Any]] = [{"params": vectors, "optimizer": "adamw"}]
        for module in self.modules():
            if isinstance(module, (ExpertAttention, _ProjectedAttention)):
                groups.append({"params": module.fused(), "parts": module.parts(), "axis": -1})
        grouped = {id(parameter) for group in groups for parameter in group["params"]}
        others = [parameter for parameter in self.parameters() if id(parameter) not in grouped]
        gains = [parameter for parameter in others if parameter.ndim < 2]
        matrices = [parameter for parameter in others if parameter.ndim >= 2]
        return [*groups, {"params": matrices}, {"params": gains, "weight_decay": 0.0}]

    def counts(self) -> list[Tensor]:
        """List how often each router has selected each of its experts since the last update."""
        return [router.counts for router in self.routers().values()]

    def update_balance(self) -> None:
        """Move every router's bias (Eq. 3).

        Once per optimiser step, on the counts of all its forward passes and ranks.
        """
        for router in self.routers().values():
            router.update_balance()

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
