"""Take optimiser steps, count their tokens, and save and restore what the next step needs.

The resume state is written before the checkpoint, and says whether a checkpoint is due. So no
checkpoint on the disk is ahead of its run, and a checkpoint that a kill prevented is written on
resume.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dreamer_study.model import ops
from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import FOLDER as CODE
from dreamer_study.model.architectures.code import check_code, versions
from dreamer_study.model.checkpoints.models import TrainingState, load_tensors, newest_state
from dreamer_study.model.ops.device import choose_device, choose_precision, use_one_core
from dreamer_study.model.ops.gpu import on_gpu, set_up
from dreamer_study.model.random_states import random_states, restore_random_states, seed_all
from dreamer_study.model.training.compile_and_recompute import (
    compile_parts,
    compiles,
    recompute_activations,
)
from dreamer_study.model.training.computers import continued, this_computer
from dreamer_study.model.training.config import TrainingRun
from dreamer_study.model.training.optimizer import make_optimizer
from dreamer_study.model.training.provenance import find_code_change, source_digests
from dreamer_study.model.training.ranks import Ranks, TrainingFailed
from dreamer_study.model.training.save import part_of, write_state
from dreamer_study.model.training.schedule import scheduled_rate
from dreamer_study.model.training.stream import (
    IGNORED,
    START_HASH,
    Batch,
    data_digest,
    extend_hash,
    open_stream,
)
from dreamer_study.model.training.weight_average import WeightAverage
from dreamer_study.pipeline.errors import InputError

LOSS_WINDOW = 100
"""Steps over which a checkpoint's loss is averaged: the loss of one batch is too noisy."""

COUNTERS = ("step", "tokens", "epoch", "seconds", "stream_hash", "due", "log_bytes", "log_sum")
"""Attributes of a Trainer that are saved and restored as they are."""

SAVED = (*COUNTERS, "losses", "halved", "origin")
"""Values that every state has."""


