"""Count the bytes and FLOPs of a training step by what computes them, without a GPU: where time can
be won.

    python -m benchmarks.gpu.bytes [PRESET ...]

A step of two micro-batches runs at full size on the pretended device of `memory.py`. For each
operation of `model/ops` two numbers are counted, forward and backward:

* the least bytes: each operand read once, each result written once, as if one kernel computed all
  between them. Backward: operands and the result's gradient are read, and the operands' gradients
  are written;
* the bytes as written: of every operation of torch that is dispatched, without torch.compile.

The least time is the larger of least bytes over the memory's bandwidth and FLOPs over the peak,
both of the maker's data sheet. What a kernel keeps for the backward pass is not in the least bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from benchmarks.gpu.memory import NAME, aten, device, pretended_gpu, read_preset
from benchmarks.random_stream import write_run
from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.ops import torch_kernels
from dreamer_study.model.training import trainer as training
from dreamer_study.model.training.random_stream import write_random_stream

GPUS = {"H100": (3.35e12, 989e12), "H200": (4.8e12, 989e12)}  # bytes and bfloat16 FLOP a second
STEP_TOKENS = 131_072  # of the steps that were measured
EXPERTS = "experts"
OPERATIONS = {
    "rms_norm": "norms",
    "split_heads": "rotary codes and norms of heads",
    "route": "routing",
    "mixed_product": "mixed projections",
    "swiglu_experts": EXPERTS,
    "attend_sequence": "attention",
    "attend_depth": "depth attention",
    "cross_entropy_sum": "loss and head",
}
PRODUCTS = "plain projections"
OPTIMIZER = "optimizer"
OTHER = "residuals, casts, sums of gradients"
GATHERS = (aten.index_select.default, aten.gather.default, aten.embedding.default)


@dataclass
class Traffic:
    """Least bytes, bytes as written and FLOPs of a group of kernels, in a step."""

    least: float = 0.0
    written: float = 0.0
    flops: float = 0.0

    def seconds(self, gpu: str) -> float:
        """Return the least time on a GPU."""
        bandwidth, peak = GPUS[gpu]
        return max(self.least / bandwidth, self.flops / peak)


def count_traffic(config: DreamerConfig, settings: dict[str, Any]) -> dict[str, Traffic]:
    """Count an optimiser step of `STEP_TOKENS` tokens by groups, whole rows as documents.

    Two micro-batches are run, and counted as often as a step has them; the optimiser comes once.
    """
    micro, length = settings["micro_batch_tokens"], config.sequence_length
    with tempfile.TemporaryDirectory() as place, pretended_gpu():
        data = write_random_stream(
            Path(place) / "data",
            sequence_length=length,
            vocabulary_size=config.vocabulary_size,
            rows=2 * micro // length,
            document_lengths=(length, length),
        )
        recipe = {**settings, "batch_tokens": 2 * micro, "precision": "bfloat16", "compile": False}
        with patch.object(training, "choose_device", lambda *_: device()):
            trainer = training.Trainer(write_run(Path(place) / "run", data, config, **recipe))
        with Counting() as counting, counting.operations():
            trainer.train_step()
    times = STEP_TOKENS / (2 * micro)
    for group, traffic in counting.groups.items():
        if group != OPTIMIZER:
            traffic.least *= times
            traffic.written *= times
            traffic.flops *= times
    return counting.groups


class Counting(TorchDispatchMode):
    """Counts what each operation of torch moves and computes, for the group that has called it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, Traffic] = {}
        self._group: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        here = any(tensor.device.type == NAME for tensor in (*given, *made))
        if not here or func.is_view or func.namespace == "prim":
            return result
        moved = _bytes(given) + _bytes(made or _written(func, args))
        if func in GATHERS:  # reads the rows that it writes
            moved = 2 * _bytes(made)
        flops = _flops(func, args, kwargs, result)
        group = self._group[-1] if self._group else _group_of(func, flops)
        traffic = self.groups.setdefault(group, Traffic())
        traffic.written += moved
        traffic.flops += flops
        if not self._group:
            traffic.least += moved if group in (PRODUCTS, OPTIMIZER, EXPERTS) else 0
        return result

    @contextlib.contextmanager
    def operations(self) -> Iterator[None]:
        """Know, while the block lasts, which operation of model/ops is computed."""
        with contextlib.ExitStack() as stack:
            for name, group in OPERATIONS.items():
                own = partial(self._called, getattr(torch_kernels, name), group)
                stack.enter_context(patch.object(torch_kernels, name, own))
            yield

    def _called(self, function: Callable[..., Any], group: str, *args: Any, **kwargs: Any) -> Any:
        """Call an operation; its backward pass is counted from the gradient that comes to it."""
        traffic = self.groups.setdefault(group, Traffic())
        given = _unique((args, kwargs))
        self._group.append(group)
        try:
            result = function(*args, **kwargs)
        finally:
            self._group.pop()
        made = _unique(result)
        wanted = [tensor for tensor in given if tensor.requires_grad]
        traffic.least += _bytes(given) + _bytes(made)
        if any(tensor.requires_grad for tensor in made):
            gradients = [tensor for tensor in made if tensor.requires_grad]
            traffic.least += _bytes(given) + _bytes(gradients) + _bytes(wanted)
            self._follow(group, made, wanted)
        return result

    def _follow(self, group: str, made: list[Tensor], wanted: list[Tensor]) -> None:
        """Name the group for the backward nodes between results and operands."""
        stop = {tensor.grad_fn for tensor in wanted if tensor.grad_fn is not None}
        waiting = [tensor.grad_fn for tensor in made if tensor.grad_fn is not None]
        known = set(stop)
        while waiting:
            node = waiting.pop()
            if node in known or type(node).__name__ == "AccumulateGrad":
                continue
            known.add(node)
            node.register_prehook(lambda gradients: self._group.append(group))
            node.register_hook(lambda inputs, outputs: self._group.pop() and None)
            waiting += [following for following, _ in node.next_functions if following]


