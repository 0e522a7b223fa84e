"""Measure what each part of a training step costs on the device: which path to take before writing
kernels.

All on random data at the shapes of the models; experts are chosen by the routers of a new model
from its own hidden states at half of its depth, because balanced choices, which are measured beside
them, flatter a mixture of experts.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.gpu.device_timing import (
    DTYPE,
    Say,
    Sizes,
    both_passes,
    compiled,
    forget_peak,
    milliseconds,
    random_tensor,
)
from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.dreamer import Dreamer
from dreamer_study.model.ops import (
    Documents,
    Factors,
    Routing,
    attend_depth,
    cross_entropy_sum,
    route,
    swiglu_experts,
)
from dreamer_study.model.ops.gpu import as_on_gpu
from dreamer_study.model.ops.torch_kernels.attention import attend_packed, takes_packed
from dreamer_study.model.ops.torch_kernels.products import grouped_outer
from dreamer_study.model.ops.torch_kernels.recurrent_experts import gradient_taps
from dreamer_study.model.ops.torch_kernels.routing import dispatch


def routed(config: DreamerConfig, tokens: int, sizes: Sizes) -> Tensor:
    """Route tokens as frequent as words: the experts [T, A] that a new model chooses at half of its
    depth."""
    with sizes.device:
        model = Dreamer(config, dtype=DTYPE).eval()
        ranks = torch.arange(config.vocabulary_size, dtype=torch.float64)
        words = (
            (1 / (ranks + 2.7))
            .multinomial(tokens, replacement=True)
            .view(-1, min(tokens, config.sequence_length))
        )
    found: list[Tensor] = []

    def observe(depth: int, name: str, result) -> None:
        if name == "experts" and depth == config.depth // 2:
            found.append(result.ids)

    with torch.no_grad():
        for rows in words.split(max(1, 16_384 // words.shape[1])):
            model(rows, return_hidden=True, observer=observe)
    return torch.cat(found)


def balanced(config: DreamerConfig, tokens: int, sizes: Sizes) -> Tensor:
    """Choose experts [T, A] in turn."""
    places = torch.arange(tokens * config.active_experts, device=sizes.device)
    return (places % config.experts).view(tokens, -1)


def grouped_products(sizes: Sizes, say: Say) -> None:
    """Measure the three grouped products of the experts' first projection, by model, tokens and
    routing."""
    for name in ("LA", "DR+DA"):  # DR is as DR+DA but for a few experts more
        config = sizes.configs()[name]
        E, H, width = config.experts, config.hidden_size, 2 * config.expert_size
        weights = random_tensor(E, H, width, sizes=sizes, scale=H**-0.5).detach()
        everything = routed(config, sizes.micro_batches[-1], sizes)
        for tokens in sizes.micro_batches:
            choices = {"routed": everything[:tokens], "balanced": balanced(config, tokens, sizes)}
            rows = random_tensor(tokens * config.active_experts, H, sizes=sizes).detach()
            gradient = random_tensor(len(rows), width, sizes=sizes).detach()
            for routing, ids in choices.items():
                ends = dispatch(ids, E).ends
                load = ids.flatten().bincount(minlength=E).float()
                flops = 2 * len(rows) * H * width
                for product, left, right in (
                    ("forward", rows, weights),
                    ("input gradient", gradient, weights.transpose(1, 2)),
                    ("weight gradient", rows.T, gradient),
                ):
                    time = milliseconds(partial(F.grouped_mm, left, right, offs=ends), sizes)
                    say(
                        model=name,
                        tokens=tokens,
                        routing=routing,
                        largest_load=(load.max() / load.mean()).item(),
                        product=product,
                        ms=time,
                        tflops=flops / time / 1e9,
                    )
            del rows, gradient, left, right
            forget_peak(sizes)


def experts_block(sizes: Sizes, say: Say) -> None:
    """Measure sorting, gathering and combining, then the whole experts' product with them, as
    written and compiled."""
    config = sizes.configs()["DR+DA"]
    T, E, H, width = sizes.tokens, config.experts, config.hidden_size, config.expert_size
    ids = routed(config, T, sizes)
    to = dispatch(ids, E)
    rows = random_tensor(to.places.numel(), H, sizes=sizes).detach()
    x = random_tensor(T, H, sizes=sizes)

    def combine(rows: Tensor, places: Tensor) -> Tensor:
        return rows.index_select(0, places.flatten()).unflatten(0, places.shape).sum(dim=1)

    fused = compiled(combine, sizes)
    for name, call in {
        "sort": lambda: dispatch(ids, E),
        "gather": lambda: x.detach().index_select(0, to.tokens),
        "combine, embedding_bag": lambda: F.embedding_bag(to.places, rows, mode="sum"),
        "combine, index and sum": lambda: combine(rows, to.places),
        "combine, compiled": lambda: fused(rows, to.places),
    }.items():
        say(what=name, ms=milliseconds(call, sizes))

    def experts(x: Tensor, scores: Tensor, inward: Tensor, outward: Tensor) -> Tensor:
        return swiglu_experts(x, Routing(ids, scores, to), inward, outward)

    leaves = [
        x,
        random_tensor(T, config.active_experts, sizes=sizes),
        random_tensor(E, H, 2 * width, sizes=sizes, scale=H**-0.5),
        random_tensor(E, width, H, sizes=sizes, scale=width**-0.5),
    ]
    for name, call in {"experts": experts, "experts, compiled": compiled(experts, sizes)}.items():
        say(what=name, **both_passes(call, leaves, sizes))


def routing(sizes: Sizes, say: Say) -> None:
    """Measure the router of the experts: float32 with and without tensor cores, and its selection
    alone."""
    config = sizes.configs()["DR+DA"]
    H, E, R, A = config.hidden_size, config.experts, config.routing_size, config.active_experts
    x = random_tensor(sizes.tokens, H, sizes=sizes)
    query = random_tensor(H, R, sizes=sizes, dtype=torch.float32, scale=H**-0.5)
    keys = random_tensor(E, R, sizes=sizes, dtype=torch.float32, scale=R**-0.5)
    bias = torch.zeros(E, device=sizes.device)

    def weights(x: Tensor, query: Tensor, keys: Tensor) -> Tensor:
        return route(x, (query, keys), bias, A, True, config.norm_epsilon).scores

    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        for form, way in {"as written": weights, "compiled": compiled(weights, sizes)}.items():
            say(
                what=f"router, {precision} precision, {form}",
                **both_passes(way, [x, query, keys], sizes),
            )
    scores = torch.randn(sizes.tokens, E, device=sizes.device)
    say(
        what=f"top {A} of {E}", ms=milliseconds(lambda: scores.topk(A, dim=-1, sorted=False), sizes)
    )
    say(what=f"top 1 of {E}", ms=milliseconds(lambda: scores.argmax(dim=-1), sizes))


def loss_head(sizes: Sizes, say: Say) -> None:
    """Measure the head and its loss: all logits at once, in chunks, and torch's own where it has
    one."""
    config = sizes.configs()["LA"]
    H, V = config.hidden_size, config.vocabulary_size
    hidden = random_tensor(sizes.tokens, H, sizes=sizes)
    head = random_tensor(V, H, sizes=sizes, scale=H**-0.5)
    targets = torch.randint(V, (sizes.tokens,), device=sizes.device)
    ways = {
        "plain": lambda hidden, head: F.cross_entropy(
            (hidden @ head.T).float(), targets, reduction="sum"
        )
    }
    powers = (16,) if sizes.tiny else (26, 28, 29, 30)
    for power in powers:
        by_chunks = partial(cross_entropy_sum, targets=targets, chunk_elements=2**power)
        ways[f"chunks of 2^{power}"] = by_chunks
        if not sizes.tiny:  # on a CPU nothing of a loss is compiled
            ways[f"chunks of 2^{power}, compiled"] = partial(by_chunks, compiled=True)
    if hasattr(F, "linear_cross_entropy"):
        ways["torch's own"] = lambda hidden, head: F.linear_cross_entropy(
            hidden, head, targets, reduction="sum"
        )
    for name, way in ways.items():
        say(what=name, **both_passes(way, [hidden, head], sizes))


def sequence_attention(sizes: Sizes, say: Say) -> None:
    """Measure attention along the sequence.

    Over whole rows, and over documents that are distinguished by a mask or lie as ragged sequences.
    """
    config = sizes.configs()["LA"]
    N = config.query_heads
    M = config.key_value_heads
    K = config.head_size
    S = config.sequence_length
    B = max(1, sizes.tokens // S)
    parts = [random_tensor(B * S, heads, K, sizes=sizes) for heads in (N, M, M)]
    labels = (torch.arange(S, device=sizes.device) // (S // 4)).expand(B, S)
    documents = Documents(labels, labels)

    def dense(*parts: Tensor, mask: Tensor | None = None, repeat: bool = False) -> Tensor:
        query, *others = (part.unflatten(0, (B, S)).transpose(1, 2) for part in parts)
        if repeat:
            others = [part.repeat_interleave(N // M, dim=1) for part in others]
        return F.scaled_dot_product_attention(
            query, *others, attn_mask=mask, is_causal=mask is None, enable_gqa=N != M and not repeat
        )

    mask = documents.mask(DTYPE)
    ways = {
        "causal rows": dense,
        "masked documents": partial(dense, mask=mask),
        "masked documents, repeated keys": partial(dense, mask=mask, repeat=True),
    }
    if takes_packed(DTYPE, sizes.device, K):
        ways["packed documents"] = lambda *parts: attend_packed(*parts, documents)
    for name, way in ways.items():
        say(what=name, **both_passes(way, parts, sizes))


def depth_attention(sizes: Sizes, say: Say) -> None:
    """Measure attention along the depth, at half-filled and full histories of 16 and 32 depths."""
    config = sizes.configs()["DR+DA"]
    N = config.depth_heads
    M = config.depth_key_value_heads
    K = config.depth_head_size
    histories = (2, 4) if sizes.tiny else (8, 16, 32)
    for depths in histories:
        query = random_tensor(sizes.tokens, N, K, sizes=sizes)
        entries = [random_tensor(sizes.tokens, M, K, sizes=sizes) for _ in range(2 * depths)]

        def listed(query: Tensor, *entries: Tensor) -> Tensor:
            half = len(entries) // 2
            return attend_depth(query, list(entries[:half]), list(entries[half:]))[0]

        def kernel(query: Tensor, *entries: Tensor) -> Tensor:
            half = len(entries) // 2
            keys, values = (torch.stack(part, dim=2) for part in (entries[:half], entries[half:]))
            return F.scaled_dot_product_attention(query.unsqueeze(2), keys, values)

        # read in both passes, written in one
        moved = (2 * depths * 3 + 4) * query.numel() * query.element_size()
        for name, way in {
            "as written": listed,
            "compiled": compiled(listed, sizes),
            "attention kernel": kernel,
        }.items():
            found = both_passes(way, [query, *entries], sizes)
            say(depths=depths, what=name, **found, moved_megabytes=moved / 1e6)


def weight_gradient(sizes: Sizes, say: Say) -> None:
    """Measure gradients of the experts' weights over several depths.

    Added up depth by depth, or made at once as in training.
    """
    config = sizes.configs()["DR+DA"]
    E = config.experts
    A = config.active_experts
    H = config.hidden_size
    F_ = config.expert_size
    T = sizes.micro_batches[0]
    depths = 4
    to = dispatch(routed(config, T, sizes), E)
    shapes = [(T, H), (T, H), (T * A, F_), (T * A, 2 * F_)]
    numbers = [to.tokens.double(), to.ends.double()]
    uses = [
        Factors(*(random_tensor(*shape, sizes=sizes).detach() for shape in shapes), *numbers)
        for _ in range(depths)
    ]
    inward, outward = (random_tensor(E, *shape, sizes=sizes) for shape in ((H, 2 * F_), (F_, H)))

    def each(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        sums = [
            torch.zeros(weights.shape, dtype=dtype, device=sizes.device)
            for weights in (inward, outward)
        ]
        for use in uses:
            sums[0] += grouped_outer(use.x[to.tokens], use.projected, to)
            sums[1] += grouped_outer(use.hidden, use.gradient[to.tokens], to)
        return sums[0], sums[1]

    def at_once() -> tuple[Tensor, ...]:
        with as_on_gpu("cpu") if sizes.tiny else nullcontext():
            taps = [tap for use in gradient_taps(inward, outward, depths, T, A) for tap in use]
        return torch.autograd.grad(
            taps, (inward, outward), [factor for use in uses for factor in use]
        )

    exact = each(torch.float32)
    ways = {
        "each depth, bfloat16 sum": lambda: each(DTYPE),
        "each depth, float32 sum": lambda: each(torch.float32),
        "all depths at once": at_once,
    }
    for name, way in ways.items():
        errors = [
            ((one.float() - sure).norm() / sure.norm()).item()
            for one, sure in zip(way(), exact, strict=True)
        ]
        say(
            what=f"{name} ({depths} depths, {T:,} tokens)",
            ms=milliseconds(way, sizes),
            relative_error=max(errors),
        )
