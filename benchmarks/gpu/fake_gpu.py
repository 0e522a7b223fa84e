"""Run code at full size on a pretended GPU: tensors without numbers, whose operations, bytes and memory are counted.

torch's fake tensors have a shape, a type and a device, and compute nothing. The device is a registered stand-in, as a
build of torch without CUDA has no streams for a backward pass on "cuda"; `as_on_gpu` makes the network take the paths
of a GPU on it. What stays on the CPU is computed as ever. Uses functions that torch may change without notice.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from model.ops import gpu

NAME = "pretended"
TORCH = "2.13"
"""The version of torch whose private functions are used here."""

aten = torch.ops.aten
FREE = {
    *["empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "lift_fresh", "_unsafe_view"]
}
PICKING = {*["gather", "index", "index_select", "embedding", "_embedding_bag_forward_only"]}
"""Operations that read of their input only the rows that they return."""
DOCUMENT = 512
"""Tokens of a document, where an operation's result has as many rows as there are documents."""


class Ledger(TorchDispatchMode):
    """Counts what the pretended device is asked for: kernels, bytes read and written, host waits, memory held."""

    def __init__(self) -> None:
        super().__init__()
        self.live, self._known = 0, weakref.WeakSet()
        self.forget()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile trace code under this mode."""
        return True

    def forget(self) -> None:
        """Count from zero again; memory that is held stays held."""
        self.operations: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()
        self.waits: list[str] = []
        self.peak = self.live

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
        if (
            torch.is_inference_mode_enabled() and func.namespace == "aten"
        ):  # where torch does not split what is made of other operations
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        here = [tensor for tensor in given if tensor.device.type == NAME]
        wanted = torch.device(kwargs.get("device") or (NAME if here else "cpu"))
        if wanted.type != NAME:
            return self._to_host(func, here, args, kwargs)
        if func in (aten._local_scalar_dense.default, aten.nonzero.default):
            return self._wait(func, *args)
        if func is aten._to_copy.default and not here:
            if not kwargs.get("non_blocking"):
                self.waits.append("copy from the host")
            (source,) = given
            dtype = kwargs.get("dtype") or source.dtype
            result = torch.empty_strided(source.shape, source.stride(), dtype=dtype, device=wanted)
        else:
            result = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, FakeTensor)]
        if func.is_view or func.namespace == "prim":
            return result
        name = func.overloadpacket.__name__
        if name not in FREE:
            self.operations[name] += 1
            self.moved[name] += _bytes_moved(name, here, made)
        for tensor in made:
            self._hold(tensor)
        return result

    def _to_host(self, func, here: list[Tensor], args: tuple, kwargs: dict) -> Any:
        if not here:
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        self.waits.append("copy to the host")
        with unset_fake_temporarily():
            return torch.zeros(here[0].shape, dtype=kwargs.get("dtype") or here[0].dtype)

    def _wait(self, func, tensor: Tensor) -> Any:
        self.waits.append(func.overloadpacket.__name__)
        if func is aten.nonzero.default:
            return tensor.new_empty((max(1, tensor.numel() // DOCUMENT), tensor.ndim), dtype=torch.long)
        return True if tensor.dtype == torch.bool else 0

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage not in self._known:
            size = storage.nbytes()
            self._known.add(storage)
            self.live += size
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._release, size)

    def _release(self, size: int) -> None:
        self.live -= size


def _bytes_moved(name: str, given: list[Tensor], made: list[Tensor]) -> int:
    """Count the bytes of each different tensor that is read or written."""
    if name in PICKING:
        given = [made[0], *given[1:]]
        return sum(tensor.nbytes for tensor in (*given, *made))
    if name == "index_copy_":  # writes of its first input only the rows that it copies
        return sum(tensor.nbytes for tensor in (*given[1:], given[-1]))
    if name.startswith("scatter"):
        return 3 * sum(tensor.nbytes for tensor in given[1:])
    return sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in (*given, *made)}.values())


class _Module(_DummyBackendModule):
    """What torch asks a device's module for when a forward is recomputed."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


@cache
def device() -> torch.device:
    """Register the pretended device, once in a process."""
    _setup_privateuseone_for_python_backend(NAME, _Module())
    return torch.device(NAME, 0)


@contextlib.contextmanager
def pretended_gpu() -> Iterator[Ledger]:
    """Count what is done on the pretended device while the block lasts."""
    ledger = Ledger()
    with contextlib.ExitStack() as stack:
        device()
        stack.enter_context(gpu.as_on_gpu(NAME))
        stack.enter_context(patch.object(Tensor, "pin_memory", lambda tensor: tensor))
        stack.enter_context(patch.object(torch, "tensor", partial(_tensor, torch.tensor)))
        stack.enter_context(patch.object(F, "scaled_dot_product_attention", _attention))
        stack.enter_context(patch.object(F, "rms_norm", _rms_norm))
        stack.enter_context(patch.object(FakeTensor, "tolist", lambda tensor: tensor.cpu().tolist()))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(ledger)
        yield ledger


def _tensor(make: Callable[..., Tensor], values: Any, device: Any = None, **options: Any) -> Tensor:
    """Make a tensor on the host and move it, as torch does below what the ledger sees."""
    return make(values, **options).to(device or "cpu")


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    enable_gqa: bool = False,
) -> Tensor:
    """Choose as CUDA does: flash attention without a mask, attention of efficient memory with one."""
    if attn_mask is None:
        return aten._scaled_dot_product_flash_attention(query, key, value, 0.0, is_causal)[0]
    assert not enable_gqa
    mask = attn_mask.expand(len(query), query.shape[1], *attn_mask.shape[2:])
    return aten._scaled_dot_product_efficient_attention(query, key, value, mask, False, 0.0, is_causal)[0]


class _RMSNorm(torch.autograd.Function):
    """The two kernels that CUDA has for a norm without a gain: torch would split it into products on this device."""

    @staticmethod
    def forward(ctx, x: Tensor, epsilon: float) -> Tensor:
        normalised, scale = torch.ops.pretended.rms_norm(x)
        ctx.save_for_backward(x, scale)
        return normalised

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return torch.ops.pretended.rms_norm_backward(gradient, *ctx.saved_tensors), None


def _rms_norm(x: Tensor, shape: Sequence[int], eps: float) -> Tensor:
    return _RMSNorm.apply(x, eps)


@torch.library.custom_op("pretended::rms_norm", mutates_args=())
def _norm(x: Tensor) -> tuple[Tensor, Tensor]:
    raise NotImplementedError  # fake tensors have no numbers: only the shapes below are used


@_norm.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 1))


@torch.library.custom_op("pretended::rms_norm_backward", mutates_args=())
def _norm_backward(gradient: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    raise NotImplementedError  # fake tensors have no numbers: only the shapes below are used


@_norm_backward.register_fake
def _(gradient: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    return torch.empty_like(x)