def _unique(values: Any) -> list[Tensor]:
    """List the tensors on the device among values, each once; a list behind `Routing` included."""
    found: dict[int, Tensor] = {}
    for leaf in tree_leaves(values):
        if isinstance(leaf, Tensor) and leaf.device.type == NAME:
            found[id(leaf)] = leaf
    return list(found.values())


def _bytes(tensors: list[Tensor]) -> int:
    return sum(
        tensor.numel() * tensor.element_size()
        for tensor in tensors
        if tensor.device.type == NAME and 0 not in tensor.stride()  # nothing lies behind those
    )


def _written(func: Any, args: tuple) -> list[Tensor]:
    """List the tensors that an operation without a result writes, as the optimiser's does."""
    pairs = zip(func._schema.arguments, args, strict=False)
    changed = [value for argument, value in pairs if argument.alias_info is not None]
    return [leaf for leaf in tree_leaves(changed) if isinstance(leaf, Tensor)]


def _flops(func: Any, args: tuple, kwargs: dict, result: Any) -> float:
    """Return the FLOPs of products; attention is causal, so half of its pairs are computed."""
    if func.overloadpacket is aten._grouped_mm:
        left, right = args[:2]
        return 2.0 * left.numel() * right.shape[-1]
    count = flop_registry.get(func.overloadpacket)
    if count is None:
        return 0.0
    attends = "att" in func.overloadpacket.__name__  # attention or attn
    causal = 0.5 if attends else 1.0
    return causal * count(*args, **kwargs, out_val=result)


def _group_of(func: Any, flops: float) -> str:
    """Name the group of an operation that no function of model/ops has called."""
    if func.overloadpacket is aten._grouped_mm:
        return EXPERTS  # gradients of weights that several depths use are made behind them all
    if flops:
        return PRODUCTS
    if "adamw" in func.overloadpacket.__name__ or "foreach" in func.overloadpacket.__name__:
        return OPTIMIZER
    return OTHER


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", default=["paper-16"], metavar="PRESET")
    print("| preset | model | kernels | TFLOP | least GB | GB as written | least ms H100, H200 |")
    print("|---|---|---|---|---|---|---|")
    for preset in parser.parse_args().presets:
        configs, settings = read_preset(preset)
        for name, config in configs.items():
            groups = count_traffic(config, settings)
            whole = Counter[str]()
            ordered = sorted(groups.items(), key=lambda item: -item[1].seconds("H200"))
            for group, traffic in ordered:
                times = [1e3 * traffic.seconds(gpu) for gpu in GPUS]
                whole.update(dict(zip(GPUS, times, strict=True)))
                print(
                    f"| {preset} | {name} | {group} | {traffic.flops / 1e12:.1f} |"
                    f" {traffic.least / 1e9:.0f} | {traffic.written / 1e9:.0f} |"
                    f" {times[0]:.0f}, {times[1]:.0f} |",
                    flush=True,
                )
            print(f"| {preset} | {name} | all | | | | {whole['H100']:.0f}, {whole['H200']:.0f} |")


if __name__ == "__main__":
    main()
