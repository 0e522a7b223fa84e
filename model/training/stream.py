"""Read the batches of a training from packed token shards, in a seeded order.

The batch of a step depends on the data folder, the seed, the rows per batch and the step's number
alone. So compared variants see the same rows in the same order (a running hash over the rows proves
this), and resuming a run needs only the number of its step. Each epoch is a new seeded permutation
of all rows; a batch may cross from one to the next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dreamer_study.model.training.config import TrainingRun
from dreamer_study.pipeline.errors import InputError

IGNORED = -100
"""Target of a position without a loss, as in torch's cross entropy."""

PADDING = -1
"""Document label of a position that belongs to no document."""

START_HASH = "0" * 32
"""Running hash before the first row."""


@dataclass(frozen=True)
class Batch:
    """Rows of one optimiser step, all or those of one rank; tensors are int64 [rows, S] on the CPU.

    The counts of tokens are those of all rows of the step. A target is the next token of the same
    document, or IGNORED; positions restart with every document; documents are numbered within their
    row, with PADDING between them.
    """

    tokens: Tensor
    targets: Tensor
    positions: Tensor
    documents: Tensor
    real_tokens: int
    target_tokens: int
    epoch: float


def extend_hash(stream_hash: str, rows: np.ndarray) -> str:
    """Return the running hash after these raw rows.

    It is chained by row, so it does not depend on the batch size.
    """
    state = bytes.fromhex(stream_hash)
    for row in rows:
        state = hashlib.blake2b(state + row.tobytes(), digest_size=16).digest()
    return state.hex()


