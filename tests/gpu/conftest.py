"""The devices of these tests: the first GPU where there is one, and everywhere a CPU that is treated as a GPU.

So the tests themselves run without a GPU, at small sizes; on a GPU the presets' models have their full size.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from model.training import trainer
from tests.model.conftest import as_gpu  # noqa: F401  a fixture


@pytest.fixture(params=["gpu", "cpu"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device that models, trainers and kernels of a test are put on."""
    if request.param == "gpu":
        if not torch.cuda.is_available():
            pytest.skip("no GPU")
        chosen = torch.device("cuda", 0)
    else:
        request.getfixturevalue("as_gpu")
        chosen = torch.device("cpu")
    monkeypatch.setattr(trainer, "choose_device", lambda *_: chosen)
    yield chosen
    torch.cuda.empty_cache()  # nothing without a GPU
