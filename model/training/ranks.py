"""Train one run by several processes (ranks), data-parallel, as torchrun starts them.

Every rank holds the whole model and optimiser, and computes the gradients of its own rows of each
global batch. Gradients are all-reduced once per optimiser step, after the final micro-batch, so
that all ranks take the same step, up to rounding the step of one process with all rows.
DistributedDataParallel does not fit: its average over ranks is not the mean over the batch's target
tokens, and gradients of weights that all depths use are complete only at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dreamer_study.model.processes import HOPELESS
from dreamer_study.pipeline.errors import InputError

SILENCE = timedelta(minutes=10)
"""Longest wait in a collective operation.

Longer than the first rank takes to write a state, while the others wait for it.
"""

BUCKET_ELEMENTS = 2**25
"""Elements all-reduced in one call: 128 MiB in float32."""


class TrainingFailed(RuntimeError):
    """The training has failed, with good input; the text is one line."""


class RankLost(TrainingFailed):
    """Another rank has ended, as by a signal: unlike other failures, another try may pass."""


class OtherRankFailed(Exception):
    """Another rank has failed and says why; this rank ends silently with exit status `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"another rank ended with status {status}")
        self.status = status


@dataclass(frozen=True)
class Ranks:
    """The processes that train a run, and which of them this one is; by default the only one."""

    rank: int = 0
    count: int = 1
    local: int = 0  # index of this rank's device on its machine

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    def own_rows(self, rows: int) -> slice:
        """Return this rank's consecutive rows of a global batch.

        Example: of 6 rows 4 ranks have 0:1, 1:3, 3:4 and 4:6.
        """
        return slice(rows * self.rank // self.count, rows * (self.rank + 1) // self.count)

    def any(self, flag: bool) -> bool:
        """Tell whether any rank raised the flag; all ranks must call this.

        An all-reduce on the host.
        """
        if self.count == 1:
            return flag
        raised = torch.tensor(flag, dtype=torch.int32)
        self._together(dist.all_reduce, raised, dist.ReduceOp.MAX)
        return bool(raised)

    def all_reduce(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks, the same bits on every rank.

        Small tensors are concatenated into buckets. All ranks must bring the same shapes in the
        same order.
        """
        if self.count == 1:
            return
        for bucket in _buckets(tensors):
            if len(bucket) == 1 and bucket[0].is_contiguous():
                self._together(dist.all_reduce, bucket[0])
                continue
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            self._together(dist.all_reduce, flat)
            totals = flat.split([tensor.numel() for tensor in bucket])
            for tensor, total in zip(bucket, totals, strict=True):
                tensor.copy_(total.view_as(tensor))

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite each tensor by the first rank's."""
        if self.count > 1:
            for tensor in tensors:
                self._together(dist.broadcast, tensor, 0)

    def _together(self, collective: Callable[..., object], *arguments: Any) -> None:
        """Call a collective operation. Raises TrainingFailed where another rank has ended."""
        try:
            collective(*arguments)
        except RuntimeError as error:
            raise RankLost(
                "another rank has ended; training stopped, start it again to continue"
            ) from error

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Run the block on all ranks; if it raises InputError on any, all end.

        The first of the ranks with an error says why. Inside the block no rank may wait for
        another, which may have failed already.
        """
        failure = None
        try:
            yield
        except InputError as error:
            failure = error
        if self.count > 1:
            # the lowest rank that has failed; `count` where none has
            lowest = torch.tensor([self.rank if failure else self.count])
            self._together(dist.all_reduce, lowest, dist.ReduceOp.MIN)
            first_failed = lowest.item()
            if first_failed != self.count:
                dist.destroy_process_group()  # whose threads could abort the end of the interpreter
            if first_failed not in (self.rank, self.count):
                raise OtherRankFailed(status=2) from failure
        if failure:
            raise failure


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Group consecutive tensors of one dtype, up to BUCKET_ELEMENTS in a group."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        elements = sum(other.numel() for other in bucket) + tensor.numel()
        if bucket and (elements > BUCKET_ELEMENTS or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def failure_status(error: TrainingFailed) -> int:
    """Return the exit status of a training that has failed with good input."""
    return 1 if isinstance(error, RankLost) else HOPELESS


@contextmanager
def process_group() -> Iterator[Ranks]:
    """Join the ranks of this training, as torchrun's environment variables describe them.

    Without these variables the process trains alone. A TrainingFailed is raised on all ranks; only
    the first prints it. Raises InputError for an incomplete environment.
    """
    ranks = _ranks_of_environment()
    if ranks.count == 1:
        yield ranks
        return
    with_cuda = torch.cuda.is_available() and dist.is_nccl_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if with_cuda else "gloo", timeout=SILENCE)
    try:
        yield ranks
    except TrainingFailed as error:
        if not ranks.is_first:
            raise OtherRankFailed(status=failure_status(error)) from error
        raise
    dist.destroy_process_group()


def _ranks_of_environment() -> Ranks:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    world_size = os.environ.get("WORLD_SIZE", "1")
    if world_size == "1":
        return Ranks()
    missing = [name for name in (*names, "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(
            f"WORLD_SIZE is {world_size}, but {missing[0]} is not set: start it with torchrun"
        )
    rank, count, local = (int(os.environ[name]) for name in names)
    return Ranks(rank, count, local)
