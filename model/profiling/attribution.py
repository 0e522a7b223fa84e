"""Assign every operation of a profiled training step to a component of the model.

Profiler ranges are set around the parts of the model by forward hooks, and around the other parts of a step. An
operation belongs to the innermost range around it; an operation of the backward pass to the range in which its autograd
node was made. So the time of a component covers both passes. Within a component, names of operations tell products from
routing, sorting and norms. On a CPU the time of an operation is its own CPU time, on CUDA the time of its kernels. The
remainder of the step is Python on a CPU, and an idle device on CUDA.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch.profiler import record_function

from model.dreamer import Block, DepthAttention, Dreamer, ExpertAttention, SequenceAttention
from model.training.trainer import Trainer

MARK = "dreamer: "  # what the names of our ranges begin with
STEP = MARK + "step"
NODE = "autograd::engine::evaluate_function"  # what the names of a node's events begin with
COMPONENTS = {SequenceAttention: "sequence", DepthAttention: "depth", ExpertAttention: "experts"}
COMPILED = "blocks"  # the component of a compiled block, whose attentions cannot be told apart
PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::matmul", "aten::_grouped_mm", "aten::linear")
# Within sequence, depth and expert attention: the first part one of whose words is in an operation's name, or in that
# of the autograd function it belongs to. Products are told apart before.
PARTS = (
    (
        "products",
        ("NativeAttention", "NativeMixed", "NativeExperts"),
    ),  # with everything that the native engine computes in between
    ("routing", ("Route", "topk", "argmax")),
    ("attention", ("ttention", "attn", "Attend")),
    ("sort and gather", ("sort", "searchsorted", "scatter", "gather", "index", "embedding_bag", "floor_divide")),
    ("norms and rotation", ("orm", "Heads", "complex")),
    ("activation", ("SwiGLU", "silu", "sigmoid")),
    ("compiled", ("ompiled",)),
)
# Of operations in no attention: the same, for whole components.
ELSEWHERE = (
    ("embedding", ("mbedding",)),
    ("norms", ("orm",)),
    ("head and loss", ("CrossEntropy", "IndexSelect", "index_select")),
)


@contextmanager
def ranges(trainer: Trainer) -> Iterator[None]:
    """Set profiler ranges around the parts of a step while the block lasts."""
    # What a block does outside its attentions: the sums of the residual stream.
    names = {**COMPONENTS, Block: "norms", Dreamer: "weights and codes"}
    named = {module: names[type(module)] for module in trainer.model.modules() if type(module) in names}
    for block in trainer.model.blocks:
        if "forward" in vars(block):  # compiled in parts
            named = {module: name for module, name in named.items() if module not in set(block.modules())}
            named[block] = COMPILED
    with ExitStack() as undo:
        for module, name in named.items():
            open_ranges: list[record_function] = []
            before = module.register_forward_pre_hook(partial(_open, name, open_ranges))
            after = module.register_forward_hook(partial(_close, open_ranges))
            undo.callback(before.remove)
            undo.callback(after.remove)
        places = (
            (trainer.stream, "batch", "data"),
            (trainer.optimizer, "gradient_norm", "optimiser"),
            (trainer.optimizer, "step", "optimiser"),
            (trainer.model, "update_balance", "balance"),
            (trainer.average, "update", "weight average"),
        )
        for owner, method, name in places:
            setattr(owner, method, _ranged(name, getattr(owner, method)))
            undo.callback(delattr, owner, method)
        yield


def _open(name: str, open_ranges: list[record_function], *_: Any) -> None:
    open_ranges.append(record_function(MARK + name))
    open_ranges[-1].__enter__()


def _close(open_ranges: list[record_function], *_: Any) -> None:
    open_ranges.pop().__exit__(None, None, None)


def _ranged(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def within(*arguments: Any, **options: Any) -> Any:
        with record_function(MARK + name):
            return call(*arguments, **options)

    return within


def _on_host(event: Any) -> bool:
    return event.device_type == torch.autograd.DeviceType.CPU


def attribute(events: Sequence[Any], cuda: bool) -> dict[tuple[str, str], float]:
    """Sum up the microseconds of a step by component and part; return medians over the profiled steps."""
    host = [event for event in events if _on_host(event)]
    steps = [event.time_range for event in host if event.name == STEP]
    # The node that a backward operation belongs to was made by the last operation with its number, in its thread.
    makers = {
        (event.thread, event.sequence_nr): event
        for event in sorted(host, key=lambda event: event.time_range.start)
        if event.sequence_nr >= 0 and not event.fwd_thread
    }
    found: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * len(steps))
    for event in host:
        inside = [number for number, step in enumerate(steps) if step.start <= event.time_range.start <= step.end]
        if cuda:
            spent = 0.0 if event.is_user_annotation else event.self_device_time_total  # ranges only repeat the kernels
        else:
            spent = event.self_cpu_time_total
        if inside and spent:
            found[_classify(_chain(event), makers)][inside[0]] += spent
    if cuda:
        busy = [sum(times) for times in zip(*found.values(), strict=True)]
        found["device idle", ""] = [max(0.0, step.elapsed_us() - time) for step, time in zip(steps, busy, strict=True)]
    return {place: statistics.median(times) for place, times in found.items()}


def _chain(event: Any) -> list[Any]:
    """List an event and the events around it, from the inside out."""
    chain = [event]
    while chain[-1].cpu_parent is not None:
        chain.append(chain[-1].cpu_parent)
    return chain


def _component(chain: list[Any], makers: Mapping[tuple[int, int], Any]) -> tuple[str, list[str]]:
    """Return the component of a chain, and the names of operations that tell its part."""
    names: list[str] = []
    for event in chain:
        if event.name.startswith(MARK):
            return event.name.removeprefix(MARK), names
        names.append(event.name)
        if event.name.startswith(NODE):
            maker = makers.get((event.fwd_thread, event.sequence_nr))
            if maker is not None and maker is not event:
                component, more = _component(_chain(maker), makers)
                return component, names + more
    return "step", names


def _classify(chain: list[Any], makers: Mapping[tuple[int, int], Any]) -> tuple[str, str]:
    """Return component and part of an event, given the event and the events around it."""
    component, names = _component(chain, makers)
    if _sums_gradients(chain):
        return "gradient sums", ""
    if component in (*COMPONENTS.values(), COMPILED):
        inner = ("Route", *dict(PARTS)["attention"])  # products of the router, and those that are the attention
        if names and names[0] in PRODUCTS and not _has(names, inner):
            return component, "products"
        return component, next((part for part, words in PARTS if _has(names, words)), "other")
    if component in ("step", "weights and codes"):
        found = next((other for other, words in ELSEWHERE if _has(names, words)), None)
        if found:
            return found, ""
    if component == "step":
        return ("Python" if chain[0].name == STEP else "head and loss"), ""
    return component, ""


def _has(names: list[str], words: tuple[str, ...]) -> bool:
    return any(word in name for name in names for word in words)


def _sums_gradients(chain: list[Any]) -> bool:
    """Tell whether an event adds up gradients: of a parameter, or of a tensor that was used more than once."""
    if any("AccumulateGrad" in event.name for event in chain):
        return True
    return chain[0].name in ("aten::add", "aten::add_") and len(chain) > 1 and chain[1].name.startswith(NODE)


def longest_kernels(events: Sequence[Any], steps: int, count: int = 12) -> list[tuple[str, float]]:
    """List the kernels with the most time on CUDA: name and seconds of a step."""
    times: dict[str, float] = defaultdict(float)
    for event in events:
        if not _on_host(event) and not event.is_user_annotation:
            times[event.name] += event.time_range.elapsed_us() / 1e6 / steps
    return sorted(times.items(), key=lambda item: -item[1])[:count]
