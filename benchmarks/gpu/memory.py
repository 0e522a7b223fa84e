"""Count what a training step holds of a GPU's memory and how often the host waits, without a GPU;
decides presets.

    python -m benchmarks.gpu.memory [PRESET ...]

A step of two micro-batches runs at full size on a pretended device: torch's fake tensors have a
shape, a type and a device, and compute nothing. The device is a registered stand-in, as a build of
torch without CUDA has no streams for a backward pass on "cuda"; `as_on_gpu` makes the network take
the paths of a GPU on it. What stays on the CPU is computed as ever. All is counted as without
torch.compile, which keeps less. Uses functions that torch may change without notice.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from benchmarks.random_stream import write_run
from dreamer_study.flows.plan.model_plan import plan_models
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.ops.gpu import as_on_gpu
from dreamer_study.model.training import trainer as training
from dreamer_study.model.training.random_stream import write_random_stream

PRESETS = ("gpu-small", "paper-mini", "paper-16", "paper-32")
SETTINGS = ("micro_batch_tokens", "checkpointing", "averaging", "loss_on")  # of a study's training
TORCH = "2.13"  # whose private functions are used here
NAME = "pretended"
# tokens of a document, where an operation's result has as many rows as there are documents
DOCUMENT = 512
aten = torch.ops.aten


def read_preset(preset: str) -> tuple[dict[str, DreamerConfig], dict[str, Any]]:
    """Read the models of a preset by their names, and the settings that change what a step asks
    for."""
    study = load_study(preset)
    settings = {name: getattr(study.training, name) for name in SETTINGS}
    settings["micro_batch_tokens"] = settings["micro_batch_tokens"] or study.training.batch_tokens
    planned = plan_models(study, study.data.tokenizer.vocabulary_size)
    return {model.model_id: model.config for model in planned}, settings


def count_step(config: DreamerConfig, settings: dict[str, Any]) -> Ledger:
    """Count an optimiser step of two micro-batches of a new model, which has no moments before
    it."""
    micro, length = settings["micro_batch_tokens"], config.sequence_length
    with tempfile.TemporaryDirectory() as place, pretended_gpu() as ledger:
        data = write_random_stream(
            Path(place) / "data",
            sequence_length=length,
            vocabulary_size=config.vocabulary_size,
            rows=2 * micro // length,
            document_lengths=(length // 8, length // 2),
        )
        recipe = {**settings, "batch_tokens": 2 * micro, "precision": "bfloat16", "compile": False}
        with patch.object(training, "choose_device", lambda *_: device()):
            trainer = training.Trainer(write_run(Path(place) / "run", data, config, **recipe))
        ledger.waits.clear()
        trainer.train_step()
    return ledger


class Ledger(TorchDispatchMode):
    """Counts the bytes that tensors on the pretended device hold, now and at most, and the waits of
    the host."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.waits: list[str] = []
        self._known: weakref.WeakSet = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        kwargs = kwargs or {}
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
            dtype = kwargs.get("dtype") or given[0].dtype
            result = torch.empty_strided(
                given[0].shape, given[0].stride(), dtype=dtype, device=wanted
            )
        else:
            result = func(*args, **kwargs)
        if not func.is_view and func.namespace != "prim":
            for tensor in tree_leaves(result):
                if isinstance(tensor, FakeTensor):
                    self._hold(tensor.untyped_storage())
        return result

    def _to_host(self, func, here: list[Tensor], args: tuple, kwargs: dict) -> Any:
        with unset_fake_temporarily():
            if not here:
                return func(*args, **kwargs)
            self.waits.append("copy to the host")
            return torch.zeros(here[0].shape, dtype=kwargs.get("dtype") or here[0].dtype)

    def _wait(self, func, tensor: Tensor) -> Any:
        self.waits.append(func.overloadpacket.__name__)
        if func is aten.nonzero.default:
            return tensor.new_empty(
                (max(1, tensor.numel() // DOCUMENT), tensor.ndim), dtype=torch.long
            )
        return True if tensor.dtype == torch.bool else 0

    def _hold(self, storage: torch.UntypedStorage) -> None:
        if storage not in self._known:
            self._known.add(storage)
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._release, storage.nbytes())

    def _release(self, size: int) -> None:
        self.live -= size


class _Module(_DummyBackendModule):
    """What torch asks a device's module for when a forward is recomputed."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


@cache
def device() -> torch.device:
    """Register the pretended device, once in a process and before its first backward pass."""
    _setup_privateuseone_for_python_backend(NAME, _Module())
    return torch.device(NAME, 0)


@contextlib.contextmanager
def pretended_gpu() -> Iterator[Ledger]:
    """Count what is done on the pretended device while the block lasts."""
    with contextlib.ExitStack() as stack:
        device()
        stack.enter_context(as_on_gpu(NAME))
        stack.enter_context(patch.object(Tensor, "pin_memory", lambda tensor: tensor))
        stack.enter_context(patch.object(torch, "tensor", partial(_tensor, torch.tensor)))
        stack.enter_context(patch.object(F, "scaled_dot_product_attention", _attention))
        stack.enter_context(patch.object(F, "rms_norm", _rms_norm))
        stack.enter_context(
            patch.object(FakeTensor, "tolist", lambda tensor: tensor.cpu().tolist())
        )
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        yield stack.enter_context(Ledger())


def _tensor(make: Callable[..., Tensor], values: Any, device: Any = None, **options: Any) -> Tensor:
    """Make a tensor on the host and move it, as torch does below what the ledger sees."""
    return make(values, **options).to(device or "cpu")


def _rms_norm(x: Tensor, shape: tuple[int, ...], eps: float) -> Tensor:
    """Choose CUDA's kernel for a norm without a gain: on this device torch would split the norm
    into products."""
    return aten._fused_rms_norm(x, list(shape), None, eps)[0]


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal=False,
    enable_gqa=False,
) -> Tensor:
    """Choose as CUDA does: flash attention without a mask, attention of efficient memory with
    one."""
    if attn_mask is None:
        return aten._scaled_dot_product_flash_attention(query, key, value, 0.0, is_causal)[0]
    assert not enable_gqa
    mask = attn_mask.expand(len(query), query.shape[1], *attn_mask.shape[2:])
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, False, 0.0, is_causal
    )[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", default=PRESETS, metavar="PRESET")
    print("| preset | model | GB held at most | host waits of a step |\n|---|---|---|---|")
    for preset in parser.parse_args().presets:
        configs, settings = read_preset(preset)
        for name, config in configs.items():
            step = count_step(config, settings)
            print(f"| {preset} | {name} | {step.peak / 1e9:.1f} | {len(step.waits)} |", flush=True)


if __name__ == "__main__":
    main()
