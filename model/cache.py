"""What generation keeps between tokens: keys and values of sequence attention, per depth.

Depth attention keeps nothing here: its keys and values belong to one token and give way to the next one's (section
3.4).
"""

from __future__ import annotations

import torch
from torch import Tensor

from model.config import DreamerConfig
from pipeline.errors import InputError


class Cache:
    """Keys and values [L, B, M, length, K] for `batch` sequences, and how many positions of each are filled.

    Sequences may have different lengths: each row writes behind its own last position.
    """

    def __init__(
        self,
        config: DreamerConfig,
        batch: int,
        length: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        depth: int | None = None,
    ) -> None:
        shape = (depth or config.depth, batch, config.key_value_heads, length, config.head_size)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.lengths = torch.zeros(batch, device=device, dtype=torch.long)  # filled positions of each row, [B]
        self.longest = 0  # of them, known without asking the device

    @property
    def capacity(self) -> int:
        """Positions there is room for."""
        return self.keys.shape[3]

    def positions(self, new: int) -> Tensor:
        """Positions [B, new] that the next `new` tokens of each row take. Raises InputError when there is no room."""
        if self.longest + new > self.capacity:
            raise InputError(
                f"the cache has room for {self.capacity} positions: {self.longest} are filled, {new} more do not fit; "
                "make it longer"
            )
        return self.lengths[:, None] + torch.arange(new, device=self.lengths.device)

    def visible(self, positions: Tensor) -> Tensor:
        """Booleans [B, new, filled]: which cached positions the tokens at `positions` may see, themselves included."""
        filled = self.longest + positions.shape[1]
        return torch.arange(filled, device=positions.device) <= positions[..., None]

    def append(self, depth: int, positions: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write one depth's key and value [B, M, new, K] at `positions`; return all filled ones [B, M, filled, K]."""
        index = positions[:, None, :, None].expand_as(key)
        self.keys[depth].scatter_(2, index, key.to(self.keys.dtype))
        self.values[depth].scatter_(2, index, value.to(self.values.dtype))
        filled = self.longest + positions.shape[1]
        return self.keys[depth, :, :, :filled], self.values[depth, :, :, :filled]

    def advance(self, new: int, lengths: Tensor | None) -> None:
        """Count `new` positions as filled, or in row b the first lengths[b] of them: what lies behind is padding."""
        self.lengths += new if lengths is None else lengths
        self.longest += new
