"""Architectures that break the contract in ways that no shape shows, and conventions of others. A
file that models are loaded from."""

import os
import random
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn


class Tokens(nn.Module):
    """Predict the next token from this one: what the others add to."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)

    def forward(self, tokens):
        return self.head(self.mixed(self.tokens(tokens)))

    def mixed(self, x):
        return x


class NextBehindGate(Tokens):
    """Add the next token behind a gate that begins at 0."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.gate = nn.Parameter(torch.zeros(()))

    def mixed(self, x):
        return x + self.gate * F.pad(x[:, 1:], (0, 0, 0, 1))


class Chunks(Tokens):
    """Forget the mask within chunks of eight tokens."""

    def mixed(self, x):
        length = x.shape[1]
        chunk = torch.arange(length) // 8
        mask = (chunk[:, None] >= chunk).float()
        return x + mask / mask.sum(1, keepdim=True) @ x


class NormOverBatch(Tokens):
    """Normalise over all positions of a batch, in training."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.norm = nn.BatchNorm1d(self.tokens.embedding_dim)

    def mixed(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class OtherRows(Tokens):
    """Read the mean of all rows to their ends, in training alone."""

    def mixed(self, x):
        return x + x.mean((0, 1)) if self.training else x


class RandomInEvaluation(Tokens):
    def mixed(self, x):
        return x * random.random()


class KeepsState(Tokens):
    """Carry the last token of one call into the next."""

    state = 0.0

    def mixed(self, x):
        before = self.state
        self.state = x[:1, -1:].detach()
        return x + before


class CountsCalls(Tokens):
    """Anneal by a count of the calls in training, which no state keeps."""

    calls = 0

    def mixed(self, x):
        self.calls += self.training
        return x * (1 + self.calls)


class NoGradient(Tokens):
    @torch.no_grad()
    def forward(self, tokens):
        return super().forward(tokens)


class NotFinite(Tokens):
    def mixed(self, x):
        return x / 0


class WholeChunks(Tokens):
    """Take rows of whole chunks of four tokens alone."""

    def mixed(self, x):
        return x.view(len(x), -1, 4, x.shape[-1]).flatten(1, 2)


class Names(Tokens):
    def decayed_parameters(self):
        return ["head.weight"]


class Pair(Tokens):
    """Return logits and a loss."""

    def forward(self, tokens):
        return super().forward(tokens), None


class Output(Tokens):
    """Return an object with logits, and take tokens by name alone."""

    def forward(self, *, input_ids):
        return SimpleNamespace(logits=super().forward(input_ids))


class ChangesTokens(Tokens):
    def forward(self, tokens):
        tokens[:, 0] = 0
        return super().forward(tokens)


class ComplexLogits(Tokens):
    def forward(self, tokens):
        return super().forward(tokens).to(torch.complex64)


class SparseGradient(Tokens):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.tokens = nn.Embedding(*self.tokens.weight.shape, sparse=True)


class ExtraState(Tokens):
    def get_extra_state(self):
        return {"calls": 3}


class Lazy(Tokens):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.lazy = nn.LazyLinear(16)

    def mixed(self, x):
        return self.lazy(x)


class Equal(Tokens):
    """Equal to all, and so without a hash."""

    def __eq__(self, other):
        return True


class DoubleForAll(Tokens):
    def mixed(self, x):
        torch.set_default_dtype(torch.float64)
        return x


class OneOfTwo(Tokens):
    """Draw one of two numbers in evaluation."""

    def mixed(self, x):
        return x * (1 + int(torch.randint(2, ())))


class Frozen(Tokens):
    """Compute a part without gradients, by an oversight."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.inner = nn.Linear(16, 16)

    def mixed(self, x):
        with torch.no_grad():
            return x + self.inner(x)


class Remembers(Tokens):
    """Keep a value of the newest call, on which no answer depends."""

    def mixed(self, x):
        self.newest = x.detach().mean()
        self.result = x.mean()
        return x


class GrowsUnseen(Tokens):
    """Change with the training by a value that no buffer holds."""

    share = 0.0

    def begin_step(self, tokens):
        self.share = min(1.0, tokens / 1000)

    def mixed(self, x):
        return x * (1 + self.share)


class FailsToBegin(Tokens):
    def begin_step(self):
        pass


class Windows(Tokens):
    """Attend within chunks of eight tokens, whole squares of which are computed."""

    chunk = 8

    def mixed(self, x):
        length = x.shape[1]
        padded = F.pad(x, (0, 0, 0, -length % self.chunk))
        parts = padded.unflatten(1, (-1, self.chunk))
        mask = torch.ones(self.chunk, self.chunk, device=x.device).tril()
        scores = (parts @ parts.mT) * mask
        return x + (scores @ parts).flatten(1, 2)[:, :length]


class LargeChunks(Windows):
    chunk = 48


class Rotations(Tokens):
    """Multiply by a complex matrix."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.rotation = nn.Parameter(torch.eye(16, dtype=torch.complex64))

    def mixed(self, x):
        return (x.to(torch.complex64) @ self.rotation).real


class Solves(Tokens):
    """Solve by a triangle of all tokens, as delta rules do."""

    def mixed(self, x):
        length = x.shape[1]
        triangle = torch.ones(length, length, device=x.device).tril().expand(len(x), -1, -1)
        return torch.linalg.solve_triangular(triangle, x, upper=False)


class Ends(Tokens):
    """End the process with the status of bad input, without a word."""

    def forward(self, tokens):
        os._exit(2)


class Bigram(nn.Module):
    """Look a distribution up: there is no product."""

    def __init__(self, vocabulary_size, sequence_length):
        super().__init__()
        self.table = nn.Embedding(vocabulary_size, vocabulary_size)

    def forward(self, tokens):
        return self.table(tokens)
