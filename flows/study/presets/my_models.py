"""Define a GPT and an LSTM, the examples of docs/own-architecture.md, which the preset `control`
measures."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden_size, heads, feed_forward):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_size) for _ in range(2))
        self.inward = nn.Linear(hidden_size, 3 * hidden_size)
        self.outward = nn.Linear(hidden_size, hidden_size)
        self.up = nn.Linear(hidden_size, feed_forward)
        self.down = nn.Linear(feed_forward, hidden_size)

    def forward(self, x, mask):
        heads = self.inward(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).movedim(1, 3)
        query, key, value = heads.unbind(1)
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )
        x = x + self.outward(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class GPT(nn.Module):
    def __init__(self, vocabulary_size, sequence_length, layers, hidden_size, heads, feed_forward):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.positions = nn.Embedding(sequence_length, hidden_size)
        self.blocks = nn.ModuleList(Block(hidden_size, heads, feed_forward) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden_size)
        self.head = nn.Linear(hidden_size, vocabulary_size, bias=False)

    def forward(self, tokens, documents=None, positions=None):
        mask = None
        if documents is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        else:  # a row of the training: attention stays within a document
            mask = (documents[:, None, :, None] == documents[:, None, None, :]).tril()
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


class LSTM(nn.Module):
    def __init__(self, vocabulary_size, sequence_length, hidden_size):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, hidden_size)
        self.lstm = nn.LSTM(hidden_size, hidden_size, batch_first=True)
        self.head = nn.Linear(hidden_size, vocabulary_size)

    def forward(self, tokens):
        hidden, _ = self.lstm(self.tokens(tokens))
        return self.head(hidden)
