"""Sequence attention and depth attention (sections 3.3 and 3.4).

Both are the same attention along different axes; they share their two projections' form (experts.py), RoPE followed
by RMSNorm on queries and keys, and Eq. 1. Axes: B batch, S sequence, T = B*S tokens, L depth, H hidden, N query
heads, M key/value heads, K head size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import DreamerConfig
from model.experts import MixedProjections, PlainProjections, Route, Router
from model.ops.context import Context, History, Prepared, Result
from model.ops.kernels import attend_depth, rms_norm, split_heads
from model.ops.native import library as native
from model.ops.native.functions import NativeAttendSequence
from model.ops.native.fused import NativeAttention
from model.ops.varlen import attend_documents


class _Attention(nn.Module):
    """What both attentions have: norms, and the projections to queries, keys and values and back."""

    def __init__(self, config: DreamerConfig, heads: int, key_value_heads: int, head_size: int) -> None:
        super().__init__()
        projections = MixedProjections if config.recurrent else PlainProjections
        self.heads, self.key_value_heads, self.epsilon = heads, key_value_heads, config.norm_epsilon
        self.compiled = False
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.query_gain = nn.Parameter(torch.empty(head_size))
        self.key_gain = nn.Parameter(torch.empty(head_size))
        self.projections = projections(config, (heads + 2 * key_value_heads) * head_size, heads * head_size)

    @property
    def router(self) -> Router | None:
        """What chooses the projections, where there is a choice."""
        return self.projections.router

    def prepare(self, dtype: torch.dtype, code: Tensor | None) -> list[Prepared]:
        """Per depth what the projections need."""
        return self.projections.prepare(dtype, code)

    def enter(self, x: Tensor, prepared: Prepared, code: Tensor) -> tuple[Tensor, Tensor, Tensor, Route | None]:
        """Queries [T, N, K], keys and values [T, M, K] of x [T, H], and by which projections they were made.

        RoPE by `code` [T or 1, 1, K/2, 2] comes first, then RMSNorm, on queries and keys.
        """
        heads = self.heads, self.key_value_heads
        x = rms_norm(x, self.gain, self.epsilon)
        route = self.projections.route(x, prepared)
        projected = self.projections.project_in(x, prepared, route)
        return *split_heads(projected, self.query_gain, self.key_gain, heads, self.epsilon, code), route

    def _is_native(self, x: Tensor, prepared: Prepared, code: Tensor) -> bool:
        """Whether all of it, with its mixture of projections, is done in native.c."""
        return (
            self.router is not None
            and not self.compiled
            and native.holds(prepared[2], prepared[4])
            and native.takes(x, self.gain, code, self.router.bias, *prepared)
        )

    def _natively(
        self,
        x: Tensor,
        prepared: Prepared,
        code: Tensor,
        starts: Tensor | None = None,
        history: History = (),
    ) -> tuple[Tensor, ...]:
        """The update [T, H], ids, key, value and scores."""
        query, keys, *banks = prepared
        gains, sizes = (self.query_gain, self.key_gain), (self.epsilon, self.heads, self.key_value_heads)
        entries = [part[index] for index in (0, 1) for part in history]
        return NativeAttention.apply(
            x, self.gain, query, keys, self.router.bias, *banks, *gains, code, starts, *sizes, *entries
        )

    def leave(self, attended: Tensor, prepared: Prepared, route: Route | None) -> Tensor:
        """Update [T, H] from the attended values [T, N, K]."""
        return self.projections.project_out(attended.flatten(1), prepared, route)

    def compile(self, **options) -> None:
        """Compile what does not change its shape from depth to depth."""
        self.enter = torch.compile(self.enter, **options)
        self.leave = torch.compile(self.leave, **options)
        self.compiled = True


class SequenceAttention(_Attention):
    """SA: causal attention over the sequence, queries grouped over key/value heads (section 3.3)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__(config, config.query_heads, config.key_value_heads, config.head_size)

    def forward(
        self, x: Tensor, stream: Tensor, prepared: Prepared, context: Context, depth: int, history: History
    ) -> Result:
        """The stream [T, H] with the update for x [T, H] at depth index `depth`."""
        if context.starts is not None and self._is_native(x, prepared, context.code):
            update, ids, *_ = self._natively(x, prepared, context.code, context.starts)
            return Result(stream + update, ids)
        query, key, value, route = self.enter(x, prepared, context.code)
        if context.bounds is not None:
            attended = attend_documents(query, key, value, context.bounds, context.length)
        elif context.starts is not None:
            attended = NativeAttendSequence.apply(query, key, value, context.starts)
        else:
            attended = self._attend(query, key, value, context, depth)
        return Result(stream + self.leave(attended, prepared, route), None if route is None else route.ids)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, context: Context, depth: int) -> Tensor:
        """Eq. 1 along the sequence, over the cache too where there is one: [T, N, K]."""
        query, key, value = (part.unflatten(0, (context.batch, -1)).transpose(1, 2) for part in (query, key, value))
        if context.cache is not None:
            key, value = context.cache.append(depth, context.positions, key, value)
        shared = self.heads != self.key_value_heads
        if shared and context.mask is not None and query.is_cuda:  # no fused kernel takes both a mask and shared heads
            share = self.heads // self.key_value_heads
            key, value = key.repeat_interleave(share, dim=1), value.repeat_interleave(share, dim=1)
            shared = False
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=context.mask, is_causal=context.mask is None, enable_gqa=shared
        )
        return attended.transpose(1, 2).flatten(0, 1)


class DepthAttention(_Attention):
    """DA: attention of each token over its own earlier depths and the current one (section 3.4, Algorithm 1)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__(config, config.depth_heads, config.depth_key_value_heads, config.depth_head_size)
        self.window = config.depth_window

    def forward(
        self, x: Tensor, stream: Tensor, prepared: Prepared, context: Context, depth: int, history: History
    ) -> Result:
        """As SequenceAttention's; `history` holds keys and values of the depths before."""
        code = context.depth_code[depth]
        history = history[max(0, len(history) + 1 - self.window) :] if self.window else history
        if self._is_native(x, prepared, code):
            update, ids, key, value, scores = self._natively(x, prepared, code, history=history)
            return Result(stream + update, ids, [*history, (key, value)], scores)
        query, key, value, route = self.enter(x, prepared, code)
        history = [*history, (key, value)]
        attended, scores = attend_depth(query, [key for key, _ in history], [value for _, value in history])
        stream = stream + self.leave(attended, prepared, route)
        return Result(stream, None if route is None else route.ids, history, scores)
