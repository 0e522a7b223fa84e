"""Compute log-likelihoods of given continuations, in batches of similar length.

The continuations of one context (the options of a multiple-choice question) branch off from one
pass over the context, which may be that of generation, and logits are computed only at scored
positions. Tests compare every number with a plain pass over each sequence.

Axes: B batch, S sequence, H hidden, V vocabulary.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dreamer_study.model.architectures.code import ModelFailed
from dreamer_study.model.contract import Network, Rows
from dreamer_study.model.evaluation.generate import nothing, right_padded
from dreamer_study.pipeline.errors import InputError

# Logits that are held at once: 256 MiB in float32, however long the continuations are.
LOGIT_VALUES = 2**26


Span = tuple[int, int, int, list[int]]
"""A request, its row in a pass, the position before its first token there, and its tokens."""


@dataclass(eq=False)
class _Group:
    """One context and its continuations, each with the number of its request."""

    context: list[int]
    requests: list[int] = field(default_factory=list)
    continuations: list[list[int]] = field(default_factory=list)

    @property
    def shared(self) -> bool:
        """Whether the context is read once for several continuations.

        A single continuation is read with its context.
        """
        return len(self.continuations) > 1

    @property
    def row(self) -> list[int]:
        """The tokens of the first pass."""
        return self.context if self.shared else self.context + self.continuations[0][:-1]

    @property
    def branches(self) -> list[int]:
        """The places of continuations that need a second pass: those of two or more tokens.

        The pass over a shared context predicts first tokens only.
        """
        if not self.shared:
            return []
        return [index for index, tokens in enumerate(self.continuations) if len(tokens) > 1]

    @property
    def rows(self) -> int:
        """Rows of the group in the cache: every branch keeps a copy of its context."""
        return 1 + len(self.branches)

    @property
    def width(self) -> int:
        """Length of the longest row."""
        return len(self.context) + self.longest - 1

    @property
    def longest(self) -> int:
        """Length of the longest continuation."""
        return max(map(len, self.continuations))


class Scoring:
    """Find each continuation's log-probability, and whether greedy decoding generates it.

    A context must not be empty. Where both together exceed the model's sequence length, the context
    is cut on the left; a continuation that exceeds it alone is scored in windows
    (`rolling_windows`). `batch_tokens` bounds the tokens of a batch, padding included; `depth` runs
    a recurrent model at another depth; `finished(n)` is called when n more windows are scored.
    Contexts that generation reads, at the same depth, are not read again where `generate` is given
    `after_prompts` before `finish` is called.
    """

    def __init__(
        self,
        model: Network,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        batch_tokens: int = 16_384,
        depth: int | None = None,
        finished: Callable[[float], None] = nothing,
    ) -> None:
        self._model = model
        self._batch_tokens = batch_tokens
        self._depth = depth
        self._finished = finished
        # not yet scored; a dict, from which one is removed quickly
        self._groups = dict.fromkeys(_grouped(pairs, model.config.sequence_length, batch_tokens))
        self._of_context = {tuple(group.context): group for group in self._groups}
        self._totals = [0.0] * len(pairs)
        self._greedy = [True] * len(pairs)

    def after_prompts(self, prompts: list[list[int]], cache: Rows, last: Tensor) -> None:
        """Score the continuations whose context is one of these prompts (see `AfterPrompts`).

        A continuation longer than its context is left for `finish`, where batches hold
        continuations of similar length.
        """
        groups = []
        for row, prompt in enumerate(prompts):
            group = self._of_context.pop(tuple(prompt), None)
            if group is not None and group.longest <= min(len(prompt), cache.room + 1):
                groups.append((row, group))
                del self._groups[group]
        if groups:
            self._add(
                [group for _, group in groups],
                _score_cached(self._model, groups, cache, last, self._depth),
            )

    @torch.inference_mode()
    def finish(self) -> list[tuple[float, bool]]:
        """Score what is left; return what was found of each pair, in their order.

        Raises ModelFailed where a log-likelihood is not a number.
        """
        for batch in _batches(list(self._groups), self._batch_tokens):
            self._add(batch, _score(self._model, batch, self._depth))
        if any(map(math.isnan, self._totals)):
            raise ModelFailed("the model gives a text a log-likelihood that is not a number (NaN)")
        return list(zip(self._totals, self._greedy, strict=True))

    def _add(self, groups: list[_Group], parts: Iterator[tuple[int, float, bool]]) -> None:
        """Add the parts of continuations up, and report the groups as finished."""
        for request, value, likeliest in parts:
            self._totals[request] += value
            self._greedy[request] &= likeliest
        self._finished(sum(len(group.requests) for group in groups))


def rolling_windows(
    tokens: Sequence[int], prefix_token: int, length: int
) -> list[tuple[list[int], list[int]]]:
    """Cut a text into pairs (context, continuation) of at most `length` inputs.

    The pairs score every token once. The first token follows `prefix_token`; the final window is
    filled up with context. These are lm-eval's windows (`get_rolling_token_windows` with a context
    of 1, made disjoint).

    >>> rolling_windows([1, 2, 3, 4, 5], prefix_token=0, length=3)
    [([0], [1, 2, 3]), ([2, 3], [4, 5])]
    """
    tokens = list(tokens)
    windows: list[tuple[list[int], list[int]]] = []
    for start in range(0, len(tokens), length):
        scored = tokens[start : start + length]
        room = length + 1 - len(scored)  # the last token of a window is no input
        context = tokens[max(0, start - room) : start] or [prefix_token]
        windows.append((context, scored))
    return windows


def _windows(
    context: list[int], continuation: list[int], length: int
) -> list[tuple[list[int], list[int]]]:
    """Cut one request into pairs that the model can read."""
    if not context:
        raise InputError(
            "a continuation without a context has no probability; give one token of context or more"
        )
    if len(continuation) > length:
        return rolling_windows(continuation, context[-1], length)
    room = length + 1 - len(continuation)
    return [(context[-room:], continuation)] if continuation else []


def _grouped(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], length: int, batch_tokens: int
) -> list[_Group]:
    """Group requests by context.

    Only where the context is longer than the continuation, and the group fits into a batch.
    """
    groups: list[_Group] = []
    open_groups: dict[tuple[int, ...], _Group] = {}
    for request, (context, continuation) in enumerate(pairs):
        for cut_context, scored in _windows(list(context), list(continuation), length):
            key = tuple(cut_context)
            group = open_groups.get(key)
            longer = len(scored) > len(cut_context)
            # with this request: the context's row and a branch each, at most twice as long
            if group is None or longer or _tokens_with_one_more(group) > batch_tokens:
                group = _Group(cut_context)
                open_groups[key] = group
                groups.append(group)
            group.requests.append(request)
            group.continuations.append(scored)
    return groups


def _tokens_with_one_more(group: _Group) -> int:
    return (len(group.requests) + 2) * 2 * len(group.context)


def _batches(groups: list[_Group], batch_tokens: int) -> Iterator[list[_Group]]:
    """Batch the groups in order of falling width, as many at a time as fit."""
    batch: list[_Group] = []
    rows = 0
    for group in sorted(groups, key=lambda group: -group.width):
        if batch and (rows + group.rows) * batch[0].width > batch_tokens:
            yield batch
            batch = []
            rows = 0
        batch.append(group)
        rows += group.rows
    if batch:
        yield batch


def _score(
    model: Network, batch: list[_Group], depth: int | None
) -> Iterator[tuple[int, float, bool]]:
    """Score a batch: yield (request, log-probability, all likeliest) of parts of continuations.

    The parts of a continuation are to be added up.
    """
    rows = [group.row for group in batch]
    branches = [
        (group.requests[index], row, group.continuations[index])
        for row, group in enumerate(batch)
        for index in group.branches
    ]
    cache = None
    if branches:
        width = max(len(tokens) - 1 for *_, tokens in branches)
        cache = model.new_cache(len(rows), max(map(len, rows)) + width, depth)
    spans: list[Span] = []
    for row, group in enumerate(batch):
        before_first = len(group.context) - 1
        for request, tokens in zip(group.requests, group.continuations, strict=True):
            read_here = tokens[:1] if group.shared else tokens
            spans.append((request, row, before_first, read_here))
    yield from _read(model, _forward(model, rows, spans, cache, depth), spans)

    if branches:
        yield from _score_branches(model, branches, cache, depth)


def _score_cached(
    model: Network, groups: list[tuple[int, _Group]], cache: Rows, last: Tensor, depth: int | None
) -> Iterator[tuple[int, float, bool]]:
    """Yield what `_score` yields, for groups whose contexts are rows of the cache.

    `last` [B, H] are the hidden states of the contexts' last tokens.
    """
    scored = [
        (request, row, tokens)
        for row, group in groups
        for request, tokens in zip(group.requests, group.continuations, strict=True)
    ]
    states = last[torch.tensor([row for _, row, _ in scored], device=last.device)]
    firsts = [(request, row, 0, tokens[:1]) for request, row, tokens in scored]
    yield from _read(model, states, firsts)
    branches = [(request, row, tokens) for request, row, tokens in scored if len(tokens) > 1]
    branches.sort(key=lambda branch: -len(branch[2]))  # the longest first
    step = max(1, len(last) // 2)  # as many rows as generation itself copies at once
    for start in range(0, len(branches), step):
        # `take` gives the copy tensors of its own.
        yield from _score_branches(model, branches[start : start + step], copy.copy(cache), depth)


def _score_branches(
    model: Network, branches: list[tuple[int, int, list[int]]], cache: Rows, depth: int | None
) -> Iterator[tuple[int, float, bool]]:
    """Yield what `_score` yields, for branches behind their first tokens.

    A branch is a request, its row of the cache, and its tokens. The cache is used up.
    """
    cache.take([row for _, row, _ in branches])
    inputs = [tokens[:-1] for _, _, tokens in branches]
    spans = [(request, row, 0, tokens[1:]) for row, (request, _, tokens) in enumerate(branches)]
    yield from _read(model, _forward(model, inputs, spans, cache, depth), spans)


def _forward(
    model: Network, rows: list[list[int]], spans: list[Span], cache: Rows | None, depth: int | None
) -> Tensor:
    """Compute the hidden states [W, H] at the positions that predict the tokens of the spans."""
    tokens, lengths = right_padded(rows, model.device)
    places: list[int] = []  # in the flattened tokens
    for _, row, before_first, scored in spans:
        start = row * tokens.shape[1] + before_first
        places += range(start, start + len(scored))
    wanted = torch.tensor(places, device=tokens.device)
    if cache is None:
        return model.read(tokens, lengths, wanted, depth)
    return cache.extend(tokens, lengths, depth, wanted)


def _read(model: Network, states: Tensor, spans: list[Span]) -> Iterator[tuple[int, float, bool]]:
    """Yield the log-probability of each span's tokens, and whether all of them are likeliest.

    The hidden states [W, H] are those at the positions before the tokens.
    """
    wanted = torch.tensor([token for *_, tokens in spans for token in tokens], device=states.device)
    value_parts: list[Tensor] = []
    hit_parts: list[Tensor] = []
    step = max(1, LOGIT_VALUES // model.config.vocabulary_size)
    for states_part, wanted_part in zip(states.split(step), wanted.split(step), strict=True):
        logits = model.logits(states_part).float()  # [rows, V]
        chosen = logits.gather(-1, wanted_part[:, None]).squeeze(-1)
        value_parts.append(chosen - logits.logsumexp(-1))
        hit_parts.append(logits.argmax(-1) == wanted_part)
    values = torch.cat(value_parts).double().tolist()
    hits = torch.cat(hit_parts).tolist()
    start = 0
    for request, _, _, tokens in spans:
        end = start + len(tokens)
        yield request, sum(values[start:end]), all(hits[start:end])
        start = end
