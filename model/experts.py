"""Sparse attention over experts: routing (Eq. 2), expert attention (section 3.5) and the linear mixtures of section 3.7 (Eq. 7, 8).

Tokens are sorted by expert, each expert multiplies its own run of rows, and the results are put back. All of it stays on the
device: no count is read by the host on CUDA. `reference.py` says the same densely, one expert after the other.

Axes: T tokens, H hidden, E experts, A active experts, F expert size, R routing size, I and O inputs and outputs of a projection.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from model.attention import rms_norm, rotate
from model.balance import balance_step
from model.config import DreamerConfig


class Selection(NamedTuple):
    """What a router decided: ids [T, A] of the chosen experts and their weights [T, A]."""

    ids: Tensor
    weights: Tensor


class Router(nn.Module):
    """Low-rank routing: a query per token against a learned key per expert, both normalised (Eq. 2).

    The bias only takes part in the selection; it is moved by `update_balance`, never by the optimiser. Everything is computed in
    float32 at least.
    """

    def __init__(self, config: DreamerConfig, experts: int, active: int, *, rate: float, normalised: bool) -> None:
        super().__init__()
        self.active, self.rate, self.normalised, self.epsilon = active, rate, normalised, config.norm_epsilon
        self.query = nn.Parameter(torch.empty(config.hidden_size, config.routing_size))
        self.query_gain = nn.Parameter(torch.empty(config.routing_size))
        self.keys = nn.Parameter(torch.empty(experts, config.routing_size))
        self.register_buffer("bias", torch.zeros(experts))
        self.register_buffer("counts", torch.zeros(experts, dtype=torch.long))  # selections since the last update

    def prepare(self, code: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """The query projection [H, R] and the keys [L or 1, E, R] as the depths meet them.

        The depth code turns all queries of one depth alike, so it is applied to the few keys instead, backwards:
        <turn(q), k> = <q, turn_back(k)>. The gain of the query's norm and the score's 1/sqrt(R) go into the keys as well.
        """
        dtype = torch.promote_types(self.keys.dtype, torch.float32)
        gain = self.query_gain.to(dtype) * self.keys.shape[1] ** -0.5
        keys = (rms_norm(self.keys.to(dtype), torch.ones_like(gain), self.epsilon) * gain).unsqueeze(0)
        if code is not None:
            cosine, sine = (part.to(dtype).unsqueeze(1) for part in code)
            keys = rotate(keys, cosine, -sine)
        return self.query.to(dtype), keys

    def forward(self, x: Tensor, query: Tensor, keys: Tensor) -> Selection:
        """Choose experts for x [T, H] with prepared `query` [H, R] and `keys` [E, R]."""
        q = x.to(query.dtype) @ query
        scale = (q.square().mean(dim=-1, keepdim=True) + self.epsilon).rsqrt()
        logits = (q @ keys.T) * scale
        biased = logits.detach() + self.bias
        ids = (
            biased.argmax(dim=-1, keepdim=True) if self.active == 1 else biased.topk(self.active, sorted=False).indices
        )
        weights = torch.sigmoid(logits.gather(-1, ids))
        if self.normalised:
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
        return Selection(ids, weights)

    @torch.no_grad()
    def count(self, ids: Tensor, valid: Tensor | None) -> None:
        """Add the selections `ids` [T, A] to the counts, of the tokens that are `valid` [T] (padding is not)."""
        ones = torch.ones_like(ids) if valid is None else valid.to(ids.dtype).unsqueeze(-1).expand_as(ids)
        self.counts.scatter_add_(0, ids.reshape(-1), ones.reshape(-1))

    @torch.no_grad()
    def update_balance(self) -> None:
        """Eq. 3, on all counts since the last update."""
        if self.rate:
            self.bias += self.rate * balance_step(self.counts)
        self.counts.zero_()


class Dispatch(NamedTuple):
    """Token-expert pairs sorted by expert. Pair i of T*A belongs to token i // A."""

    order: Tensor  # [T*A]: the pair at each place
    places: Tensor  # [T*A]: the place of each pair
    ends: Tensor  # [E] int32: where each expert's run of places ends
    active: int


def dispatch(ids: Tensor, experts: int) -> Dispatch:
    """Sort the selections `ids` [T, A] by expert, tokens in order within each."""
    chosen, order = ids.reshape(-1).sort(stable=True)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    ends = torch.searchsorted(chosen, torch.arange(experts, device=ids.device), right=True)
    return Dispatch(order, places, ends.int(), ids.shape[1])


