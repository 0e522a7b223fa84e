"""Meet the contract as Dreamer does: with a cache, a loss in parts, its own engines, and weights folded for inference.

`model.dreamer` is the mathematics; what is here computes the same numbers in less time or memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model import ops
from model.architectures.contract import Network
from model.cache import Cache, read
from model.ops import Documents
from model.ops.gpu import on_gpu


class DreamerNetwork(Network):
    """Answer what training and evaluation ask of a network; experts and attention along the depth can be observed."""

    observable = True

    def states(self, tokens: Tensor, documents: Documents | None = None, depth: int | None = None) -> Tensor:
        """Compute the normalised hidden states [B, S, H]."""
        return self(tokens, memory=documents, depth=depth, return_hidden=True)

    def loss(self, states_WH: Tensor, targets_W: Tensor, *, compiled: bool = False) -> Tensor:
        """Sum the cross entropy of the target tokens, with the logits of a few tokens at a time."""
        return ops.cross_entropy_sum(states_WH, self.head.to(states_WH.dtype), targets_W, compiled=compiled)

    def new_cache(self, batch: int, length: int, depth: int | None = None) -> Cache:
        """Begin a cache of keys and values."""
        return Cache(self, batch, length, depth)

    def read(
        self, tokens: Tensor, lengths: Tensor | None = None, wanted: Tensor | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute the hidden states of rows, without their padding where the engine can."""
        return read(self, tokens, lengths, wanted, depth)

    def position_bytes(self) -> float:
        """Estimate the bytes of a position: cached keys and values, half of them twice while rows are taken out.

        And inputs and activations of its active experts, up to three copies.
        """
        config, bytes_ = self.config, (self.dtype or self.head.dtype).itemsize
        cached = 1.5 * config.depth * 2 * config.key_value_heads * config.head_size * bytes_
        return cached + 3 * config.active_experts * (config.hidden_size + 3 * config.expert_size) * bytes_

    def for_inference(self) -> Network:
        """Merge the shared experts (Eq. 8); on a GPU narrow all but routers and gains, as in training, to bfloat16."""
        model = self.merged()
        if on_gpu(model.device):
            model.narrow()
        return model

    def narrow(self) -> None:
        """Convert weights and computation to bfloat16 in place; routers and gains stay in float32."""
        routing = {id(parameter) for router in self.routers().values() for parameter in router.parameters()}
        for parameter in self.parameters():
            if id(parameter) not in routing and parameter.ndim > 1:
                parameter.data = parameter.data.to(torch.bfloat16)
        self.dtype = torch.bfloat16