class Trainer:
    """Train a run: its model, average, optimiser, stream and counters.

    All of them are new, or restored from the run's newest state. Each rank has a whole Trainer and
    computes its own rows; what is saved does not depend on the number of ranks. Raises InputError
    if run.json and the data do not fit each other, or have changed since the state was saved.
    Changed code is accepted with `accept_code_change`, and then described in `code_change`; the
    user's own is run with `trust_code` only.
    """

    def __init__(
        self,
        run: TrainingRun,
        ranks: Ranks | None = None,
        *,
        accept_code_change: bool = False,
        trust_code: bool = False,
    ) -> None:
        self.run = run
        self.config = run.training
        self.ranks = ranks or Ranks()
        own_files = {**getattr(run.model, "files", {}), **self.config.optimizer_files}
        check_code(own_files, run.home / CODE)
        self.device = choose_device(self.config.device, self.ranks.local)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.precision = choose_precision(self.config.precision, self.device)
        if on_gpu(self.device):
            set_up(self.precision)
        if self.device.type == "cpu":
            use_one_core()
        self.stream = open_stream(run, self.ranks.count)
        self.own_rows = self.ranks.own_rows(self.stream.batch_rows)
        micro_batch_tokens = self.config.micro_batch_tokens or self.config.batch_tokens
        most_rows_of_a_rank = -(-self.stream.batch_rows // self.ranks.count)  # rounded up
        # Rows of one forward and backward pass: equal on all ranks, as they are halved together.
        self.micro_rows = min(
            max(1, micro_batch_tokens // self.stream.sequence_length), most_rows_of_a_rank
        )
        self.halved: dict[str, int] | None = None  # how a shortage of memory was met
        # what a resumed run must still be: saved with each state, compared at each resume
        self.origin = {
            **run.settings(),
            "data": data_digest(run.data),
            "code": {
                **source_digests("dreamer_study.model.train"),
                "torch": torch.__version__,
                **versions(run.model, run.home / CODE),
            },
            "computed_on": f"{self.device.type} in {self.precision}",
        }
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0
        self.stream_hash = START_HASH
        self.epoch = 0.0
        self.losses: deque[float] = deque(maxlen=LOSS_WINDOW)
        self._compiled = False
        self.due = 0 in self.config.checkpoints  # whether a checkpoint is to be written
        self.log_bytes = 0  # length and CRC-32 of steps.csv at the newest state
        self.log_sum = 0
        self.code_change: dict[str, Any] | None = None  # accepted on this resume
        self.computers = [this_computer(run, self.device, 0)]

        state = self._find_state(accept_code_change)
        # for the initial weights, and for what a user's model draws; the stream draws by itself
        seed_all(self.config.seed)
        with self.device:
            self.model = build(
                run.model,
                self.precision,
                code=run.home / CODE,
                trust_code=trust_code,
                empty=state is not None,
            )
        if state:
            # The tensors of the state are mapped from its file, once for all ranks of a machine.
            # Copies, or a CPU run would train in the file.
            tensors = {
                name: tensor.to(self.device, copy=True)
                for name, tensor in part_of(state, "model.").items()
            }
            load_tensors(self.model, tensors, run.folder / "state")
        # Behind `load_tensors`, as optimiser and average hold the very tensors of the model.
        self.optimizer = make_optimizer(
            self.model, self.config, code=run.home / CODE, trust_code=trust_code
        )
        self.average = WeightAverage(self.model.state_dict(), self.config.averaging)
        if state:
            self._restore(state)
        self.model.train()
        if self.config.checkpointing:
            recompute_activations(self.model)
        if compiles(self.config.compile, self.device):
            self.compile(dynamic=False)
        self.points = {*self.config.checkpoints, self.config.tokens}  # token counts of checkpoints
        self._next: tuple[int, Batch] | None = None  # the newest batch, and its step

    def _find_state(self, accept_code_change: bool) -> TrainingState | None:
        """Read the state to continue from; None where there is none.

        A branch without a state of its own starts from its run's.
        """
        run = self.run
        state = newest_state(run.folder / "state", *SAVED)
        if state:
            self.code_change = find_code_change(run, state.values, self.origin, accept_code_change)
        elif any((run.folder / "checkpoints").glob("[0-9]*")):
            raise InputError(
                f"{run.folder} has checkpoints, but no state to continue from; remove the folder to"
                " start over"
            )
        elif run.branch_of:
            # the run's own trainer has just compared code and data with this state
            start = newest_state(run.branch_of / "state", *SAVED)
            assert start, "a branch starts from a state"
            assert start.values["tokens"] == run.branched_at, "the run has not gone on"
            # with a log of its own
            own = {"losses": [], "due": False, "log_bytes": 0, "log_sum": 0}
            state = TrainingState(start.tensors, {**start.values, **own})
        return state

    def synchronize(self) -> None:
        """Copy the first rank's parameters, buffers and average.

        All ranks must call this before the first step. Initial weights may differ between machines
        (other GPUs, other kernels); the optimiser's moments are zero, or of one state, everywhere.
        """
        tensors = (*self.model.state_dict().values(), *self.average.tensors.values())
        self.ranks.broadcast([tensor.data for tensor in tensors])

    def _share_gradients(self) -> None:
        """Give a parameter with a gradient on any rank a gradient on every rank.

        Some expert may have had no token here, and all ranks must reduce the same tensors. Where no
        rank has a gradient it stays None: AdamW then skips the parameter.
        """
        parameters = list(self.optimizer.parameters.values())
        ranks_with_gradient = torch.tensor(
            [parameter.grad is not None for parameter in parameters], dtype=torch.int32
        )
        self.ranks.all_reduce([ranks_with_gradient])
        for parameter, count in zip(parameters, ranks_with_gradient.tolist(), strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def compile(self, **options: Any) -> None:
        """Let `torch.compile` fuse the model.

        All shapes are met in the first step; after that nothing more is compiled.
        """
        # of the whole process: an earlier training may have ended with another
        torch.compiler.set_stance("default")
        compile_parts(self.model, **options)
        self._compiled = True

    def train_step(self) -> tuple[float, float, float]:
        """Take one optimiser step; return its loss, learning rate and gradient norm.

        The loss is the mean over the batch's target tokens. Raises TrainingFailed, with the
        parameters unchanged, if loss or norm is not finite, or memory is short a second time.

        `self.step` is the number of steps that are done: batches and rows are numbered from 0,
        rates and averages from 1.
        """
        batch = self._batch(self.step)
        is_another = self.model.begin_step(self.tokens)
        if is_another and self._compiled:
            torch.compiler.set_stance("default")  # for the new shapes
        loss = self._backward(batch)
        if self.ranks.count > 1:
            self._share_gradients()  # first, as all ranks must reduce the same list of tensors
        # Each rank has divided by the target tokens of all ranks, so a sum over ranks gives the
        # mean over the batch. The counts are the experts' selections, for the balance (Eq. 3).
        self.ranks.all_reduce([loss, *self.optimizer.gradients(), *self.model.counts()])
        norm = self.optimizer.gradient_norm()  # of the summed gradients, which alone are clipped
        if on_gpu(self.device):
            self._batch(self.step + 1)  # built and kept while the device is at work
        # the one place where the host waits for the device: for both numbers at once
        loss_value, norm_value = torch.stack((loss, norm)).tolist()
        if not math.isfinite(loss_value) or not math.isfinite(norm_value):
            raise TrainingFailed(
                f"step {self.step + 1}: loss {loss_value}, gradient norm {norm_value}; training"
                " stopped; lower learning_rate or clip"
            )
        # The warm-up counts steps from 1, so that no rate is 0; a decay goes by the tokens before.
        learning_rate = scheduled_rate(self.config, self.step + 1, self.tokens)
        self.optimizer.step(learning_rate, norm)  # clips the gradients by `norm`
        self.optimizer.clear()
        self.model.update_balance()  # by the counts of this step, which it then sets to 0
        if self._compiled:
            # From now on a shape that is new, of a rare batch, is computed without compiling.
            torch.compiler.set_stance("eager_on_recompile")

        if self.ranks.is_first:  # which alone saves the hash; the other ranks' is not read
            self.stream_hash = extend_hash(self.stream_hash, self.stream.raw_rows(self.step))
        tokens_before = self.tokens
        self.step += 1
        self.average.update(self.step)
        self.tokens += batch.real_tokens  # padding does not count
        self.epoch = batch.epoch
        self.losses.append(loss_value)
        # A checkpoint is due at the first step that reaches a point; a step may pass several. The
        # recorder saves it, and adds points that another study has written to run.json meanwhile.
        self.due = any(tokens_before < point <= self.tokens for point in self.points)
        return loss_value, learning_rate, norm_value

    def _backward(self, batch: Batch) -> Tensor:
        """Compute the gradients of this rank's rows, and return its part of the loss.

        On a shortage of memory on any rank, all ranks compute the step again in smaller parts: so
        their micro-batches stay alike.
        """
        while True:
            loss = self._attempt(batch)
            if not self.ranks.any(loss is None):
                return loss
            self._halve()

    def _attempt(self, batch: Batch) -> Tensor | None:
        """Run forward and backward passes over this rank's rows; return None if memory is short."""
        total = torch.zeros((), device=self.device)
        try:
            for begin in range(0, len(batch.tokens), self.micro_rows):
                rows = slice(begin, begin + self.micro_rows)
                # Divided by the target tokens of the whole batch on all ranks, not of these rows:
                # so the parts of micro-batches and ranks add up to the mean. It has none where no
                # row has a response or an answer.
                loss = self._loss(batch, rows) / max(1, batch.target_tokens)
                total += loss.detach()
                auxiliary = self._auxiliary_loss(batch, rows)
                (loss if auxiliary is None else loss + auxiliary).backward()
        except torch.OutOfMemoryError:
            # Leaving this block drops the traceback, and so all tensors of the failed pass.
            return None
        return total

    def _halve(self) -> None:
        """Drop a failed attempt at a step, and halve the rows of a micro-batch.

        Raises TrainingFailed the second time in a run, where the setting is far off and its user
        is told, and where a row alone is too large.
        """
        tokens = self.micro_rows * self.stream.sequence_length
        if self.halved or self.micro_rows == 1:
            raise TrainingFailed(
                f"step {self.step + 1}: out of memory on {self.device} with {tokens} tokens at a"
                " time; lower micro_batch_tokens, or set checkpointing"
            )
        # what the attempt has left: gradients of some rows, and the selections that it counted
        self.optimizer.clear()
        for counts in self.model.counts():
            counts.zero_()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.halved = {"step": self.step + 1, "from": tokens}
        self.micro_rows //= 2
        if self._compiled:
            torch.compiler.set_stance("default")  # for the new shapes

    def _loss(self, batch: Batch, rows: slice) -> Tensor:
        """Sum the losses at the targets of `rows`.

        Positions without a target are left out before the head: its product is the largest. They
        are found on the host, as on a GPU `nonzero` would wait for the device.
        """
        targets = batch.targets[rows].flatten()  # [T]
        with_target = (targets != IGNORED).nonzero().squeeze(1)  # [W], places in [T]
        documents = None
        if self.config.documents == "apart":
            documents = ops.Documents(
                batch.tokens[rows], batch.documents[rows], batch.positions[rows]
            )
            if on_gpu(self.device):
                documents = documents.moved(self._move)
        tokens = self._move(batch.tokens[rows])  # [B, S]
        targets = self._move(targets[with_target])  # [W]
        with_target = self._move(with_target)
        states = self.model.states(tokens, documents)  # [B, S, H]
        states = states.flatten(0, 1).index_select(0, with_target)  # [W, H]
        # compiled by itself, as the loss is no part of the compiled blocks
        return self.model.loss(states, targets, compiled=self._compiled)

    def _auxiliary_loss(self, batch: Batch, rows: slice) -> Tensor | None:
        """Return what the model adds to the mean loss of `rows`, by their share of the targets."""
        auxiliary = self.model.auxiliary_loss()
        if auxiliary is None:
            return None
        targets = int((batch.targets[rows] != IGNORED).sum())
        return auxiliary * (targets / max(1, batch.target_tokens))

    def _move(self, tensor: Tensor) -> Tensor:
        """Move a tensor to the device, without waiting for the copy."""
        if self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _batch(self, step: int) -> Batch:
        """Build the batch of a step, or return the one that was built in advance."""
        if self._next is None or self._next[0] != step:
            self._next = step, self.stream.batch(step, self.own_rows)
        return self._next[1]

    def save(self, recorded: Mapping[str, Any]) -> None:
        """Save the state, then the checkpoint if one is due; called on one rank.

        All ranks have the same state. `recorded` is what the recorder keeps with the state. Raises
        TrainingFailed, and saves nothing, if the newest step has left a parameter that is not
        finite.
        """
        # A finite gradient can overflow a parameter in the update, which is seen only now.
        finite = [parameter.isfinite().all() for parameter in self.model.parameters()]
        if not torch.stack(finite).all():
            raise TrainingFailed(
                f"step {self.step}: parameters are not finite after this step; training stopped;"
                " lower learning_rate or clip"
            )
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.model.state_dict().items():
            tensors[f"model.{name}"] = tensor
        for name, tensor in self.optimizer.tensors().items():
            tensors[f"optimizer.{name}"] = tensor
        for name, tensor in self.average.tensors.items():
            tensors[f"average.{name}"] = tensor
        for name, tensor in random_states(self.device).items():
            tensors[f"random.{name}"] = tensor
        # copied, as some models use one tensor under two names, which safetensors refuses
        copies = {name: tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
        values = {
            **{name: getattr(self, name) for name in COUNTERS},
            "losses": list(self.losses),
            "halved": self.halved,
            "origin": self.origin,
            "computers": self.computers,
            **recorded,  # last: it holds the log's length and checksum, newer than the trainer's
        }
        write_state(self.run, TrainingState(copies, values))

    def _restore(self, state: TrainingState) -> None:
        """Continue from a state."""
        values = state.values
        self.optimizer.load(part_of(state, "optimizer."))
        self.average.load(part_of(state, "average."))
        restore_random_states(part_of(state, "random."), self.device)
        self.losses.extend(values["losses"])
        for name in COUNTERS:
            setattr(self, name, values[name])
        now = self.computers[-1]._replace(tokens=self.tokens)
        self.computers = continued(values.get("computers", []), now)
        # A run that met a shortage of memory resumes with the halved micro-batches, unless
        # micro_batch_tokens is another by now: that may be halved again.
        halved = values["halved"]
        if halved and halved["from"] == self.micro_rows * self.stream.sequence_length:
            self.halved = halved
            self.micro_rows //= 2
