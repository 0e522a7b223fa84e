"""Dreamer: depth-recurrent attention mixtures, and the layered baseline they are compared with.

Read from top to bottom: sequence attention (SA) and depth attention (DA), the block that mixes them with expert attention
(EA, in experts.py), and the network that runs the block over the depth. Shapes carry the axis letters of the design:
B batch, S sequence, T = B*S tokens, L depth, H hidden, N query heads, M key/value heads, K head size, V vocabulary.

What does not depend on the token (casts, merged weights, position codes) is prepared once per forward and used at every depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from model.attention import (
    additive_mask,
    attend_depth,
    attend_sequence,
    depth_angles,
    document_mask,
    document_positions,
    rms_norm,
    rotate,
    rotation,
    sequence_angles,
)
from model.cache import Cache
from model.config import DreamerConfig
from model.experts import ExpertAttention, MixedProjections, PlainProjections, Router
from pipeline.errors import InputError


@dataclass(frozen=True)
class Context:
    """What every depth of one forward shares."""

    batch: int
    length: int
    rotation: tuple[Tensor, Tensor]  # of the positions, [B, S, 1, K/2]
    depth_rotation: tuple[Tensor, Tensor] | None  # of the depths, [L, K/2]
    mask: Tensor | None
    cache: Cache | None
    positions: Tensor | None  # cached forwards only, [B, S]


class SequenceAttention(nn.Module):
    """SA: causal attention over the sequence, queries grouped over key/value heads (section 3.3)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        N, M, K = config.query_heads, config.key_value_heads, config.head_size
        projections = MixedProjections if config.recurrent else PlainProjections
        self.heads, self.sizes, self.epsilon = (N, M, K), (N * K, M * K, M * K), config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.query_gain = nn.Parameter(torch.empty(K))
        self.key_gain = nn.Parameter(torch.empty(K))
        self.projections = projections(config, sum(self.sizes), N * K)

    def prepare(self, dtype: torch.dtype, code: tuple[Tensor, Tensor] | None) -> tuple[Any, ...]:
        """What does not depend on the token."""
        return self.projections.prepare(dtype, code)

    def forward(
        self, x: Tensor, prepared: tuple[Any, ...], depth: int, context: Context
    ) -> tuple[Tensor, Tensor | None]:
        """Update [T, H] for x [T, H] and the ids of the chosen projections, if any."""
        N, M, K = self.heads
        B, S = context.batch, context.length
        x = rms_norm(x, self.gain, self.epsilon)
        route = self.projections.route(x, prepared, depth)
        query, key, value = self.projections.project_in(x, prepared, route).view(B, S, -1).split(self.sizes, dim=-1)
        query = rms_norm(rotate(query.unflatten(-1, (N, K)), *context.rotation), self.query_gain, self.epsilon)
        key = rms_norm(rotate(key.unflatten(-1, (M, K)), *context.rotation), self.key_gain, self.epsilon)
        value = value.unflatten(-1, (M, K))
        if context.cache is None:
            key, value = key.transpose(1, 2), value.transpose(1, 2)
        else:
            key, value = context.cache.append(depth, context.positions, key, value)
        attended = attend_sequence(query.transpose(1, 2), key, value, context.mask)
        update = self.projections.project_out(attended.transpose(1, 2).reshape(B * S, N * K), prepared, route)
        return update, None if route is None else route.ids


