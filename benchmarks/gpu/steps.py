"""Measure the device itself, and whole training steps of the trainer on random tokens."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from benchmarks.gpu.device_timing import (
    DTYPE,
    Say,
    Sizes,
    forget_peak,
    milliseconds,
    peak_gigabytes,
)
from benchmarks.random_stream import write_run
from dreamer_study.model.accounting import training_flops_per_token
from dreamer_study.model.ops.device import device_name, peak_flops
from dreamer_study.model.train import write_trace
from dreamer_study.model.training.random_stream import write_random_stream
from dreamer_study.model.training.trainer import Trainer

TIMED_STEPS = 3
TRACED_STEPS = 2
LONGEST = 25  # kernels of a trace
NVIDIA = "driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,clocks_throttle_reasons.active"


def facts(sizes: Sizes, say: Say) -> None:
    """Report versions, the device's clocks, and two ceilings: bytes copied and bfloat16 products a
    second."""
    say(
        what="Python, torch, CUDA",
        value=f"{platform.python_version()}, {torch.__version__}, {torch.version.cuda}",
    )
    say(what="device", value=device_name(sizes.device))
    if not sizes.tiny:
        command = ["nvidia-smi", f"--query-gpu={NVIDIA}", "--format=csv,noheader", "--id=0"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=20)
        say(what=NVIDIA, value=told.stdout.strip() or told.stderr.strip())
    side = 64 if sizes.tiny else 8192
    left, right = (torch.randn(side, side, device=sizes.device, dtype=DTYPE) for _ in range(2))
    time_ms = milliseconds(lambda: left @ right, sizes)
    say(what=f"product of {side} x {side}", value=f"{2 * side**3 / time_ms / 1e9:,.1f} TFLOP/s")
    block = torch.randn(2**14 if sizes.tiny else 2**30, device=sizes.device)
    copy = torch.empty_like(block)
    time_ms = milliseconds(lambda: copy.copy_(block), sizes)
    say(what="copy, read and written", value=f"{2 * block.nbytes / time_ms / 1e6:,.0f} GB/s")


def steps(sizes: Sizes, say: Say, variant: str) -> None:
    """Measure training steps: compiled, on packed documents, recomputed, and as written; trace the
    compiled ones."""
    *smaller, largest = sizes.micro_batches
    for micro in reversed(smaller):  # the largest that memory allows
        if _measure(sizes, say, variant, micro, compile=True, trace=True):
            break
    _measure(
        sizes, say, variant, micro, compile=True, lengths=(8, 32) if sizes.tiny else (200, 1800)
    )
    _measure(sizes, say, variant, largest, compile=True, checkpointing=True)
    for micro in sizes.micro_batches:
        if not _measure(sizes, say, variant, micro):
            break


def _measure(
    sizes: Sizes,
    say: Say,
    variant: str,
    micro: int,
    *,
    compile: bool = False,
    checkpointing: bool = False,
    lengths: tuple[int, int] | None = None,
    trace: bool = False,
) -> bool:
    """Measure one setting and say its numbers; False where memory was short. Documents are whole
    rows by default."""
    settings = {
        "variant": variant,
        "micro_batch": micro,
        "compiled": compile,
        "recomputed": checkpointing,
    }
    settings["documents"] = "packed" if lengths else "whole rows"
    forget_peak(sizes)
    with tempfile.TemporaryDirectory() as place:
        recipe = {
            "micro_batch_tokens": micro,
            "compile": compile and not sizes.tiny,
            "checkpointing": checkpointing,
        }
        trainer = make_trainer(Path(place), sizes, variant, lengths, **recipe)
        times, started, tokens = [], time.perf_counter(), 0
        for _ in range(1 + TIMED_STEPS):  # the first compiles and allocates
            before = trainer.tokens
            try:
                loss, *_ = trainer.train_step()
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if "out of memory" not in str(error).lower():
                    raise
                trainer.halved = {"step": 1, "from": micro}
            if trainer.halved:
                say(**settings, peak_gigabytes=peak_gigabytes(sizes))
                return False
            if not sizes.tiny:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
            started, tokens = time.perf_counter(), trainer.tokens - before
        seconds, stream = statistics.median(times[1:]), trainer.stream
        flops = training_flops_per_token(
            trainer.run.model, stream.document_length, stream.target_share
        )
        peak = peak_flops(device_name(sizes.device), trainer.precision)
        say(
            **settings,
            tokens_per_second=tokens / seconds,
            step_ms=1e3 * seconds,
            spread_ms=1e3 * (max(times[1:]) - min(times[1:])),
            first_step_seconds=times[0],
            tflops=tokens / seconds * flops / 1e12,
            mfu=tokens / seconds * flops / peak if peak else None,
            peak_gigabytes=peak_gigabytes(sizes),
            loss=loss,
        )
        if trace:
            _say_kernels(trainer, say)
    return True


def make_trainer(
    root: Path, sizes: Sizes, variant: str, lengths: tuple[int, int] | None, **recipe: object
) -> Trainer:
    """Build a trainer over random tokens; `recipe` are settings of its training."""
    config, batch_tokens = sizes.configs()[variant], sizes.micro_batches[-1]
    data = write_random_stream(
        root / "data",
        sequence_length=config.sequence_length,
        vocabulary_size=config.vocabulary_size,
        rows=4 * batch_tokens // config.sequence_length,
        document_lengths=lengths or (config.sequence_length, config.sequence_length),
    )
    recipe |= {"batch_tokens": batch_tokens, "precision": "bfloat16", "device": sizes.device.type}
    run = write_run(root / "run", data, config, **recipe)
    torch._dynamo.reset()
    # the trainer before allowed no compiling after its first step
    torch.compiler.set_stance("default")
    return Trainer(run)


def _say_kernels(trainer: Trainer, say: Say) -> None:
    """Trace steps, and say what takes longest: kernels of the device, or torch's operations on a
    CPU."""
    events = json.loads(write_trace(trainer, TRACED_STEPS).read_text())["traceEvents"]
    kind = "kernel" if trainer.device.type == "cuda" else "cpu_op"
    spent, calls = Counter[str](), Counter[str]()
    for event in events:
        if event.get("cat") == kind:
            spent[event["name"]] += event["dur"]
            calls[event["name"]] += 1
    for name, microseconds in spent.most_common(LONGEST):
        share, each = microseconds / spent.total(), microseconds / TRACED_STEPS / 1e3
        say(
            kernel=name[:100],
            ms_of_a_step=each,
            share=share,
            calls_of_a_step=calls[name] / TRACED_STEPS,
        )
