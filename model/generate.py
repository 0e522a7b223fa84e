"""Generate answers to prompts of different lengths in one batch, token by token, with past keys and values in a cache.

The cache holds sequence attention's keys and values and nothing else: depth attention looks at one token's own
depths, which are gone when the next token comes, so its memory does not grow with what is generated. Tests compare
with recomputing the whole sequence for every token.

Axes: B batch, S sequence, H hidden, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from model import ops
from model.architecture import DreamerConfig
from model.dreamer import Dreamer
from model.ops import Documents, Visible
from pipeline.errors import InputError


def nothing(finished: float) -> None:
    """Report no progress."""


@torch.inference_mode()
def generate(
    model: Dreamer,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    end_token: int,
    stop: Callable[[list[int]], bool] | None = None,
    temperature: float = 0.0,
    batch_tokens: int = 16_384,
    depth: int | None = None,
    finished: Callable[[float], None] = nothing,
    after_prompts: AfterPrompts | None = None,
) -> list[list[int]]:
    """Generate the tokens after each prompt: at most `max_new_tokens` tokens, up to and without the end token.

    `stop(tokens)` is asked after each token, with all tokens written so far for that prompt, whether it was the last;
    those tokens are returned. With `temperature` 0 the likeliest token is taken; else tokens are sampled, from random
    numbers that depend on the place in `prompts` and the step, and not on how prompts are batched.

    No sequence gets longer than the model's sequence length. Room for the answer is made by cutting prompts on the
    left, but never to less than half of that length: past it, answers end early instead. `batch_tokens` bounds the
    positions in the cache; `depth` runs a recurrent model at another depth; `finished(n)` is called when n more prompts
    are done, `after_prompts` when the prompts of a batch are read. Raises InputError for an empty prompt, or a number
    that cannot be meant.
    """
    S = model.config.sequence_length
    if type(max_new_tokens) is not int or max_new_tokens < 1:
        raise InputError(f"max_new_tokens is {max_new_tokens!r}, but it must be a whole number of at least 1")
    if not 0 <= temperature < math.inf:
        raise InputError(f"temperature is {temperature}, but it must be finite and not negative")
    depth = model.checked_depth(depth)
    room = S - min(max_new_tokens, S // 2)
    cut = [list(prompt)[-room:] for prompt in prompts]
    if not all(cut):
        raise InputError(f"prompt {cut.index([])} holds no token; a model of this kind needs one to begin with")
    budgets = [min(max_new_tokens, S - len(prompt)) for prompt in cut]
    written: list[list[int]] = [[] for _ in prompts]
    for batch in _batches(cut, budgets, batch_tokens):
        choose = _Chooser(temperature, batch)
        row_finished = _row_ends(written, budgets, end_token, stop)
        longest = max(budgets[index] for index in batch)
        _write(model, cut, batch, longest, choose, row_finished, depth, after_prompts)
        finished(len(batch))
    return written


class Cache:
    """Keys and values [L, B, length, M, K] for `batch` sequences, and how many positions of each are filled.

    Sequences may have different lengths: each row writes behind its own latest position.
    """

    def __init__(
        self,
        config: DreamerConfig,
        batch: int,
        length: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        depth: int | None = None,
    ) -> None:
        shape = (depth or config.depth, batch, length, config.key_value_heads, config.head_size)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.lengths = torch.zeros(batch, device=device, dtype=torch.long)  # filled positions of each row, [B]
        self.longest = 0  # of them, known without asking the device

    @property
    def room(self) -> int:
        """Number of tokens that every row can still take."""
        return self.keys.shape[2] - self.longest

    def extend(
        self,
        model: Dreamer,
        tokens: Tensor,
        lengths: Tensor | None = None,
        depth: int | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Compute the hidden states [B, S, H] of tokens [B, S] behind those in the cache, and cache the new tokens too.

        Of row b only the first `lengths[b]` tokens are real, the rest is padding. With `wanted` [W], places in the
        flattened tokens, returns the hidden states [W, H] of these alone. Raises InputError where there is no room.
        `depth` must be that of the cache.
        """
        capacity, new = self.keys.shape[2], tokens.shape[1]
        if self.longest + new > capacity:
            raise InputError(
                f"the cache has room for {capacity} positions: {self.longest} are filled, {new} more do not fit; "
                "make it longer"
            )
        if self.longest:
            hidden = model(tokens, memory=_CachedRows(self, new), depth=depth, return_hidden=True)
            hidden = hidden if wanted is None else hidden.flatten(0, 1)[wanted]
        else:
            hidden = read(model, tokens, lengths, wanted, depth, self)
        self.lengths += new if lengths is None else lengths
        self.longest += new
        return hidden

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may be taken several times to go on in several ways."""
        index = torch.tensor(rows, device=self.lengths.device)
        self.keys = self.keys.index_select(1, index)
        self.values = self.values.index_select(1, index)
        self.lengths = self.lengths[index]


AfterPrompts = Callable[[list[list[int]], Cache, Tensor], None]
"""Called with the prompts of a batch, as cut, the cache that holds them, and the hidden states [B, H] of their last
tokens; other continuations may branch off from a copy of the cache, which itself must stay as it is."""


def read(
    model: Dreamer,
    tokens: Tensor,
    lengths: Tensor | None,
    wanted: Tensor | None,
    depth: int | None = None,
    cache: Cache | None = None,
) -> Tensor:
    """Compute the hidden states of tokens [B, S] that begin their rows, as `Cache.extend` does; fill a cache, if given.

    Where only some are wanted, an engine may get the rows packed one behind the other, without their padding.
    """
    labels = None
    packed = ops.packs(model.head, tokens.shape[1]) and model.dtype in (None, model.head.dtype)
    if packed and lengths is not None and wanted is not None:
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        wanted = real.flatten().cumsum(0)[wanted] - 1
        tokens, labels = tokens[real][None], torch.arange(len(lengths)).repeat_interleave(lengths)[None]
    documents = Documents(tokens, labels)
    memory = documents if cache is None else _FirstRows(cache, documents)
    hidden = model(tokens, memory=memory, depth=depth, return_hidden=True)
    return hidden if wanted is None else hidden.flatten(0, 1)[wanted]


class _FirstRows:
    """Serve the first forward over the rows of a cache as its memory; `documents` are the rows, packed or padded."""

    def __init__(self, cache: Cache, documents: Documents) -> None:
        self.cache, self.documents, self.positions = cache, documents, documents.positions

    def recall(self, depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Visible]:
        """Write the keys and values [T, M, K] of one depth to the cache, and return both as rows [B, S, M, K]."""
        for held, new in ((self.cache.keys[depth], key), (self.cache.values[depth], value)):
            if self.documents.labels is None:
                held[:, : self.documents.length] = new.unflatten(0, (len(held), -1))
            else:
                places = self.documents.labels * held.shape[1] + self.positions
                held.view(-1, *held.shape[2:]).index_copy_(0, places.flatten(), new.to(held.dtype))
        return self.documents.recall(depth, key, value)


class _CachedRows(Visible):
    """The memory of a later forward over `new` tokens per row: what the cache holds, and these tokens behind it."""

    def __init__(self, cache: Cache, new: int) -> None:
        self.cache, self.filled = cache, cache.longest + new
        self.positions = cache.lengths[:, None] + torch.arange(new, device=cache.lengths.device)
        self.mask(cache.keys.dtype)  # now, while no activation takes memory

    @property
    def pairs(self) -> Tensor:
        """Booleans [B, S, C]: a token sees the positions up to its own."""
        return torch.arange(self.filled, device=self.positions.device) <= self.positions[..., None]

    def recall(self, depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Visible]:
        """Write keys and values [T, M, K] of one depth; return all that are filled [B, C, M, K]."""
        both = []
        for held, new in ((self.cache.keys[depth], key), (self.cache.values[depth], value)):
            new = new.unflatten(0, (len(held), -1)).to(held.dtype)
            held.scatter_(1, self.positions[..., None, None].expand_as(new), new)
            both.append(held[:, : self.filled])
        return *both, self


def right_padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Pad rows of different lengths to tokens [B, S], and return them with the lengths [B].

    Padding comes last, so causality keeps it out.
    """
    lengths = [len(row) for row in rows]
    tokens = np.zeros((len(rows), max(lengths)), dtype=np.int64)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = row
    return torch.from_numpy(tokens).to(device), torch.tensor(lengths, device=device)


