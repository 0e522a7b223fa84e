"""Training, scoring and generation at full size on a pretended GPU: where the host waits, and whether memory suffices.

Counted without torch.compile: what it fuses needs less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from benchmarks.gpu.counts import PRESETS, count_generation, count_scoring, count_step, read_preset
from benchmarks.gpu.fake_gpu import TORCH, device, pretended_gpu

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(f"{TORCH}."), reason=f"the pretended GPU uses private functions of torch {TORCH}"
)

HELD = 78e9  # bytes that tensors may take of a GPU with 80 GiB: the remainder is the driver's and lost between tensors
SMALLEST = "gpu-small", "DR+DA-8"
LARGER = [(preset, name) for preset in PRESETS for name in read_preset(preset)[0] if not name.endswith("-8")]


@pytest.fixture(scope="module")
def apart() -> Iterator[Executor]:
    """Start a process of its own: torch must know the device before its first backward pass."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        yield executor


@pytest.mark.slow
def test_the_ledger_knows_what_is_held_moved_and_waited_for(apart):
    apart.submit(check_the_ledger).result()


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
        x = torch.zeros(1000, 4, device=device())
        x.index_copy_(0, torch.zeros(2, dtype=torch.long, device=device()), x[:2])
    assert ledger.operations["add"] == ledger.operations["sum"] == 1
    assert ledger.moved["add"] == 8000
    assert ledger.moved["index_copy_"] == 16 + 2 * 32  # of x the rows that are written
    assert ledger.waits == ["_local_scalar_dense", "copy from the host", "copy to the host"]


SCORING = {"copy from the host": 9, "copy to the host": 4}
GENERATION = {"copy from the host": 4, "copy to the host": 3}


def check_training(preset: str, name: str) -> None:
    configs, settings = read_preset(preset)
    step = count_step(configs[name], settings, micro_batches=2)
    assert step.waits == ["copy to the host"]  # loss and gradient norm, together
    assert step.peak < HELD


def check_evaluation(preset: str, name: str) -> None:
    configs, _ = read_preset(preset)
    assert Counter(count_scoring(configs[name]).waits) == SCORING
    assert Counter(count_generation(configs[name], tokens=3).waits) == GENERATION


@pytest.mark.slow
def test_a_small_preset_fits_and_waits_once_a_step(apart):
    apart.submit(check_training, *SMALLEST).result()
    apart.submit(check_evaluation, *SMALLEST).result()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LA-8", "DR-8"])
def test_other_models_wait_as_rarely(apart, name):
    apart.submit(check_training, "gpu-small", name).result()
    apart.submit(check_evaluation, "gpu-small", name).result()


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "name"), LARGER)
def test_every_larger_model_fits_and_waits_once_a_step(apart, preset, name):
    apart.submit(check_training, preset, name).result()


@pytest.mark.slow
def test_evaluating_the_largest_model_waits_no_more_often(apart):
    apart.submit(check_evaluation, "paper-32", "DR+DA-32").result()
