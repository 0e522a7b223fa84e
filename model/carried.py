"""Train and evaluate a carried study on a machine with torch and little else: `python -m model.carried <folder>`.

`dreamer bundle` writes the folder: packed tokens, tokenizer, the plain items of its benchmarks, and a `run.json` for
each model and seed. This command trains every seed to the end, or with screening the best seed of each model, several
processes side by side, each with a GPU of its own (with `--ranks`, each training with several). Then it evaluates the
checkpoints. `dreamer collect` ingests the result files on any machine. The command can be interrupted at any moment,
and run again to continue.

Exit status: 0 done, 1 a process failed, 2 bad input, 143 stopped by SIGTERM, 130 by Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.settings import check_fields, read_object
from model.training.ranks.launch import ProcessGroup, stop
from model.training.recording.records import choose_seed
from pipeline.errors import InputError

PLAN = "plan.json"
PLAN_FIELDS = {"study_id": "str", "stop_at": "int | None", "runs": "tuple[dict, ...]", "evaluation": "dict"}
RUN_FIELDS = {"run_id": "str", "model_id": "str", "seed": "int"}

Command = tuple[str, Sequence[str]]
"""A name, for its log and for messages; the module and its arguments."""


def run_carried(folder: Path, processes: int, ranks: int = 1, *, accept_code_change: bool = False) -> None:
    """Train the runs of `folder`, by `ranks` processes each, and evaluate them; `processes` of these at a time.

    The evaluation takes as many processes as all ranks that train at a time. Raises InputError if the folder is no
    carried study, SystemExit if a process fails.
    """
    plan = read_plan(folder)
    runs = plan["runs"]
    logs, options = folder / "runs", ["--accept-code-change"] if accept_code_change else []
    if plan["stop_at"]:
        early = ["--stop-at", str(plan["stop_at"]), *options]
        screening = [_train(folder, run, *early) for run in runs if not _is_chosen(folder, run)]
        _side_by_side(screening, logs, processes, ranks)
    chosen = choose(folder, plan)
    for run in chosen:
        (folder / "runs" / run["run_id"] / "chosen").touch()
    _side_by_side([_train(folder, run, *options) for run in chosen], logs, processes, ranks)
    checkpoints = [
        {"run_id": run["run_id"], "tokens": int(path.name), "path": os.path.relpath(path, folder)}
        for run in chosen
        for path in sorted((folder / "runs" / run["run_id"] / "checkpoints").glob("[0-9]*[0-9]"))
    ]
    job = {**plan["evaluation"], "checkpoints": checkpoints, "output": "results"}
    (folder / "job.json").write_text(json.dumps(job, indent=1))
    # All processes work on one job: each takes checkpoints that no other has.
    evaluation = ("model.evaluate", str(folder / "job.json"))
    evaluators = min(processes * ranks, len(checkpoints))
    _side_by_side([(f"evaluate-{number}", evaluation) for number in range(evaluators)], folder, evaluators)
    (folder / "chosen.json").write_text(json.dumps([run["run_id"] for run in chosen]))


def read_plan(folder: Path) -> dict[str, Any]:
    """Read and check the plan of a carried study. Raises InputError, naming the file, if there is no good one."""
    path = folder / PLAN
    try:
        plan = read_object(path)
        check_fields(plan, PLAN_FIELDS, str(path), PLAN_FIELDS)
        for run in plan["runs"]:
            check_fields(run, RUN_FIELDS, f"{path}: runs", RUN_FIELDS)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder} is no carried study: it has no {PLAN}; `dreamer bundle STUDY FOLDER` writes one"
        ) from None
    except InputError as error:
        raise InputError(f"{error}; bundle the study again") from None
    return plan


def choose(folder: Path, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Choose the runs that are trained to the end: all of them, or of each model the seed with the lowest loss."""
    if not plan["stop_at"]:
        return plan["runs"]
    models: dict[str, list[dict[str, Any]]] = {}
    for run in plan["runs"]:
        models.setdefault(run["model_id"], []).append(run)
    chosen = []
    for seeds in models.values():
        ahead = [run for run in seeds if _is_chosen(folder, run)]  # in an earlier call
        by_seed = {run["seed"]: run for run in seeds}
        runs = {seed: folder / "runs" / run["run_id"] for seed, run in by_seed.items()}
        chosen.append(ahead[0] if ahead else by_seed[choose_seed(runs)])
    return chosen


def _is_chosen(folder: Path, run: dict[str, Any]) -> bool:
    return (folder / "runs" / run["run_id"] / "chosen").exists()


def _train(folder: Path, run: dict[str, Any], *options: str) -> Command:
    return run["run_id"], ("model.train", str(folder / "runs" / run["run_id"]), *options)


def _side_by_side(commands: Sequence[Command], logs: Path, processes: int, ranks: int = 1) -> None:
    """Run commands, `processes` at a time and each by `ranks` processes; the first one that fails ends all."""
    waiting, running, places = list(commands), dict[str, ProcessGroup](), dict[str, int]()
    started = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                name, command = waiting.pop(0)
                places[name] = min(set(range(processes)) - {places[other] for other in running})
                environment = _devices(places[name], ranks)
                log = logs / f"{name}.log"
                running[name] = ProcessGroup(*command, log=log, environment=environment, ranks=ranks)
            for name, group in list(running.items()):
                status = group.poll()
                if status:
                    raise SystemExit(f"{name} ended with status {status}: {group.last_line()}")
                if status == 0:
                    del running[name]
                    print(f"{time.monotonic() - started:7.1f} s  {name} done", flush=True)
            time.sleep(0.1)
    finally:
        stop(running.values())


def _devices(place: int, ranks: int) -> dict[str, str]:
    """Return the environment that shows the processes at a place only their own GPUs."""
    import torch

    count = torch.cuda.device_count()
    if not count:
        return {}
    names = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))).split(",")
    own = {names[(place * ranks + rank) % count] for rank in range(ranks)}
    return {"CUDA_VISIBLE_DEVICES": ",".join(sorted(own))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m model.carried", description="Train and evaluate a carried study.")
    parser.add_argument("folder", type=Path)
    processes = "trainings at a time, and evaluations for each of their ranks (default 1)"
    parser.add_argument("--processes", type=int, default=1, help=processes)
    parser.add_argument("--ranks", type=int, default=1, help="processes, and GPUs, for each training (default 1)")
    parser.add_argument("--accept-code-change", action="store_true", help="go on with runs that other code has started")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # stops all children
    try:
        processes, ranks = max(1, chosen.processes), max(1, chosen.ranks)
        run_carried(chosen.folder, processes, ranks, accept_code_change=chosen.accept_code_change)
    except InputError as error:
        print(f"model.carried: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("model.carried: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
