"""Data-parallel training: the processes (ranks) that train one run together, started by torchrun or anything like it.

Every rank has the whole model and optimiser and takes its rows of each global batch; gradients are added up once per
optimiser step, after the last micro-batch, so that all ranks take the same step and one process with all rows would
take it too, up to rounding. This is done by one flat sum of our own and not by DistributedDataParallel, because what
it is made for does not apply: its average over ranks is not the mean over the batch's target tokens, and there is
next to nothing to overlap with, since gradients of weights that all depths share are complete only at the end.

A rank that dies is noticed by a connection that is kept for nothing else (lifeline.py), whatever the others are doing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from model.training.failures import TrainingFailed
from model.training.lifeline import Lifeline
from pipeline.errors import InputError

SILENCE = timedelta(minutes=10)
"""A rank that lives but does not answer for so long (longer than a checkpoint takes to write) is given up."""

BUCKET_ELEMENTS = 2**25
"""Gradients summed in one call: 128 MiB in float32."""


class Elsewhere(Exception):
    """This rank ends because of what another rank says; `status` is to be its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"another rank ended with status {status}")
        self.status = status


@dataclass(frozen=True)
class Ranks:
    """All processes that train a run: how many they are, and which of them this is. By default it is alone."""

    rank: int = 0
    count: int = 1
    local: int = 0  # which of this machine's devices is its own

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes and talks."""
        return self.rank == 0

    def share(self, rows: int) -> slice:
        """This rank's part of the rows of a global batch: consecutive ones, sizes differ by one at most."""
        return slice(rows * self.rank // self.count, rows * (self.rank + 1) // self.count)

    def any(self, *flags: bool) -> list[bool]:
        """For each flag whether any rank raised it. All ranks must ask together; the host waits, no device does."""
        if self.count == 1:
            return list(flags)
        raised = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(raised, dist.ReduceOp.MAX)
        return [bool(flag) for flag in raised.tolist()]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each of the tensors by its sum over all ranks, the same bits on every rank.

        Small ones are laid side by side into buckets. All ranks must bring the same shapes in the same order.
        """
        if self.count == 1:
            return
        for bucket in _buckets(tensors):
            if len(bucket) == 1 and bucket[0].is_contiguous():
                dist.all_reduce(bucket[0])
                continue
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            dist.all_reduce(flat)
            for tensor, total in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
                tensor.copy_(total.view_as(tensor))

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite each of the tensors by what the first rank has."""
        if self.count > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Work that all ranks do, such as starting: where it fails with bad input, all end, and the first says why.

        They do it each by itself: one that waited for another here would not learn that the other has failed.
        """
        failure = None
        try:
            yield
        except InputError as error:
            failure = error
        if self.count > 1:
            first = torch.tensor([self.rank if failure else self.count])
            dist.all_reduce(first, dist.ReduceOp.MIN)
            if first.item() not in (self.rank, self.count):
                raise Elsewhere(status=2) from failure
        if failure:
            raise failure


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    for tensor in tensors:
        full = sum(other.numel() for other in bucket) + tensor.numel() > BUCKET_ELEMENTS
        if bucket and (full or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


@contextmanager
def joined(name: str) -> Iterator[Ranks]:
    """The ranks of this training, by the environment that torchrun and its like set; alone where there is none.

    When one of them dies or fails, this process ends as well, with status 1 (2 where it was bad input) and one line
    from one of them, `name` at its head. Raises InputError for an incomplete environment.
    """
    ranks = _from_environment()
    if ranks.count == 1:
        yield ranks
        return
    with_cuda = torch.cuda.is_available() and dist.is_nccl_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if with_cuda else "gloo", timeout=SILENCE)
    lifeline = Lifeline(name, ranks.rank, ranks.count, _spread_numbers)
    try:
        yield ranks
    except TrainingFailed:  # this meets all ranks alike, and the first one says so
        if not ranks.is_first:
            lifeline.wait()
        lifeline.leave(1)
        raise
    except (InputError, OSError) as error:
        lifeline.leave(2 if isinstance(error, InputError) else 1)
        raise
    except BaseException:
        lifeline.wait()  # where a rank is lost or says what is wrong, this was only its echo
        lifeline.leave(1)
        raise
    lifeline.leave(0)
    dist.destroy_process_group()


def _spread_numbers(numbers: list[int]) -> list[int]:
    """Those of the first rank, on every rank."""
    tensor = torch.tensor(numbers)
    dist.broadcast(tensor, 0)
    return tensor.tolist()


def _from_environment() -> Ranks:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    found = {name: os.environ[name] for name in names if name in os.environ}
    if found.get("WORLD_SIZE", "1") == "1":
        return Ranks()
    missing = [name for name in (*names, "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(f"WORLD_SIZE is {found['WORLD_SIZE']}, but {missing[0]} is not set: start it with torchrun")
    rank, count, local = (int(found[name]) for name in names)
    return Ranks(rank, count, local)
