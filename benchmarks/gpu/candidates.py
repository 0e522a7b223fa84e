"""Measure what could make a training step faster, each beside the step as it is, in one process.

A candidate is a change for the length of a measurement: another setting, or another function in
place of one of the product's, which knows nothing of it. The step as it is comes first and last:
what lies between these two is noise. Losses of a candidate must be those of the step as it is.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import attention
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu import steps
from benchmarks.gpu.device_timing import Say, Sizes, forget_peak, peak_gigabytes
from dreamer_study.model.accounting import training_flops_per_token
from dreamer_study.model.ops import torch_kernels
from dreamer_study.model.ops.device import device_name, peak_flops
from dreamer_study.model.ops.torch_kernels import loss as losses
from dreamer_study.model.ops.torch_kernels import products
from dreamer_study.model.ops.types import Dispatch, Factors, Routing, Visible
from dreamer_study.model.training.trainer import Trainer

AS_IS = "as it is"
TOLERANCE = 2e-3
"""How far the losses of two right kernels may be apart, as a share: bfloat16 has 8 bits."""
WORTH = 0.03
"""The gain from which on a candidate is kept."""
SECONDS = {"LA": 100, "DR": 45, "DR+DA": 90}
"""After these seconds no further candidate of a variant begins: all variants have their turn."""


class Unavailable(Exception):
    """This machine or this torch does not have what a candidate needs; says what."""


@dataclass(frozen=True)
class Candidate:
    """A change of the step: of the tokens at a time, of torch.compile, or of a function.

    `times` multiplies the tokens of a forward and backward pass; `options` are those of
    torch.compile; `change` holds while the step is built and runs.
    """

    name: str
    times: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Sizes], AbstractContextManager[Any]] = lambda sizes: nullcontext()


def candidates(sizes: Sizes, say: Say, variant: str) -> None:
    """Measure steps as they are and with each candidate; the gain is in tokens per second."""
    deadline = time.monotonic() + SECONDS[variant]
    first = _measured(sizes, variant, Candidate(AS_IS))
    say(**_row(variant, AS_IS, first, first))
    rows = []
    for candidate in CANDIDATES:
        if time.monotonic() > deadline:
            say(skipped=candidate.name, variant=variant, reason="no time is left for it")
            continue
        try:
            found = _measured(sizes, variant, candidate)
        except Unavailable as missing:
            say(skipped=candidate.name, variant=variant, reason=str(missing))
            continue
        except Exception as error:  # the next one may work: a failed compiler, a lack of memory
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            say(failed=candidate.name, variant=variant, reason=reason)
            continue
        rows.append(_row(variant, candidate.name, found, first))
        say(**rows[-1])
    last = _row(variant, f"{AS_IS}, again", _measured(sizes, variant, Candidate(AS_IS)), first)
    say(**last)
    for place, row in enumerate(sorted(rows, key=lambda row: -row["gain"]), start=1):
        kept = row["gain"] >= max(WORTH, abs(last["gain"])) and row["losses_equal"]
        say(
            place=place,
            candidate=row["candidate"],
            gain=row["gain"],
            noise=abs(last["gain"]),
            losses_equal=row["losses_equal"],
            verdict="worth keeping" if kept else "not worth keeping",
        )


@dataclass(frozen=True)
class _Found:
    """What some steps took, and their losses."""

    seconds: float
    tokens: int
    first_seconds: float
    losses: list[float]
    flops: float  # of a token
    peak_flops: float | None
    peak_gigabytes: float | None
    micro_batch: int


def _measured(sizes: Sizes, variant: str, candidate: Candidate) -> _Found:
    """Take the steps of a new model with a candidate's change, after a first that compiles."""
    micro = sizes.micro_batches[0] * candidate.times
    forget_peak(sizes)
    with tempfile.TemporaryDirectory() as place, candidate.change(sizes):
        with _compiling(candidate.options):
            trainer = steps.make_trainer(
                Path(place),
                sizes,
                variant,
                None,
                micro_batch_tokens=micro,
                compile=not sizes.tiny,
                checkpointing=False,
            )
        times: list[float] = []
        found: list[float] = []
        for _ in range(1 + steps.TIMED_STEPS):
            started = time.perf_counter()
            before = trainer.tokens
            loss, *_ = trainer.train_step()
            if not sizes.tiny:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
            found.append(loss)
            if trainer.halved:
                raise torch.OutOfMemoryError(f"{micro:,} tokens at a time need more memory")
        stream = trainer.stream
        return _Found(
            statistics.median(times[1:]),
            trainer.tokens - before,
            times[0],
            found,
            training_flops_per_token(
                trainer.run.model, stream.document_length, stream.target_share
            ),
            peak_flops(device_name(sizes.device), trainer.precision),
            peak_gigabytes(sizes),
            micro,
        )


