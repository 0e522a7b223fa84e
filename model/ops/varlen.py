"""Causal attention within packed documents by torch's flash kernel for ragged sequences (CUDA, 16-bit types).

With a mask torch has no flash kernel, and none at all that shares key heads: it would fall back to plain products
with scores of [B, N, S, S]. Here the documents are the batch, so nothing outside of them is computed either.

Axes: B batch, S sequence, T = B*S tokens, N and M query and key/value heads, K head size, D documents.
"""

from __future__ import annotations

import inspect
from functools import cache

import torch
from torch import Tensor


def takes(tensor_dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernel takes tensors of this kind: flash attention needs compute capability 8 (A100) or more."""
    narrow = tensor_dtype in (torch.bfloat16, torch.float16)
    return device.type == "cuda" and narrow and torch.cuda.get_device_capability(device) >= (8, 0)


def document_bounds(documents: Tensor) -> Tensor:
    """Where each run of equal labels [B, S] begins in the flattened batch, and the end of the last: int32 [D + 1].

    Padding is a run like any other. Runs end with their row. The host reads how many there are.
    """
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    places = begins.flatten().nonzero().flatten()
    return torch.cat((places, places.new_full((1,), documents.numel()))).int()


def attend_documents(query: Tensor, key: Tensor, value: Tensor, bounds: Tensor, longest: int) -> Tensor:
    """Eq. 1 within each document: query [T, N, K], key and value [T, M, K] -> [T, N, K].

    `longest` is at least the length of the longest document.
    """
    attention, options = _kernel()
    return attention(query, key, value, bounds, bounds, longest, longest, **options)


@cache
def _kernel():
    """The kernel and what asks it for a causal mask and shared key heads: the words change with torch's version."""
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    options = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    return varlen_attn, options | ({"enable_gqa": True} if "enable_gqa" in known else {})
