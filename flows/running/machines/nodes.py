"""Train a study on several machines (nodes): `dreamer run` of the same study on each, over a shared file system.

Node 0 prepares the data and starts every training. It announces each in a file, `nodes/<name>.json` in the study's
folder, and touches the file while the training lasts; the other nodes join what they find announced. While node 0 runs
the study it touches `nodes/alive`, and removes that file at its end; the other nodes end when node 0 has ended or is
silent. The nodes are alike: all have as many GPUs, and see the study's folder under one path.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from flows.running import progress
from flows.running.machines.devices import Slots, gpus
from flows.running.machines.slurm import run_job
from flows.running.machines.slurm_node import first_host
from flows.running.machines.staying import Staying
from flows.running.processes import Failed, run_module, stopped_on_exit, wait_unless_stopping
from flows.study.configuration import Study
from model.training.ranks.launch import free_port
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically

POLL_SECONDS = 1.0
BEAT_SECONDS = 5.0
SILENCE_SECONDS = 300.0  # a shared file system may show a change a minute late


@dataclass(frozen=True)
class Node:
    """This machine among those that train a study: its number, and the host name of node 0; by default it is alone."""

    number: int = 0
    count: int = 1
    first: str = "127.0.0.1"

    def command(self, address: str, run: str, ranks: int, options: Sequence[str]) -> list[str]:
        """Return the arguments of `python -m model.node` that train the run in a folder by `ranks` processes here."""
        place = ["--node", str(self.number), "--nodes", str(self.count), "--ranks", str(ranks), "--first", address]
        return [*place, run, "--", *options]


def this_node(study: Study, environment: Mapping[str, str] = os.environ) -> Node:
    """Find out which node of the study this is, from NODE_RANK and MASTER_ADDR, else from the variables of SLURM.

    Raises InputError where `training.nodes` is above 1 and these are missing or say otherwise.
    """
    count = study.training.nodes
    if count == 1 or study.compute.pool != "local":  # jobs find their own nodes
        return Node()
    by_hand = "NODE_RANK" in environment
    found = environment.get("SLURM_STEP_NUM_NODES", environment.get("SLURM_NNODES", str(count)))
    if not by_hand and found != str(count):
        raise InputError(f"training.nodes is {count}, but SLURM starts the study on {found} nodes; make them equal")
    if not by_hand and environment.get("SLURM_LOCALID", "0") != "0":
        raise InputError("start `dreamer run` once on each node: srun --ntasks-per-node=1")
    number = environment.get("NODE_RANK", environment.get("SLURM_NODEID", ""))
    hosts = environment.get("SLURM_STEP_NODELIST", environment.get("SLURM_JOB_NODELIST", ""))
    first = environment.get("MASTER_ADDR") or first_host(hosts)
    if not number.isdecimal() or int(number) >= count or not first:
        raise InputError(
            f"training.nodes is {count}: start the study on each node with srun, or there with NODE_RANK "
            f"(0 to {count - 1}) and MASTER_ADDR (the host name of node 0) in the environment"
        )
    return Node(int(number), count, first)


def train_on_nodes(
    study: Study,
    node: Node,
    slots: Slots,
    trainers: Staying,
    run: Path,
    options: Sequence[str],
    ranks: int,
    *,
    urgency: tuple[int, ...],
    log: Path,
    tick: Callable[[], None],
) -> None:
    """Train the run in a folder by `ranks` processes on every node of the study, as soon as `slots` has so many free.

    One process on a CPU of this machine alone is one of `trainers`. Raises what `run_module` raises.
    """
    # A job of a cluster takes one slot: how many GPUs a job has does not count, only how many jobs are in the queue.
    with slots.take(ranks if study.compute.pool == "local" else 1, urgency) as environment:
        arguments = [str(run), *options]
        if study.compute.pool == "local" and node.count == ranks == 1 and not slots.gpus:
            trainers.ask({"arguments": arguments, "log": str(log)}, environment, log=log, tick=tick)
            return
        if node.count == 1:
            start = run_module if study.compute.pool == "local" else partial(run_job, study, nodes=study.training.nodes)
            start("model.train", arguments, log=log, tick=tick, environment=environment, ranks=ranks)
            return
        address, folder = f"{node.first}:{free_port()}", str(run.resolve())
        command = node.command(address, folder, ranks, options)
        announcement = study.folder / "nodes" / f"{_name(run)}.json"
        announcement.parent.mkdir(parents=True, exist_ok=True)
        values = {"name": uuid4().hex, "address": address, "run": folder, "ranks": ranks, "options": list(options)}
        write_text_atomically(announcement, json.dumps(values))

        def touch() -> None:
            announcement.touch()
            tick()

        try:
            run_module("model.node", command, log=log, tick=touch, environment=environment)
        finally:
            announcement.unlink(missing_ok=True)


@contextmanager
def alive(study: Study) -> Iterator[None]:
    """Show the other nodes of a study, if there are any, that node 0 lives during the block."""
    if study.training.nodes == 1:
        yield
        return
    sign, ended = _sign(study), threading.Event()
    sign.parent.mkdir(parents=True, exist_ok=True)

    def beat() -> None:
        while not ended.is_set():
            with suppress(OSError):  # a shared file system that fails once may answer the next time
                sign.touch()
            ended.wait(BEAT_SECONDS)

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        sign.unlink(missing_ok=True)


def _sign(study: Study) -> Path:
    return study.folder / "nodes" / "alive"


class _Pulse:
    """Looks whether node 0 lives. Clocks of machines differ, so only changes of the file's time count."""

    def __init__(self, sign: Path) -> None:
        self._sign, self._changed, self._beaten = sign, time.monotonic(), False
        self._last = self._time()

    def _time(self) -> int | None:
        try:
            return self._sign.stat().st_mtime_ns
        except OSError:
            return None

    def lost(self) -> str:
        """Say how node 0 was lost; "" while it lives, or may be starting."""
        found = self._time()
        if found is None and self._beaten:
            return "node 0 has ended before the models were trained"
        if found != self._last:
            self._last, self._changed, self._beaten = found, time.monotonic(), found is not None
        if time.monotonic() - self._changed < SILENCE_SECONDS:
            return ""
        return f"node 0 has shown no sign of life for {SILENCE_SECONDS:.0f} s ({self._sign})"