def _row(variant: str, name: str, found: _Found, first: _Found) -> dict[str, Any]:
    """Return a row of the table: speeds, the gain over the step as it is, and losses apart."""
    pace = found.tokens / found.seconds
    apart = max(abs(own / other - 1) for own, other in zip(found.losses, first.losses, strict=True))
    return {
        "variant": variant,
        "candidate": name,
        "micro_batch": found.micro_batch,
        "tokens_per_second": pace,
        "tflops": pace * found.flops / 1e12,
        "mfu": pace * found.flops / found.peak_flops if found.peak_flops else None,
        "gain": pace / (first.tokens / first.seconds) - 1,
        "first_step_seconds": found.first_seconds,
        "peak_gigabytes": found.peak_gigabytes,
        "losses_apart": apart,
        "losses_equal": apart <= TOLERANCE,
        "loss": found.losses[-1],
    }


def _compiling(options: dict[str, Any]) -> AbstractContextManager[Any]:
    """Compile with these options too while a trainer is built."""
    if not options:
        return nullcontext()
    compile_plainly = Trainer.compile

    def compile_so(trainer: Trainer, **others: Any) -> None:
        compile_plainly(trainer, **{**others, **options})

    return patch.object(Trainer, "compile", compile_so)


# Attention along the sequence: the product asks torch for its flash kernel of packed documents.
# Others of torch's take whole rows only, as all rows are here: they say what a newer kernel gains.


def _by_backend(backend: SDPBackend, repeated: bool, sizes: Sizes) -> AbstractContextManager[Any]:
    """Attend by a backend of torch's; with `repeated` each query head gets a key head of its own.

    On a CPU torch has none of them, and its plain one runs.
    """
    choice = [SDPBackend.MATH, FLASH] if sizes.tiny else [backend]
    return patch.object(torch_kernels, "attend_sequence", partial(_attend_by, choice, repeated))


def _attend_by(
    backends: list[SDPBackend],
    repeated: bool,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Visible,
) -> Tensor:
    query = query.unflatten(0, (len(key), -1)).transpose(1, 2)  # [B, N, S, K]
    key = key.transpose(1, 2)  # [B, M, C, K]
    value = value.transpose(1, 2)
    groups = query.shape[1] // key.shape[1]
    if repeated:
        key = key.repeat_interleave(groups, dim=1)
        value = value.repeat_interleave(groups, dim=1)
    with sdpa_kernel(backends):
        attended = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=groups > 1 and not repeated
        )
    return attended.transpose(1, 2).flatten(0, 1)


@contextmanager
def _flash(version: str, package: str, sizes: Sizes) -> Iterator[None]:
    """Let torch's flash attention call a newer one, of a package that this machine may have."""
    if not hasattr(attention, "activate_flash_attention_impl"):
        raise Unavailable("this torch takes no other flash attention")
    if find_spec(package.split(".")[0]) is None:
        raise Unavailable(f"the package {package} is not installed")
    attention.activate_flash_attention_impl(version)
    try:
        yield
    finally:
        attention.restore_flash_attention_impl()


@contextmanager
def _from_hub(sizes: Sizes) -> Iterator[None]:
    """Attend by flash attention 3 of the package `kernels`, whose files must lie in its cache."""
    if find_spec("kernels") is None:
        raise Unavailable("the package kernels is not installed")
    from kernels import get_kernel

    flash = get_kernel("kernels-community/flash-attn3")

    def attend(query: Tensor, key: Tensor, value: Tensor, visible: Visible) -> Tensor:
        rows = query.unflatten(0, (len(key), -1))  # [B, S, N, K]
        attended = flash.flash_attn_func(rows, key, value, causal=True)
        return (attended[0] if isinstance(attended, tuple) else attended).flatten(0, 1)

    with patch.object(torch_kernels, "attend_sequence", attend):
        yield


