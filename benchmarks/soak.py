"""Run tiny studies while their processes are killed at random; decides whether a study's results
survive what may come.

    python -m benchmarks.soak folder --studies 50 --at-once 2 --kills 3

Victims are the flow (`dreamer run`), the trainer, the evaluator and Prefect's server. Each kill
draws one of the four kinds first, and a moment of its life, then waits for such a process:
trainers and evaluators live for seconds, and a draw from the processes that live at a moment would
nearly always hit the flow. A command that ended is given again until its study is complete; its
tables are then compared with those of a calm study. Prints a line for each study: starts, kills,
the most memory and open files of the flow, bytes on the disk, and what was wrong.
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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pandas as pd
import psutil

STUDY = """
name: soak
data: {sources: [builtin], world: {documents: 400, items: 20}, tokenizer: {vocabulary_size: 400}}
models:
  depths: [2]
  variants: [LA, DR]
  dreamer:
    {hidden_size: 32, query_heads: 2, key_value_heads: 1, head_size: 16,
     experts: 4, active_experts: 2, expert_size: 32, routing_size: 16}
training: {tokens: 10000, batch_tokens: 512, sequence_length: 128, learning_rate: 2.0e-3, warmup_steps: 5,
           checkpoints: 2, seeds: [0], device: cpu, save_every_seconds: 0}
evaluation: {benchmarks: [builtin], limit: 5, bootstrap_replicates: 20}
"""
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
    "mean_factors": "*",
    "token_ratios": "*",
    "depth_attention": "*",
    "expert_usage": "*",
    "checkpoints": "* EXCLUDE (seconds)",
}
VICTIMS = {
    "flow": "dreamer_study.flows.commands.cli",
    "trainer": "-m dreamer_study.model.worker dreamer_study.model.train",
    "evaluator": "-m dreamer_study.model.worker dreamer_study.model.evaluate",
    "server": "server start",
}
LONGEST_SECONDS = 3600  # for one study, also beside other work
LONGEST_WAIT = 2  # for a process of the drawn kind, in paces


def read_tables(root: Path) -> dict[str, pd.DataFrame]:
    """Read the tables of a study's results, without what a clock has measured."""
    with duckdb.connect(str(root / "results.duckdb"), read_only=True) as connection:
        return {
            name: connection.execute(f"SELECT {columns} FROM {name} ORDER BY ALL").df()
            for name, columns in TABLES.items()
        }


@dataclass
class Killer:
    """Kill processes of the study in `root`, one kill about `pace` seconds after the other.

    Kinds are drawn in rounds, in which each of them comes once. `lives` has the most seconds that a
    process of each kind lived in a calm study: a process is killed at an age drawn from this time.
    """

    root: Path
    chance: random.Random
    kills: int
    pace: float
    lives: Mapping[str, float]
    killed: Counter[str] = field(default_factory=Counter)
    kinds: list[str] = field(default_factory=list)  # those of this round that are still to come
    kind: str = ""  # of the next kill; "" before it is drawn
    age: float = 0.0  # seconds that the next victim has lived by then
    due: float = 0.0  # when the next kill is due, by `time.monotonic`

    def look(self) -> None:
        """Kill a process where that is due; another kind is drawn where none comes for long."""
        if self.killed.total() >= self.kills:
            return
        late = time.monotonic() - self.due
        if not self.kind or late > LONGEST_WAIT * self.pace:
            self._draw()
        elif late >= 0 and self._kill():
            self.killed[self.kind] += 1
            self._draw()

    def _draw(self) -> None:
        if not self.kinds:
            self.kinds = self.chance.sample(list(VICTIMS), len(VICTIMS))
        self.kind = self.kinds.pop()
        self.age = self.chance.uniform(0, self.lives.get(self.kind, 0))
        self.due = time.monotonic() + self.chance.uniform(0.2, 1.8) * self.pace

    def _kill(self) -> bool:
        """Kill a process of the drawn kind that is old enough; returns whether there was one."""
        for process in _processes(VICTIMS[self.kind], self.root):
            with suppress(psutil.Error):  # it has just ended
                if time.time() - process.create_time() >= self.age:
                    process.kill()
                    return True
        return False


@dataclass
class Outcome:
    """What one study ended with."""

    starts: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    memory: int = 0  # bytes: most that the flow held
    files: int = 0  # most that the flow had open at once
    disk: int = 0  # bytes of the study's folder at the end
    lives: dict[str, float] = field(default_factory=dict)  # most seconds of a process of each kind
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {kind}" for kind, count in self.kills.items()) or "none"
        size = (
            f"{self.memory / 1e6:.0f} MB, {self.files} open files, {self.disk / 1e6:.1f} MB on disk"
        )
        return f"{self.starts} starts, killed: {kills}; {size}; {', '.join(self.wrong) or 'as it should be'}"


