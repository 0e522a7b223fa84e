"""Architectures as users write them, each with something that not all have. A file that models are
loaded from."""

import functools
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Mean(nn.Module):
    """Predict from the mean of the tokens so far, with what modules may have: dropout, tied
    weights, a mask."""

    def __init__(
        self, vocabulary_size, sequence_length, hidden_size=16, dropout=0.1, dtype="float32"
    ):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)
        self.head.weight = self.tokens.weight
        mask = torch.full((sequence_length, sequence_length), float("-inf")).triu(1)
        self.register_buffer("mask", mask)
        self.to(getattr(torch, dtype))

    def forward(self, tokens):
        length = tokens.shape[1]
        weights = self.mask[:length, :length].softmax(-1)
        return self.head(self.dropout(weights @ self.tokens(tokens)))


class Rare(Mean):
    """Send some rows through weights of their own: a batch without such a row leaves these without
    gradients."""

    def __init__(self, vocabulary_size, sequence_length):
        super().__init__(vocabulary_size, sequence_length, dropout=0.0)
        self.rare = nn.Linear(vocabulary_size, vocabulary_size)

    def forward(self, tokens):
        logits = super().forward(tokens)
        return (
            torch.where(tokens[:, :1, None] < 4, self.rare(logits), logits)
            if (tokens[:, 0] < 4).any()
            else logits
        )


class Attention(nn.Module):
    """Attend within a document, with positions, by torch's fused attention; a longest length of its
    own."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=16, longest=None):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.positions = nn.Embedding(longest or sequence_length, hidden_size)
        self.projections = nn.Linear(hidden_size, 3 * hidden_size)
        self.head = nn.Linear(hidden_size, vocabulary_size)

    def forward(self, tokens, documents=None, positions=None):
        mask = (
            None
            if documents is None
            else (documents[:, :, None] == documents[:, None, :]).tril()[:, None]
        )
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        query, key, value = (part[:, None] for part in self.projections(x).chunk(3, -1))
        x = (
            x
            + F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=mask is None
            )[:, 0]
        )
        return self.head(x)


class Mixture(nn.Module):
    """A dense mixture of experts: each token goes to one expert, by torch's grouped product."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=16, experts=4, expert_size=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.router = nn.Linear(hidden_size, experts, bias=False)
        self.inward = nn.Parameter(torch.randn(experts, hidden_size, expert_size) / 4)
        self.outward = nn.Parameter(torch.randn(experts, expert_size, hidden_size) / 4)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens).flatten(0, 1)
        scores, chosen = self.router(x).max(-1)
        order = chosen.argsort(stable=True)
        ends = torch.bincount(chosen, minlength=len(self.inward)).cumsum(0).int()
        hidden = F.relu(torch.nn.functional.grouped_mm(x[order], self.inward, offs=ends))
        mixed = torch.nn.functional.grouped_mm(hidden, self.outward, offs=ends)
        x = x + torch.zeros_like(x).index_copy(0, order, mixed) * scores.sigmoid()[:, None]
        return self.head(x).view(*tokens.shape, -1)


