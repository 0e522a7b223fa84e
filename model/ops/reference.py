"""The network said plainly: dense, masked, one expert after the other, in any dtype. For reading and for tests, not
for speed.

`Dreamer(config, reference=True)` computes its blocks here, from the same parameters. Nothing is prepared, sorted or
merged, and every gradient is torch's own.

Axes: B batch, S sequence, T = B*S tokens, L depth, H hidden, N query heads, M key/value heads, K head size, E
experts, A active.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.ops.context import Context, History, Result


def reference_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """RMSNorm over the last axis."""
    return x / (x.square().mean(dim=-1, keepdim=True) + epsilon).sqrt() * gain


def angles_of(code: Tensor) -> Tensor:
    """Angles [...] of cosines and sines [..., 2]."""
    return torch.atan2(code[..., 1], code[..., 0])


def rope(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the pairs (x[..., 2i], x[..., 2i + 1]) by angles [..., i]."""
    first, second = x[..., ::2], x[..., 1::2]
    turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
    return torch.stack(turned, dim=-1).flatten(-2)


def attention(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 1: query [..., m, K], key and value [..., n, K], booleans visible [..., m, n]; also the scores."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    return scores @ value, scores


def route(router: nn.Module, x: Tensor, angles: Tensor | None) -> tuple[Tensor, Tensor]:
    """Eq. 2: the score [T, E] of every expert, zero where it is not chosen, and the ids [T, A] of those chosen."""
    query = x @ router.query
    query = query if angles is None else rope(query, angles)
    query = reference_norm(query, router.query_gain, router.epsilon)
    key = reference_norm(router.keys, torch.ones_like(router.query_gain), router.epsilon)
    logits = query @ key.T / key.shape[1] ** 0.5
    ids = (logits + router.bias).topk(router.active, dim=-1).indices
    scores = torch.sigmoid(logits) * torch.zeros_like(logits).scatter(-1, ids, 1.0)
    if router.normalised:
        scores = scores / scores.sum(dim=-1, keepdim=True)
    return scores, ids


def mixture(x: Tensor, scores: Tensor, weights: Tensor, shared: Tensor | None) -> Tensor:
    """Eq. 7: x [T, I] through linear experts [E, I, O], plus the shared one, scaled by the same score detached."""
    output = sum(scores[:, e, None] * (x @ weight) for e, weight in enumerate(weights))
    if shared is not None:
        output = output + scores.detach().amax(dim=-1, keepdim=True) * (x @ shared)
    return output


def expert_attention(
    experts: nn.Module, x: Tensor, context: Context, depth: int, routing_angles: Tensor | None, history: History
) -> tuple:
    """EA: every expert computes, the scores choose. The update [T, H], and the rest of a Result."""
    x = reference_norm(x, experts.gain, experts.epsilon)
    scores, ids = route(experts.router, x, routing_angles)
    update = torch.zeros_like(x)
    for e, (inward, outward) in enumerate(zip(experts.inward, experts.outward, strict=True)):
        gate, up = (x @ inward).chunk(2, dim=-1)
        update = update + scores[:, e, None] * ((gate * torch.sigmoid(gate) * up) @ outward)
    return update, ids


def projected_attention(
    module: nn.Module, x: Tensor, angles: Tensor, routing_angles: Tensor | None, attend
) -> tuple[Tensor, Tensor | None, tuple]:
    """What SA and DA share: x [T, H] to queries, keys and values, `attend`, and back to an update."""
    N, M, projections = module.heads, module.key_value_heads, module.projections
    x = reference_norm(x, module.gain, module.epsilon)
    if projections.router is None:
        ids, project_in, project_out = None, lambda x: x @ projections.inward, lambda x: x @ projections.outward
    else:
        scores, ids = route(projections.router, x, routing_angles)

        def project_in(x: Tensor) -> Tensor:
            return mixture(x, scores, projections.inward, projections.shared_inward)

        def project_out(x: Tensor) -> Tensor:
            return mixture(x, scores, projections.outward, projections.shared_outward)

    query, key, value = project_in(x).unflatten(-1, (N + 2 * M, -1)).split((N, M, M), dim=1)
    query = reference_norm(rope(query, angles), module.query_gain, module.epsilon)
    key = reference_norm(rope(key, angles), module.key_gain, module.epsilon)
    attended, *rest = attend(query, key, value)
    return project_out(attended.flatten(1)), ids, rest


def sequence_attention(
    module: nn.Module, x: Tensor, context: Context, depth: int, routing_angles: Tensor | None, history: History
) -> tuple:
    """SA: what came before in the sequence, in the same document. Returns as EA."""
    B, S = context.batch, context.length
    visible = torch.ones(S, S, dtype=torch.bool, device=x.device).tril()
    visible = visible if context.mask is None else context.mask == 0

    def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor]:
        query, key, value = (part.unflatten(0, (B, S)).transpose(1, 2) for part in (query, key, value))
        share = module.heads // module.key_value_heads
        key, value = key.repeat_interleave(share, dim=1), value.repeat_interleave(share, dim=1)
        return (attention(query, key, value, visible)[0].transpose(1, 2).flatten(0, 1),)

    update, ids, _ = projected_attention(module, x, angles_of(context.code), routing_angles, attend)
    return update, ids


def depth_attention(
    module: nn.Module, x: Tensor, context: Context, depth: int, routing_angles: Tensor | None, history: History
) -> tuple:
    """DA: one causal attention along the depth, the tokens as its batch (Algorithm 1). Returns as EA."""
    share = module.heads // module.key_value_heads

    def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, History]:
        entries = [*history, (key, value)]
        keys, values = (torch.stack(part, dim=2).repeat_interleave(share, dim=1) for part in zip(*entries, strict=True))
        age = torch.arange(depth, -1, -1, device=x.device)
        visible = age < (module.window or depth + 1)
        attended, scores = attention(query.unsqueeze(2), keys, values, visible)
        return attended.squeeze(2), scores.squeeze(2).detach(), entries

    angles = angles_of(context.depth_code[depth])
    update, ids, (scores, entries) = projected_attention(module, x, angles, routing_angles, attend)
    return update, ids, entries, scores


REFERENCES = {"sequence": sequence_attention, "depth": depth_attention, "experts": expert_attention}


def reference_block(
    block: nn.Module, x: Tensor, context: Context, depth: int, histories: dict[str, History]
) -> tuple[Tensor, dict[str, Result]]:
    """Eq. 4, 5 or 6 for x [T, H] at depth index `depth`: y, and what each attention returned."""
    routing_angles = None if context.routing_code is None else angles_of(context.routing_code[depth])
    results: dict[str, Result] = {}
    for group in block.order:
        stream = x
        for name in group:
            history = histories.get(name, [])
            update, *rest = REFERENCES[name](block.attentions[name], x, context, depth, routing_angles, history)
            stream = stream + update
            results[name] = Result(stream, *rest)
        x = stream
    return x, results
