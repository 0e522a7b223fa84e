"""Run tiny studies in a row while their processes are killed at random, and compare their tables with a calm study's.

Victims are the flow (`dreamer run`), the trainer, the evaluator and Prefect's server. A command that ended is given
again until its study is complete. Prints one line for each study, then the growth of memory, open files and disk.

    python -m benchmarks.soak folder --studies 50 --at-once 2 --kills 3
    python -m benchmarks.soak folder --studies 20 --one-process     # no kills: growth within a long-lived process
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import duckdb
import pandas as pd
import yaml

STUDY = {
    "name": "soak",
    "data": {"sources": ["builtin"], "world": {"documents": 400, "items": 20}, "tokenizer": {"vocabulary_size": 400}},
    "models": {
        "depths": [2],
        "variants": ["LA", "DR"],
        "baseline": {
            "hidden_size": 32,
            "query_heads": 2,
            "key_value_heads": 1,
            "head_size": 16,
            "experts": 4,
            "active_experts": 2,
            "expert_size": 32,
            "routing_size": 16,
        },
    },
    "training": {
        "tokens": 6_000,
        "batch_tokens": 512,
        "sequence_length": 128,
        "learning_rate": 2e-3,
        "warmup_steps": 5,
        "checkpoints": 2,
        "seeds": [0],
        "device": "cpu",
        "save_every_seconds": 0,
    },
    "evaluation": {"benchmarks": ["builtin"], "limit": 5, "bootstrap_replicates": 20},
}
# Everything but what a clock has measured.
TABLES = {
    "curation": "*",
    "models": "*",
    "runs": "* EXCLUDE (seconds, tokens_per_second, mfu)",
    "steps": "* EXCLUDE (seconds)",
    "evaluations": "*",
    "raw_evaluations": "*",
    "items": "*",
    "token_accuracy": "*",
    "data_efficiency": "*",
    "computed_factors": "*",
    "depth_attention": "*",
    "expert_usage": "*",
    "checkpoints": "* EXCLUDE (seconds)",
}
VICTIMS = {
    "flow": "flows.commands.cli",
    "trainer": "-m model.train",  # model.trainer, and model.train for one run
    "evaluator": "-m model.evaluat",  # model.evaluator, and model.evaluate for one job
    "server": "server start",
}
LONGEST_SECONDS = 1200  # for one study


def read_tables(root: Path) -> dict[str, pd.DataFrame]:
    """Read the tables of a study's results, without what a clock has measured."""
    with duckdb.connect(str(root / "results.duckdb"), read_only=True) as connection:
        return {
            name: connection.execute(f"SELECT {columns} FROM {name} ORDER BY ALL").df()
            for name, columns in TABLES.items()
        }


@dataclass
class Outcome:
    """What one study ended with."""

    starts: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    memory: int = 0  # bytes: most that the flow held
    files: int = 0  # most that the flow had open at once
    disk: int = 0  # bytes of the study's folder at the end
    wrong: list[str] = field(default_factory=list)


def run_study(study: Path, root: Path, chance: random.Random, kills: int, pace: float, calm: Path | None) -> Outcome:
    """Run a study to its end with some kills, about `pace` seconds apart, and compare its tables with a calm one's.

    A command that ends with an error before any of its processes was killed is wrong, though it is given again.
    """
    outcome, deadline = Outcome(), time.monotonic() + LONGEST_SECONDS
    command = [sys.executable, "-m", VICTIMS["flow"], "run", str(study), "--root", str(root)]
    status: int | None = None
    while status != 0 and time.monotonic() < deadline:
        outcome.starts += 1
        with root.with_suffix(".log").open("ab") as log:
            flow = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        due, killed = time.monotonic() + chance.uniform(0.2, 1.8) * pace, outcome.kills.total()
        while (status := flow.poll()) is None and time.monotonic() < deadline:
            _measure(flow.pid, outcome)
            if time.monotonic() >= due and outcome.kills.total() < kills:
                outcome.kills.update(_kill_one(root, chance))
                due = time.monotonic() + chance.uniform(0.2, 1.8) * pace
            time.sleep(0.2)
        if status and outcome.kills.total() == killed:
            outcome.wrong.append(f"start {outcome.starts} ended with status {status} before any kill")
    if status is None:
        os.killpg(flow.pid, signal.SIGKILL)
    outcome.disk = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    outcome.wrong += _faults(root, status, calm)
    return outcome


def _kill_one(root: Path, chance: random.Random) -> list[str]:
    """Kill one of the living processes of a study; returns what kind it was, nothing where all have just ended."""
    living = [(kind, number) for kind, words in VICTIMS.items() for number in _processes(words, root)]
    for kind, number in chance.sample(living, min(1, len(living))):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
            return [kind]
    return []


