"""Say what an architecture needs to be measured: `Network`, with defaults for all but `forward`.

Your own architecture is a class that is built as `Class(vocabulary_size=...,
sequence_length=..., **config)`, where the second number is the length of the rows of a training,
and has

    forward(tokens [B, S]) -> logits [B, S, V]

where the logits at a position depend on the tokens up to that position alone. A `forward` that also
has parameters `documents` or `positions` is given both [B, S] while it is trained: a row holds
several documents, with labels that differ from one to the next and -1 for padding, and positions
that begin with each document. A class without `documents` is given each document as a row of its
own, padded on the right, unless the training joins documents (`documents: joined`). A method of
`Network` in OPTIONAL that the class defines takes the default's place; `states` and `logits` come
together.

No other part of the project knows which architecture it has before it: Dreamer meets this contract
as any other does.

Axes: B batch, S sequence, T = B*S tokens, H hidden (or whatever `states` returns), W chosen tokens,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dreamer_study.model.module_config import Architecture
from dreamer_study.model.ops import Documents
from dreamer_study.pipeline.errors import InputError

OPTIONAL = (
    "states",
    "logits",
    "loss",
    "auxiliary_loss",
    "parameter_groups",
    "decayed_parameters",
    "begin_step",
    "counts",
    "update_balance",
    "new_cache",
    "flops_per_token",
)


class Network(nn.Module):
    """A model with everything that training and evaluation do with one.

    `dtype` is that of the matrix products; None: that of the parameters. `tokenizer` is of a model
    that `dreamer_study.load_model` has loaded.
    """

    config: Architecture
    dtype: torch.dtype | None = None
    tokenizer: Any = None

    @property
    def label(self) -> str:
        """What messages call the model: its class, with the file of a user's."""
        return getattr(self.config, "module", type(self).__name__)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    # --- forward

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits [B, S, V] of rows [B, S] that are one text each."""
        return self.logits(self.states(tokens))

    def states(
        self, tokens: Tensor, documents: Documents | None = None, depth: int | None = None
    ) -> Tensor:
        """Compute what the head is given [B, S, H]; the logits where a model has no own head.

        Without `documents` each row is one text. `depth` is that of a model which runs at several.
        """
        raise NotImplementedError

    def logits(self, states: Tensor) -> Tensor:
        """Compute logits [..., V] from states [..., H]."""
        return states

    def read(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        wanted: Tensor | None = None,
        depth: int | None = None,
    ) -> Tensor:
        """Compute the states [B, S, H] of rows of which the first `lengths` tokens are real.

        With `wanted` [W], places in the flattened rows, those states [W, H] alone. Padding comes
        last, so causality keeps it out.
        """
        states = self.states(tokens, depth=depth)
        return states if wanted is None else states.flatten(0, 1)[wanted]

    def new_cache(self, batch: int, length: int, depth: int | None = None) -> Rows:
        """Begin `batch` rows of at most `length` tokens, to be read piece by piece."""
        return Rows(self, batch, length)

    def checked_depth(self, depth: int | None) -> int | None:
        """Return the depth to run at; None: the model's own.

        Raises InputError where the model cannot run at `depth`.
        """
        if depth is not None:
            raise InputError(
                f"depth is {depth!r}, but only a recurrent model runs at another depth"
            )
        return None

    # --- training

    def loss(self, states_WH: Tensor, targets_W: Tensor, *, compiled: bool = False) -> Tensor:
        """Sum the cross entropy of the target tokens."""
        return F.cross_entropy(self.logits(states_WH).float(), targets_W, reduction="sum")

    def auxiliary_loss(self) -> Tensor | None:
        """Return what the newest forward passes add to the mean loss, in nats a token, if anything.

        One number, such as a penalty on unbalanced experts, for a forward pass in training. It is
        trained on, and no part of a loss that is reported.
        """
        return None

    def parameter_groups(self) -> Sequence[Mapping[str, Any]] | None:
        """Say how parameters are trained (`model/training/parameter_groups.py`).

        None: as `decayed_parameters` says.
        """
        return None

    def decayed_parameters(self) -> list[nn.Parameter]:
        """List the parameters under weight decay: of two or more dimensions, so no gain or bias."""
        return [parameter for parameter in self.parameters() if parameter.ndim >= 2]

    def begin_step(self, tokens: int) -> bool | None:
        """Prepare for a step of the optimiser, before which the training has read `tokens` tokens.

        A model whose form changes while it is trained changes it here, in a buffer: a checkpoint
        holds nothing else. True says that it computes in another way from now on.
        """
        return False

    def counts(self) -> list[Tensor]:
        """List the tensors in which a step counts, such as the selections of experts.

        They are summed over ranks, and zeroed before a step is repeated.
        """
        return []

    def update_balance(self) -> None:
        """Do what follows a step of the optimiser, such as balancing experts."""

    def failed(self, what: str, error: BaseException) -> BaseException:
        """Return what is raised where a part of the training has failed by an unforeseen error.

        Here the error itself; for code of the user's a line that names its file.
        """
        return error

    # --- evaluation

    observable = False  # whether `model/evaluation/observe.py` can look into the model

    def for_inference(self) -> Network:
        """Return a model for inference, with the same outputs; on a GPU in bfloat16."""
        if self.device.type == "cuda":
            self.dtype = torch.bfloat16
        return self

    def position_bytes(self) -> float:
        """Estimate the bytes that a position of a batch takes while it is evaluated."""
        return 12 * self.config.vocabulary_size  # its logits, three times in float32


class Rows:
    """Rows whose tokens are kept, and read again with every extension.

    This works for every model. A model with a real cache has a class of its own with these methods,
    `room` and `longest`: the number of positions that have been filled in the longest row.
    """

    def __init__(self, model: Network, batch: int, length: int) -> None:
        self.model = model
        self.longest = 0
        self.tokens = torch.zeros(batch, length, dtype=torch.long, device=model.device)
        self.lengths = torch.zeros(batch, dtype=torch.long, device=model.device)

    @property
    def room(self) -> int:
        """Number of tokens that every row can still take."""
        return self.tokens.shape[1] - self.longest

    def extend(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        depth: int | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Read tokens [B, S] behind the rows, and return their states [B, S, H].

        Of row b only the first `lengths[b]` tokens are real, the rest is padding. With `wanted`
        [W], places in the flattened tokens, the states [W, H] of these alone are returned.
        """
        new = tokens.shape[1]
        device = tokens.device
        places = self.lengths[:, None] + torch.arange(new, device=device)  # [B, S], in the row
        self.tokens.scatter_(1, places, tokens)
        self.longest += new
        self.lengths = self.lengths + (new if lengths is None else lengths)
        # beyond are padding, and rows that have ended
        read = min(self.longest, self.model.config.sequence_length)
        row_starts = torch.arange(len(tokens), device=device)[:, None] * read
        places = places.clamp(max=read - 1) + row_starts  # [B, S], in the flattened rows
        chosen = places if wanted is None else places.flatten()[wanted]
        return self.model.states(self.tokens[:, :read], depth=depth).flatten(0, 1)[chosen]

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may be taken several times, to branch.

        A copy by `copy.copy` takes other rows and is then extended by itself: bind new tensors, and
        change nothing in place.
        """
        index = torch.tensor(rows, device=self.tokens.device)
        self.tokens = self.tokens[index]
        self.lengths = self.lengths[index]