def run_study(study: Path, killer: Killer, calm: Path | None) -> Outcome:
    """Run a study to its end while a killer is at work, and compare its tables with a calm one's.

    A command that ends with an error before any of its processes was killed is wrong, though it is
    given again.
    """
    root = killer.root
    outcome = Outcome(kills=killer.killed)
    deadline = time.monotonic() + LONGEST_SECONDS
    command = [sys.executable, "-m", VICTIMS["flow"], "run", str(study), "--root", str(root)]
    status: int | None = None
    while status != 0 and time.monotonic() < deadline:
        outcome.starts += 1
        with root.with_suffix(".log").open("ab") as log:
            flow = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        killed = killer.killed.total()
        while (status := flow.poll()) is None and time.monotonic() < deadline:
            _measure(outcome, psutil.Process(flow.pid), root, calm)
            killer.look()
            time.sleep(0.2)
        if status and killer.killed.total() == killed:
            outcome.wrong.append(
                f"start {outcome.starts} ended with status {status} before any kill"
            )
    if status is None:
        os.killpg(flow.pid, signal.SIGKILL)
    outcome.disk = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    outcome.wrong += _faults(root, status, calm)
    return outcome


def _measure(outcome: Outcome, flow: psutil.Process, root: Path, calm: Path | None) -> None:
    """Note what the flow holds; in the calm study also how long processes of each kind live."""
    with suppress(psutil.Error):  # it has just ended
        outcome.memory = max(outcome.memory, flow.memory_info().rss)
        outcome.files = max(outcome.files, flow.num_fds())
    if calm:
        return
    for kind, words in VICTIMS.items():
        for process in _processes(words, root):
            with suppress(psutil.Error):
                age = time.time() - process.create_time()
                outcome.lives[kind] = max(outcome.lives.get(kind, 0), age)


def _processes(words: str, root: Path) -> list[psutil.Process]:
    """Find processes by words of their command, and a study's folder in their command or
    environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended meanwhile, or is another user's
            command = " ".join([*process.cmdline(), ""])
            if words not in command:
                continue
            places = " ".join([command, *process.environ().values(), ""])
            if any(f"{root}{end}" in places for end in ("/", " ")):
                found.append(process)
    return found


def _faults(root: Path, status: int | None, calm: Path | None) -> list[str]:
    """List what a study ended with and should not have."""
    if status != 0:
        return [f"ended with status {status}"]
    found = [f"{path.relative_to(root)} was left" for path in root.rglob("*.partial")]
    time.sleep(2)  # children get SIGTERM when their parent dies
    found += [
        f"process {one.pid} lives on"
        for words in VICTIMS.values()
        for one in _processes(words, root)
    ]
    if calm:
        expected, tables = read_tables(calm), read_tables(root)
        found += [
            f"table {name} differs"
            for name, table in expected.items()
            if not table.equals(tables[name])
        ]
    return found


def main() -> int:
    """Run a calm study, then the others; returns 1 where any ended with other tables than the calm
    one's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a new folder for the studies")
    parser.add_argument("--studies", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--kills", type=int, default=3, help="for each study (default 3)")
    options = parser.parse_args()
    folder = options.folder.resolve()
    (folder / "tmp").mkdir(parents=True)
    os.environ |= {"TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    study = folder / "soak.yaml"
    study.write_text(STUDY)
    began = time.monotonic()
    calm = run_study(study, Killer(folder / "calm", random.Random(0), 0, 1.0, {}), None)
    pace = (time.monotonic() - began) / (options.kills + 1)
    print(f"calm: {time.monotonic() - began:.0f} s, {calm}", flush=True)
    lives = ", ".join(f"{kind} {seconds:.0f} s" for kind, seconds in calm.lives.items())
    print(f"processes lived at most: {lives}", flush=True)

    def one(number: int) -> Outcome:
        root = folder / f"study{number}"
        killer = Killer(root, random.Random(number), options.kills, pace, calm.lives)
        outcome = run_study(study, killer, folder / "calm")
        print(f"study {number}: {outcome}", flush=True)
        return outcome

    with ThreadPoolExecutor(options.at_once) as pool:
        outcomes = list(pool.map(one, range(1, 1 + options.studies)))
    temporary = sum(path.stat().st_size for path in (folder / "tmp").rglob("*") if path.is_file())
    kinds = sum((outcome.kills for outcome in outcomes), Counter[str]())
    wrong = sum(bool(outcome.wrong) for outcome in [calm, *outcomes])
    print(f"temporary folder: {temporary / 1e6:.1f} MB; kills: {dict(kinds)}")
    print(f"{wrong} studies went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