# Experts


class _RecomputedExperts(torch.autograd.Function):
    """The product's experts, but the first projections are made again in the backward pass.

    They are the largest tensors that a layer keeps: [T A, 2 F].
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        weights: Tensor,
        inward: Tensor,
        outward: Tensor,
        pairs: Dispatch,
        *taps: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x, weights, inward, outward, *pairs)
        ctx.tapped = len(taps) > 0
        projected = products._grouped(x.index_select(0, pairs.tokens), inward, pairs)
        gate, up = projected.chunk(2, dim=-1)
        sorted_weights = weights.flatten().index_select(0, pairs.order).unsqueeze(-1)
        hidden = F.silu(gate).mul_(up).mul_(sorted_weights)
        return products._sum_rows(products._grouped(hidden, outward, pairs), pairs.places)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weights, inward, outward, *pairs = ctx.saved_tensors
        pairs = Dispatch(*pairs)
        projected = products._grouped(x.index_select(0, pairs.tokens), inward, pairs)
        kept = SimpleNamespace(
            saved_tensors=(x, weights, inward, outward, projected, *pairs), tapped=ctx.tapped
        )
        return products._SwiGLUExperts.backward.__wrapped__(kept, gradient)


def _recomputed_experts(sizes: Sizes) -> AbstractContextManager[Any]:
    """Keep no projections of experts."""

    def experts(
        x: Tensor, routing: Routing, inward: Tensor, outward: Tensor, taps: Factors | None
    ) -> Tensor:
        if taps is not None:
            inward = inward.detach()
            outward = outward.detach()
        return _RecomputedExperts.apply(
            x, routing.scores.to(x.dtype), inward, outward, routing.dispatch, *(taps or ())
        )

    return patch.object(torch_kernels, "swiglu_experts", experts)


# The loss


def _loss_in_chunks(times: float, sizes: Sizes) -> AbstractContextManager[Any]:
    """Hold `times` as many logits at once as the product does."""
    return patch.multiple(
        losses,
        GPU_CHUNK_BYTES=int(losses.GPU_CHUNK_BYTES * times),
        CHUNK_ELEMENTS=int(losses.CHUNK_ELEMENTS * times),
    )


def _inductor(sizes: Sizes, **settings: Any) -> AbstractContextManager[Any]:
    """Change settings of torch's compiler. Raises Unavailable for one that this torch lacks."""
    from torch._inductor import config

    known = {name: value for name, value in settings.items() if hasattr(config, name)}
    if known != settings:
        raise Unavailable(f"this torch has no setting {', '.join(settings.keys() - known.keys())}")
    return config.patch(known)


CUDNN = SDPBackend.CUDNN_ATTENTION
FLASH = SDPBackend.FLASH_ATTENTION
CANDIDATES = (  # what is expected to gain most first, as the time may end
    Candidate("whole rows by cuDNN", change=partial(_by_backend, CUDNN, False)),
    Candidate("whole rows by cuDNN, keys repeated", change=partial(_by_backend, CUDNN, True)),
    Candidate("two micro-batches at a time", times=2),
    Candidate("experts recomputed, four at a time", times=4, change=_recomputed_experts),
    Candidate(
        "attention by flash attention 3", change=partial(_flash, "FA3", "flash_attn_interface")
    ),
    Candidate("attention by flash attention 4", change=partial(_flash, "FA4", "flash_attn.cute")),
    Candidate("flash attention 3 of `kernels`", change=_from_hub),
    Candidate("whole rows by torch's flash", change=partial(_by_backend, FLASH, False)),
    Candidate("loss in chunks of a quarter", change=partial(_loss_in_chunks, 0.25)),
    Candidate("loss in chunks of twice the size", change=partial(_loss_in_chunks, 2)),
    Candidate(
        "tuned by coordinate descent",
        change=partial(_inductor, coordinate_descent_tuning=True),
    ),
    Candidate("CUDA graphs", options={"mode": "reduce-overhead"}),
    Candidate("max-autotune", options={"mode": "max-autotune-no-cudagraphs"}),
)
