"""Divide this machine among processes: how many run at once, and which GPUs each of them sees."""

from __future__ import annotations

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
    """Return the bytes of memory that processes may use here: the machine's, or the limit of their
    group."""
    # "max" where there is none
    limits = [path.read_text().strip() for path in CGROUP_LIMITS if path.is_file()]
    return min(
        [
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            *map(int, filter(str.isdigit, limits)),
        ]
    )


def gpus(study: Study) -> int:
    """Count the CUDA devices that the study may use on this machine."""
    if study.training.device == "cpu":
        return 0
    import torch  # seconds, which a study on CPUs saves

    return torch.cuda.device_count()


def concurrency(study: Study) -> int:
    """Count the processes that run at once: `workers` of the study, `per_gpu` for each GPU, else
    one for each core."""
    return study.workers or gpus(study) * study.compute.per_gpu or cores()


def share_ranks(study: Study, runs: int, machines: Sequence[int]) -> list[int]:
    """Divide the GPUs of machines, so many on each, among `runs` runs: count the ranks that train
    each of them.

    A run gets `training.ranks`, else an equal share, and the last runs, the slowest, get one of the
    remainder: 8 GPUs and 3 runs give [2, 3, 3]. A share is at least one rank, and at most the rows
    of a batch and the GPUs of a machine; on CPUs one rank. Raises InputError if the study wants
    more GPUs for one run than any machine has.
    """
    wanted, training, found, most = (
        study.training.ranks,
        study.training,
        sum(machines),
        max(machines, default=0),
    )
    if wanted and found and wanted > most:
        raise InputError(
            f"training.ranks is {wanted}, but no machine of the study has more than {most} GPUs"
        )
    if wanted or not found:
        return [wanted or 1] * runs
    share, rest = divmod(min(found, study.workers or found), runs)
    rows = training.batch_tokens // training.sequence_length
    return [max(1, min(share + (run >= runs - rest), rows, most)) for run in range(runs)]


@contextmanager
def lock_gpus(
    names: Sequence[str], wanted: int, wait: Callable[[float], object], per_gpu: int = 1
) -> Iterator[list[str]]:
    """Wait for `wanted` of the named GPUs, all at once, and lock them. Yields their names.

    Up to `per_gpu` holders of one GPU share that GPU. A holder of several has each alone. The locks
    are the operating system's, on files for each GPU and place: a killed holder frees them at once.
    A process that finds too few GPUs frees what it has, so that two waiting processes never wait
    for each other, and calls `wait`.
    """
    folder = private_folder("devices")
    places = range(per_gpu) if per_gpu > 1 and wanted == 1 else [None]
    while True:
        with ExitStack() as held:
            found: list[str] = []
            for place in places:
                for name in names:
                    if len(found) < wanted and (
                        lock := _locked(folder / name.replace("/", "-"), place)
                    ):
                        held.enter_context(lock)
                        found.append(name)
            if len(found) == wanted:
                yield found
                return
        wait(POLL_SECONDS)


def _locked(path: Path, place: int | None) -> ExitStack | None:
    """Lock a whole GPU, or one place on a shared GPU; None where that is not free."""
    with ExitStack() as tried:
        free = try_lock(tried.enter_context(open_private(path)), shared=place is not None)
        if place is not None:
            free = free and try_lock(
                tried.enter_context(open_private(path.with_name(f"{path.name}.{place}")))
            )
        return tried.pop_all() if free else None


def visible_gpus(count: int) -> list[str]:
    """List the names by which CUDA_VISIBLE_DEVICES knows the `count` GPUs that this process
    sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not visible:
        return [str(number) for number in range(count)]
    return [name.strip() for name in visible.split(",")][:count]
