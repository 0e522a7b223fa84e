"""Count the parameters, FLOPs and bytes of any model; `model/accounting.py` defines FLOPs.

FLOPs of a model that is no Dreamer come from one forward pass, by torch's counter of products. The
counter sees the full square of attention; so a row of (S + 1) / 2 tokens costs for each of its
tokens what a causal row of S does. The pass works on shapes alone (meta tensors, then fake ones),
and on numbers where a model needs them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from dreamer_study.model.accounting import ELEMENT_BYTES, Resources, resources
from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import forget_loaded
from dreamer_study.model.architectures.wrapped import Wrapped
from dreamer_study.model.module_config import Architecture, DreamerConfig, ModuleConfig
from dreamer_study.pipeline.errors import InputError

MOVING = {
    "cat",
    "stack",
    "copy",
    "index_put",
    "index_add",
    "index_copy",
    "scatter",
    "scatter_add",
    "masked_scatter",
}
"""Operations that take several matrices, and move numbers without multiplying any."""


def count(
    config: Architecture, length: int, *, code: Path | None = None, trust_code: bool = False
) -> Resources:
    """Count what a model costs; FLOPs are the mean over the tokens of a text of `length` tokens.

    Bytes of a model that is no Dreamer are those of its weights. Raises InputError for a model that
    cannot be built or run; `code` and `trust_code` are those of `build`.
    """
    if isinstance(config, DreamerConfig):
        return resources(config, length)
    logging.disable(logging.ERROR)  # torch tells of every operation that works on numbers alone
    try:
        for tensors in ("meta", "fake"):
            with suppress(Exception):  # some models read numbers while they are built or run
                return _count_on(tensors, config, length, code, trust_code)
    finally:
        logging.disable(logging.NOTSET)
    return _count_on("cpu", config, length, code, trust_code)


@torch.no_grad()
def _count_on(
    tensors: str, config: ModuleConfig, length: int, code: Path | None, trust_code: bool
) -> Resources:
    """Count with "meta" tensors, "fake" ones, or on the "cpu" with numbers."""
    with ExitStack() as stack:
        if tensors == "fake":
            stack.enter_context(FakeTensorMode())
        stack.enter_context(torch.device("meta" if tensors == "meta" else "cpu"))
        # what a file keeps between calls, such as a table, would be of the kind tried before
        forget_loaded()
        model = build(config, code=code, trust_code=trust_code).eval()
        assert isinstance(model, Wrapped), "what is no Dreamer is wrapped"
        parameters = sum(parameter.numel() for parameter in model.parameters())
        flops, remarks = _flops_per_token(model, length)
        model(torch.zeros(1, config.sequence_length, dtype=torch.long))  # a row of the training
    return Resources(
        parameters, flops, ELEMENT_BYTES * parameters, tuple(remarks), model.reads_documents
    )


def _flops_per_token(model: Wrapped, length: int) -> tuple[float, list[str]]:
    """Count the mean FLOPs per token of a text of `length` tokens, with remarks about the count."""
    declared = getattr(model.module, "flops_per_token", None)
    if declared:
        return float(declared(length)), ["FLOPs are those that its own code says"]
    # rows of (length + 1) / 2 tokens (see above), of the two whole numbers beside that if need be
    rows = [_flops_of_row(model, tokens) for tokens in {(length + 1) // 2, length // 2 + 1}]
    flops = sum(of_row for of_row, _ in rows) / len(rows)
    uncounted = sorted(set().union(*(names for _, names in rows)))
    if uncounted:
        return flops, [f"FLOPs leave out {', '.join(uncounted)}, which nobody can count"]
    return flops, []


def _flops_of_row(model: Wrapped, tokens: int) -> tuple[float, set[str]]:
    """Count the FLOPs per token of a row, and name the products that are not counted."""
    seen = _Products()
    with (
        sdpa_kernel(SDPBackend.MATH),
        seen,
        FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter,
    ):
        # equal tokens would share an expert
        model(torch.arange(tokens)[None] * 7 % model.config.vocabulary_size)
    counted = {str(operation) for operation in counter.get_flop_counts()["Global"]}
    return counter.get_total_flops() / tokens, seen.names - counted


def _grouped_product(left: Any, right: Any, *_: Any, **__: Any) -> int:
    """Count the FLOPs of a product of rows [T, K] with one of several matrices [E, K, N] each."""
    return 2 * left[0] * left[1] * right[-1]


def _product_with_vector(*shapes: Any, **_: Any) -> int:
    """Count the FLOPs of a matrix [I, K] times a vector [K], the last two arguments."""
    return 2 * shapes[-2][0] * shapes[-2][1]


# of operations that torch does not count
FORMULAS: dict[Any, Callable[..., int]] = {
    torch.ops.aten._grouped_mm: _grouped_product,
    torch.ops.aten.mv: _product_with_vector,
    torch.ops.aten.addmv: _product_with_vector,
}


class _Products(TorchDispatchMode):
    """Name operations on two or more matrices that may be products.

    They are neither pointwise nor do they move numbers around.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = _flat((args, tuple((kwargs or {}).values())))
        matrices = [
            argument
            for argument in arguments
            if isinstance(argument, Tensor) and argument.is_floating_point() and argument.ndim >= 2
        ]
        namespace, name, *_ = str(func).split(".")
        moves = namespace == "aten" and name.removesuffix("_") in MOVING
        may_multiply = torch.Tag.pointwise not in func.tags and not moves
        if (len(matrices) > 1 and may_multiply) or "_fft_" in name:
            self.names.add(f"{namespace}.{name}")
        return func(*args, **(kwargs or {}))


def _flat(values: Iterable[Any]) -> list[Any]:
    """List values, and what is in lists and tuples among them."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            flat += _flat(value)
        else:
            flat.append(value)
    return flat


def check_countable(resources: Resources) -> None:
    """Raise InputError for a model whose FLOPs are known to be too low to be matched by."""
    for remark in resources.remarks:
        if "leave out" in remark:
            raise InputError(
                f"cannot be matched: {remark}; give its class flops_per_token(length), or match:"
                " false"
            )
