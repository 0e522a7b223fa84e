"""Divide this machine among processes: how many run at once, and which GPUs each of them sees."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dreamer_study.flows.jobs.private_files import open_private, private_folder
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.locks import try_lock

POLL_SECONDS = 0.5
CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def cores() -> int:
    """Count the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory() -> int:
    """Return the bytes of memory that processes may use: the machine's, or their group's limit."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in CGROUP_LIMITS:
        limit = path.read_text().strip() if path.is_file() else ""
        if limit.isdigit():  # "max" where there is none
            sizes.append(int(limit))
    return min(sizes)


def gpus(study: Study) -> int:
    """Count the CUDA devices that the study may use on this machine."""
    if study.training.device == "cpu":
        return 0
    import torch  # seconds, which a study on CPUs saves

    return torch.cuda.device_count()


def concurrency(study: Study) -> int:
    """Count the processes that run at once.

    That is `workers` of the study, else `per_gpu` for each GPU, else one for each core. More than
    the GPUs bear wait for a GPU (`lock_gpus`).
    """
    on_gpus = gpus(study) * study.compute.per_gpu
    return study.workers or on_gpus or cores()


def share_ranks(study: Study, runs: int, machines: Sequence[int]) -> list[int]:
    """Divide the GPUs of machines among `runs` runs: the ranks of each run.

    `machines` holds the number of GPUs of each machine.

    A run gets `training.ranks`, else an equal share, and the last runs get one of the remainder: 8
    GPUs and 3 runs give [2, 3, 3]. Runs come in the order of the study file, in which slow variants
    usually are last. A share is at least one rank, and at most the rows of a batch and the GPUs of
    a machine; on CPUs one rank. Raises InputError if the study wants more GPUs for one run than any
    machine has.
    """
    training = study.training
    count = sum(machines)
    most = max(machines, default=0)
    if training.ranks and count and training.ranks > most:
        raise InputError(
            f"training.ranks is {training.ranks}, but no machine of the study has more than {most}"
            " GPUs"
        )
    if training.ranks or not count:
        return [training.ranks or 1] * runs
    share, remainder = divmod(min(count, study.workers or count), runs)
    rows = training.batch_tokens // training.sequence_length
    shares = [share] * (runs - remainder) + [share + 1] * remainder
    return [max(1, min(ranks, rows, most)) for ranks in shares]


@contextmanager
def lock_gpus(
    names: Sequence[str], wanted: int, wait: Callable[[float], object], per_gpu: int = 1
) -> Iterator[list[str]]:
    """Wait for `wanted` of the named GPUs, all at once, and lock them. Yields their names.

    Up to `per_gpu` holders of one GPU share that GPU. A holder of several has each alone. The locks
    are the operating system's, on files for each GPU and place: a killed holder frees them at once.
    A process that finds too few GPUs frees what it has, so that two waiting processes never wait
    for each other, and calls `wait`. There is no queue: between two looks another process of the
    machine may come first.
    """
    folder = private_folder("devices")
    shares = per_gpu > 1 and wanted == 1
    places = range(per_gpu) if shares else [None]  # None: the whole GPU
    while True:
        with ExitStack() as held:
            locked: list[str] = []
            # The first place of every GPU comes before the second of any: idle GPUs come first.
            for place, name in itertools.product(places, names):
                if len(locked) == wanted:
                    break
                lock = _locked(folder / name.replace("/", "-"), place)
                if lock:
                    held.enter_context(lock)
                    locked.append(name)
            if len(locked) == wanted:
                yield locked
                return
        wait(POLL_SECONDS)


def _locked(path: Path, place: int | None) -> ExitStack | None:
    """Lock a whole GPU, or one place on a shared GPU; None where that is not free.

    A holder of a place shares the lock of the GPU's file, and has that of the place's file alone. A
    holder of the whole GPU has the GPU's file alone: so it is free only when no place is held.
    """
    with ExitStack() as tried:
        file = tried.enter_context(open_private(path))
        is_free = try_lock(file, shared=place is not None)
        if is_free and place is not None:
            file = tried.enter_context(open_private(path.with_name(f"{path.name}.{place}")))
            is_free = try_lock(file)
        return tried.pop_all() if is_free else None


def visible_gpus(count: int) -> list[str]:
    """List the names by which CUDA_VISIBLE_DEVICES knows the `count` GPUs that this process
    sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not visible:
        return [str(number) for number in range(count)]
    return [name.strip() for name in visible.split(",")][:count]
