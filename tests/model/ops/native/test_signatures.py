"""What the C functions take, and what they refuse."""

from __future__ import annotations

import re

import pytest
import torch

from model.ops.native import build, library
from model.ops.native.functions import NativeAttendDepth, NativeAttendSequence, NativeHeads, NativeRMSNorm
from model.ops.native.signatures import signatures
from tests.model.compiler import needs_compiler


def test_signatures_are_those_of_the_c_code():
    text = "\n".join(path.read_text() for path in build.SOURCE.iterdir())
    assert len(signatures()) == len(re.findall(r"^int \w+\(", text, re.MULTILINE)) == 19
    norm = signatures()["norm_forward"]
    assert norm.sizes == ["T", "H"]
    assert [each and each.shape for each in norm.parameters] == [None, ("T", "H"), ("H",), ("T", "H"), ("T",)]


x = torch.ones
WRONG = [
    (ValueError, r"gain is \[7\], but must be \[H\] with T = 3, H = 8", lambda: NativeRMSNorm.apply(x(3, 8), x(7), 1)),
    (TypeError, "gain is torch.float64 on cpu", lambda: NativeRMSNorm.apply(x(3, 8), x(8).double(), 1)),
    (TypeError, "no C library for torch.float16", lambda: NativeRMSNorm.apply(x(3, 8).half(), x(8).half(), 1)),
    (TypeError, "gain is torch.float32 on meta", lambda: NativeRMSNorm.apply(x(3, 8), x(8).to("meta"), 1)),
    (ValueError, "has 2 rows, but must have 1 or 3", lambda: heads(code=x(2, 1, 2, 2))),
    (ValueError, r"\(N \+ 2 \* M\) \* K is 17, but must be 16", lambda: heads(projected=x(3, 17))),
    (ValueError, r"key is \[3, 2, 5\], but must be", lambda: attend(key=x(3, 2, 5))),
    (TypeError, "starts is torch.int32", lambda: attend(starts=torch.zeros(3, dtype=torch.int32))),
    (ValueError, "4 query heads are no multiple of 3 key heads", lambda: attend(key=x(3, 3, 4), value=x(3, 3, 4))),
    (ValueError, r"values is \[3, 1, 4\]", lambda: NativeAttendDepth.apply(x(3, 4, 4), x(3, 2, 4), x(3, 1, 4))),
    (ValueError, "values are 2, but must be 1", lambda: NativeAttendDepth.apply(x(3, 4, 4), *[x(3, 2, 4)] * 3)),
    (ValueError, "keys are 0", lambda: NativeAttendDepth.apply(x(3, 4, 4))),
    (ValueError, "must be contiguous", lambda: library.call("transpose_weights", x(2, 4, 3).mT, x(2, 4, 3))),
]


def heads(projected=None, code=None):
    projected, code = x(3, 16) if projected is None else projected, x(1, 1, 2, 2) if code is None else code
    return NativeHeads.apply(projected, x(4), x(4), code, 1e-6, 2, 1)


def attend(**changes):
    inputs = {"query": x(3, 4, 4), "key": x(3, 2, 4), "value": x(3, 2, 4), "starts": torch.zeros(3, dtype=torch.long)}
    return NativeAttendSequence.apply(*{**inputs, **changes}.values())


@needs_compiler
@pytest.mark.parametrize(("error", "message", "function"), WRONG)
def test_tensors_that_do_not_fit_raise_errors(error, message, function):
    heads(), attend()
    with pytest.raises(error, match=message):
        function()
