"""Dreamer (LA, DR, DR+DA) in plain PyTorch: depth-recurrent attention mixtures.

A block adds up attentions along different dimensions: sequence (SA), depth (DA), experts (EA). One
block runs at all depths (recurrent), or each depth has a block of its own (layered):

    recurrent                                    layered
    x_1 = Norm(embedding of the token)           x_1 = embedding of the token
    y_l = x_l + DA(x_:l) + SA(x_l)               the same, with the weights of layer l
    y_l = y_l + EA(y_l)
    x_{l+1} = Norm(y_l)                          x_{l+1} = y_l
    logits = x_{L+1} W_head^T                    logits = Norm(x_{L+1}) W_head^T

A recurrent model may have layers of their own around its block (prelude and coda: those of the
layered form), and layers may share one pool of experts.

Written to be read, not for speed. Names of tensors end in their axes: B batch, S sequence, T = B*S
tokens, L depth, H hidden, N query heads, M key/value heads, K head size, E experts, A active
experts, F expert size, R routing size, I and O inputs and outputs of a projection, V vocabulary, P
pairs of a rotary code, each with cosine and sine.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .causal_language_model import CausalLanguageModel
from .configuration_dreamer import DreamerConfig

# The attentions that read the same input and are added together, in order.
MIXTURES = {
    "sequential": (("depth",), ("sequence",), ("experts",)),
    "partial": (("depth", "sequence"), ("experts",)),
    "parallel": (("depth", "sequence", "experts"),),
}


def rms_norm(x, gain, epsilon):
    """Compute x / sqrt(mean(x^2) + epsilon) * gain, in float32 where x is narrower."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = (wide.square().mean(dim=-1, keepdim=True) + epsilon).rsqrt()
    return (wide * scale * gain).to(x.dtype)


