"""Dreamer: depth-recurrent attention mixtures, and the layered baseline they are compared with.

A block mixes attentions along different dimensions: sequence (SA), depth (DA), experts (EA). The network runs one
block over all depths (DR, DR+DA), or one block per depth (LA). Another dimension is another class with `prepare`,
`forward` and `router` in `ATTENTIONS`, and its name in `config.MIXTURES`.

Where the equations live: Eq. 1 kernels.attend_depth, attention.SequenceAttention; Eq. 2 experts.Router; Eq. 3
balance.balance_step; Eq. 4 to 6 config.MIXTURES and Block; Eq. 7 kernels.mixed_product; Eq. 8 Dreamer.merged.

Axes: B batch, S sequence, T = B*S tokens, L depth, H hidden, E experts, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from model.attention import DepthAttention, SequenceAttention
from model.cache import Cache
from model.config import DreamerConfig
from model.experts import ExpertAttention, Router
from model.ops import varlen as packed_attention
from model.ops.context import (
    Context,
    History,
    Prepared,
    Result,
    additive_mask,
    depth_code,
    document_mask,
    document_positions,
    document_starts,
    position_code,
)
from model.ops.kernels import rms_norm
from model.ops.native import library as native
from model.ops.reference import reference_block, reference_norm
from pipeline.errors import InputError

ATTENTIONS: dict[str, type[nn.Module]] = {
    "sequence": SequenceAttention,
    "depth": DepthAttention,
    "experts": ExpertAttention,
}
LONG = 1024  # rows without documents that are longer: torch's attention in blocks is faster than native.c's
Observer = Callable[[int, str, Result], None]


class Block(nn.Module):
    """One layer: attentions added to the residual stream, group by group (Eq. 4, 5 or 6)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.order = config.order
        self.attentions = nn.ModuleDict({name: ATTENTIONS[name](config) for group in self.order for name in group})

    def prepare(self, dtype: torch.dtype, code: Tensor | None) -> list[dict[str, Prepared]]:
        """What each attention needs that no token changes, per depth of `code` [L, R/2, 2]; once without one."""
        parts = {name: attention.prepare(dtype, code) for name, attention in self.attentions.items()}
        depths = 1 if code is None else len(code)
        return [{name: part[index if len(part) > 1 else 0] for name, part in parts.items()} for index in range(depths)]

    def forward(
        self,
        x: Tensor,
        prepared: dict[str, Prepared],
        context: Context,
        depth: int,
        histories: dict[str, History],
    ) -> tuple[Tensor, dict[str, Result]]:
        """y [T, H] for x [T, H] at depth index `depth`, and what each attention returned."""
        results: dict[str, Result] = {}
        stream = x
        for group in self.order:
            x = stream
            for name in group:
                history = histories.get(name, [])
                results[name] = self.attentions[name](x, stream, prepared[name], context, depth, history)
                stream = results[name].stream
        return stream, results