class DepthAttention(nn.Module):
    """DA: attention of each token over its own earlier depths and the current one (section 3.4)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        N, M, K = config.depth_heads, config.depth_key_value_heads, config.depth_head_size
        projections = MixedProjections if config.recurrent else PlainProjections
        self.heads, self.sizes, self.epsilon = (N, M, K), (N * K, M * K, M * K), config.norm_epsilon
        self.window = config.depth_window
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.query_gain = nn.Parameter(torch.empty(K))
        self.key_gain = nn.Parameter(torch.empty(K))
        self.projections = projections(config, sum(self.sizes), N * K)

    def prepare(self, dtype: torch.dtype, code: tuple[Tensor, Tensor] | None) -> tuple[Any, ...]:
        """What does not depend on the token."""
        return self.projections.prepare(dtype, code)

    def forward(
        self, x: Tensor, prepared: tuple[Any, ...], depth: int, context: Context, history: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor | None, tuple[Tensor, Tensor], Tensor]:
        """Update [T, H] for x [T, H], the chosen projections, this depth's key and value [T, M, K], and the scores [T, N, depths].

        `history` holds the keys and values of the earlier depths.
        """
        N, M, K = self.heads
        x = rms_norm(x, self.gain, self.epsilon)
        route = self.projections.route(x, prepared, depth)
        query, key, value = self.projections.project_in(x, prepared, route).split(self.sizes, dim=-1)
        code = tuple(part[depth] for part in context.depth_rotation)
        query = rms_norm(rotate(query.unflatten(-1, (N, K)), *code), self.query_gain, self.epsilon)
        key = rms_norm(rotate(key.unflatten(-1, (M, K)), *code), self.key_gain, self.epsilon)
        entry = key, value.unflatten(-1, (M, K))
        visible = [*history, entry][-self.window if self.window else None :]
        attended, scores = attend_depth(query, [key for key, _ in visible], [value for _, value in visible])
        update = self.projections.project_out(attended.flatten(1), prepared, route)
        return update, None if route is None else route.ids, entry, scores


class Block(nn.Module):
    """One layer: the attentions of Eq. 4, 5 or 6 added to the residual stream, group by group."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.order = config.order
        self.sequence = SequenceAttention(config)
        self.depth = DepthAttention(config) if config.depth_attention else None
        self.experts = ExpertAttention(config)

    def prepare(self, dtype: torch.dtype, code: tuple[Tensor, Tensor] | None) -> dict[str, tuple[Any, ...]]:
        """What does not depend on the token, by attention."""
        return {name: getattr(self, name).prepare(dtype, code) for group in self.order for name in group}

    def forward(
        self,
        x: Tensor,
        prepared: dict[str, tuple[Any, ...]],
        depth: int,
        context: Context,
        history: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None, dict[str, Tensor], Tensor | None]:
        """y [T, H] for x [T, H] at depth index `depth`, DA's new key and value, the selections by attention, and DA's scores."""
        entry, scores, selections = None, None, {}
        for group in self.order:
            updates = []
            for name in group:
                if name == "sequence":
                    update, ids = self.sequence(x, prepared[name], depth, context)
                elif name == "depth":
                    update, ids, entry, scores = self.depth(x, prepared[name], depth, context, history)
                else:
                    update, ids = self.experts(x, prepared[name], depth)
                updates.append(update)
                if ids is not None:
                    selections[name] = ids
            x = sum(updates, start=x)
        return x, entry, selections, scores


