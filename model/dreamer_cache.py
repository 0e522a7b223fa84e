"""Meet the contract as Dreamer does: a cache, a loss in parts, engines, weights for inference.

`model/dreamer.py` is the mathematics; this module computes the same numbers in less time or memory.

The cache holds sequence attention's keys and values and nothing else: depth attention looks at one
token's own depths, which are gone when the next token comes, so its memory does not grow with what
is generated. Tests compare with recomputing the whole sequence for every token.

Axes: B batch, S sequence, H hidden, L depth, M key/value heads, K head size, W chosen tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dreamer_study.model import ops
from dreamer_study.model.contract import Network
from dreamer_study.model.ops import Documents, Visible
from dreamer_study.model.ops.gpu import on_gpu
from dreamer_study.pipeline.errors import InputError


class DreamerNetwork(Network):
    """Answer what training and evaluation ask of a network."""

    observable = True  # its experts, and its attention along the depth

    def states(
        self, tokens: Tensor, documents: Documents | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute the normalised hidden states [B, S, H]."""
        return self(tokens, memory=documents, depth=depth, return_hidden=True)

    def loss(self, states_WH: Tensor, targets_W: Tensor, *, compiled: bool = False) -> Tensor:
        """Sum the cross entropy of the target tokens, with the logits of a few tokens at a time."""
        return ops.cross_entropy_sum(
            states_WH, self.head.to(states_WH.dtype), targets_W, compiled=compiled
        )

    def new_cache(self, batch: int, length: int, depth: int | None = None) -> Cache:
        """Begin a cache of keys and values."""
        return Cache(self, batch, length, depth)

    def read(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        wanted: Tensor | None = None,
        depth: int | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Compute the hidden states of rows, as `Network.read` says; fill a cache, if given.

        Where only some are wanted, an engine may get the rows packed one behind the other, without
        their padding.
        """
        labels = None
        packs = ops.packs(self.head, tokens.shape[1]) and self.dtype in (None, self.head.dtype)
        if packs and lengths is not None and wanted is not None:
            real = torch.arange(tokens.shape[1]) < lengths[:, None]  # [B, S]; the rest is padding
            wanted = real.flatten().cumsum(0)[wanted] - 1  # places among the real tokens
            tokens = tokens[real][None]
            labels = torch.arange(len(lengths)).repeat_interleave(lengths)[None]  # a row's number
        documents = Documents(tokens, labels)
        memory = documents if cache is None else _FirstRows(cache, documents)
        hidden = self(tokens, memory=memory, depth=depth, return_hidden=True)
        return hidden if wanted is None else hidden.flatten(0, 1)[wanted]

    def position_bytes(self) -> float:
        """Estimate the bytes of a position: its cache, and its active experts.

        Of the cached keys and values half are held twice while rows are taken out; of inputs and
        activations of the experts there are up to three copies.
        """
        config = self.config
        element_bytes = (self.dtype or self.head.dtype).itemsize
        cached = 1.5 * config.depth * 2 * config.key_value_heads * config.head_size
        of_experts = 3 * config.active_experts * (config.hidden_size + 3 * config.expert_size)
        return (cached + of_experts) * element_bytes

    def for_inference(self) -> Network:
        """Merge the shared experts (Eq. 8); on a GPU narrow all but routers and gains.

        To bfloat16, as in training.
        """
        model = self.merged()
        if on_gpu(model.device):
            model.narrow()
        return model

    def narrow(self) -> None:
        """Convert weights and computation to bfloat16 in place.

        Routers and gains stay in float32.
        """
        of_routers = {
            id(parameter) for router in self.routers().values() for parameter in router.parameters()
        }
        for parameter in self.parameters():
            if id(parameter) not in of_routers and parameter.ndim > 1:
                parameter.data = parameter.data.to(torch.bfloat16)
        self.dtype = torch.bfloat16


class Cache:
    """Keys and values [L, B, length, M, K] for `batch` sequences, filled from the left.

    Sequences may have different lengths: each row writes behind its own latest position.
    """

    def __init__(
        self, model: DreamerNetwork, batch: int, length: int, depth: int | None = None
    ) -> None:
        config = model.config
        dtype = model.dtype or model.head.dtype
        shape = (depth or config.depth, batch, length, config.key_value_heads, config.head_size)
        self.model = model
        self.keys = torch.zeros(shape, device=model.device, dtype=dtype)
        self.values = torch.zeros(shape, device=model.device, dtype=dtype)
        # filled positions of each row, [B]
        self.lengths = torch.zeros(batch, device=model.device, dtype=torch.long)
        self.longest = 0  # of them, known without asking the device

    @property
    def room(self) -> int:
        """Number of tokens that every row can still take."""
        return self.keys.shape[2] - self.longest

    def extend(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        depth: int | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Read tokens behind those in the cache, as `contract.Rows.extend` says.

        `depth` must be that of the cache.
        """
        capacity = self.keys.shape[2]
        new = tokens.shape[1]
        if self.longest + new > capacity:
            raise InputError(
                f"the cache has {capacity} positions, of which {self.longest} are filled, so {new}"
                " more do not fit; give new_cache a larger length"
            )
        if self.longest:
            memory = _CachedRows(self, new)
            hidden = self.model(tokens, memory=memory, depth=depth, return_hidden=True)
            if wanted is not None:
                hidden = hidden.flatten(0, 1)[wanted]
        else:
            hidden = self.model.read(tokens, lengths, wanted, depth, self)
        self.lengths += new if lengths is None else lengths
        self.longest += new
        return hidden

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows, as `contract.Rows.take` says."""
        index = torch.tensor(rows, device=self.lengths.device)
        self.keys = self.keys.index_select(1, index)
        self.values = self.values.index_select(1, index)
        self.lengths = self.lengths[index]


class _FirstRows:
    """Serve the first forward over the rows of a cache as its memory.

    `documents` are the rows, packed or padded.
    """

    def __init__(self, cache: Cache, documents: Documents) -> None:
        self.cache = cache
        self.documents = documents
        self.positions = documents.positions

    def recall(self, depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Visible]:
        """Write the keys and values [T, M, K] of one depth to the cache; return [B, S, M, K]."""
        for held, new in ((self.cache.keys[depth], key), (self.cache.values[depth], value)):
            if self.documents.labels is None:  # padded: what is behind a row's end is overwritten
                held[:, : self.documents.length] = new.unflatten(0, (len(held), -1))
            else:
                places = self.documents.labels * held.shape[1] + self.positions
                held.view(-1, *held.shape[2:]).index_copy_(0, places.flatten(), new.to(held.dtype))
        return self.documents.recall(depth, key, value)


class _CachedRows(Visible):
    """The memory of a later forward: what the cache holds, and `new` tokens per row behind that."""

    def __init__(self, cache: Cache, new: int) -> None:
        self.cache = cache
        self.filled = cache.longest + new
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