class Dreamer(nn.Module):
    """LA, DR and DR+DA by configuration: `Dreamer(config)(tokens[B, S]) -> logits [B, S, V]`.

    `reference` computes everything plainly, by reference.py. `checkpointing` recomputes each depth in the backward
    pass instead of keeping its activations. `dtype` is that of the matrix products, by default the parameters' own;
    parameters in float32 and products in bfloat16 are cast once per forward, so gradients of one step add up over
    the depths in bfloat16. Routing stays in float32.
    """

    def __init__(
        self,
        config: DreamerConfig,
        *,
        reference: bool = False,
        checkpointing: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.config, self.reference, self.checkpointing, self.dtype = config, reference, checkpointing, dtype
        self.embedding = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.head = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        if not self.embedding.is_meta:  # no values to set, and torch takes seconds to find that out
            self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Table 3: N(0, 1/(5 H)), output projections N(0, 1/(2.5 H depth dimensions)), gains 1."""
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
        observer: Observer | None = None,
    ) -> Tensor:
        """Logits [B, S, V] for tokens [B, S], or with `return_hidden` the normalised hidden states [B, S, H].

        `documents` [B, S] labels positions; attention stays within a run of equal labels, and -1 is padding, which
        does not count in the experts' balance. `positions` [B, S] are those within the document; if not given, they
        follow from the labels. With a `cache` the tokens come behind those already in it; of row b only the first
        `lengths[b]` are real, the rest is padding. `depth` runs a recurrent model at another depth than it was made
        for. `observer` is called with depth index, attention and result, for every attention at every depth.
        Raises InputError where these do not fit each other.
        """
        _check_shapes(tokens, positions, documents, lengths)
        B, S = tokens.shape
        L = self.checked_depth(depth)
        dtype = self.dtype or self.embedding.dtype
        context = self._context(tokens, positions, documents, cache, L, dtype)
        prepared = self._prepare(context, L, dtype)
        valid = None if documents is None else (documents >= 0).flatten()

        x = F.embedding(tokens.flatten(), self.embedding).to(dtype)
        x = self.norm(x) if self.config.recurrent else x
        histories: dict[str, History] = {}
        chosen: dict[Router, list[Tensor]] = defaultdict(list)
        for index in range(L):
            block = self.blocks[0 if self.config.recurrent else index]
            x, results = self._run(block, x, prepared[index], context, index, histories)
            histories = {name: result.history for name, result in results.items()}
            for name, result in results.items():
                if result.ids is not None:
                    chosen[block.attentions[name].router].append(result.ids)
                if observer is not None:
                    observer(index, name, result)
        x = x if self.config.recurrent else self.norm(x)
        if self.training and cache is None:
            for router, ids in chosen.items():
                router.count(ids, valid)
        if cache is not None:
            cache.advance(S, lengths)
        hidden = x.view(B, S, -1)
        return hidden if return_hidden else self.logits(hidden)

    def norm(self, x: Tensor) -> Tensor:
        """RMSNorm of the residual stream: before the head, and when recurrent before every depth (section 3.7)."""
        norm = reference_norm if self.reference else rms_norm
        return norm(x, self.gain, self.config.norm_epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of normalised hidden states [..., H]."""
        return hidden @ self.head.to(hidden.dtype).T

    def _run(self, *arguments) -> tuple[Tensor, dict[str, Result]]:
        if self.checkpointing and torch.is_grad_enabled() and not self.reference:
            return checkpoint(self._layer, *arguments, use_reentrant=False, context_fn=_keep_selections)
        return self._layer(*arguments)

    def _layer(self, block: Block, x: Tensor, prepared: dict[str, Prepared], *rest) -> tuple[Tensor, dict[str, Result]]:
        """One depth: a block, and where it is iterated the norm behind it (section 3.7)."""
        x, results = reference_block(block, x, *rest) if self.reference else block(x, prepared, *rest)
        return self.norm(x) if self.config.recurrent else x, results

    def _prepare(self, context: Context, depth: int, dtype: torch.dtype) -> list[dict[str, Prepared]]:
        """What the attentions of each depth need that no token changes."""
        if self.reference:
            return [{}] * depth
        return [part for block in self.blocks for part in block.prepare(dtype, context.routing_code)]

    def _context(
        self,
        tokens: Tensor,
        positions: Tensor | None,
        documents: Tensor | None,
        cache: Cache | None,
        depth: int,
        dtype: torch.dtype,
    ) -> Context:
        config, device = self.config, tokens.device
        B, S = tokens.shape
        natively = native.runs(device, dtype) and not self.reference
        mask = bounds = starts = None
        if cache is not None:
            if documents is not None or positions is not None:
                raise InputError("a forward with a cache takes neither documents nor positions: a row is one document")
            if self.reference or len(cache.keys) != depth:
                reason = "the reference has none" if self.reference else f"it is for depth {len(cache.keys)}"
                raise InputError(f"a forward of depth {depth} cannot use this cache: {reason}")
            positions = cache.positions(S)
            mask = additive_mask(cache.visible(positions), dtype)
        elif documents is not None:
            positions = document_positions(documents) if positions is None else positions
            if packed_attention.takes(dtype, device) and not self.reference:
                bounds = packed_attention.document_bounds(documents)
            elif not natively:
                mask = document_mask(documents, dtype)
        elif positions is None:
            positions = torch.arange(S, device=device).expand(B, S)
        whole = documents is None and S > LONG
        if cache is None and natively and not whole:
            starts = document_starts(torch.zeros_like(tokens) if documents is None else documents)
        wide = torch.promote_types(dtype, torch.float32)
        code = position_code(positions, config.head_size, config.rope_base, wide).flatten(0, 1).unsqueeze(1)
        of_heads, of_routing = (
            depth_code(depth, size, config.depth_rope_base, device, wide)
            for size in (config.depth_head_size, config.routing_size)
        )
        of_routing = of_routing if config.recurrent else None
        return Context(B, S, code, of_heads, of_routing, mask, bounds, starts, positions, cache)

    def checked_depth(self, depth: int | None) -> int:
        """The depth to run at, by default the model's own. Raises InputError for one that it cannot run at."""
        if depth is None:
            return self.config.depth
        if not self.config.recurrent and depth != self.config.depth:
            raise InputError(
                f"depth is {depth!r}, but a layered model has weights for exactly {self.config.depth} layers; "
                "only a recurrent model runs at another depth"
            )
        if type(depth) is not int or depth < 1:
            raise InputError(f"depth is {depth!r}, but it must be a whole number of at least 1")
        return depth

    def routers(self) -> dict[str, Router]:
        """Every balanced router, by its name in the state dict."""
        return {name: module for name, module in self.named_modules() if isinstance(module, Router)}

    def experts_of(self, name: str) -> int:
        """How many experts the router of an attention chooses among: per layer, or in all when recurrent."""
        return len(self.blocks[0].attentions[name].router.keys)

    def expert_counts(self) -> dict[str, Tensor]:
        """Selections [E] of each router in training since the last `update_balance`."""
        return {name: router.counts.clone() for name, router in self.routers().items()}

    def update_balance(self) -> None:
        """Eq. 3 for every router: once per optimiser step, on the counts of all its forwards, which then start anew.

        In distributed training every rank must call it; their counts are added up.
        """
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        for router in self.routers().values():
            if distributed:
                torch.distributed.all_reduce(router.counts)
            router.update_balance()

    def decayed_parameters(self) -> list[nn.Parameter]:
        """The parameters under weight decay: those of two or more dimensions."""
        return [parameter for parameter in self.parameters() if parameter.ndim >= 2]

    def undecayed_parameters(self) -> list[nn.Parameter]:
        """The gains of the norms."""
        return [parameter for parameter in self.parameters() if parameter.ndim < 2]

    def merged(self) -> Dreamer:
        """The model for inference, shared experts folded into the routable ones (Eq. 8): same outputs, fewer weights.

        It holds its own copy of what was folded and shares every other tensor with this one.
        """
        config = dataclasses.replace(self.config, shared_expert=False)
        with torch.device("meta"):
            model = Dreamer(config, reference=self.reference, dtype=self.dtype)
        state = self.state_dict()
        shared = {name: state.pop(name) for name in list(state) if "shared_" in name}
        for name, weights in shared.items():
            state[name.replace("shared_", "")] = state[name.replace("shared_", "")] + weights
        model.load_state_dict(state, assign=True)
        return model.train(self.training)

    def compile(self, **options) -> None:
        """Let `torch.compile` fuse the parts of each attention: one graph for all depths. Worth it on a GPU only."""
        self.norm = torch.compile(self.norm, **options)
        for block in self.blocks:
            for attention in block.attentions.values():
                attention.compile(**options)


def _check_shapes(tokens: Tensor, positions: Tensor | None, documents: Tensor | None, lengths: Tensor | None) -> None:
    """What computes in C trusts these shapes."""
    if tokens.ndim != 2 or not tokens.numel():
        raise InputError(f"tokens are {list(tokens.shape)}, but they must be [batch, sequence] and at least one")
    expected = (("positions", positions, tokens.shape), ("documents", documents, tokens.shape))
    for name, given, shape in (*expected, ("lengths", lengths, tokens.shape[:1])):
        if given is not None and given.shape != shape:
            raise InputError(f"{name} are {list(given.shape)}, but for these tokens they must be {list(shape)}")


def _keep_selections():
    """Choices by torch are kept under checkpointing, not made again: a depth cannot be recomputed with other experts.

    Those by native.c are made again, with the same result to the bit.
    """
    kept = [torch.ops.aten.topk.default, torch.ops.aten.argmax.default, torch.ops.aten.sort.stable]
    return create_selective_checkpoint_contexts(kept)
