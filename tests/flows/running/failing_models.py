"""Architectures that fail in a training or in an evaluation, each in another way, and pass every
check in advance. A file that models are loaded from."""

import os
import sys

import torch
from torch import nn


class Tokens(nn.Module):
    """Predict the next token from this one."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=8):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def update_balance(self):
        self.steps += 1

    def forward(self, tokens):
        self.before()
        return self.head(self.tokens(tokens))

    def before(self):
        if self.training and self.steps >= 3:
            self.fail()

    def fail(self):
        raise AssertionError("three steps are enough")


class FifthStep(Tokens):
    pass


class Evaluation(Tokens):
    def before(self):
        if not self.training and self.steps > 0:
            self.fail()


class Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("no way back")


class Backward(Tokens):
    def forward(self, tokens):
        logits = super().forward(tokens)
        return Refuse.apply(logits) if self.steps >= 3 else logits

    def before(self):
        pass


class Memory(Tokens):
    def fail(self):
        raise RuntimeError("CUDA error: out of memory")


class Odd(Exception):
    def __str__(self):
        raise ValueError


class OwnError(Tokens):
    def fail(self):
        raise Odd


class Balance(Tokens):
    def update_balance(self):
        super().update_balance()
        if self.steps >= 3:
            raise KeyError("no such expert")

    def before(self):
        pass


class Exits(Tokens):
    def fail(self):
        sys.exit(2)


class ExitsAtOnce(Tokens):
    def fail(self):
        os._exit(2)  # the status of bad input, without a word


class Killed(Tokens):
    def fail(self):
        os.abort()


class AheadLater(Tokens):
    """Look ahead once training has begun, in evaluation alone."""

    def forward(self, tokens):
        x = self.tokens(tokens)
        if not self.training and self.steps > 0:
            x = x + x.roll(-1, 1)
        return self.head(x)


class NoNumbers(Tokens):
    def forward(self, tokens):
        logits = super().forward(tokens)
        return logits if self.training or self.steps == 0 else logits * float("nan")

    def before(self):
        pass
