"""Record by what a run was computed: its devices, and the compiled C engine of a CPU.

A resumed run has the same bits by the same engine only. The library of another processor or
compiler, and torch's operations where there is none, sum in another order. Nothing is refused then:
a study may move to another machine. But the run's row, and the report, say from where on the
numbers are those of another computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.ops.device import device_name
from dreamer_study.model.ops.native.build import find_place
from dreamer_study.model.ops.native.library import available
from dreamer_study.model.training.config import TrainingRun
from dreamer_study.pipeline.storage.digests import file_digest

FROM = ", from "  # in the name of a run's device, where another one continued


class Computer(NamedTuple):
    """A device, the digest of its C engine ("" for torch's operations), and its first token."""

    tokens: int
    device: str
    engine: str


def this_computer(run: TrainingRun, device: torch.device, tokens: int) -> Computer:
    """Name what computes a run in this process, from `tokens` on.

    Models in code of the user do not call the C engine.
    """
    engine = ""
    is_ours = isinstance(run.model, DreamerConfig)
    if is_ours and device.type == "cpu" and available(torch.float32):
        engine = file_digest(find_place("float"))
    return Computer(tokens, device_name(device), engine)


def continued(before: Sequence[Sequence[Any]], now: Computer) -> list[Computer]:
    """Return the computers of a run, in their order, with this one where it is another.

    `before` are those of the run's state; a state of an older version of the program has none.
    """
    computers = [Computer(*each) for each in before]
    if not computers or computers[-1][1:] != now[1:]:
        computers.append(now)
    return computers


def devices_in_words(computers: Sequence[Computer]) -> str:
    """Name the devices of a run for its row, such as `cpu, from 5,120 tokens cpu with another C
    engine`."""
    first, *later = computers
    words = first.device
    for before, now in zip(computers, later, strict=False):
        words += f"{FROM}{now.tokens:,} tokens {now.device}{_change(before, now)}"
    return words


def change_in_words(computers: Sequence[Computer]) -> str:
    """Say that another computer continued a run; "" where none did."""
    if len(computers) < 2:
        return ""
    return (
        f"computed by {devices_in_words(computers)}: its numbers differ by rounding from those of"
        " one computer"
    )


def _change(before: Computer, now: Computer) -> str:
    if now.device != before.device or now.engine == before.engine:
        return ""
    return " with another C engine" if now.engine else " without a C engine"
