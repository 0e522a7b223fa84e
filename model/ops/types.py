"""Define what operations take and return besides tensors.

These are routings, outputs of attentions, and who sees whom in a batch. Axes: B batch, S sequence,
T = B*S tokens, C keys that a row holds, H hidden, N query heads, M key/value heads, K head size, E
experts, A active experts, P = T*A token-expert pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


class Dispatch(NamedTuple):
    """Token-expert pairs sorted by expert. Pair i of P belongs to token i // A.

    Example: ids [[1], [0], [1]] of 3 experts -> order [1, 0, 2], tokens [1, 0, 2], places [[1],
    [0], [2]], ends [1, 3, 3].
    """

    order: Tensor  # [P]: the pair at each place
    tokens: Tensor  # [P]: the token at each place
    places: Tensor  # [T, A]: the place of each pair
    ends: Tensor  # [E] int32: where the run of places of each expert ends


class Routing(NamedTuple):
    """The experts that a router chose for each token."""

    ids: Tensor | None  # [T, A]; None where there is no choice
    scores: Tensor | None  # [T, A], in float32 at least
    dispatch: Dispatch | None = None  # where the engine sorts tokens by expert


class Factors(NamedTuple):
    """The factors of the gradients of the experts' weights, at one use of the experts.

    They travel as gradients of `ops.gradient_taps`, so even token numbers are floating-point.
    """

    x: Tensor  # [T, H]: what the experts were given
    gradient: Tensor  # [T, H]: of what they returned
    hidden: Tensor  # [P, F], at the places of a Dispatch: what the down projections were given
    # [P, 2F], at the places of a Dispatch: gradients of what the gate and up projections returned
    projected: Tensor
    tokens: Tensor  # [P] float64: those of the Dispatch
    ends: Tensor  # [E] float64: those of the Dispatch


class Attended(NamedTuple):
    """What an attention along any dimension returns at one depth."""

    output: Tensor  # [T, H], to be added to the residual stream
    # [T, A], the experts that its router chose, where the attention has a router
    ids: Tensor | None = None
    # keys and values [T, M, K] of the visible depths, this one last
    history: tuple[tuple[Tensor, Tensor], ...] = ()
    scores: Tensor | None = None  # [T, N, depths], attention along the depth


class ExpertOperands(NamedTuple):
    """What expert attention is computed from, from its norm to the sum of its experts."""

    x: Tensor  # [T, H]
    gain: Tensor  # [H]
    keys: tuple[Tensor | None, ...]  # as of `ops.routing_keys`
    bias: Tensor  # [E]
    inward: Tensor  # [E, H, 2F]
    outward: Tensor  # [E, F, H]
    active: int
    epsilon: float


class AttentionOperands(NamedTuple):
    """What an attention with mixed projections is computed from, from its norm to its output.

    Along the sequence where it says what is `visible`, else along the depth.
    """

    x: Tensor  # [T, H]
    gain: Tensor  # [H]
    keys: tuple[Tensor | None, ...]  # as of `ops.routing_keys`
    bias: Tensor  # [E]
    inward: tuple[Tensor, Tensor | None]  # as of `ops.mixed_weights`
    outward: tuple[Tensor, Tensor | None]
    query_gain: Tensor  # [K]
    key_gain: Tensor  # [K]
    code: Tensor  # [T or 1, ..., K/2, 2]
    heads: tuple[int, int]  # N, M
    epsilon: float
    visible: Visible | None
    # keys and values [T, M, K] of the visible earlier depths
    history: tuple[tuple[Tensor, Tensor], ...]


class Visible:
    """Which of C keys each query of sequence attention sees.

    Every engine asks for the form that it needs.
    """

    pairs: Tensor  # booleans [B, S, C]: whether a query sees a key
    _mask: Tensor | None = None

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """Make the mask [B, 1, S, C] to add to attention scores; None: plain causal attention."""
        if self._mask is None or self._mask.dtype != dtype:
            self._mask = torch.where(self.pairs, 0.0, float("-inf")).to(dtype).unsqueeze(1)
        return self._mask


class Documents(Visible):
    """Rows of packed documents: a token sees itself and the tokens before it in the same document.

    A document is a run of equal `labels` [B, S]; without labels every row is one document. Each
    form is made once, when an engine first asks for it. Example: labels [[7, 7, 2, 2, 2]] ->
    positions [[0, 1, 0, 1, 2]], starts [0, 0, 2, 2, 2], bounds [0, 2, 5].
    """

    def __init__(
        self, tokens: Tensor, labels: Tensor | None = None, positions: Tensor | None = None
    ) -> None:
        self.rows, self.length = tokens.shape
        self.device = tokens.device
        self.labels = labels
        self.positions = document_positions(self._filled) if positions is None else positions

    def recall(self, depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Visible]:
        """Shape keys and values [T, M, K] of the tokens into rows [B, S, M, K]."""
        key_rows = key.unflatten(0, (self.rows, -1))
        value_rows = value.unflatten(0, (self.rows, -1))
        return key_rows, value_rows, self  # all there is: nothing came before

    @property
    def _filled(self) -> Tensor:
        """The labels [B, S]; without labels, one for all."""
        if self.labels is not None:
            return self.labels
        return torch.zeros((), dtype=torch.long, device=self.device).expand(self.rows, self.length)

    @property
    def pairs(self) -> Tensor:
        """Booleans [B, S, S]."""
        begins = self.starts.view(self.rows, self.length).int()
        causal = torch.ones(self.length, self.length, dtype=torch.bool, device=self.device).tril()
        return (begins[:, :, None] == begins[:, None, :]).logical_and_(causal)

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """Make the mask [B, 1, S, S], or none where every row is one document."""
        return None if self.labels is None else super().mask(dtype)

    @cached_property
    def starts(self) -> Tensor:
        """Where in the flattened batch the document of each token begins: [T]."""
        places = torch.arange(self.rows * self.length, device=self.device)
        return places - document_positions(self._filled).flatten()

    @cached_property
    def bounds(self) -> Tensor:
        """Where each document begins in the flattened batch, then its end: int32 [documents + 1].

        Padding is a document like any other; documents end with their row. The host waits until it
        knows how many there are: `moved` makes them before they are needed on a GPU.
        """
        begins = torch.ones_like(self._filled, dtype=torch.bool)
        begins[:, 1:] = self._filled[:, 1:] != self._filled[:, :-1]
        places = begins.flatten().nonzero().flatten()
        return torch.cat((places, places.new_full((1,), begins.numel()))).int()

    @cached_property
    def longest(self) -> int:
        """The tokens of the longest document."""
        return int(self.bounds.diff().max())

    @property
    def real(self) -> Tensor | None:
        """Booleans [T]: whether a token is none of the padding; None where all are."""
        return None if self.labels is None else (self.labels >= 0).flatten()

    def moved(self, move: Callable[[Tensor], Tensor]) -> Documents:
        """Make the bounds here, on the CPU, and move all.

        Attention then waits for no number of the GPU.
        """
        labels = move(self.labels)
        documents = Documents(labels, labels, move(self.positions))
        documents.bounds = move(self.bounds)
        documents.longest = self.longest
        return documents


def document_positions(labels: Tensor) -> Tensor:
    """Count positions [B, S] within each run of equal labels [B, S]."""
    index = torch.arange(labels.shape[1], device=labels.device).expand_as(labels)
    # the index where a run begins, 0 elsewhere: its running maximum is where the own run began
    begins = torch.zeros_like(index)
    begins[:, 1:] = index[:, 1:] * (labels[:, 1:] != labels[:, :-1])
    return index - begins.cummax(dim=1).values
