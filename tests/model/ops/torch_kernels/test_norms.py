"""RMSNorm and rotary codes."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck

from model import ops
from model.dreamer import position_code
from model.ops import reference
from model.ops.torch_kernels.norms import rotate, rotated_norm
from tests.model.tiny_network import double


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_norm_after_a_rotation_has_the_right_gradient():
    code = position_code(torch.arange(4), 6, 10.0, torch.float64).unsqueeze(1)
    assert gradcheck(lambda x, gain: rotated_norm(x, gain, 1e-6, code), (double(4, 3, 6), double(3, 6)))
    assert gradcheck(lambda x, gain: ops.rms_norm(x, gain, 1e-6), (double(4, 6), double(6)))
    x, gain = double(4, 3, 6), double(6)
    expected = reference.rms_norm(reference.rotate(x, code), gain, 1e-6)
    torch.testing.assert_close(rotated_norm(x, gain, 1e-6, code), expected)


def test_rotating_back_undoes_a_rotation_and_keeps_lengths():
    x, code = double(5, 8), position_code(torch.arange(5), 8, 100.0, torch.float64)
    rotated = rotate(x, code)
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(rotate(rotated, code, back=True), x)
    narrow = rotate(x.bfloat16(), code)
    torch.testing.assert_close(narrow.double(), rotated, atol=0.05, rtol=0.05)
