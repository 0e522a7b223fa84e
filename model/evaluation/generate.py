"""Generate answers to prompts of different lengths in one batch, token by token.

Axes: B batch, S sequence, H states, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from dreamer_study.model.contract import Network, Rows
from dreamer_study.pipeline.errors import InputError


def nothing(finished: float) -> None:
    """Report no progress."""


@torch.inference_mode()
def generate(
    model: Network,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    end_token: int,
    stop: Callable[[list[int]], bool] | None = None,
    batch_tokens: int = 16_384,
    depth: int | None = None,
    finished: Callable[[float], None] = nothing,
    after_prompts: AfterPrompts | None = None,
) -> list[list[int]]:
    """Generate the likeliest tokens after each prompt, up to and without the end token.

    At most `max_new_tokens` are generated. `stop(tokens)` is asked after each token, with all
    tokens written so far for that prompt, whether it was the last; those tokens are returned.

    No sequence gets longer than the model's sequence length. Room for the answer is made by cutting
    prompts on the left, but never to less than half of that length: past it, answers end early
    instead. `batch_tokens` bounds the positions in the cache; `depth` runs a recurrent model at
    another depth; `finished(n)` is called when n more prompts are done, `after_prompts` when the
    prompts of a batch are read. Raises InputError for an empty prompt, or a number that cannot be
    meant.
    """
    S = model.config.sequence_length
    if type(max_new_tokens) is not int or max_new_tokens < 1:
        raise InputError(
            f"max_new_tokens is {max_new_tokens!r}, but it must be a whole number of at least 1"
        )
    depth = model.checked_depth(depth)
    room = S - min(max_new_tokens, S // 2)
    cut = [list(prompt)[-room:] for prompt in prompts]
    if not all(cut):
        raise InputError(
            f"prompt {cut.index([])} holds no token, but this model needs at least one token"
        )
    budgets = [min(max_new_tokens, S - len(prompt)) for prompt in cut]
    written: list[list[int]] = [[] for _ in prompts]

    def ends(row: int, token: int) -> bool:
        """Append a prompt's next token; tell whether it was the last."""
        if token == end_token:
            return True
        written[row].append(token)
        return len(written[row]) >= budgets[row] or (stop is not None and stop(written[row]))

    for batch in _batches(cut, budgets, batch_tokens):
        longest = max(budgets[index] for index in batch)
        _write(model, cut, batch, longest, ends, depth, after_prompts)
        finished(len(batch))
    return written


AfterPrompts = Callable[[list[list[int]], Rows, Tensor], None]
"""Called with the prompts of a batch, as cut, their cache, and the states [B, H] at their ends.

Other continuations may branch off from a copy of the cache; the cache itself must not be changed.
"""


def right_padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Pad rows of different lengths to tokens [B, S], and return them with the lengths [B].

    Padding comes last, so causality keeps it out.
    """
    lengths = [len(row) for row in rows]
    tokens = np.zeros((len(rows), max(lengths)), dtype=np.int64)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = row
    return torch.from_numpy(tokens).to(device), torch.tensor(lengths, device=device)


def _batches(
    prompts: list[list[int]], budgets: list[int], batch_tokens: int
) -> Iterator[list[int]]:
    """Yield the places of prompts of similar length, as many as the cache may hold.

    The longest come first.
    """
    batch: list[int] = []
    width = 0  # of the cache: its longest prompt, and the longest answer behind that
    for index in sorted(range(len(prompts)), key=lambda index: -len(prompts[index])):
        longest = batch[0] if batch else index
        width = max(width, len(prompts[longest]) + budgets[index])
        if batch and (len(batch) + 1) * width > batch_tokens:
            yield batch
            batch = []
            width = len(prompts[index]) + budgets[index]
        batch.append(index)
    if batch:
        yield batch


def _write(
    model: Network,
    prompts: list[list[int]],
    batch: list[int],
    longest: int,
    ends: Callable[[int, int], bool],
    depth: int | None,
    after_prompts: AfterPrompts | None,
) -> None:
    """Write the answers to one batch of prompts, until every row has ended.

    When half of the rows have ended, they are taken out of the cache.
    """
    device = model.device
    tokens, lengths = right_padded([prompts[row] for row in batch], device)
    cache = model.new_cache(len(batch), tokens.shape[1] + longest, depth)
    ends_of_prompts = torch.arange(len(batch), device=device) * tokens.shape[1] + lengths - 1
    last = cache.extend(tokens, lengths, depth, wanted=ends_of_prompts)  # states [B, H]
    if after_prompts is not None:
        after_prompts([prompts[row] for row in batch], cache, last)
    rows = list(batch)  # the prompt of each row in the cache
    unfinished = set(batch)
    while True:
        chosen = model.logits(last).argmax(-1).tolist()
        unfinished = {
            row
            for row, token in zip(rows, chosen, strict=True)
            if row in unfinished and not ends(row, token)
        }
        if not unfinished:
            return
        if len(unfinished) <= len(rows) // 2:
            places = [place for place, row in enumerate(rows) if row in unfinished]
            cache.take(places)
            rows = [rows[place] for place in places]
            chosen = [chosen[place] for place in places]
        tokens = torch.tensor(chosen, device=device)[:, None]
        last = cache.extend(tokens, depth=depth)[:, 0]