def _batches(prompts: list[list[int]], budgets: list[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the places of prompts of similar length, the longest first, as many as the cache may hold."""
    batch: list[int] = []
    width = 0
    for index in sorted(range(len(prompts)), key=lambda index: -len(prompts[index])):
        width = max(width, len(prompts[batch[0]] if batch else prompts[index]) + budgets[index])
        if batch and (len(batch) + 1) * width > batch_tokens:
            yield batch
            batch, width = [], len(prompts[index]) + budgets[index]
        batch.append(index)
    if batch:
        yield batch


class _Chooser:
    """Picks the next token of each row: the likeliest, or a sampled one."""

    def __init__(self, temperature: float, batch: list[int]) -> None:
        self.temperature = temperature
        self._random = {index: np.random.default_rng((0, index)) for index in batch} if temperature > 0 else {}

    def __call__(self, logits: Tensor, rows: list[int]) -> list[int]:
        """Choose tokens for logits [B, V] of the prompts at places `rows`."""
        if self.temperature <= 0:
            return logits.argmax(-1).tolist()
        # Inverse transform: the first token at which the cumulated probability passes a uniform number.
        cumulated = (logits.double() / self.temperature).softmax(-1).cumsum(-1)
        uniform = torch.tensor([self._random[row].random() for row in rows], device=logits.device, dtype=torch.double)
        chosen = torch.searchsorted(cumulated, (uniform * cumulated[:, -1])[:, None], right=True).squeeze(-1)
        return chosen.clamp(max=logits.shape[-1] - 1).tolist()


def _row_ends(
    written: list[list[int]], budgets: list[int], end_token: int, stop: Callable[[list[int]], bool] | None
) -> Callable[[int, int], bool]:
    def row_ends(row: int, token: int) -> bool:
        """Take note of a prompt's next token; whether it was the last."""
        if token == end_token:
            return True
        written[row].append(token)
        return len(written[row]) >= budgets[row] or (stop is not None and stop(written[row]))

    return row_ends


def _write(
    model: Dreamer,
    prompts: list[list[int]],
    batch: list[int],
    longest: int,
    choose: _Chooser,
    row_ends: Callable[[int, int], bool],
    depth: int | None,
    after_prompts: AfterPrompts | None,
) -> None:
    """Go on with one batch until every row has ended. When half of the rows have, they are taken out of the cache."""
    device = model.head.device
    tokens, lengths = right_padded([prompts[row] for row in batch], device)
    dtype = model.dtype or model.head.dtype
    cache = Cache(model.config, len(batch), tokens.shape[1] + longest, device, dtype, depth)
    ends = torch.arange(len(batch), device=device) * tokens.shape[1] + lengths - 1
    last = cache.extend(model, tokens, lengths, depth, wanted=ends)
    if after_prompts is not None:
        after_prompts([prompts[row] for row in batch], cache, last)
    rows, going = list(batch), set(batch)
    while True:
        chosen = choose(model.logits(last), rows)
        going = {row for row, token in zip(rows, chosen, strict=True) if row in going and not row_ends(row, token)}
        if not going:
            return
        if len(going) <= len(rows) // 2:
            places = [place for place, row in enumerate(rows) if row in going]
            cache.take(places)
            rows, chosen = [rows[place] for place in places], [chosen[place] for place in places]
        tokens = torch.tensor(chosen, device=device)[:, None]
        last = cache.extend(model, tokens, depth=depth)[:, 0]
