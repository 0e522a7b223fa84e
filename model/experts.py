"""Sparse attention over experts: routing (Eq. 2), expert attention (section 3.5), and the linear mixtures of section
3.7 (Eq. 7, 8).

Tokens are sorted by expert, each expert multiplies its own run of rows (kernels.py), and the results are put back.
All of it stays on the device: no count is read by the host on CUDA. `reference.py` says the same densely, one expert
after the other.

Every part has `prepare`: what does not depend on the token, computed once per forward, as one tuple of tensors per
depth.

Axes: T tokens, H hidden, E experts, A active experts, F expert size, R routing size, I and O inputs and outputs of a
projection.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from model.config import DreamerConfig
from model.ops.balance import balance_step
from model.ops.context import Context, History, Prepared, Result
from model.ops.kernels import (
    GROUPS,
    Dispatch,
    dispatch,
    mixed_product,
    rms_norm,
    route,
    routing_keys,
    share,
    swiglu_experts,
)
from model.ops.native import library as native
from model.ops.native.fused import NativeExperts


class Router(nn.Module):
    """Low-rank routing: a query per token against a learned key per expert, both normalised (Eq. 2).

    The bias only takes part in the selection; it is moved by `update_balance`, never by the optimiser. Everything is
    computed in float32 at least.
    """

    def __init__(self, config: DreamerConfig, experts: int, active: int, *, rate: float, normalised: bool) -> None:
        super().__init__()
        self.active, self.rate, self.normalised, self.epsilon = active, rate, normalised, config.norm_epsilon
        self.query = nn.Parameter(torch.empty(config.hidden_size, config.routing_size))
        self.query_gain = nn.Parameter(torch.empty(config.routing_size))
        self.keys = nn.Parameter(torch.empty(experts, config.routing_size))
        self.register_buffer("bias", torch.zeros(experts))
        self.register_buffer("counts", torch.zeros(experts, dtype=torch.long))  # selections since the last update

    def prepare(self, code: Tensor | None) -> list[Prepared]:
        """Per depth the query projection [H, R] and the keys [E, R]; one entry where there is no depth code [L, R/2,
        2].
        """
        dtype = torch.promote_types(self.keys.dtype, torch.float32)
        query, keys, gain = (each.to(dtype) for each in (self.query, self.keys, self.query_gain))
        return [(query, ready) for ready in routing_keys(keys, gain, self.epsilon, code)]

    def forward(self, x: Tensor, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Choose experts for x [T, H] with a prepared query and keys: their ids [T, A] and weights [T, A]."""
        return route(x, query, keys, self.bias, self.active, self.normalised, self.epsilon)

    @torch.no_grad()
    def count(self, ids: list[Tensor], valid: Tensor | None) -> None:
        """Add selections [T, A], of each depth, to the counts, for the tokens that are `valid` [T] (padding is not)."""
        chosen = torch.stack(ids)
        ones = torch.ones_like(chosen) if valid is None else valid.to(chosen.dtype).unsqueeze(-1).expand_as(chosen)
        self.counts.scatter_add_(0, chosen.flatten(), ones.flatten())

    @torch.no_grad()
    def update_balance(self) -> None:
        """Eq. 3, on all counts since the last update."""
        if self.rate:
            self.bias += self.rate * balance_step(self.counts)
        self.counts.zero_()