@torch.library.custom_op("own::product", mutates_args=())
def product(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return x @ weights


@product.register_fake
def _(x, weights):
    return x.new_empty(*x.shape[:-1], weights.shape[1])


class Kernel(Mean):
    """Multiply by an operation that no counter knows."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=16):
        super().__init__(vocabulary_size, sequence_length, hidden_size)
        self.own = nn.Parameter(torch.randn(hidden_size, hidden_size))

    def forward(self, tokens):
        return self.head(product(self.tokens(tokens), self.own))


class Declared(Kernel):
    def flops_per_token(self, length):
        return 100.0 * length


class Short(Mean):
    def forward(self, tokens):
        return super().forward(tokens)[:, :-1]


class Whole(nn.Module):
    """Define every method of the contract: a running mean with a head of its own, a cache, a
    counter and its FLOPs."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, tokens):
        return self.logits(self.states(tokens))

    def states(self, tokens, documents=None, depth=None):
        counts = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        return self.tokens(tokens).cumsum(1) / counts[:, None]

    def logits(self, states):
        return self.head(states)

    def decayed_parameters(self):
        return [self.head.weight]

    def begin_step(self, tokens):
        return False

    def update_balance(self):
        self.steps += 1

    def new_cache(self, batch, length, depth=None):
        return Sums(self, batch, length)

    def counts(self):
        return [self.steps]

    def flops_per_token(self, length):
        return 2.0 * self.head.weight.numel()


class Grows(Mean):
    """Add the token's own vector from 1,000 tokens of training on."""

    def __init__(self, vocabulary_size, sequence_length, **sizes):
        super().__init__(vocabulary_size, sequence_length, **sizes)
        self.register_buffer("grown", torch.zeros((), dtype=torch.bool))

    def begin_step(self, tokens):
        self.grown.fill_(tokens >= 1000)

    def forward(self, tokens):
        return super().forward(tokens) + self.head(self.tokens(tokens)) * self.grown


class NoDepth(Whole):
    def states(self, tokens, documents=None):
        return super().states(tokens)


class Elsewhere(Mean):
    def forward(self, tokens):
        if tokens.device.type == "cpu":
            raise NotImplementedError("no kernel for a CPU")
        return super().forward(tokens)


class Ahead(Mean):
    """Read the whole row for every token of a row."""

    def forward(self, tokens):
        x = self.tokens(tokens)
        return self.head(x + x.mean(1, keepdim=True))


class InPlace(Whole):
    """Have a cache whose copies change the cache itself."""

    def new_cache(self, batch, length, depth=None):
        cache = Sums(self, batch, length)

        def take(rows):
            cache.sums[: len(rows)] = cache.sums[rows]

        cache.take = take
        return cache


class Headed(Whole):
    flops_per_token = None  # counted


class Half(Mean):
    def states(self, tokens, documents=None, depth=None):
        return self.tokens(tokens)


class Table(Mean):
    """Keep a table as an attribute of its own, neither a parameter nor a buffer."""

    def __init__(self, vocabulary_size, sequence_length):
        super().__init__(vocabulary_size, sequence_length)
        self.table = torch.arange(sequence_length)


class Wrapped(Mean):
    @functools.wraps(Mean.__init__)  # which hides that the decorator takes another name
    def __init__(self, width, **sizes):
        super().__init__(hidden_size=width, **sizes)


class Words(dict):
    """No module, and a class without a signature."""


class GlobalNoise(Mean):
    """Draw from the generators of Python, numpy and torch in training."""

    def forward(self, tokens):
        logits = super().forward(tokens)
        if not self.training:
            return logits
        noise = random.gauss(0, 1) + np.random.randn() + float(torch.randn(()))
        return logits * (1 + noise / 10)


class Sums:
    """Keep the sum of the tokens of each row, which is all that the mean needs of them."""

    def __init__(self, model, batch, length):
        self.model, self.length, self.longest = model, length, 0
        self.sums = torch.zeros(batch, model.tokens.embedding_dim)
        self.lengths = torch.zeros(batch, dtype=torch.long)

    @property
    def room(self):
        return self.length - self.longest

    def extend(self, tokens, lengths=None, depth=None, wanted=None):
        batch, new = tokens.shape
        lengths = torch.full((batch,), new) if lengths is None else lengths
        sums = self.sums[:, None] + self.model.tokens(tokens).cumsum(1)
        counts = self.lengths[:, None] + torch.arange(1, new + 1)
        self.sums = sums[torch.arange(batch), lengths - 1]
        self.lengths, self.longest = self.lengths + lengths, self.longest + new
        states = sums / counts[..., None]
        return states if wanted is None else states.flatten(0, 1)[wanted]

    def take(self, rows):
        self.sums, self.lengths = self.sums[rows], self.lengths[rows]


class Recurrent(nn.Module):
    """An LSTM, for which a CPU has one operator."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.memory = nn.LSTM(hidden_size, hidden_size, batch_first=True)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)

    def forward(self, tokens):
        states, _ = self.memory(self.tokens(tokens))
        return self.head(states)
