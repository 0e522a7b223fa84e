"""Classes that say how they are trained, and optimizers as users write them. A file that models are
loaded from."""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn


class Plain(nn.Module):
    """The mean of the tokens so far through a matrix; logits by a head of its own."""

    def __init__(self, vocabulary_size, sequence_length, hidden_size=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.mix = nn.Linear(hidden_size, hidden_size)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)

    def forward(self, tokens):
        return self.logits(self.states(tokens))

    def states(self, tokens):
        counts = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        return self.mix(self.tokens(tokens).cumsum(1) / counts[:, None]).relu()

    def logits(self, states):
        return self.head(states)


class OwnLoss(Plain):
    """The loss by its definition."""

    def loss(self, states, targets):
        probabilities = self.logits(states).float().softmax(-1)
        return -probabilities[torch.arange(len(targets)), targets].log().sum()


class MeanLoss(Plain):
    """A mistake: the mean, not the sum."""

    def loss(self, states, targets):
        return F.cross_entropy(self.logits(states), targets)


class EachLoss(Plain):
    """A mistake: a loss for each target."""

    def loss(self, states, targets):
        return F.cross_entropy(self.logits(states), targets, reduction="none")


class FailingLoss(Plain):
    def loss(self, states, targets):
        return states.no_such_method(targets)


class Penalty(Plain):
    """A penalty that depends on the weights alone."""

    def auxiliary_loss(self):
        return 0.5 * self.mix.weight.square().sum()


class OfThePass(Plain):
    """A penalty on what the newest pass has computed."""

    def states(self, tokens):
        states = super().states(tokens)
        self.kept = states
        return states

    def auxiliary_loss(self):
        return self.kept.square().mean()


class PassesOver(Plain):
    """A number for each pass, 1, 2, ...: each row here is a pass of its own."""

    def states(self, tokens):
        self.rows = tokens.shape
        return super().states(tokens)

    def auxiliary_loss(self):
        return self.mix.bias.sum() * 0.0 + float(self.rows[1])


class FloatPenalty(Plain):
    def auxiliary_loss(self):
        return 0.1


class ListPenalty(Plain):
    def auxiliary_loss(self):
        return [self.mix.weight.sum()]


class VectorPenalty(Plain):
    def auxiliary_loss(self):
        return self.mix.weight.sum(0)


class InfinitePenalty(Plain):
    def auxiliary_loss(self):
        return self.mix.weight.sum() * math.inf


class FailingPenalty(Plain):
    def auxiliary_loss(self):
        return self.balance


class Attribute(Plain):
    """Keep a penalty where nobody looks for it."""

    def states(self, tokens):
        states = super().states(tokens)
        self.mix.aux_loss = states.square().mean()
        return states


class Groups(Plain):
    """A rate of its own for words, and decay for one matrix alone."""

    def parameter_groups(self):
        return [
            {"params": [self.tokens.weight], "times": 0.5, "weight_decay": 0.0},
            {"params": [self.mix.weight], "weight_decay": 0.2},
            {"params": [self.mix.bias, self.head.weight], "times": 2},
        ]


class Both(Groups):
    def decayed_parameters(self):
        return [self.head.weight]


class WithGroups(Plain):
    """Groups that are given by name, for tests of what is wrong with them."""

    def __init__(self, vocabulary_size, sequence_length, kind="none"):
        super().__init__(vocabulary_size, sequence_length)
        self.kind = kind

    def parameter_groups(self):
        all_of_them = list(self.parameters())
        words, *others = all_of_them
        return {
            "none": 3,
            "a mapping": {"params": all_of_them},
            "no mapping": [all_of_them],
            "no params": [{"times": 1.0}],
            "names": [{"params": ["tokens.weight"]}],
            "left out": [{"params": others}],
            "twice": [{"params": all_of_them}, {"params": words}],
            "not ours": [{"params": [*all_of_them, nn.Parameter(torch.zeros(3))]}],
            "misspelt": [{"params": all_of_them, "weight_decy": 0.1}],
            "negative": [{"params": all_of_them, "times": -1}],
            "a text": [{"params": all_of_them, "weight_decay": "0.1"}],
            "no rule": [{"params": all_of_them, "optimizer": "moun"}],
            "of a vector": [{"params": all_of_them, "optimizer": "muon"}],
            "parts": [{"params": self.mix.weight, "parts": [9, 9]}, {"params": others}],
            "no sizes": [{"params": self.mix.weight, "parts": 2}, {"params": others}],
            "axis": [{"params": self.mix.weight, "parts": [8, 8], "axis": 2}, {"params": others}],
        }[self.kind]


class OnlyWords(nn.Module):
    """Nothing that Muon could train."""

    def __init__(self, vocabulary_size, sequence_length):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, 8)
        self.head = nn.Linear(8, vocabulary_size)

    def forward(self, tokens):
        return self.head(self.tokens(tokens))


class Lion(torch.optim.Optimizer):
    """An optimizer as users write them."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["average"] = torch.zeros_like(parameter)
                average = state["average"]
                update = average.lerp(parameter.grad, 1 - first).sign_()
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-group["lr"])
                average.lerp_(parameter.grad, 1 - second)


class AdamW(torch.optim.AdamW):
    """One of torch's."""


class Counting(Lion):
    """Count in a number that is no tensor."""

    def step(self, closure=None):
        super().step()
        for parameter in self.state:
            self.state[parameter]["count"] = self.state[parameter].get("count", 0) + 1


class InGroups(Lion):
    """Count in the groups, which are not saved."""

    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1


class Hidden(Lion):
    """Keep something in the object, on which the steps depend."""

    taken = 0

    def step(self, closure=None):
        self.taken += 1
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.mul_(1 - 0.1 / self.taken)
        super().step()


class Drawing(Lion):
    """Draw random numbers that nobody saves."""

    def step(self, closure=None):
        super().step()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.add_(random.random())


class NoDecay(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-group["lr"])


class Fails(Lion):
    def step(self, closure=None):
        raise RuntimeError("no kernel")


class NoOptimizer:
    def __init__(self, params, lr):
        pass
