"""What the GPU benchmarks share: sizes, the clock, memory, and `torch.compile`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dreamer_study.model.config import DreamerConfig, dr, dr_da, la

Say = Callable[..., None]  # takes one result as keywords; it is on disk when this returns
DTYPE = torch.bfloat16
TINY = {
    **{
        "vocabulary_size": 512,
        "hidden_size": 64,
        "query_heads": 4,
        "key_value_heads": 2,
        "head_size": 16,
    },
    **{
        "depth_head_size": 16,
        "experts": 8,
        "active_experts": 2,
        "expert_size": 32,
        "routing_size": 16,
    },
    "sequence_length": 64,
}


@dataclass(frozen=True)
class Sizes:
    """How large everything is: the paper's models of depth 16, or tiny ones for a CPU."""

    tiny: bool

    @property
    def device(self) -> torch.device:
        return torch.device("cpu" if self.tiny else "cuda")

    def configs(self) -> dict[str, DreamerConfig]:
        """Configure LA and the variants matched to LA."""
        depth, chosen = (2, TINY) if self.tiny else (16, {})
        return {
            "LA": la(depth, **chosen),
            "DR": dr(depth, **chosen),
            "DR+DA": dr_da(depth, **chosen),
        }

    @property
    def micro_batches(self) -> tuple[int, ...]:
        """Return tokens of a forward pass, ascending; a training step takes as many as the
        largest."""
        return (64, 128, 256) if self.tiny else (16_384, 32_768, 65_536, 131_072)

    @property
    def tokens(self) -> int:
        """Return the tokens of a kernel's measurement that does not vary their number."""
        return 128 if self.tiny else 32_768


def milliseconds(call: Callable[[], Any], sizes: Sizes, repeats: int = 10) -> float:
    """Measure the median time of a call after two warm-up calls: by events of the device, or by CPU
    time."""
    for _ in range(1 if sizes.tiny else 2):
        call()
    times = []
    for _ in range(2 if sizes.tiny else repeats):
        if sizes.tiny:
            started = time.process_time()
            call()
            times.append(1e3 * (time.process_time() - started))
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def both_passes(
    call: Callable[..., Tensor], leaves: list[Tensor], sizes: Sizes
) -> dict[str, float | None]:
    """Measure milliseconds of the forward pass and of both, and the gigabytes held at most.

    Times are None where the memory does not suffice. The output's gradient is random and made in
    advance.
    """
    forget_peak(sizes)

    def forward() -> Tensor:
        with torch.no_grad():
            return call(*leaves)

    def step() -> None:
        torch.autograd.grad(call(*leaves), leaves, gradient)

    found: dict[str, float | None] = {"forward_ms": None, "both_ms": None}
    try:
        gradient = torch.randn_like(call(*leaves))
        found = {"forward_ms": milliseconds(forward, sizes), "both_ms": milliseconds(step, sizes)}
    except torch.OutOfMemoryError:
        pass  # the times stay None
    return {**found, "peak_gigabytes": peak_gigabytes(sizes)}


def random_tensor(
    *shape: int, sizes: Sizes, dtype: torch.dtype = DTYPE, scale: float = 1.0
) -> Tensor:
    """Draw normal numbers on the device, which want a gradient."""
    return (torch.randn(*shape, device=sizes.device) * scale).to(dtype).requires_grad_()


def peak_gigabytes(sizes: Sizes) -> float | None:
    """Return the most memory that the device has held since `forget_peak`."""
    return None if sizes.tiny else torch.cuda.max_memory_allocated() / 1e9


def forget_peak(sizes: Sizes) -> None:
    """Give back what is cached, and measure the most memory held from here on."""
    if not sizes.tiny:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def compiled(call: Callable, sizes: Sizes) -> Callable:
    """Compile a function that may be called with many shapes; at toy sizes nothing is compiled."""
    torch._dynamo.reset()
    return call if sizes.tiny else torch.compile(call, dynamic=False)
