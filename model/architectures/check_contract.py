"""Check what no shape shows of an architecture: a model that looks ahead would win every study."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import ModelFailed, naming_line
from dreamer_study.model.architectures.module_state import (
    changed_values,
    ending_no_process,
    first_of,
    on_one_core,
    plain_values,
    unchanged_settings,
    without_gradients,
)
from dreamer_study.model.contract import Network, Rows
from dreamer_study.model.module_config import TRANSFORMERS, ModuleConfig
from dreamer_study.model.ops import Documents
from dreamer_study.model.random_states import keeping_random_states, seed_all

NEAR = 2e-5  # relative to the largest logit: fresh weights make later tokens count for a thousandth
NEAR_ON_GPU = 1e-2  # where products are in shorter numbers, and their order may vary
# Standard deviation of what is added to every weight: projections and gates that begin at 0 would
# hide all that is behind them.
NOISE = 0.05
SHORT = 131  # tokens of the rows that are cut in many places; no multiple of a usual chunk
# In the message of a model without a kernel for a CPU.
OF_A_DEVICE = re.compile(r"\b(cuda|cpu|gpu|triton)\b", re.IGNORECASE)
TIMES = 6  # that a model is asked again which may draw one of few numbers
MANY_TOKENS = 10**15  # more than any training reads
SEVERAL = 3  # rows of a batch, for what shows in a batch alone


def check_contract(
    config: ModuleConfig, *, code: Path | None = None, trust_code: bool = False
) -> tuple[str, ...]:
    """Run a freshly built model on a CPU, on rows of random tokens, as training and evaluation do.

    Returns remarks about what could not be checked. Raises ModelFailed for logits that depend on
    later tokens, on other rows, or in evaluation on the call, for a cache that gives other logits
    than the forward pass, and where a method fails.
    """
    length = config.sequence_length
    is_transformers = config.module.startswith(f"{TRANSFORMERS}:")
    with (
        naming_line(config, code, trust_code=trust_code),
        ending_no_process(),
        keeping_random_states(),
        on_one_core(),
        unchanged_settings(config.module),
        torch.no_grad(),
    ):
        torch.manual_seed(0)
        model = build(config, code=code, trust_code=trust_code).eval()
        tokens = torch.randint(config.vocabulary_size, (SEVERAL, length))
        given = tokens[:1].clone()
        try:
            model(given)
        except ModelFailed as error:
            if not _is_of_the_device(error):
                raise
            return (
                "does not run on a CPU, so nothing has checked that it looks at no later token",
            )
        if not torch.equal(given, tokens[:1]):
            raise ModelFailed(f"{config.module}: forward changes the tokens that it is given")
        half = length // 2
        # two documents in a row, as in training: only that this runs is checked
        labels = torch.arange(length)[None] // max(1, half)
        positions = torch.arange(length)[None] - labels * half
        model.states(tokens[:1], Documents(tokens[:1], labels, positions))
        _check_answers(config, model, tokens[:1])
        _check_shapes(model, tokens)
        _check_causal(config, model, tokens[:1], [half])
        if "new_cache" in vars(model):  # a cache of its own
            _check_cache(config, model, tokens[:1])
        _add_noise(model)
        _check_causal(config, model, tokens[:1, :SHORT], _cuts(min(SHORT, length)))
        # As in training, where a normalisation over the batch would read later tokens, of any row.
        model.train()
        before = plain_values(model)
        try:
            with without_gradients(model) as frozen:
                _check_learns(config, model, tokens[:, :SHORT])
        except ModelFailed as error:
            if not _is_of_the_device(error):
                raise
            return ("is not trained on a CPU, so nothing has checked how it trains",)
        kept = changed_values(before, plain_values(model))
        remarks = [*_check_training(config, model, tokens[:, :SHORT], kept)]
        dropouts = getattr(model.module, "dropouts", []) if is_transformers else []
        if dropouts:
            remarks.append(f"trains with dropout by default ({', '.join(dropouts)})")
        if frozen:
            remarks.append(f"computes {first_of(frozen)} without gradients, by `no_grad`")
        return tuple(remarks)


def check_trained(model: Network) -> None:
    """Check a trained model as a new one was: training may have opened what began at 0.

    The model must be used for nothing else, as what its calls change is left changed. Raises
    ModelFailed as `check_contract` does.
    """
    config = model.config
    assert isinstance(config, ModuleConfig), "the bundled model needs no check"
    with keeping_random_states(), torch.no_grad():
        seed_all(0)
        shape = (SEVERAL, config.sequence_length)
        tokens = torch.randint(config.vocabulary_size, shape, device=model.device)
        short = tokens[:, :SHORT]
        cuts = _cuts(short.shape[1])
        model.eval()
        _check_answers(config, model, tokens[:1])
        _check_causal(config, model, tokens[:1], [config.sequence_length // 2])
        _check_causal(config, model, short, cuts)
        model.train()
        if _repeats(model, short):
            _check_causal(config, model, short, cuts)


def _check_training(
    config: ModuleConfig, model: Network, tokens: Tensor, kept: list[str]
) -> Iterator[str]:
    """Check a model in training mode; yield remarks about what it keeps from call to call."""
    names = f" ({first_of(kept)})" if kept else ""
    if not _repeats(model, tokens):
        yield (
            f"draws random numbers of its own, or counts its calls{names}, in training: a run that"
            " is continued differs from one that was not stopped, and nothing has checked that"
            " training looks at no later token"
        )
        return
    _check_causal(config, model, tokens, _cuts(tokens.shape[1]))
    changed = _changed_by_steps(model)
    if changed:
        yield (
            f"changes {first_of(changed)} in begin_step, which no state holds: checkpoints are"
            " evaluated without the change; make it a buffer"
        )
    if kept:
        yield (
            f"keeps values from one call to the next{names} that no state holds: a run that is"
            " continued begins without them"
        )


def _changed_by_steps(model: Network) -> list[str]:
    """Name the plain values that `begin_step` changes on the way from the first step to the last.

    Raises ModelFailed where the method fails.
    """
    before = plain_values(model)
    try:
        for tokens in (0, MANY_TOKENS):
            model.begin_step(tokens)
    except (Exception, SystemExit) as error:  # any error of the user's code
        raise model.failed("begin_step", error) from error
    return changed_values(before, plain_values(model))


def _is_of_the_device(error: ModelFailed) -> bool:
    """Tell whether a forward pass failed as the model has no kernel for a CPU.

    Judged by the error of the model's own code, not by names of files or classes.
    """
    cause = error.__cause__
    if isinstance(cause, NotImplementedError):
        return True
    return OF_A_DEVICE.search(str(cause)) is not None


def _cuts(length: int) -> list[int]:
    """Choose the positions from which on tokens are changed, within chunks and at their borders."""
    cuts = {1, 5, 37, length // 3, length // 2, length - 1}
    return sorted(cut for cut in cuts if 0 < cut < length)


def _add_noise(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.add_(torch.randn_like(parameter) * NOISE)


def _check_answers(config: ModuleConfig, model: Network, tokens: Tensor) -> None:
    """Raise ModelFailed for a model that answers the same tokens in two ways, or in no number."""
    if not _logits(model, tokens).isfinite().all():
        raise ModelFailed(f"{config.module}: its logits are not all finite numbers")
    if not _repeats(model, tokens, seed=None):
        raise ModelFailed(
            f"{config.module}: gives other logits for the same tokens when it is asked again; in"
            " evaluation it must neither draw random numbers nor keep what it has read"
        )


def _repeats(model: Network, tokens: Tensor, seed: int | None = 1) -> bool:
    """Tell whether a model gives the same logits for the same tokens, whatever it read between.

    With equal random numbers; without a seed these are others each time.
    """
    first = _logits(model, tokens, seed)
    for _ in range(1 if seed is not None else TIMES):
        _logits(model, tokens.flip(1), seed)
        if not _close(first, _logits(model, tokens, seed)):
            return False
    return True


def _check_shapes(model: Network, tokens: Tensor) -> None:
    """Run the rows that evaluation has: short and long ones, alone and together.

    Raises ModelFailed where the model fails on one.
    """
    length = tokens.shape[1]
    for tokens_of_row in sorted({1, 2, min(45, length), max(1, length - 1)}):
        model.read(tokens[:1, :tokens_of_row])
    model.read(tokens[:, : min(45, length)])


def _check_learns(config: ModuleConfig, model: Network, tokens: Tensor) -> None:
    """Raise ModelFailed where a backward pass fails or reaches no parameter, and for bad groups."""
    not_parameters = [
        type(entry).__name__
        for entry in model.decayed_parameters()
        if not isinstance(entry, nn.Parameter)
    ]
    if not_parameters:
        raise ModelFailed(
            f"{config.module}: decayed_parameters() must list parameters, but has a"
            f" {not_parameters[0]}"
        )
    with torch.enable_grad():
        states = model.states(tokens, Documents(tokens, torch.zeros_like(tokens)))
        loss = model.loss(states.flatten(0, 1), tokens.flatten())
        if not loss.requires_grad:
            raise ModelFailed(
                f"{config.module}: no gradient reaches its parameters; is `no_grad` left in its"
                " code?"
            )
        try:
            loss.backward()
        except (Exception, SystemExit) as error:  # any error of the user's code
            raise model.failed("its backward pass", error) from error
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.layout is not torch.strided:
            raise ModelFailed(
                f"{config.module}: {name.removeprefix('module.')} has a sparse gradient, which the"
                " optimiser does not take; build its layer with sparse=False"
            )
    model.zero_grad(set_to_none=True)


def _check_causal(config: ModuleConfig, model: Network, tokens: Tensor, cuts: list[int]) -> None:
    """Raise ModelFailed where other tokens from a position on change the logits before it.

    The tokens change in every row at once. Random numbers, as of dropout, are the same each time.
    """
    logits = _logits(model, tokens)
    scale = float(logits.abs().max())
    near = NEAR if model.device.type == "cpu" else NEAR_ON_GPU
    for cut in cuts:
        changed = tokens.clone()
        changed[:, cut:] = (changed[:, cut:] + 1) % config.vocabulary_size
        before = logits[:, :cut]
        difference = (_logits(model, changed)[:, :cut] - before).abs().amax((0, 2))  # [cut]
        moved = difference > 2 * near * scale
        if not moved.any():
            continue
        position = int(moved.nonzero()[0])
        batch = f", in a training batch of {len(tokens)} rows" if model.training else ""
        raise ModelFailed(
            f"{config.module}: its logits at position {position} depend on later tokens{batch}:"
            f" they change by {difference[position] / scale:.0e} of the largest logit where tokens"
            f" from position {cut} on change"
        )


def _logits(model: Network, tokens: Tensor, seed: int | None = 1) -> Tensor:
    """Compute logits [B, S, V], by default with the same random numbers in each call."""
    if seed is not None:
        seed_all(seed)
    return model.logits(model.read(tokens)).float()


def _check_cache(config: ModuleConfig, model: Network, tokens: Tensor) -> None:
    """Raise ModelFailed for a cache that gives other logits than rows that are read anew."""
    by_cache, by_rows = (_continued(model, own, tokens) for own in (True, False))
    if not _close(by_cache, by_rows):
        raise ModelFailed(
            f"{config.module}: its cache gives other logits than its forward pass, or a copy of the"
            " cache changes the cache (model/contract.py, Rows.take)"
        )


def _continued(model: Network, own: bool, tokens: Tensor) -> Tensor:
    """Compute the logits of one more token behind two rows of unequal lengths.

    Before that token, a copy of the cache is extended by itself, which must change nothing. By the
    model's `own` cache, or by rows that are read anew.
    """
    both = tokens[0, : tokens.shape[1] // 2 * 2].view(2, -1)
    rows = both[:, :-1]
    next_token = both[:, -1:]
    room = both.shape[1]
    cache = model.new_cache(2, room) if own else Rows(model, 2, room)
    cache.extend(rows, torch.tensor([rows.shape[1], max(1, rows.shape[1] // 2)]))
    branch = copy.copy(cache)
    branch.take([1])
    branch.extend(next_token[:1])
    return model.logits(cache.extend(next_token))


def _close(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape:
        return False
    first = first.float()
    second = second.float()
    return torch.allclose(first, second, NEAR, NEAR * float(second.abs().max()))
