import os

import pytest
import torch

from model import ops
from tests.model.compiler import COMPILER

if not COMPILER:
    os.environ["DREAMER_NATIVE"] = "0"  # else every process of the tests would say that there is none


@pytest.fixture(scope="module", params=["native", "torch"])
def engine(request):
    """Both engines for a CPU, one after the other."""
    if request.param == "native" and not COMPILER:
        pytest.skip("no C compiler")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with ops.engine(request.param):
        assert request.param == "torch" or ops.native.available(torch.float32)
        yield request.param
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def one_thread():
    """Of torch, as native.c is for."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
