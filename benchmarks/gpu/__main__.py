"""Measure training steps and kernels on one GPU; decides paths of the model on a GPU, and what
presets ask of one.

    python -m benchmarks.gpu [--out FOLDER] [--minutes 25] [--parts steps grouped] [--tiny]

Parts run in processes of their own, the most important first, and each result is written when it is
known, so that a part that crashes, or the end of the time, costs nothing measured before: a file of
JSON lines for each part, all as tables in `results.md`, and a log, in FOLDER. `--tiny` runs every
part at toy sizes on a CPU, where nothing is compiled. Whether the device computes what it should is
said by `pytest tests/gpu`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import candidates, kernels, sharing, steps
from benchmarks.gpu.device_timing import Sizes

PARTS: dict[str, Callable[..., None]] = {  # in the order they run
    "facts": steps.facts,
    **{f"steps {name}": partial(steps.steps, variant=name) for name in ("LA", "DR", "DR+DA")},
    **{
        f"candidates {name}": partial(candidates.candidates, variant=name)
        for name in ("LA", "DR", "DR+DA")
    },
    "sharing": sharing.sharing,
    "attention": kernels.sequence_attention,
    "grouped": kernels.grouped_products,
    "loss": kernels.loss_head,
    "experts": kernels.experts_block,
    "depth attention": kernels.depth_attention,
    "routing": kernels.routing,
    "weight gradient": kernels.weight_gradient,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/gpu"), metavar="FOLDER", help="default: runs/gpu"
    )
    parser.add_argument(
        "--minutes", type=float, default=25, help="no part runs longer than this (default 25)"
    )
    parser.add_argument(
        "--parts", nargs="+", default=[], metavar="PART", help=f"only these: {', '.join(PARTS)}"
    )
    parser.add_argument("--tiny", action="store_true", help="toy sizes, on a CPU")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.tiny and not torch.cuda.is_available():
        print("no CUDA device here; --tiny runs every part at toy sizes on a CPU", file=sys.stderr)
        return 2
    if unknown := [part for part in options.parts if not any(_is(part, name) for name in PARTS)]:
        print(f"there is no part {unknown[0]!r}; known are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    if options.child:
        _run(options.child, Sizes(options.tiny), options.out)
        return 0
    deadline = time.monotonic() + 60 * options.minutes
    for name in PARTS:
        if options.parts and not any(_is(part, name) for part in options.parts):
            continue
        started = time.monotonic()
        status = _in_child(name, options, deadline - started)
        text = _section(name, f"{status}, {time.monotonic() - started:.0f} s", options.out)
        with (options.out / "results.md").open("a") as file:
            file.write(text)
        print(text, flush=True)
    return 0


def _is(part: str, name: str) -> bool:
    """Tell whether a part was asked for by its name, or by the first word of its name."""
    return part in (name, name.split()[0])


def _rows_file(out: Path, name: str) -> Path:
    return out / f"{name.replace(' ', '-').replace('+', '-')}.jsonl"


def _run(name: str, sizes: Sizes, out: Path) -> None:
    """Run one part; each of its results is a line on the disk when it is known."""
    if sizes.tiny:
        torch.set_num_threads(1)
    with _rows_file(out, name).open("w", buffering=1) as file:
        PARTS[name](sizes, lambda **row: file.write(json.dumps(row) + "\n"))


def _in_child(name: str, options: argparse.Namespace, seconds: float) -> str:
    """Run one part in a process of its own; how it ended."""
    if seconds <= 0:
        return "not run: out of time"
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", str(options.out), "--child", name]
    with (options.out / "log.txt").open("a") as log:
        log.write(f"\n=== {name}\n")
        log.flush()
        try:
            ended = subprocess.run(
                [*command, *["--tiny"] * options.tiny], stdout=log, stderr=log, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return "stopped: out of time"
    return f"failed with status {ended.returncode}: see log.txt" if ended.returncode else "done"


def _section(name: str, ended: str, out: Path) -> str:
    """Format one part as Markdown: what the part measures, how the part ended, its rows in a table
    for each form."""
    function = PARTS[name].func if isinstance(PARTS[name], partial) else PARTS[name]
    lines = [f"## {name}", "", f"{' '.join(function.__doc__.split())} ({ended})"]
    path, columns = _rows_file(out, name), None
    for row in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        if columns is None or not columns >= row.keys():
            columns = row.keys()
            lines += ["", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        lines.append(f"| {' | '.join(_cell(row.get(column)) for column in columns)} |")
    return "\n".join(lines) + "\n\n"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, float):
        return "-" if value is None else str(value).replace("|", "/")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
