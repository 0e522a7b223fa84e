"""Check what no shape shows of an architecture: a model that looks ahead would win every study."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor

from dreamer_study.model.architectures.build import build
from dreamer_study.model.contract import Network, Rows
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.ops import Documents
from dreamer_study.pipeline.errors import InputError

NEAR = 2e-5  # relative to the largest logit: fresh weights make later tokens count for a thousandth


def check_contract(
    config: ModuleConfig, *, code: Path | None = None, trust_code: bool = False
) -> tuple[str, ...]:
    """Run a freshly built model on a CPU, on a row of random tokens, as training and evaluation do.

    Returns a remark where the model does not run on a CPU. Raises InputError for logits that depend
    on later tokens, for a cache that gives other logits than the forward pass, and where a method
    fails.
    """
    length = config.sequence_length
    vocabulary = config.vocabulary_size
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = build(config, code=code, trust_code=trust_code).eval()
        tokens = torch.randint(vocabulary, (1, length))
        try:
            model(tokens)
        except InputError:
            return (
                "does not run on a CPU, so nothing has checked that it looks at no later token",
            )
        half = length // 2
        # two documents in a row, as in training: only that this runs is checked
        labels = torch.arange(length)[None] // max(1, half)
        positions = torch.arange(length)[None] - labels * half
        model.states(tokens, Documents(tokens, labels, positions))
        # other tokens in the second half must not change the logits of the first
        changed = tokens.clone()
        changed[:, half:] = (changed[:, half:] + 1) % vocabulary
        logits, after_change = (
            model.logits(model.read(row))[:, :half] for row in (tokens, changed)
        )
        if not _close(logits, after_change):
            raise InputError(f"{config.module}: its logits at a position depend on later tokens")
        if "new_cache" in vars(model):  # a cache of its own
            by_cache, by_rows = (_continued(model, own, tokens) for own in (True, False))
            if not _close(by_cache, by_rows):
                raise InputError(
                    f"{config.module}: its cache gives other logits than its forward pass, or a"
                    " copy of the cache changes the cache (model/contract.py, Rows.take)"
                )
    return ()


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
