import os
import shlex
import shutil

import pytest
import torch
import torch.nn.functional as F

from dreamer_study.model import ops
from dreamer_study.model.ops.gpu import as_on_gpu
from dreamer_study.model.ops.torch_kernels import attention

# The C engine's tests run everywhere but without a C compiler. A library that is missing makes them
# fail.
COMPILER = os.environ.get("DREAMER_NATIVE") != "0" and shutil.which(
    shlex.split(os.environ.get("CC") or "cc")[0]
)
needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")
if not COMPILER:
    # else every process of the tests would say that there is none
    os.environ["DREAMER_NATIVE"] = "0"


@pytest.fixture(scope="module", params=["native", "torch"])
def engine(request, one_thread):
    """Both engines for a CPU, one after the other."""
    if request.param == "native" and not COMPILER:
        pytest.skip("no C compiler")
    with ops.engine(request.param):
        assert request.param == "torch" or ops.native.available(torch.float32)
        yield request.param


@pytest.fixture(scope="module")
def one_thread():
    """Of torch, as native.c is for."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def as_gpu(monkeypatch):
    """The paths of a GPU on the CPU, with a plain form of the one kernel that only CUDA has."""
    monkeypatch.setattr(attention, "_packed_kernel", lambda: (attend_documents, {}))
    # of the whole process
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda precision: None)
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "")
    with as_on_gpu("cpu"):
        yield


def attend_documents(query, key, value, bounds, _, longest, __):
    """Attend within each document by torch's attention; rows [T, heads, K], as torch's
    `varlen_attn` takes them."""
    lengths = bounds.diff().tolist()
    assert max(lengths) == longest
    parts = (tensor.transpose(0, 1).split(lengths, dim=1) for tensor in (query, key, value))
    attended = [
        F.scaled_dot_product_attention(*part, is_causal=True, enable_gqa=True)
        for part in zip(*parts, strict=True)
    ]
    return torch.cat(attended, dim=1).transpose(0, 1)
