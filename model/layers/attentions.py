"""Attentions along the sequence (SA) and along the depth (DA), with their projections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dreamer_study.model import ops
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.layers.context import Context, History, Memory, Weights
from dreamer_study.model.layers.experts import Router
from dreamer_study.model.ops import Attended, AttentionOperands, Routing

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


class ProjectedAttention(nn.Module):
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


class SequenceAttention(ProjectedAttention):
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


class DepthAttention(ProjectedAttention):
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