def _processes(words: str, root: Path) -> list[int]:
    """Find processes by words of their command, and a study's folder in their command or environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            command, variables = ((place / name).read_bytes().replace(b"\0", b" ") for name in ("cmdline", "environ"))
            own = any(f"{root}{end}".encode() in command + variables for end in ("/", " "))
            if own and words.encode() in command:
                found.append(int(place.name))
    return found


def _measure(process: int, outcome: Outcome) -> None:
    with suppress(OSError, IndexError):
        outcome.memory = max(outcome.memory, _memory(process))
        outcome.files = max(outcome.files, len(os.listdir(f"/proc/{process}/fd")))


def _memory(process: int) -> int:
    """Return the bytes that a process holds now."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def _faults(root: Path, status: int | None, calm: Path | None) -> list[str]:
    """List what a study ended with and should not have."""
    if status != 0:
        return [f"ended with status {status}"]
    found = [f"{path.relative_to(root)} was left" for path in root.rglob("*.partial")]
    time.sleep(2)  # children get SIGTERM when their parent dies
    found += [f"process {number} lives on" for words in VICTIMS.values() for number in _processes(words, root)]
    if calm:
        expected, tables = read_tables(calm), read_tables(root)
        found += [f"table {name} differs" for name, table in expected.items() if not table.equals(tables[name])]
    return found


def soak(folder: Path, study: Path, studies: int, at_once: int, kills: int, seed: int) -> bool:
    """Run a calm study, then the others; returns whether all ended with the calm one's tables and no leftovers."""
    os.environ |= {"TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    (folder / "tmp").mkdir()
    began = time.monotonic()
    first = run_study(study, folder / "calm", random.Random(seed), 0, 1.0, None)
    pace = (time.monotonic() - began) / (kills + 1)
    print(f"calm: {time.monotonic() - began:.0f} s, {describe(first)}", flush=True)

    def one(number: int) -> Outcome:
        outcome = run_study(
            study, folder / f"study{number}", random.Random(seed + 1 + number), kills, pace, folder / "calm"
        )
        print(f"study {number}: {describe(outcome)}", flush=True)
        return outcome

    with ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(one, range(studies)))
    half = len(outcomes) // 2 or 1
    for what, unit, size in (("memory", "MB", 1e6), ("files", "open files", 1), ("disk", "MB", 1e6)):
        early, late = (mean(getattr(one, what) for one in part) / size for part in (outcomes[:half], outcomes[-half:]))
        print(f"{what}: first half {early:.1f}, second half {late:.1f} {unit}; calm {getattr(first, what) / size:.1f}")
    temporary = sum(path.stat().st_size for path in (folder / "tmp").rglob("*") if path.is_file())
    kinds = sum((outcome.kills for outcome in outcomes), Counter[str]())
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    print(f"temporary folder: {temporary / 1e6:.1f} MB; kills: {dict(kinds)}; {wrong} of {studies} studies went wrong")
    return not wrong and not first.wrong


def describe(outcome: Outcome) -> str:
    """Write one study's outcome in a line."""
    kills = ", ".join(f"{count} {kind}" for kind, count in outcome.kills.items()) or "none"
    size = f"{outcome.memory / 1e6:.0f} MB, {outcome.files} open files, {outcome.disk / 1e6:.1f} MB on disk"
    return f"{outcome.starts} starts, killed: {kills}; {size}; {', '.join(outcome.wrong) or 'as it should be'}"


def grow(folder: Path, study: Path, studies: int) -> None:
    """Run studies one after another in this process, and print what the process holds after each."""
    from flows.commands.cli import main as dreamer

    for number in range(studies):
        status = dreamer(["run", str(study), "--root", str(folder / f"study{number}")])
        files = len(os.listdir("/proc/self/fd"))
        print(f"study {number}: status {status}, {_memory(os.getpid()) / 1e6:.0f} MB, {files} open files", flush=True)


def main() -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Kill processes of tiny studies at random, and compare the tables.")
    parser.add_argument("folder", type=Path, help="a new folder for the studies")
    parser.add_argument("--studies", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--kills", type=int, default=3, help="for each study (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and victims (default 0)")
    parser.add_argument("--one-process", action="store_true", help="no kills; all studies in one process")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True)
    study = folder / "soak.yaml"
    study.write_text(yaml.safe_dump(STUDY))
    if options.one_process:
        grow(folder, study, options.studies)
        return 0
    return 0 if soak(folder, study, options.studies, options.at_once, options.kills, options.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
