"""Experts: how each token's are chosen and balanced (Eq. 2 and 3), and attention over them (EA)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from dreamer_study.model import ops
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.layers.context import Context, History, Weights
from dreamer_study.model.ops import Attended, ExpertOperands, Routing


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
    def update_balance(self, counts_E: Tensor | None = None) -> None:
        """Move the bias, b <- b + rate * sign(median(N) - N) (Eq. 3), and count from zero again.

        N are the router's own counts, or given ones, as of all routers of a pool.
        """
        self.bias += self.rate * balance_step(self.counts if counts_E is None else counts_E)
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


class SwiGLUExperts(nn.Module):
    """The matrices of SwiGLU experts: of each G and U [H, F] (gate and up), and D [F, H] (down)."""

    inward: nn.Parameter
    outward: nn.Parameter

    def make(self, config: DreamerConfig) -> None:
        """Make the matrices of all experts."""
        E, H, F = config.experts, config.hidden_size, config.expert_size
        self.inward = nn.Parameter(torch.empty(E, H, 2 * F))  # G and U side by side
        self.outward = nn.Parameter(torch.empty(E, F, H))  # D

    def fused(self) -> list[nn.Parameter]:
        """List the parameters in which matrices lie side by side: those of gate and up."""
        return [self.inward]

    def parts(self) -> list[int]:
        """List how many outputs each of these matrices has."""
        size = self.inward.shape[-1] // 2
        return [size, size]

    def uses(
        self, dtype: torch.dtype, number: int, tokens: int, active: int
    ) -> Iterator[tuple[Weights, ...]]:
        """Cast the weights to `dtype`, once for a `number` of uses by `tokens` tokens each.

        The gradients of these uses may be collected and made together, by their taps.
        """
        inward = ops.expert_weights(self.inward, dtype)
        outward = ops.expert_weights(self.outward, dtype)
        taps = ops.gradient_taps(inward, outward, number, tokens, active)
        return ((inward, outward, tap) for tap in taps)


class RoutedExperts(nn.Module):
    """EA: add up the chosen SwiGLU experts of each token, weighted by their scores (section 3.5).

        n = Norm(x)                                          [T, H]
        ids, scores = the router's choice for n              [T, A] (Eq. 2)
        EA(x) = sum over a of scores_a (SiLU(n G_e) * (n U_e)) D_e, e = ids_a       [T, H]

    Whose the experts are, the layer's own or those of a pool, is what the kinds below differ in.
    """

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.router = Router(
            config,
            config.experts,
            config.active_experts,
            rate=config.expert_bias_rate,
            normalised=True,
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


class ExpertAttention(RoutedExperts, SwiGLUExperts):
    """EA over the layer's own experts."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__(config)
        self.make(config)

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> Iterator[Weights]:
        """Prepare the routing keys of each depth, and cast the weights to `dtype`."""
        keys = self.router.prepare(code_LP)  # of each depth, all of which use the same experts
        uses = self.uses(dtype, len(keys), tokens, self.router.active)
        return ((keys_of_depth, *use) for keys_of_depth, use in zip(keys, uses, strict=True))


class PooledExpertAttention(RoutedExperts):
    """EA over a pool of experts that all layers share, by a router of the layer's own (UniPool)."""

    def prepare(self, dtype: torch.dtype, code_LP: Tensor | None, tokens: int) -> Iterator[Weights]:
        """Prepare the routing keys of each depth; `Block.prepare` adds the experts of the pool."""
        return ((keys_of_depth,) for keys_of_depth in self.router.prepare(code_LP))


class ExpertPool(SwiGLUExperts):
    """The experts that all layers share (UniPool, arXiv 2605.06665)."""

    def __init__(self, config: DreamerConfig) -> None:
        super().__init__()
        self.active = config.active_experts
        self.make(config)

    def prepare(self, dtype: torch.dtype, depth: int, tokens: int) -> Iterator[tuple[Weights, ...]]:
        """Prepare what each of the depths needs of the pool, in the order of the depths."""
        return self.uses(dtype, depth, tokens, self.active)
