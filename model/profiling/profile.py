"""Profile a training step by component: `python -m model.profiling.profile <run folder>`.

The step runs under torch's profiler; each operation is assigned to a component (`attribute`). Beside the times stand
the FLOPs of each component, forward and backward, as counted by model.accounting, FLOP/s, and the time that these
FLOPs take at the device's peak.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import profile, record_function

from model.accounting import flops_by_component
from model.architecture import DreamerConfig
from model.ops.device import device_name, peak_flops
from model.profiling.attribution import COMPILED, COMPONENTS, STEP, attribute, longest_kernels, ranges
from model.profiling.random_stream import write_random_stream
from model.training.config import read_run
from model.training.failures import TrainingFailed
from model.training.trainer import Trainer
from pipeline.errors import InputError

FLOOR = {  # components of accounting.py, by component and part
    ("sequence", "products"): "sequence_projections",
    ("sequence", "attention"): "sequence_attention",
    ("sequence", "routing"): "sequence_routing",
    ("depth", "products"): "depth_projections",
    ("depth", "attention"): "depth_attention",
    ("depth", "routing"): "depth_routing",
    ("experts", "products"): "experts",
    ("experts", "routing"): "expert_routing",
    ("head and loss", ""): "head",
}
ORDER = ("blocks", "sequence", "depth", "experts", "norms", "embedding", "head and loss", "weights and codes")


@dataclass(frozen=True)
class Share:
    """One line of a profile: seconds of a step, and FLOPs by accounting (0: the operations only move bytes)."""

    component: str
    part: str
    seconds: float
    flops: float


@dataclass(frozen=True)
class StepProfile:
    """The profile of one training step."""

    model: str
    device: str
    precision: str
    tokens: int  # real ones in a step
    seconds: float  # of a step that is not profiled, the median
    peak: float | None  # FLOP/s of the device in that precision
    shares: list[Share]
    kernels: list[tuple[str, float]] = field(default_factory=list)  # the longest on CUDA: name and seconds of a step

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**vars(self), "shares": [vars(share) for share in self.shares]}


def profile_step(trainer: Trainer, *, warm_up: int = 3, steps: int = 3) -> StepProfile:
    """Profile `steps` training steps of `trainer`, after `warm_up` others, which are timed without the profiler.

    The trainer continues from its current step and saves nothing. Shares add up to the median seconds of a timed step.
    """
    cuda = trainer.device.type == "cuda"
    clock = time.perf_counter if cuda else time.process_time  # other processes must not count
    times, tokens = [], 0
    for _ in range(warm_up + 1):  # the first one compiles and allocates
        before, started = trainer.tokens, clock()
        trainer.train_step()
        if cuda:
            torch.cuda.synchronize()
        times.append(clock() - started)
        tokens = trainer.tokens - before

    targets = 0
    with ranges(trainer), profile(use_device="cuda" if cuda else None, use_kineto=True) as recorded:
        for _ in range(steps):
            with record_function(STEP):
                trainer.train_step()
                if cuda:
                    torch.cuda.synchronize()
            targets += trainer.stream.batch(trainer.step - 1).target_tokens
    events = recorded.function_events
    seconds = statistics.median(times[1:])
    found = attribute(events, cuda)
    scale = seconds / sum(found.values())
    config = trainer.run.model
    flops = _flops(config, found, tokens, targets / steps, trainer.stream.document_length)
    name = device_name(trainer.device)
    return StepProfile(
        model=f"{config.variant} of depth {config.depth}",
        device=name,
        precision=str(trainer.precision).removeprefix("torch."),
        tokens=tokens,
        seconds=seconds,
        peak=peak_flops(name, trainer.precision),
        shares=[
            Share(component, part, time * scale, flops.get((component, part), 0.0))
            for (component, part), time in sorted(found.items(), key=_place)
        ],
        kernels=longest_kernels(events, steps) if cuda else [],
    )


def _flops(
    config: DreamerConfig, found: Mapping[tuple[str, str], float], tokens: int, targets: float, length: float
) -> dict[tuple[str, str], float]:
    """Count the FLOPs of a step, forward and backward, by component and part; the head multiplies targets only."""
    counts = flops_by_component(config, length)
    flops: dict[tuple[str, str], float] = defaultdict(float)
    for place, name in FLOOR.items():
        component, part = place
        if (COMPILED, "products") in found and component in COMPONENTS.values():
            component = COMPILED
            place = component, part
        # Not told from the products: a router's where its component was compiled, and what native.c does on the way.
        if place not in found or (part == "routing" and (component, "compiled") in found):
            place = component, "products"
        flops[place] += 3 * counts.get(name, 0.0) * (targets if name == "head" else tokens)
    return flops


def _place(item: tuple[tuple[str, str], float]) -> tuple[int, str, float]:
    (component, _), seconds = item
    return ORDER.index(component) if component in ORDER else len(ORDER), component, -seconds


def table(found: StepProfile) -> str:
    """Format a profile: a heading, and a line per component and part, slowest first within a component."""
    total, flops = found.seconds, sum(share.flops for share in found.shares)
    rows = [("component", "part", "ms", "share", "FLOPs", "GFLOP/s", "floor ms")]
    for share in found.shares:
        rate = share.flops / share.seconds / 1e9 if share.flops and share.seconds else None
        rows.append(
            (
                share.component,
                share.part,
                f"{1e3 * share.seconds:.2f}",
                f"{share.seconds / total:.1%}",
                f"{share.flops / flops:.1%}" if share.flops else "-",
                f"{rate:,.1f}" if rate else "-",
                f"{1e3 * share.flops / found.peak:.2f}" if found.peak and share.flops else "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines += [f"{1e3 * seconds:9.2f} ms  {name[:100]}" for name, seconds in found.kernels]
    reached = flops / total
    peak = f", {reached / found.peak:.1%} of the peak" if found.peak else ""
    heading = (
        f"{found.model} on {found.device} in {found.precision}: {1e3 * total:.1f} ms for a step of {found.tokens:,} "
        f"tokens, {found.tokens / total:,.0f} tokens/s, {reached / 1e9:,.1f} GFLOP/s{peak}"
    )
    return "\n".join([heading, *(line.rstrip() for line in lines)])


def profile_run(folder: Path) -> StepProfile:
    """Profile a step of the run described by `folder/run.json`, with new parameters, in a temporary folder.

    Random tokens replace missing packed data, which is printed. Raises InputError for a folder without a run.
    """
    run = read_run(folder)
    values = json.loads((folder / "run.json").read_text())
    training = {**values["training"], "checkpoints": []}
    micro = training.get("micro_batch_tokens") or training["batch_tokens"]
    if training["batch_tokens"] > 2 * micro:
        print(f"two micro-batches of {micro:,} tokens instead of {training['batch_tokens'] // micro}")
        training["batch_tokens"] = 2 * micro
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        data = run.data.resolve()
        if not (data / "packed.json").is_file():
            print(f"{run.data} is not there: random tokens instead")
            data = random_data(root / "data", run.model, training["batch_tokens"])
        (root / "run.json").write_text(json.dumps({**values, "training": training, "data": str(data)}))
        return profile_step(Trainer(read_run(root)))


def random_data(folder: Path, model: DreamerConfig, batch_tokens: int) -> Path:
    """Write random tokens for a model: rows of its sequence length, documents of a quarter to a half of a row."""
    length = model.sequence_length
    return write_random_stream(
        folder,
        sequence_length=length,
        vocabulary_size=model.vocabulary_size,
        rows=max(8, 8 * batch_tokens // length),
        document_lengths=(max(2, length // 4), max(2, length // 2)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m model.profiling.profile", description="Profile a training step of a run."
    )
    parser.add_argument("folder", type=Path, help="a folder with run.json; it is only read")
    options = parser.parse_args(arguments)
    try:
        print(table(profile_run(options.folder)))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except (TrainingFailed, OSError) as error:
        print(f"{options.folder}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