def join_trainings(study: Study, node: Node, finished: Callable[[], bool]) -> None:
    """Take part in every training that node 0 announces, until `finished` tells that all models are trained.

    A training that fails ends no other. Raises InputError where the processes of this node end with bad input, or where
    the node has fewer GPUs than node 0; Failed where node 0 ends before the models are trained, or is silent.
    """
    slots, announced, joined = Slots(study), _Announcements(study.folder / "nodes"), list[Future[None]]()
    pulse = _Pulse(_sign(study))
    pool = ThreadPoolExecutor(slots.count)
    with stopped_on_exit():
        try:
            while True:
                lost = pulse.lost()
                if finished():  # looked at later: node 0 ends when all is trained
                    break
                if lost:
                    raise Failed(f"{lost}; start the study again on every node")
                joined += [pool.submit(_join, study, node, slots, values) for values in announced.new()]
                for training in joined:
                    if training.done():
                        training.result()
                wait_unless_stopping(POLL_SECONDS)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Announcements:
    """Find the trainings that a living node 0 announces: each in a file whose modification time keeps changing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, int] = {}  # the time of each file's last touch, by the training's name
        self._joined: set[str] = set()

    def new(self) -> list[dict[str, Any]]:
        """Read the announcements that have begun to live since the last call."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                touched, values = path.stat().st_mtime_ns, json.loads(path.read_text())
            except FileNotFoundError:  # the training has just ended
                continue
            name = values["name"]  # not the address: a port may come again
            if name not in self._joined and self._seen.setdefault(name, touched) != touched:
                self._joined.add(name)
                found.append(values)
        return found


def _join(study: Study, node: Node, slots: Slots, values: Mapping[str, Any]) -> None:
    """Take part in one training."""
    run, ranks, found = Path(values["run"]), values["ranks"], gpus(study)
    if found and ranks > found:
        raise InputError(f"node 0 trains by {ranks} GPUs on each node, but node {node.number} has {found}")
    label, log = f"join {_name(run)}", study.folder / "nodes" / f"{_name(run)}-node{node.number}.log"
    with slots.take(ranks) as environment:
        progress.report(label, 0.0, f"{ranks} of its ranks")
        command = node.command(values["address"], str(run), ranks, values["options"])
        try:
            run_module("model.node", command, log=log, environment=environment)
        except Failed as error:
            progress.report(label, 1.0, f"failed: {error.reason}")
        else:
            progress.report(label, 1.0, "done")


def _name(run: Path) -> str:
    """Name a training by the key of its output in the store and its seed."""
    return f"{run.parent.name.partition('.')[0]}-{run.name}"
