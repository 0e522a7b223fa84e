"""Count the parameters, FLOPs and bytes of any model; `model/accounting.py` defines FLOPs.

FLOPs of a model that is no Dreamer come from forward passes over a row of S tokens and over half of
one, by torch's counter of products. What a token costs is taken as a + b S: the counter sees the
full square of attention, of which a causal model needs (S + 1) / 2 columns on average, so
a + b (S + 1) / 2 is charged. What works in chunks or windows has b = 0, and is charged what it
does. The passes of a small model work on numbers: without them each operation takes longer. Those
of a large one work on shapes alone (meta tensors, then fake ones), and on numbers where the model
needs them.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from dreamer_study.model.accounting import ELEMENT_BYTES, Resources, resources
from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import (
    ModelFailed,
    forget_loaded,
    naming_line,
)
from dreamer_study.model.architectures.module_state import ending_no_process, on_one_core
from dreamer_study.model.architectures.wrapped import Wrapped
from dreamer_study.model.module_config import Architecture, DreamerConfig, ModuleConfig
from dreamer_study.pipeline.errors import InputError

MISFIT = 0.01  # of the cost of a token: what rounding of sizes may change
SMALL = 10**9  # parameters times the tokens of a row: a second of passes at most
LEFT_OUT = "FLOPs leave out"  # begins the remark about products that were not counted
TIMED = 2  # passes, of which the first allocates and compiles
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
    with (
        _without_logged_errors(),
        naming_line(config, code, trust_code=trust_code),
        ending_no_process(),
        on_one_core(),
        warnings.catch_warnings(action="ignore"),  # of sizes that a search only tries
    ):
        counted_on = partial(
            _count_on, config=config, length=length, code=code, trust_code=trust_code
        )
        is_small = _is_small(config, code, trust_code)
        found, failures = _count_on_first(
            counted_on, ["cpu", "meta", "fake"] if is_small else ["meta", "fake"]
        )
        if found:
            return found
        if is_small:
            raise failures[0]
        torch.compiler.reset()  # what was compiled for tensors without numbers
        return counted_on("cpu")


def _count_on_first(
    counted_on: Callable[[str], Resources], kinds: Sequence[str]
) -> tuple[Resources | None, list[Exception]]:
    """Count on the first kind of tensors on which every product is counted.

    Without such a kind, return the count on the first kind on which the model runs, or None where
    the model runs on none. The second value holds the errors of the kinds that failed.
    """
    incomplete: list[Resources] = []
    failures: list[Exception] = []
    for tensors in kinds:
        try:
            found = counted_on(tensors)
        except Exception as error:  # some models read numbers, and some run on no CPU
            failures.append(error)
            continue
        if not _left_out(found):
            return found, failures
        # a CPU has operators of its own for what is many products elsewhere, as an LSTM
        incomplete.append(found)
    return next(iter(incomplete), None), failures


@contextmanager
def _without_logged_errors() -> Iterator[None]:
    """Log no errors of libraries: torch logs one for each operation that needs numbers."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def seconds_of_row(
    config: Architecture, *, code: Path | None = None, trust_code: bool = False
) -> float | None:
    """Time a forward pass over a row of the training on one core; None for a model that is large.

    None also for one that does not run on a CPU.
    """
    with warnings.catch_warnings(action="ignore"), on_one_core(), torch.no_grad():
        if not _is_small(config, code, trust_code):
            return None
        # The count has told what is wrong with a model; here one that fails has no time.
        with suppress(Exception):
            model = build(config, code=code, trust_code=trust_code).eval()
            row = torch.zeros(1, config.sequence_length, dtype=torch.long)
            passes = []
            for _ in range(TIMED):
                started = time.process_time()
                model(row)
                passes.append(time.process_time() - started)
            return min(passes)
    return None


def _is_small(config: Architecture, code: Path | None, trust_code: bool) -> bool:
    """Tell whether a pass over a row of a model on numbers takes less than those on shapes."""
    forget_loaded()
    # The count itself tells what is wrong with a model that cannot be built.
    with suppress(Exception), torch.device("meta"):
        model = build(config, code=code, trust_code=trust_code)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return parameters * config.sequence_length <= SMALL
    return False


