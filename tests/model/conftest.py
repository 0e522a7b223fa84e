import pytest
import torch

from model import native


@pytest.fixture(scope="module", params=["native", "torch"])
def engine(request):
    """Both ways of computing on a CPU, one after the other: native.c on one thread, and torch's own operations."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(native, "runs", lambda device, dtype: False)
        elif native.library("float") is None:
            pytest.skip("native.c cannot be compiled here")
        yield request.param
    torch.set_num_threads(threads)
