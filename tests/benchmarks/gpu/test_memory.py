"""Training at full size on a pretended GPU: memory suffices, and the host waits once a step."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from benchmarks.gpu.memory import TORCH, count_step, device, pretended_gpu, read_preset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.__version__.startswith(f"{TORCH}."),
        reason=f"the pretended GPU uses private functions of {TORCH}",
    ),
]

# bytes that tensors may take of a GPU with 80 GiB: the remainder is the driver's and lost between
# tensors
HELD = 78e9
# The smallest and the largest preset. DR+DA holds the most activations of a preset, LA the most
# weights; DR no more of either.
MODELS = [("gpu-small", "DR+DA-8"), ("paper-32", "DR+DA-32"), ("paper-32", "LA-32")]


@pytest.fixture(scope="module")
def apart():
    """Call a function in a process of its own: torch must know the device before its first backward
    pass."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:

        def call(function: Callable, *arguments: object) -> None:
            executor.submit(function, *arguments).result()

        yield call


def check_the_ledger() -> None:
    with pretended_gpu() as ledger:
        x = torch.zeros(1000, device=device())
        y = x + 1
        assert ledger.live == 8000
        del x
        assert (ledger.live, ledger.peak) == (4000, 8000)
        assert y.sum().item() == 0
        assert torch.zeros(3).sum().item() == 0  # of the host: nobody waits
        torch.tensor([1, 2], device=device())
        y.tolist()
    assert ledger.waits == ["_local_scalar_dense", "copy from the host", "copy to the host"]


def check_training(preset: str, name: str) -> None:
    configs, settings = read_preset(preset)
    step = count_step(configs[name], settings)
    assert step.waits == ["copy to the host"]  # loss and gradient norm, together
    assert step.peak < HELD


def test_the_ledger_knows_what_is_held_and_waited_for(apart):
    apart(check_the_ledger)


@pytest.mark.parametrize(("preset", "name"), MODELS)
def test_a_step_of_a_preset_fits_and_waits_once(apart, preset, name):
    apart(check_training, preset, name)
