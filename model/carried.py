"""Run a carried study on a machine with torch and little else: `python -m model.carried <folder> [--processes N]`.

With GPUs, each of the processes side by side has one of its own, or with `--ranks` each training so many.

`dreamer bundle` writes the folder: packed tokens, tokenizer, the plain items of its benchmarks, and a `run.json` for
each model and seed. Here they are trained (all seeds to the screening point, the better one to the end) and evaluated,
several processes side by side; `dreamer collect` ingests what they leave into the results database of any machine.
A folder can be interrupted at any moment and continued with the same command.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from model.training.launch import leashed, rank_environments
from model.training.screening import screening_loss
from pipeline.errors import InputError

PLAN = "plan.json"
GRACE_SECONDS = 20.0


def run_carried(folder: Path, processes: int, ranks: int = 1, *, accept_code_change: bool = False) -> None:
    """Train, with `ranks` processes each, and evaluate all of `folder`.

    Raises InputError if it is no carried study, SystemExit if a part fails.
    """
    try:
        plan = json.loads((folder / PLAN).read_text())
        runs = plan["runs"]
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder} is no carried study: it has no {PLAN}; `dreamer bundle STUDY FOLDER` writes one"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / PLAN} is damaged ({error!r}); bundle the study again") from None
    options = ["--accept-code-change"] if accept_code_change else []
    if plan["stop_at"]:
        stop = ["--stop-at", str(plan["stop_at"])]
        _side_by_side(
            [_train(folder, run, *stop, *options) for run in runs if not _went_on(folder, run)], processes, ranks
        )
    chosen = choose(folder, plan)
    _side_by_side([_train(folder, run, *options) for run in chosen], processes, ranks)
    checkpoints = [
        {"run_id": run["run_id"], "tokens": int(path.name), "path": os.path.relpath(path, folder)}
        for run in chosen
        for path in sorted((folder / "runs" / run["run_id"] / "checkpoints").glob("[0-9]*[0-9]"))
    ]
    job = {**plan["evaluation"], "checkpoints": checkpoints, "output": "results"}
    (folder / "job.json").write_text(json.dumps(job, indent=1))
    # They share the job: each takes checkpoints that no other has.
    evaluation = ("model.evaluate", str(folder / "job.json"))
    _side_by_side([(f"evaluate-{number}", evaluation) for number in range(processes)], processes)
    (folder / "chosen.json").write_text(json.dumps([run["run_id"] for run in chosen]))


def choose(folder: Path, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs that are trained to the end: all of them, or of each model the seed with the best screening loss."""
    if not plan["stop_at"]:
        return plan["runs"]
    models: dict[str, list[dict[str, Any]]] = {}
    for run in plan["runs"]:
        models.setdefault(run["model_id"], []).append(run)
    chosen = []
    for seeds in models.values():
        ahead = [run for run in seeds if _went_on(folder, run)]  # decided in an earlier call
        best = min(seeds, key=lambda run: (screening_loss(folder / "runs" / run["run_id"]), run["seed"]))
        chosen.append(ahead[0] if ahead else best)
    return chosen


def _went_on(folder: Path, run: dict[str, Any]) -> bool:
    return (folder / "runs" / run["run_id"] / "chosen").exists()


def _train(folder: Path, run: dict[str, Any], *options: str) -> tuple[str, Sequence[str]]:
    place = folder / "runs" / run["run_id"]
    if "--stop-at" not in options:
        (place / "chosen").touch()
    return run["run_id"], ("model.train", str(place), *options)


def _side_by_side(commands: list[tuple[str, Sequence[str]]], processes: int, ranks: int = 1) -> None:
    """Run `python -m` commands, `processes` at a time and each by `ranks` processes; the first that fails ends all."""
    waiting, running = list(commands), dict[str, list[subprocess.Popen[bytes]]]()
    logs = Path(commands[0][1][1]).parent if commands else Path()
    places = dict[str, int]()
    started = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                name, arguments = waiting.pop(0)
                places[name] = min(set(range(processes)) - {places[other] for other in running})
                with (logs / f"{name}.log").open("ab") as log:
                    devices = _devices(places[name], ranks)
                    running[name] = [_start(arguments, log, {**devices, **rank}) for rank in rank_environments(ranks)]
            for name, group in list(running.items()):
                status = next((process.returncode for process in group if process.poll()), 0)
                if not status and any(process.returncode is None for process in group):
                    continue
                if status:
                    _end(group)
                    said = (logs / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
                    raise SystemExit(f"{name} ended with status {status}: {' '.join(said)}")
                del running[name]
                print(f"{time.monotonic() - started:7.1f} s  {name} done", flush=True)
            time.sleep(0.1)
    finally:
        for group in running.values():
            _end(group)


def _start(arguments: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(leashed(*arguments), stdout=log, stderr=subprocess.STDOUT, env=variables)


def _devices(place: int, ranks: int) -> dict[str, str]:
    """The environment that shows the processes at a place only the GPUs that are theirs."""
    import torch

    count = torch.cuda.device_count()
    if not count:
        return {}
    names = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))).split(",")
    own = {names[(place * ranks + rank) % count] for rank in range(ranks)}
    return {"CUDA_VISIBLE_DEVICES": ",".join(sorted(own))}


def _end(group: list[subprocess.Popen[bytes]]) -> None:
    """Stop the processes of a training: SIGTERM, a grace in which it saves its state, SIGKILL."""
    for process in group:
        process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in group:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m model.carried", description="Train and evaluate a carried study.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=1, help="trainings and evaluations at a time (default 1)")
    parser.add_argument("--ranks", type=int, default=1, help="processes, and GPUs, for each training (default 1)")
    parser.add_argument("--accept-code-change", action="store_true", help="go on with runs that other code has started")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # and what it has started is ended
    try:
        processes, ranks = max(1, chosen.processes), max(1, chosen.ranks)
        run_carried(chosen.folder, processes, ranks, accept_code_change=chosen.accept_code_change)
    except InputError as error:
        print(f"model.carried: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
