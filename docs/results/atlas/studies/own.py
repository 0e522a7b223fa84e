"""Architectures of the atlas that transformers does not have, each in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

INITIAL_SCALE = 0.02


class LSTM(nn.Module):
    """Layers of an LSTM between an embedding and an output layer."""

    def __init__(
        self,
        vocabulary_size: int,
        sequence_length: int,
        layers: int = 2,
        hidden_size: int = 64,
        recurrent_size: int = 96,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, hidden_size)
        self.lstm = nn.LSTM(hidden_size, recurrent_size, layers, batch_first=True)
        self.output = nn.Linear(recurrent_size, vocabulary_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, length, vocabulary)."""
        states, _ = self.lstm(self.embedding(tokens))
        return self.output(states)


class MinGRULayer(nn.Module):
    """A minimal GRU (2410.01201, section 3.1) with a projection back, and a SwiGLU network."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.before_recurrence = nn.RMSNorm(hidden_size)
        self.gate = nn.Linear(hidden_size, hidden_size)
        self.candidate = nn.Linear(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size, bias=False)
        self.before_network = nn.RMSNorm(hidden_size)
        self.up = nn.Linear(hidden_size, 2 * intermediate_size, bias=False)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map states (batch, length, hidden) to states of the same shape."""
        normal = self.before_recurrence(x)
        x = x + self.out(recurrence(self.gate(normal), self.candidate(normal)))
        gate, value = self.up(self.before_network(x)).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * value)


def recurrence(gate: Tensor, candidate: Tensor) -> Tensor:
    """Return h_t = (1 - z_t) h_(t-1) + z_t c_t with z = sigmoid(gate), for all positions at once.

    In logarithms (2410.01201, appendix B): h_t = sum over s <= t of exp(A_t - A_s) z_s c_s, where
    A_t is the sum of log(1 - z) up to t. Candidates are g(c), which is positive.
    """
    log_keep = -nn.functional.softplus(gate)  # log(1 - z)
    log_take = -nn.functional.softplus(-gate)  # log z
    log_kept = log_keep.cumsum(dim=1)
    log_terms = log_take + log_positive(candidate) - log_kept
    return torch.exp(log_kept + torch.logcumsumexp(log_terms, dim=1))


def log_positive(x: Tensor) -> Tensor:
    """Return log g(x), where g(x) = x + 1/2 for x >= 0 and sigmoid(x) else."""
    return torch.where(x >= 0, (nn.functional.relu(x) + 0.5).log(), -nn.functional.softplus(-x))


class MinGRU(nn.Module):
    """Layers of minimal GRUs between an embedding and an output layer."""

    def __init__(
        self,
        vocabulary_size: int,
        sequence_length: int,
        layers: int = 4,
        hidden_size: int = 64,
        intermediate_size: int = 128,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, hidden_size)
        self.layers = nn.ModuleList(
            MinGRULayer(hidden_size, intermediate_size) for _ in range(layers)
        )
        self.norm = nn.RMSNorm(hidden_size)
        self.output = nn.Linear(hidden_size, vocabulary_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, length, vocabulary)."""
        states = self.embedding(tokens)
        for layer in self.layers:
            states = layer(states)
        return self.output(self.norm(states))


class LoopedLlama(nn.Module):
    """One layer of Llama, passed several times."""

    def __init__(
        self,
        vocabulary_size: int,
        sequence_length: int,
        loops: int = 4,
        heads: int = 4,
        hidden_size: int = 64,
        intermediate_size: int = 192,
    ) -> None:
        super().__init__()
        config = LlamaConfig(
            vocab_size=vocabulary_size,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            num_attention_heads=heads,
            num_hidden_layers=1,
            attn_implementation="sdpa",
        )
        self.loops = loops
        self.embedding = nn.Embedding(vocabulary_size, hidden_size)
        self.rotary = LlamaRotaryEmbedding(config)
        self.layer = LlamaDecoderLayer(config, layer_idx=0)
        self.norm = LlamaRMSNorm(hidden_size)
        self.output = nn.Linear(hidden_size, vocabulary_size, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INITIAL_SCALE)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, length, vocabulary)."""
        states = self.embedding(tokens)
        positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        angles = self.rotary(states, positions)
        for _ in range(self.loops):
            states = self.layer(states, position_embeddings=angles, position_ids=positions)
            if isinstance(states, tuple):
                states = states[0]
        return self.output(self.norm(states))
