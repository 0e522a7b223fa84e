"""Everything to measure on one GPU, in one command: `python -m benchmarks.gpu --out FOLDER [--minutes 25]`.

Needs torch, numpy, safetensors and this repository's folder, nothing else; run it from there. Parts run in processes
of their own, the most important first, and every result is written when it is known, so that a part that crashes, or
the end of the time, costs nothing measured before: `results.json`, `results.md` and a log in FOLDER. `--tiny` runs
every part at toy sizes on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import kernels, steps
from benchmarks.gpu.device_timing import Sizes

VARIANTS = ("LA", "DR", "DR+DA")
PARTS: dict[str, Callable[..., None]] = {  # in the order they run
    "facts": steps.facts,
    "smoke": steps.smoke,
    **{f"compiled {name}": partial(steps.compiled_steps, variant=name) for name in VARIANTS},
    **{f"eager {name}": partial(steps.eager_steps, variant=name) for name in VARIANTS},
    "attention": kernels.sequence_attention,
    "grouped": kernels.grouped_products,
    "loss": kernels.loss_head,
    "experts": kernels.experts_block,
    "depth attention": kernels.depth_attention,
    "routing": kernels.routing,
    "weight gradient": kernels.weight_gradient,
    **{f"other {name}": partial(steps.other_steps, variant=name) for name in VARIANTS},
    "one depth": kernels.one_depth,
    "all depths": kernels.all_depths,
    "clocks": partial(steps.clocks, when="at the end"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _options(arguments)
    if not options.tiny and not torch.cuda.is_available():
        print("no CUDA device here; --tiny runs every part at toy sizes on a CPU", file=sys.stderr)
        return 2
    unknown = [name for name in options.parts if not _chosen([name])]
    if unknown:
        print(f"there is no part {unknown[0]!r}; known are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    if options.child:
        _run(options.child, Sizes(options.tiny), options.out)
        return 0
    results = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "parts": {}}
    deadline = time.monotonic() + 60 * options.minutes
    for name in _chosen(options.parts):
        started = time.monotonic()
        if started >= deadline:
            status = "not run: out of time"
        elif options.tiny and not options.isolate:
            _run(name, Sizes(True), options.out)
            status = "done"
        else:
            status = _in_child(name, options, deadline - started)
        results["parts"][name] = {
            "status": status,
            "seconds": round(time.monotonic() - started, 1),
            "rows": _rows(options.out, name),
        }
        (options.out / "results.json").write_text(json.dumps(results, indent=1))
        text = _section(name, results["parts"][name])
        with (options.out / "results.md").open("w" if len(results["parts"]) == 1 else "a") as file:
            file.write(text)
        print(text, flush=True)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where results are written")
    parser.add_argument("--minutes", type=float, default=25, help="no part runs longer than this (default 25)")
    parser.add_argument("--parts", nargs="+", default=[], metavar="PART", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, on a CPU")
    parser.add_argument("--isolate", action="store_true", help="a process for each part with --tiny as well")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _chosen(parts: Sequence[str]) -> list[str]:
    """Choose the parts whose name, or its first word, was asked for, in their order; all where none was asked for."""
    return [name for name in PARTS if not parts or name in parts or name.split()[0] in parts]


def _rows_path(out: Path, name: str) -> Path:
    return out / f"{name.replace(' ', '-').replace('+', '-')}.jsonl"


def _rows(out: Path, name: str) -> list[dict[str, Any]]:
    path = _rows_path(out, name)
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def _run(name: str, sizes: Sizes, out: Path) -> None:
    """Run one part; each of its results is a line on the disk when it is known."""
    if sizes.tiny:
        torch.set_num_threads(1)
    torch.compiler.set_stance("default")  # of the part before: the trainer allows no compiling after its first step
    with _rows_path(out, name).open("w") as file:

        def say(**row: Any) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        PARTS[name](sizes, say)


def _in_child(name: str, options: argparse.Namespace, seconds: float) -> str:
    """Run one part in a process of its own; how it ended."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", str(options.out), "--child", name]
    environment = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", **os.environ}
    log = options.out / "log.txt"
    with log.open("a") as output:
        output.write(f"\n=== {name}\n")
        output.flush()
        child = subprocess.Popen(
            [*command, *(["--tiny"] if options.tiny else [])],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return "stopped: out of time"
    if child.returncode:
        last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
        return f"failed with status {child.returncode}: {last[:300]}"
    return "done"


def _section(name: str, part: dict[str, Any]) -> str:
    """Format one part as Markdown: what the part measures, how the part ended, its rows as a table."""
    function = PARTS[name].func if isinstance(PARTS[name], partial) else PARTS[name]
    words = " ".join(function.__doc__.split())
    lines = [f"## {name}", "", f"{words} ({part['status']}, {part['seconds']} s)", ""]
    rows = part["rows"]
    texts = [row["text"] for row in rows if "text" in row]
    if texts:
        lines += [f"```\n{text}\n```" for text in texts]
    elif rows:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        lines += [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        lines += [f"| {' | '.join(_cell(row.get(column)) for column in columns)} |" for row in rows]
    return "\n".join(lines) + "\n\n"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, float):
        return "-" if value is None else str(value).replace("|", "/")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