@torch.no_grad()
def _count_on(
    tensors: str, config: ModuleConfig, length: int, code: Path | None, trust_code: bool
) -> Resources:
    """Count with "meta" tensors, "fake" ones, or on the "cpu" with numbers."""
    with ExitStack() as stack:
        if tensors == "fake":
            stack.enter_context(FakeTensorMode())
        if tensors != "cpu":  # some compiled operators refuse any such context
            stack.enter_context(torch.device("meta" if tensors == "meta" else "cpu"))
        # what a file keeps between calls, such as a table, would be of the kind tried before
        forget_loaded()
        model = build(config, code=code, trust_code=trust_code).eval()
        assert isinstance(model, Wrapped), "what is no Dreamer is wrapped"
        parameters = sum(parameter.numel() for parameter in model.parameters())
        model(torch.zeros(1, config.sequence_length, dtype=torch.long))  # a row of the training
        try:
            flops, remarks = _flops_per_token(model, length)
        except ModelFailed as error:
            if "higher_order" not in str(error):
                raise
            raise ModelFailed(
                f"{config.module}: its FLOPs cannot be counted, as torch's counter does not run"
                " flex_attention; give the class flops_per_token(length)"
            ) from error
    if not 0 < flops < math.inf:
        raise ModelFailed(
            f"{config.module}: its forward pass has no product by which FLOPs are counted; give the"
            " class flops_per_token(length), above 0"
        )
    return Resources(
        parameters, flops, ELEMENT_BYTES * parameters, tuple(remarks), model.reads_documents
    )


def _flops_per_token(model: Wrapped, length: int) -> tuple[float, list[str]]:
    """Count the mean FLOPs per token of a text of `length` tokens, with remarks about the count."""
    declared = getattr(model.module, "flops_per_token", None)
    if declared:
        return float(declared(length)), ["FLOPs are those that its own code says"]
    whole = min(length, model.config.sequence_length)  # longer rows may not run
    half = whole // 2
    at_whole, uncounted = _flops_of_row(model, whole)
    at_half = _flops_of_row(model, half)[0] if half else at_whole
    slope = (at_whole - at_half) / (whole - half)
    at_none = at_whole - slope * whole
    remarks = []
    if min(slope * whole, at_none) < -MISFIT * at_whole:
        remarks.append(
            f"FLOPs are counted for a whole row, as the cost per token ({at_whole:,.0f} for"
            f" {whole} tokens, {at_half:,.0f} for {half}) is not linear in the length"
        )
        slope = 0.0
        at_none = at_whole
    if uncounted:
        names = ", ".join(sorted(uncounted))
        remarks.append(
            f"{LEFT_OUT} {names}, which cannot be counted; a method flops_per_token(length)"
            " of the class can give the number"
        )
    return at_none + slope * (length + 1) / 2, remarks


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
    # of the whole model; a model without any product has no entry
    flops = counter.get_flop_counts().get("Global", {})
    counted = {str(operation) for operation in flops}
    return (sum(flops.values()) + seen.of_complex) / tokens, seen.names - counted


def _grouped_product(left: Any, right: Any, *_: Any, **__: Any) -> int:
    """Count the FLOPs of a grouped product of E groups.

    Three forms have 2 M K N FLOPs, each group a part of them: [M, K] by [E, K, N] groups the M
    rows, [E, M, K] by [K, N] the N columns, and [M, K] by [K, N] the K terms of the sums. A batch,
    [E, M, K] by [E, K, N], has 2 E M K N.
    """
    rows, inner = left[-2:]
    groups = left[0] if len(left) == len(right) == 3 else 1
    return 2 * groups * rows * inner * right[-1]


def _product_with_vector(*shapes: Any, **_: Any) -> int:
    """Count the FLOPs of a matrix [I, K] times a vector [K], the last two arguments."""
    return 2 * shapes[-2][0] * shapes[-2][1]


def _triangular_solve(matrix: Any, right: Any, *_: Any, **__: Any) -> int:
    """Count the FLOPs of a solve by a triangle [..., N, N]: N² multiply-adds a right-hand side.

    Counted as the product with a square, as every product with a mask is.
    """
    return 2 * math.prod(right) * matrix[-1]


# of operations that torch does not count
FORMULAS: dict[Any, Callable[..., int]] = {
    torch.ops.aten._grouped_mm: _grouped_product,
    torch.ops.aten.mv: _product_with_vector,
    torch.ops.aten.addmv: _product_with_vector,
    torch.ops.aten.linalg_solve_triangular: _triangular_solve,
}


class _Products(TorchDispatchMode):
    """Name operations on two or more matrices that may be products.

    They are neither pointwise nor do they move numbers around.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.of_complex = 0  # FLOPs of complex products beyond those of real ones: 4 products each

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
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula and any(isinstance(each, Tensor) and each.is_complex() for each in arguments):
            self.of_complex += 3 * formula(*args, **(kwargs or {}), out_val=result)
        return result


def _flat(values: Iterable[Any]) -> list[Any]:
    """List values, and what is in lists and tuples among them."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            flat += _flat(value)
        else:
            flat.append(value)
    return flat


def _left_out(resources: Resources) -> list[str]:
    """List the remarks about products that were not counted."""
    return [remark for remark in resources.remarks if remark.startswith(LEFT_OUT)]


def check_countable(resources: Resources) -> None:
    """Raise InputError for a model whose FLOPs are known to be too low to be matched by."""
    for remark in _left_out(resources):
        raise InputError(
            f"cannot be matched: {remark}; give the class a method flops_per_token(length), or set"
            " match: false"
        )