def position_code(positions, size, base):
    """Compute the cosines and sines [..., size/2, 2] of RoPE at `positions` [...], in float64."""
    exponents = torch.arange(size // 2, dtype=torch.float64) / (size // 2)
    angles = positions[..., None] * base**-exponents
    return torch.stack((angles.cos(), angles.sin()), dim=-1)


def depth_code(depth, size, base):
    """Compute the cosines and sines [L, size/2, 2] of the depths l = 1..L.

    The first half of the pairs rotates with l, the second with L - l, the depths still to come.
    """
    depths = torch.arange(1, depth + 1)
    passed = position_code(depths, size // 2, base)
    to_come = position_code(depth - depths, size // 2, base)
    return torch.cat((passed, to_come), dim=-2)


def rotate(x, code):
    """Rotate the pairs (x[..., 2i], x[..., 2i + 1]) by the angles of `code` [..., P, 2]."""
    first, second = x[..., ::2], x[..., 1::2]
    cosine, sine = code[..., 0], code[..., 1]
    rotated = (first * cosine - second * sine, first * sine + second * cosine)
    return torch.stack(rotated, dim=-1).flatten(-2).to(x.dtype)


class Context(NamedTuple):
    """What all attentions of one depth are given besides their input: rotary codes."""

    rows: int  # B
    positions: Tensor  # [T, 1, P, 2]
    depth: Tensor  # of this depth, for the heads of depth attention, [P, 2]
    routing: Tensor | None  # of this depth, for routing, [P, 2]; None: layers of their own weights
    pool: nn.Module | None  # the experts of all layers; None: each layer has its own


class Router(nn.Module):
    """Choose experts for each token: a query against a learned key of each expert."""

    def __init__(self, config, experts, active, normalised):
        super().__init__()
        self.active = active
        self.normalised = normalised  # whether the scores of a token are divided by their sum
        self.epsilon = config.norm_epsilon
        self.query = nn.Parameter(torch.empty(config.hidden_size, config.routing_size))
        self.query_gain = nn.Parameter(torch.empty(config.routing_size))
        self.keys = nn.Parameter(torch.empty(experts, config.routing_size))
        # has balanced the experts in training, and takes part in the choice alone
        self.register_buffer("bias", torch.zeros(experts))

    def forward(self, x_TH, code_P2):
        """Return the chosen experts and their scores, [T, A] each, computed in float32 at least."""
        wide = torch.promote_types(x_TH.dtype, torch.float32)
        query_TR = x_TH.to(wide) @ self.query.to(wide)
        if code_P2 is not None:
            query_TR = rotate(query_TR, code_P2.to(wide))
        query_TR = rms_norm(query_TR, self.query_gain.to(wide), self.epsilon)
        keys_ER = rms_norm(self.keys.to(wide), torch.ones_like(self.query_gain), self.epsilon)
        logits_TE = query_TR @ keys_ER.T / keys_ER.shape[1] ** 0.5
        ids_TA = (logits_TE + self.bias).topk(self.active, dim=-1).indices
        scores_TA = torch.sigmoid(logits_TE.gather(-1, ids_TA))
        if self.normalised:
            scores_TA = scores_TA / scores_TA.sum(dim=-1, keepdim=True)
        return ids_TA, scores_TA


class ExpertPool(nn.Module):
    """The matrices of SwiGLU experts."""

    def __init__(self, config):
        super().__init__()
        E, H, F = config.experts, config.hidden_size, config.expert_size
        self.inward = nn.Parameter(torch.empty(E, H, 2 * F))  # gate and up side by side
        self.outward = nn.Parameter(torch.empty(E, F, H))  # down


class ExpertAttention(nn.Module):
    """EA: the chosen SwiGLU experts of each token, weighted by their scores.

    The experts are the layer's own, or those of the pool in the context.
    """

    def __init__(self, config, recurrent):
        super().__init__()
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.router = Router(config, config.experts, config.active_experts, normalised=True)
        if not config.expert_pool:
            own = ExpertPool(config)
            self.inward = own.inward
            self.outward = own.outward

    def forward(self, x_TH, context, earlier):
        """Return the output [T, H]; experts remember nothing."""
        experts = context.pool or self
        x_TH = rms_norm(x_TH, self.gain, self.epsilon)
        ids_TA, scores_TA = self.router(x_TH, context.routing)
        output_TH = torch.zeros_like(x_TH)
        for expert in ids_TA.unique().tolist():
            tokens, places = (ids_TA == expert).nonzero(as_tuple=True)
            gate, up = (x_TH[tokens] @ experts.inward[expert]).chunk(2, dim=-1)
            down = (F.silu(gate) * up) @ experts.outward[expert]
            scores = scores_TA[tokens, places, None].to(down.dtype)
            output_TH = output_TH.index_add(0, tokens, scores * down)
        return output_TH, ()


class PlainProjections(nn.Module):
    """Project in and out by one matrix each."""

    router = None

    def __init__(self, config, outputs, inputs):
        super().__init__()
        self.inward = nn.Parameter(torch.empty(config.hidden_size, outputs))
        self.outward = nn.Parameter(torch.empty(inputs, config.hidden_size))

    def forward(self, x_TI, name, routing):
        """Multiply by the matrix `name`: [T, O]."""
        return x_TI @ getattr(self, name)


class MixedProjections(nn.Module):
    """Project by mixtures of matrices, of which each token uses one, and a shared one.

    There are as many as the block has iterations.
    """

    def __init__(self, config, outputs, inputs):
        super().__init__()
        E, H = config.depth - config.prelude - config.coda, config.hidden_size
        self.router = Router(config, E, 1, normalised=False)
        self.inward = nn.Parameter(torch.empty(E, H, outputs))
        self.outward = nn.Parameter(torch.empty(E, inputs, H))
        self.shared_inward = nn.Parameter(torch.empty(H, outputs)) if config.shared_expert else None
        self.shared_outward = nn.Parameter(torch.empty(inputs, H)) if config.shared_expert else None

    def forward(self, x_TI, name, routing):
        """Multiply by the chosen matrix of the bank `name` and the shared one: [T, O]."""
        ids_TA, scores_TA = routing
        scores_TA = scores_TA.to(x_TI.dtype)
        bank_EIO = getattr(self, name)
        output_TO = x_TI.new_zeros(len(x_TI), bank_EIO.shape[-1])
        for expert in ids_TA.unique().tolist():
            (tokens,) = (ids_TA[:, 0] == expert).nonzero(as_tuple=True)
            output_TO = output_TO.index_add(0, tokens, x_TI[tokens] @ bank_EIO[expert])
        output_TO = scores_TA * output_TO
        shared_IO = getattr(self, f"shared_{name}")
        if shared_IO is not None:
            output_TO = output_TO + scores_TA.detach() * (x_TI @ shared_IO)
        return output_TO


class ProjectedAttention(nn.Module):
    """What SA and DA have in common: projections to queries, keys and values, and back."""

    def __init__(self, config, recurrent, heads, key_value_heads, head_size):
        super().__init__()
        self.heads = (heads, key_value_heads)
        self.epsilon = config.norm_epsilon
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.query_gain = nn.Parameter(torch.empty(head_size))
        self.key_gain = nn.Parameter(torch.empty(head_size))
        projections = MixedProjections if recurrent else PlainProjections
        self.projections = projections(
            config, outputs=(heads + 2 * key_value_heads) * head_size, inputs=heads * head_size
        )

    def forward(self, x_TH, context, earlier):
        """Return the output [T, H], and what later depths are given as `earlier`."""
        x_TH = rms_norm(x_TH, self.gain, self.epsilon)
        routing = None
        if self.projections.router is not None:
            routing = self.projections.router(x_TH, context.routing)
        projected = self.projections(x_TH, "inward", routing)  # [T, (N + 2M) K]
        N, M = self.heads
        query, key, value = projected.unflatten(-1, (N + 2 * M, -1)).split((N, M, M), dim=1)
        code = self.code(context)
        query_TNK = rms_norm(rotate(query, code), self.query_gain, self.epsilon)
        key_TMK = rms_norm(rotate(key, code), self.key_gain, self.epsilon)
        attended_TNK, kept = self.attend(query_TNK, key_TMK, value, context, earlier)
        return self.projections(attended_TNK.flatten(1), "outward", routing), kept


class SequenceAttention(ProjectedAttention):
    """SA: attend causally along the sequence."""

    def __init__(self, config, recurrent):
        super().__init__(
            config, recurrent, config.query_heads, config.key_value_heads, config.head_size
        )

    def code(self, context):
        """Return the rotary code of the positions."""
        return context.positions

    def attend(self, query_TNK, key_TMK, value_TMK, context, earlier):
        """Attend within each row."""
        rows = (context.rows, -1)
        query, key, value = (
            tensor.unflatten(0, rows).transpose(1, 2) for tensor in (query_TNK, key_TMK, value_TMK)
        )
        attended = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=query.shape[1] != key.shape[1]
        )
        return attended.transpose(1, 2).flatten(0, 1), ()


class DepthAttention(ProjectedAttention):
    """DA: attend along each token's own depths up to the current one."""

    def __init__(self, config, recurrent):
        super().__init__(
            config,
            recurrent,
            config.depth_heads,
            config.depth_key_value_heads,
            config.depth_head_size,
        )
        self.window = config.depth_window

    def code(self, context):
        """Return the rotary code of the depth."""
        return context.depth

    def attend(self, query_TNK, key_TMK, value_TMK, context, earlier):
        """Attend over the keys and values of earlier depths and this one."""
        kept = (*earlier, (key_TMK, value_TMK))
        if self.window:
            kept = kept[-self.window :]
        groups = query_TNK.shape[1] // key_TMK.shape[1]
        keys, values = (
            torch.stack(tensors, dim=2).repeat_interleave(groups, dim=1)
            for tensors in zip(*kept, strict=True)
        )  # [T, N, depths, K]
        wide = torch.promote_types(query_TNK.dtype, torch.float32)
        logits = (query_TNK.unsqueeze(2) * keys).sum(dim=-1, dtype=wide)
        scores = (logits * query_TNK.shape[-1] ** -0.5).softmax(dim=-1)
        return (scores.unsqueeze(-1) * values).sum(dim=2).to(query_TNK.dtype), kept


ATTENTIONS = {
    "sequence": SequenceAttention,
    "depth": DepthAttention,
    "experts": ExpertAttention,
}


class Block(nn.Module):
    """Compute one layer: add each group of attentions to the residual stream."""

    def __init__(self, config, recurrent):
        super().__init__()
        self.order = [
            [name for name in group if name != "depth" or config.depth_attention]
            for group in MIXTURES[config.mixture]
        ]
        names = [name for group in self.order for name in group]
        self.attentions = nn.ModuleDict(
            {name: ATTENTIONS[name](config, recurrent) for name in names}
        )

    def forward(self, x_TH, context, histories):
        """Return the stream [T, H], and by attention what later depths are given."""
        kept = {}
        for group in self.order:
            outputs = []
            for name in group:
                earlier = histories.get(name, ())
                output, kept[name] = self.attentions[name](x_TH, context, earlier)
                outputs.append(output)
            x_TH = sum(outputs, start=x_TH)
        return x_TH, kept


class Dreamer(nn.Module):
    """The network: tokens [B, S] -> logits [B, S, V]."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        self.blocks = nn.ModuleList()
        for depth in range(config.depth):
            recurrent = self.is_recurrent(depth)
            if not recurrent or depth == config.prelude:
                self.blocks.append(Block(config, recurrent))
        self.pool = ExpertPool(config) if config.expert_pool else None
        self.gain = nn.Parameter(torch.empty(config.hidden_size))
        self.head = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden_size))
        self.reset_parameters()

    def is_recurrent(self, depth):
        """Tell whether the recurrent block runs at a depth, counted from 0."""
        config = self.config
        return config.recurrent and config.prelude <= depth < config.depth - config.coda

    @torch.no_grad()
    def reset_parameters(self):
        """Draw weights: N(0, 1 / (5 H)), output projections by the depth too; gains are 1."""
        config = self.config
        dimensions = 3 if config.depth_attention else 2
        for name, parameter in self.named_parameters():
            if name.endswith("gain"):
                parameter.fill_(1.0)
            elif name.endswith("outward"):
                variance = 1 / (2.5 * config.hidden_size * config.depth * dimensions)
                parameter.normal_(std=variance**0.5)
            else:
                parameter.normal_(std=(1 / (5 * config.hidden_size)) ** 0.5)

    def forward(self, tokens_BS):
        """Compute the logits [B, S, V]; every row begins at its first token."""
        config = self.config
        rows, length = tokens_BS.shape
        x_TH = F.embedding(tokens_BS.flatten(), self.embedding)
        wide = torch.promote_types(x_TH.dtype, torch.float32)
        positions_T = torch.arange(length).repeat(rows)
        of_positions = position_code(positions_T, config.head_size, config.rope_base)
        of_heads = depth_code(config.depth, config.depth_head_size, config.depth_rope_base)
        of_routing = depth_code(config.depth, config.routing_size, config.depth_rope_base)
        of_positions = of_positions[:, None].to(x_TH.device, wide)
        of_heads = of_heads.to(x_TH.device, wide)
        of_routing = of_routing.to(x_TH.device, wide)
        histories = {}  # what the attentions keep of earlier depths
        blocks = iter(self.blocks)
        for depth in range(config.depth):
            recurrent = self.is_recurrent(depth)
            if recurrent and depth == config.prelude:
                x_TH = self.norm(x_TH)
            if not recurrent or depth == config.prelude:
                block = next(blocks)
            code_of_routing = of_routing[depth] if recurrent else None
            context = Context(rows, of_positions, of_heads[depth], code_of_routing, self.pool)
            x_TH, histories = block(x_TH, context, histories)
            if recurrent:
                x_TH = self.norm(x_TH)
        if not recurrent:
            x_TH = self.norm(x_TH)
        return (x_TH @ self.head.T).view(rows, length, -1)

    def norm(self, x_TH):
        """Normalise the residual stream."""
        return rms_norm(x_TH, self.gain, self.config.norm_epsilon)


class DreamerForCausalLM(CausalLanguageModel):
    """Dreamer for transformers: `AutoModelForCausalLM` loads this class."""

    config_class = DreamerConfig

    def build(self, config):
        """Make the network."""
        return Dreamer(config)

    def read(self, tokens_BS):
        """Compute the logits [B, S, V] of rows."""
        return self.network(tokens_BS)