class _Shard:
    """A shard of a packed folder, mapped into memory.

    `tokens` [rows, S] are the rows; `spans` [documents, 3] hold the start of each document, of its
    response and its end, as offsets into the flat rows; the documents of row r are those from
    `first_document[r]` up to `first_document[r + 1]`.
    """

    def __init__(
        self, folder: Path, number: int, rows: int, documents: int, length: int, dtype: np.dtype
    ) -> None:
        tokens_path = folder / f"tokens-{number:05d}.bin"
        index_path = folder / f"index-{number:05d}.npy"
        for path in (tokens_path, index_path):
            if not path.is_file():
                raise InputError(
                    f"packed data {folder} have no file {path.name}; run the packing stage again"
                )
        size = tokens_path.stat().st_size
        expected = rows * length * dtype.itemsize
        if size != expected:
            raise InputError(
                f"{tokens_path} has {size} bytes, but packed.json says {expected}; pack the data"
                " again"
            )
        self.tokens = np.memmap(tokens_path, dtype=dtype, mode="r", shape=(rows, length))
        try:
            self.spans = np.load(index_path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"{index_path} is damaged ({error}): pack the data again") from error
        if self.spans.shape != (documents, 3):
            raise InputError(
                f"{index_path} has shape {self.spans.shape}, not ({documents}, 3): pack the data"
                " again"
            )
        starts = np.ascontiguousarray(self.spans[:, 0])
        # the rows of a packer with several open bins come in any order
        if np.any(starts[1:] < starts[:-1]):
            self.spans = self.spans[np.argsort(starts, kind="stable")]
            starts = np.ascontiguousarray(self.spans[:, 0])
        ends = self.spans[:, 2]
        crossing = np.any(starts // length != (ends - 1) // length)
        overlapping = np.any(starts[1:] < ends[:-1])
        if documents and (crossing or overlapping):
            raise InputError(
                f"{index_path} has documents that overlap or cross a row of {length} tokens: pack"
                " again"
            )
        self.first_document = np.searchsorted(starts, np.arange(rows + 1) * length)


class TokenStream:
    """An endless, seeded stream of batches over a packed folder.

    A batch has `batch_rows` rows. `loss_on` says which tokens have a loss: "all" (every token but
    a document's first), "responses", or "answers" (each token before the mark of an answer,
    MARK of
    `pipeline/tokens/tokenizer.py`). Raises InputError if the folder is not a complete packed
    folder, or its tokenizer has no token for the mark that is needed.
    """

    def __init__(
        self, folder: Path | str, seed: int, batch_rows: int, loss_on: str = "all"
    ) -> None:
        self.folder = Path(folder)
        self.seed = seed
        self.batch_rows = batch_rows
        self.loss_on = loss_on
        self.metadata = read_packed(self.folder)
        self.mark = self.metadata.get("mark") if loss_on == "answers" else None
        if loss_on == "answers" and self.mark is None:
            raise InputError(
                f"loss_on is 'answers', but in the tokenizer of {folder} the mark ' ;' is not one"
                " token"
            )
        self.sequence_length: int = self.metadata["sequence_length"]
        self.vocabulary_size: int = self.metadata["vocabulary_size"]
        self._dtype = np.dtype(self.metadata["dtype"]).newbyteorder("<")
        # the number of the row behind each shard, counted over all shards
        self._end_row = np.cumsum([shard["rows"] for shard in self.metadata["shards"]])
        self.rows = int(self._end_row[-1])
        self._shards: dict[int, _Shard] = {}
        self._orders: dict[int, np.ndarray] = {}

    @cached_property
    def document_length(self) -> float:
        """Length of the document of the average token of the first shard.

        FLOPs of attention are counted with this length, so long documents weigh more.
        """
        spans = self._shard(0).spans
        lengths = (spans[:, 2] - spans[:, 0]).astype(np.float64)
        return float((lengths**2).sum() / lengths.sum())

    @cached_property
    def target_share(self) -> float:
        """The share of the tokens of the first shard that have a target."""
        starts, responses, ends = self._shard(0).spans.T.astype(np.int64)
        if self.mark is not None:
            return float((self._shard(0).tokens == self.mark).sum() / (ends - starts).sum())
        first = starts + 1 if self.loss_on == "all" else np.maximum(responses, starts + 1)
        return float(np.maximum(ends - first, 0).sum() / (ends - starts).sum())

    def batch(self, step: int, own: slice = slice(None)) -> Batch:
        """Build the batch of one optimiser step, counted from 0: its rows `own`, by default all."""
        length = self.sequence_length
        numbers = self._rows_of(step)
        # one entry for each document of the step, as offsets into its flat rows [B * S]
        starts, firsts, ends, labels = self._documents(numbers)
        first_row, end_row, _ = own.indices(len(numbers))
        origin = first_row * length
        mine = (starts >= origin) & (starts < end_row * length)
        lengths = (ends - starts)[mine]

        all_tokens = self._tokens(numbers).astype(np.int64).reshape(-1)
        tokens = all_tokens[origin : end_row * length]
        # Example: documents of 3 and 2 tokens have the positions 0, 1, 2, 0, 1.
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = np.repeat(starts[mine] - origin, lengths) + within
        positions = np.zeros_like(tokens)
        positions[places] = within
        documents = np.full_like(tokens, PADDING)
        documents[places] = np.repeat(labels[mine], lengths)
        # the logits at a position predict the next token, so its target stands one place before
        predicted = self._predicted(tokens, firsts[mine] - origin, ends[mine] - origin)
        targets = np.full_like(tokens, IGNORED)
        targets[predicted - 1] = tokens[predicted]
        shaped = (
            torch.from_numpy(flat.reshape(-1, length))
            for flat in (tokens, targets, positions, documents)
        )
        return Batch(
            *shaped,
            real_tokens=int((ends - starts).sum()),
            target_tokens=len(self._predicted(all_tokens, firsts, ends)),
            epoch=(step + 1) * len(numbers) / self.rows,
        )

    def _predicted(self, tokens: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the places of the tokens with a loss, from `firsts` to `ends` of each document."""
        if self.mark is not None:
            ends = ends - 1  # the last token of a document has no mark behind it in its document
        counts = np.maximum(ends - firsts, 0)
        places = np.repeat(firsts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return places if self.mark is None else places[tokens[places + 1] == self.mark]

    def raw_rows(self, step: int) -> np.ndarray:
        """Read all rows of a step as they are in the folder [B, S]."""
        return self._tokens(self._rows_of(step))

    def _tokens(self, numbers: np.ndarray) -> np.ndarray:
        """Read rows by their numbers in the folder."""
        rows = np.empty((len(numbers), self.sequence_length), dtype=self._dtype)
        for shard, local, places in self._by_shard(numbers):
            rows[places] = shard.tokens[local]
        return rows

    def _documents(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Locate the documents of rows: their starts, first tokens with a loss, ends and labels.

        All but the labels are offsets into the flat rows. A label is a document's number within its
        row.
        """
        by_shard = [
            _documents(shard, local, places) for shard, local, places in self._by_shard(numbers)
        ]
        starts, responses, ends, labels = (
            np.concatenate(column) for column in zip(*by_shard, strict=True)
        )
        firsts = np.maximum(starts + 1, responses) if self.loss_on == "responses" else starts + 1
        return starts, firsts, ends, labels

    def _by_shard(self, numbers: np.ndarray) -> Iterator[tuple[_Shard, np.ndarray, np.ndarray]]:
        """Yield the shards of some rows, each with its rows' numbers and their places in
        `numbers`."""
        shards = np.searchsorted(self._end_row, numbers, side="right")  # of each row
        for shard_number in np.unique(shards):
            shard = self._shard(int(shard_number))
            first_row = self._end_row[shard_number] - shard.tokens.shape[0]
            places = np.flatnonzero(shards == shard_number)
            yield shard, numbers[places] - first_row, places

    def _rows_of(self, step: int) -> np.ndarray:
        """Return the numbers of the step's rows in the folder, int64 [B]."""
        # the stream's rows are counted on through all epochs
        in_stream = np.arange(step * self.batch_rows, (step + 1) * self.batch_rows)
        epochs, places = np.divmod(in_stream, self.rows)
        for past in [epoch for epoch in self._orders if epoch < epochs[0]]:
            del self._orders[past]
        return np.concatenate(
            [self._order(int(epoch))[places[epochs == epoch]] for epoch in np.unique(epochs)]
        )

    def _order(self, epoch: int) -> np.ndarray:
        """Permute an epoch's rows.

        By sorting raw Philox numbers, which no version of numpy changes.
        """
        if epoch not in self._orders:
            generator = np.random.Philox(key=np.array([self.seed, epoch], dtype=np.uint64))
            self._orders[epoch] = np.argsort(generator.random_raw(self.rows), kind="stable")
        return self._orders[epoch]

    def _shard(self, number: int) -> _Shard:
        if number not in self._shards:
            shard = self.metadata["shards"][number]
            self._shards[number] = _Shard(
                self.folder,
                number,
                shard["rows"],
                shard["documents"],
                self.sequence_length,
                self._dtype,
            )
        return self._shards[number]


def _documents(shard: _Shard, local: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, ...]:
    """Locate the documents of rows `local` of a shard, which become rows `places` of the batch.

    Returns for every document its start, response start and end, as offsets into the flat batch,
    and its number within its row.
    """
    length = shard.tokens.shape[1]
    first = shard.first_document[local]
    counts = shard.first_document[local + 1] - first  # documents of each row
    # Example: rows of 3 and 2 documents have the labels 0, 1, 2, 0, 1.
    labels = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    moved_by = np.repeat((places - local) * length, counts)  # from the shard's row to the batch's
    spans = shard.spans[np.repeat(first, counts) + labels] + moved_by[:, None]
    return spans[:, 0], spans[:, 1], spans[:, 2], labels


def read_packed(folder: Path) -> Mapping[str, Any]:
    """Read packed.json.

    Raises InputError if the file is missing or damaged, or the folder holds no rows.
    """
    path = folder / "packed.json"
    try:
        metadata = json.loads(path.read_text())
        empty = sum(shard["rows"] for shard in metadata["shards"]) == 0
    except FileNotFoundError as error:
        raise InputError(
            f"no packed data in {folder}: packed.json is missing; run the packing stage"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error!r}): run the packing stage again") from error
    if empty:
        raise InputError(f"packed data in {folder} have no rows, so there is nothing to train on")
    return metadata


def open_stream(run: TrainingRun, ranks: int = 1) -> TokenStream:
    """Open the stream of a run.

    Raises InputError if data, model, batch sizes and ranks do not fit each other.
    """
    # with one row in a batch until the length of a row is known
    stream = TokenStream(run.data, run.training.seed, 1, run.training.loss_on)
    S, V = stream.sequence_length, stream.vocabulary_size
    if not stream.metadata.get("tokens", True):
        raise InputError(
            f"packed data in {run.data} have no tokens, so there is nothing to train on"
        )
    for name, needed, use in (
        ("sequence_length", S, "have rows of"),
        ("vocabulary_size", V, "use a vocabulary of"),
    ):
        size = getattr(run.model, name)
        if size < needed:
            raise InputError(
                f"the data in {run.data} {use} {needed} tokens, but the model's {name} is {size}"
            )
    for name in ("batch_tokens", "micro_batch_tokens"):
        value = getattr(run.training, name)
        if value is not None and value % S:
            raise InputError(
                f"{name} is {value}, but it must be a multiple of the packed sequence length {S}"
            )
    stream.batch_rows = run.training.batch_tokens // S
    if stream.batch_rows < ranks:
        raise InputError(
            f"batch_tokens ({run.training.batch_tokens}) make {stream.batch_rows} rows, but there"
            f" are {ranks} ranks; give at least one row for each rank"
        )
    return stream


def data_digest(folder: Path, budget: int = 2**28, block: int = 2**16) -> str:
    """Hash packed.json and all shards of a folder: their names, sizes and bytes.

    The folder's place does not matter. Of more than `budget` bytes, only blocks spread evenly over
    each file are hashed, so that training starts quickly.
    """
    paths = sorted(
        [folder / "packed.json", *folder.glob("tokens-*.bin"), *folder.glob("index-*.npy")]
    )
    whole = sum(path.stat().st_size for path in paths) <= budget
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        count = -(-size // block) if whole else max(2, budget // block // len(paths))
        offsets = np.linspace(0, max(0, size - block), max(1, count)).astype(np.int64)
        with path.open("rb") as file:
            for offset in np.unique(offsets):
                file.seek(int(offset))
                digest.update(file.read(block))
    return digest.hexdigest()