class _Gather(torch.autograd.Function):
    """Rows of tokens in expert order. Its gradient gathers and sums, in a fixed order, where index_select's would scatter."""

    @staticmethod
    def forward(ctx, x: Tensor, order: Tensor, places: Tensor, active: int) -> Tensor:
        ctx.save_for_backward(places)
        ctx.active = active
        return x.index_select(0, order if active == 1 else order // active)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (places,) = ctx.saved_tensors
        gradient = gradient.index_select(0, places)
        if ctx.active > 1:
            gradient = gradient.unflatten(0, (-1, ctx.active)).sum(dim=1)
        return gradient, None, None, None


class _Restore(torch.autograd.Function):
    """Rows in expert order back to pairs [T*A, ...]: the inverse permutation, in both directions a gather."""

    @staticmethod
    def forward(ctx, rows: Tensor, order: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return rows.index_select(0, places)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        (order,) = ctx.saved_tensors
        return gradient.index_select(0, order), None, None


def gather(x: Tensor, to: Dispatch) -> Tensor:
    """Rows of x [T, I] for every pair, in expert order: [T*A, I]."""
    return _Gather.apply(x, to.order, to.places, to.active)


def restore(rows: Tensor, to: Dispatch) -> Tensor:
    """Rows [T*A, O] from expert order back to the order of pairs."""
    return _Restore.apply(rows, to.order, to.places)


def grouped_product(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Multiply each expert's run of rows [T*A, I] with its own matrix of weights [E, I, O]."""
    if rows.dtype in (torch.float32, torch.bfloat16) and all(
        size * rows.element_size() % 16 == 0 for size in weights.shape[1:]
    ):
        return F.grouped_mm(rows, weights, offs=ends)
    starts = [0, *ends.tolist()]
    runs = [rows[start:end] @ weight for start, end, weight in zip(starts, starts[1:], weights, strict=False)]
    return torch.cat(runs)


class ExpertAttention(nn.Module):
    """EA: each token's chosen SwiGLU experts, weighted by their scores (section 3.5)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        E, H, F_ = config.experts, config.hidden_size, config.expert_size
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(H))
        self.router = Router(config, E, config.active_experts, rate=config.expert_bias_rate, normalised=True)
        self.inward = nn.Parameter(torch.empty(E, H, 2 * F_))  # gate and up projection side by side
        self.outward = nn.Parameter(torch.empty(E, F_, H))

    def prepare(self, dtype: torch.dtype, code: tuple[Tensor, Tensor] | None) -> tuple[Tensor, ...]:
        """What does not depend on the token: computed once per forward, not once per depth."""
        return (*self.router.prepare(code), self.inward.to(dtype), self.outward.to(dtype))

    def forward(self, x: Tensor, prepared: tuple[Tensor, ...], depth: int) -> tuple[Tensor, Tensor]:
        """Update [T, H] for x [T, H] and the ids [T, A] of the experts that made it."""
        query, keys, inward, outward = prepared
        x = rms_norm(x, self.gain, self.epsilon)
        ids, weights = self.router(x, query, keys[min(depth, len(keys) - 1)])
        to = dispatch(ids, len(inward))
        gate, up = grouped_product(gather(x, to), inward, to.ends).chunk(2, dim=-1)
        rows = restore(grouped_product(F.silu(gate) * up, outward, to.ends), to)
        return torch.einsum("tah,ta->th", rows.unflatten(0, ids.shape), weights.to(rows.dtype)), ids


class PlainProjections(nn.Module):
    """The fused query/key/value projection and the output projection of one attention, as in any Transformer."""

    def __init__(self, config: DreamerConfig, outputs: int, inputs: int) -> None:
        super().__init__()
        self.inward = nn.Parameter(torch.empty(config.hidden_size, outputs))
        self.outward = nn.Parameter(torch.empty(inputs, config.hidden_size))

    def prepare(self, dtype: torch.dtype, code: tuple[Tensor, Tensor] | None) -> tuple[Tensor, ...]:
        """The weights in the dtype of the computation."""
        return self.inward.to(dtype), self.outward.to(dtype)

    def route(self, x: Tensor, prepared: tuple[Tensor, ...], depth: int) -> None:
        """Nothing to choose."""

    def project_in(self, x: Tensor, prepared: tuple[Tensor, ...], route: None) -> Tensor:
        """x [T, H] -> fused queries, keys and values [T, O]."""
        return x @ prepared[0]

    def project_out(self, x: Tensor, prepared: tuple[Tensor, ...], route: None) -> Tensor:
        """Attended values x [T, I] -> update [T, H]."""
        return x @ prepared[1]


class Route(NamedTuple):
    """The choice of one expert per token, shared by both projections of an attention."""

    ids: Tensor  # [T, 1]
    weights: Tensor  # [T, 1]
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

    def prepare(self, dtype: torch.dtype, code: tuple[Tensor, Tensor] | None) -> tuple[Tensor | None, ...]:
        """Router, and per bank the merged weights W + W_shared (Eq. 8) and the shared ones."""
        banks: list[Tensor | None] = []
        for weights, shared in ((self.inward, self.shared_inward), (self.outward, self.shared_outward)):
            merged = weights if shared is None else weights + shared
            banks += [merged.to(dtype), None if shared is None else shared.detach().to(dtype)]
        return (*self.router.prepare(code), *banks)

    def route(self, x: Tensor, prepared: tuple[Tensor | None, ...], depth: int) -> Route:
        """Choose an expert for each token of x [T, H]."""
        query, keys = prepared[:2]
        ids, weights = self.router(x, query, keys[min(depth, len(keys) - 1)])
        return Route(ids, weights.to(x.dtype), dispatch(ids, len(self.inward)))

    def project_in(self, x: Tensor, prepared: tuple[Tensor | None, ...], route: Route) -> Tensor:
        """x [T, H] -> fused queries, keys and values [T, O]."""
        return mixed_product(x, *prepared[2:4], route)

    def project_out(self, x: Tensor, prepared: tuple[Tensor | None, ...], route: Route) -> Tensor:
        """Attended values x [T, I] -> update [T, H]."""
        return mixed_product(x, *prepared[4:6], route)


def mixed_product(x: Tensor, merged: Tensor, shared: Tensor | None, route: Route) -> Tensor:
    """Eq. 7 with one product per token: s x (W + W_shared), where only s x W passes a gradient on to the score s."""
    rows = gather(x, route.to)
    scores = route.weights
    product = restore(grouped_product(rows, merged, route.to.ends), route.to)
    if shared is None or not scores.requires_grad:
        return scores * product
    with torch.no_grad():
        own = product - x @ shared
    return scores.detach() * product + (scores - scores.detach()) * own