class Dreamer(nn.Module):
    """LA, DR and DR+DA by configuration: `Dreamer(config)(tokens[B, S]) -> logits [B, S, V]`.

    `checkpointing` recomputes each depth in the backward pass instead of keeping its activations. `dtype` is that of the matrix
    products (None: the parameters' own); routing stays in float32.
    """

    def __init__(self, config: DreamerConfig, *, checkpointing: bool = False, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.config, self.checkpointing, self.dtype = config, checkpointing, dtype
        self.embedding = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.gain = nn.Parameter(
            torch.empty(config.hidden_size)
        )  # the final norm; when recurrent, the norm between depths
        self.head = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Table 3: N(0, 1/(5H)), output projections N(0, 1/(2.5 H depth dims)), gains 1."""
        H, L = self.config.hidden_size, self.config.depth
        dimensions = 3 if self.config.depth_attention else 2
        for name, parameter in self.named_parameters():
            if name.endswith("gain"):
                parameter.fill_(1.0)
            else:
                variance = 1 / (2.5 * H * L * dimensions) if name.endswith("outward") else 1 / (5 * H)
                parameter.normal_(std=variance**0.5)

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        documents: Tensor | None = None,
        cache: Cache | None = None,
        lengths: Tensor | None = None,
        depth: int | None = None,
        return_hidden: bool = False,
    ) -> Tensor:
        """Logits [B, S, V] for tokens [B, S], or the final normalised hidden states [B, S, H].

        `documents` [B, S] labels positions; attention stays within equal labels, and -1 is padding, which is not counted in
        the expert balance. `positions` [B, S] are those within the document, unless given derived from the labels. With a
        `cache` the tokens follow those already in it; of row b only the first `lengths[b]` are real, the rest is padding.
        `depth` runs a recurrent model at another depth than it was configured with.
        """
        depth = self._check_depth(depth)
        B, S = tokens.shape
        dtype = self.dtype or self.embedding.dtype
        context, code = self._context(tokens, positions, documents, cache, depth, dtype)
        prepared = [block.prepare(dtype, code if self.config.recurrent else None) for block in self.blocks]
        valid = None if documents is None else (documents >= 0).flatten()

        x = F.embedding(tokens.flatten(), self.embedding).to(dtype)
        if self.config.recurrent:
            x = self.norm(x)
        history: list[tuple[Tensor, Tensor]] = []
        for index in range(depth):
            layer = 0 if self.config.recurrent else index
            arguments = (x, prepared[layer], index, context, history)
            if self.checkpointing and torch.is_grad_enabled():
                x, entry, selections, _ = checkpoint(self.blocks[layer], *arguments, use_reentrant=False)
            else:
                x, entry, selections, _ = self.blocks[layer](*arguments)
            if self.config.recurrent:
                x = self.norm(x)
            if entry is not None:
                history = [*history, entry]
            if self.training:
                for name, ids in selections.items():
                    self._router(layer, name).count(ids, valid)
        if not self.config.recurrent:
            x = self.norm(x)
        if cache is not None:
            cache.advance(S, lengths)
        hidden = x.view(B, S, -1)
        return hidden if return_hidden else self.logits(hidden)

    def norm(self, x: Tensor) -> Tensor:
        """RMSNorm of the residual stream: before the head, and when recurrent before every depth (section 3.7)."""
        return rms_norm(x, self.gain, self.config.norm_epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of normalised hidden states [..., H]."""
        return hidden @ self.head.to(hidden.dtype).T

    def _check_depth(self, depth: int | None) -> int:
        if depth is None or depth == self.config.depth:
            return self.config.depth
        if not self.config.recurrent:
            raise InputError(
                f"depth is {depth}, but a layered model has weights for exactly {self.config.depth} layers; "
                "only recurrent models run at another depth"
            )
        if depth < 1:
            raise InputError(f"depth is {depth}, but it must be at least 1")
        return depth

    def _context(
        self,
        tokens: Tensor,
        positions: Tensor | None,
        documents: Tensor | None,
        cache: Cache | None,
        depth: int,
        dtype: torch.dtype,
    ) -> tuple[Context, tuple[Tensor, Tensor]]:
        """Position codes and masks of one forward, and the depth code of routing."""
        config, device = self.config, tokens.device
        B, S = tokens.shape
        mask = None
        if cache is not None:
            if documents is not None or positions is not None:
                raise InputError("a cached forward takes neither documents nor positions: each row is one document")
            positions = cache.positions(S)
            mask = additive_mask(cache.visible(positions), dtype)
        elif documents is not None:
            positions = document_positions(documents) if positions is None else positions
            mask = document_mask(documents, dtype)
        elif positions is None:
            positions = torch.arange(S, device=device).expand(B, S)
        angles = sequence_angles(positions, config.head_size, config.rope_base).unsqueeze(2)
        depth_rotation = None
        if config.depth_attention:
            depth_rotation = rotation(
                depth_angles(depth, config.depth_head_size, config.depth_rope_base, device), dtype
            )
        code = rotation(depth_angles(depth, config.routing_size, config.depth_rope_base, device), torch.float64)
        return Context(B, S, rotation(angles, dtype), depth_rotation, mask, cache, positions), code

    def _router(self, layer: int, name: str) -> Router:
        attention = getattr(self.blocks[layer], name)
        return attention.router if name == "experts" else attention.projections.router

    def routers(self) -> dict[str, Router]:
        """Every balanced router by its name in the state dict."""
        return {name: module for name, module in self.named_modules() if isinstance(module, Router)}

    def expert_counts(self) -> dict[str, Tensor]:
        """Selections [E] of each router since the last balance update."""
        return {name: router.counts.clone() for name, router in self.routers().items()}

    def update_balance(self) -> None:
        """Eq. 3 for every router, once per optimiser step; counts start anew."""
        for router in self.routers().values():
            router.update_balance()

    def decayed_parameters(self) -> list[nn.Parameter]:
        """Parameters under weight decay: those of two or more dimensions."""
        return [parameter for parameter in self.parameters() if parameter.ndim >= 2]

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """The gains of the norms."""
        return [parameter for parameter in self.parameters() if parameter.ndim < 2]