class ExpertAttention(nn.Module):
    """EA: each token's chosen SwiGLU experts, weighted by their scores (section 3.5)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        E, H, F = config.experts, config.hidden_size, config.expert_size
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(H))
        self.router = Router(config, E, config.active_experts, rate=config.expert_bias_rate, normalised=True)
        self.inward = nn.Parameter(torch.empty(E, H, 2 * F))  # gate and up projection side by side
        self.outward = nn.Parameter(torch.empty(E, F, H))

    def prepare(self, dtype: torch.dtype, code: Tensor | None) -> list[Prepared]:
        """Per depth what the router needs, and the weights in the dtype of the computation."""
        weights = self.inward.to(dtype), self.outward.to(dtype)
        weights = weights if code is None else tuple(map(share, weights))
        return [(*routing, *weights) for routing in self.router.prepare(code)]

    def compile(self, **options) -> None:
        """Compile all of it, but not where the host has to read how the experts are split (kernels.GROUPS)."""
        if len(self.inward) <= GROUPS:
            super().compile(**options)

    def forward(
        self, x: Tensor, stream: Tensor, prepared: Prepared, context: Context, depth: int, history: History
    ) -> Result:
        """The stream [T, H] with the update for x [T, H], and the experts that made it."""
        query, keys, inward, outward = prepared
        if native.holds(inward, outward) and native.takes(x, self.gain, self.router.bias, *prepared):
            weights = query, keys, self.router.bias, inward, outward
            update, ids = NativeExperts.apply(x, self.gain, *weights, self.router.active, self.epsilon)
            return Result(stream + update, ids)
        x = rms_norm(x, self.gain, self.epsilon)
        ids, weights = self.router(x, query, keys)
        update = swiglu_experts(x, weights.to(x.dtype), inward, outward, dispatch(ids, len(inward)))
        return Result(stream + update, ids)


class PlainProjections(nn.Module):
    """The fused query/key/value projection and the output projection of one attention, as in any Transformer."""

    router = None

    def __init__(self, config: DreamerConfig, outputs: int, inputs: int) -> None:
        super().__init__()
        self.inward = nn.Parameter(torch.empty(config.hidden_size, outputs))
        self.outward = nn.Parameter(torch.empty(inputs, config.hidden_size))

    def prepare(self, dtype: torch.dtype, code: Tensor | None) -> list[Prepared]:
        """The weights in the dtype of the computation."""
        return [(self.inward.to(dtype), self.outward.to(dtype))]

    def route(self, x: Tensor, prepared: Prepared) -> None:
        """Nothing to choose."""

    def project_in(self, x: Tensor, prepared: Prepared, route: None) -> Tensor:
        """x [T, H] -> fused queries, keys and values [T, O]."""
        return x @ prepared[0]

    def project_out(self, x: Tensor, prepared: Prepared, route: None) -> Tensor:
        """Attended values x [T, I] -> update [T, H]."""
        return x @ prepared[1]


class Route(NamedTuple):
    """The choice of one expert per token, shared by both projections of an attention."""

    ids: Tensor  # [T, 1]
    scores: Tensor  # [T, 1]
    to: Dispatch


class MixedProjections(nn.Module):
    """The same two projections as mixtures of `depth` linear experts, top 1, with one router for both (section 3.7).

    The chosen expert is scaled by its score, and a shared expert by the same score with stopped gradient (Eq. 7).
    """

    def __init__(self, config: DreamerConfig, outputs: int, inputs: int) -> None:
        super().__init__()
        E, H = config.attention_experts, config.hidden_size
        self.router = Router(config, E, 1, rate=config.attention_bias_rate, normalised=False)
        self.inward = nn.Parameter(torch.empty(E, H, outputs))
        self.outward = nn.Parameter(torch.empty(E, inputs, H))
        self.shared_inward = nn.Parameter(torch.empty(H, outputs)) if config.shared_expert else None
        self.shared_outward = nn.Parameter(torch.empty(inputs, H)) if config.shared_expert else None

    def prepare(self, dtype: torch.dtype, code: Tensor | None) -> list[Prepared]:
        """Per depth what the router needs, and of both banks the merged weights W + W_shared and W_shared itself."""
        banks: list[Tensor | None] = []
        for weights, shared in ((self.inward, self.shared_inward), (self.outward, self.shared_outward)):
            merged = weights if shared is None else weights + shared
            banks += [share(merged.to(dtype)), None if shared is None else shared.detach().to(dtype)]
        return [(*routing, *banks) for routing in self.router.prepare(code)]

    def route(self, x: Tensor, prepared: Prepared) -> Route:
        """Choose an expert for each token of x [T, H]."""
        ids, scores = self.router(x, *prepared[:2])
        return Route(ids, scores.to(x.dtype), dispatch(ids, len(self.inward)))

    def project_in(self, x: Tensor, prepared: Prepared, route: Route) -> Tensor:
        """x [T, H] -> fused queries, keys and values [T, O]."""
        return mixed_product(x, route.scores, *prepared[2:4], route.to)

    def project_out(self, x: Tensor, prepared: Prepared, route: Route) -> Tensor:
        """Attended values x [T, I] -> update [T, H]."""
        return mixed_product(x, route.scores, *prepared[4:6], route.to)
