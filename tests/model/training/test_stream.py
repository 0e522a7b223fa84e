"""The token stream against a slow, literal reading of the packed format."""

import hashlib
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dreamer_study.model.training.ranks import Ranks
from dreamer_study.model.training.stream import (
    IGNORED,
    PADDING,
    START_HASH,
    TokenStream,
    data_digest,
    extend_hash,
)
from dreamer_study.pipeline.errors import InputError
from tests.model.packed_folder import write_packed


def slow_rows(folder):
    """Every row of a packed folder in order: tokens, positions, documents, response marks, one
    position at a time."""
    packed = json.loads((folder / "packed.json").read_text())
    length, rows = packed["sequence_length"], []
    for number, shard in enumerate(packed["shards"]):
        flat = np.fromfile(folder / f"tokens-{number:05d}.bin", dtype=packed["dtype"])
        spans = sorted(map(tuple, np.load(folder / f"index-{number:05d}.npy").tolist()))
        for row in range(shard["rows"]):
            positions, documents, response = [0] * length, [PADDING] * length, [False] * length
            inside = [span for span in spans if row * length <= span[0] < (row + 1) * length]
            for label, (start, answer, end) in enumerate(inside):
                for place in range(start, end):
                    column = place - row * length
                    positions[column], documents[column], response[column] = (
                        place - start,
                        label,
                        place >= answer,
                    )
            rows.append(
                (flat[row * length : (row + 1) * length].tolist(), positions, documents, response)
            )
    return rows


LOSSES = ["all", "responses", "answers"]
FEW = {"vocabulary_size": 4, "mark": 2}  # so few tokens that marks are many


def slow_targets(row, loss_on):
    tokens, _, documents, response = row
    targets = []
    for place in range(len(tokens)):
        following = place + 1
        inside = following < len(tokens) and documents[following] == documents[place] != PADDING
        learned = {
            "all": True,
            "responses": response[following % len(tokens)],
            "answers": [(documents[place], FEW["mark"])]
            == [*zip(documents, tokens, strict=True)][place + 2 : place + 3],
        }
        wanted = inside and learned[loss_on]
        targets.append(tokens[following] if wanted else IGNORED)
    return targets


@st.composite
def packings(draw):
    length = draw(st.integers(4, 12))
    spans = st.tuples(st.integers(0, 3), st.integers(1, 4))
    rows = []
    for spans_of_row in draw(st.lists(st.lists(spans, max_size=4), min_size=1, max_size=7)):
        kept, used = [], 0
        for question, response in spans_of_row:
            if used + question + response <= length:
                kept.append((question, response))
                used += question + response
        rows.append(kept)
    cut = draw(st.integers(0, len(rows)))
    return length, [part for part in (rows[:cut], rows[cut:]) if part]


@pytest.mark.slow
@settings(max_examples=60)
@given(packings(), st.sampled_from(LOSSES), st.booleans(), st.integers(1, 5), st.integers(0, 3))
def test_batches_equal_the_slow_reading(
    tmp_path_factory, packing, loss_on, shuffle, batch_rows, step
):
    length, shards = packing
    folder = tmp_path_factory.mktemp("packed")
    write_packed(folder, shards, length, shuffle_index=shuffle, **FEW)
    batch = TokenStream(folder, 3, batch_rows, loss_on).batch(step)
    by_tokens = {}
    for row in slow_rows(folder):
        by_tokens.setdefault(tuple(row[0]), []).append(row)
    for place in range(batch_rows):
        candidates = by_tokens[tuple(batch.tokens[place].tolist())]
        found = (
            batch.positions[place].tolist(),
            batch.documents[place].tolist(),
            batch.targets[place].tolist(),
        )
        assert found in [(row[1], row[2], slow_targets(row, loss_on)) for row in candidates]
    assert batch.real_tokens == int((batch.documents != PADDING).sum())
    assert batch.target_tokens == int((batch.targets != IGNORED).sum())


@pytest.mark.slow
@settings(max_examples=60)
@given(packings(), st.sampled_from(LOSSES), st.integers(1, 6), st.integers(1, 6), st.integers(0, 3))
def test_ranks_build_their_own_rows_of_the_batch_of_one_process(
    tmp_path_factory, packing, loss_on, batch_rows, ranks, step
):
    length, shards = packing
    folder = write_packed(tmp_path_factory.mktemp("packed"), shards, length, **FEW)
    stream = TokenStream(folder, 3, batch_rows, loss_on)
    whole = stream.batch(step)
    count = min(ranks, batch_rows)
    parts = [stream.batch(step, Ranks(rank, count).own_rows(batch_rows)) for rank in range(count)]
    for name in ("tokens", "targets", "positions", "documents"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))
    counts = {(part.real_tokens, part.target_tokens, part.epoch) for part in parts}
    assert counts == {(whole.real_tokens, whole.target_tokens, whole.epoch)}


@pytest.fixture
def folder(tmp_path):
    return write_packed(tmp_path / "packed", [[[(3, 4)], [(2, 3), (1, 2)]] * 8, [[(0, 8)]] * 5], 8)


def test_a_loss_on_answers_needs_their_mark(folder):
    with pytest.raises(InputError, match="is not one token"):
        TokenStream(folder, 0, 3, "answers")


def test_an_epoch_reads_every_row_once_and_the_next_in_another_order(folder):
    stream = TokenStream(folder, 0, 3)
    assert stream.rows == 21
    rows = np.concatenate([stream.raw_rows(step) for step in range(14)])
    first, second = rows[:21], rows[21:]
    every = sorted(tuple(row[0]) for row in slow_rows(folder))
    assert sorted(map(tuple, first.tolist())) == every == sorted(map(tuple, second.tolist()))
    assert first.tolist() != second.tolist()
    assert stream.batch(6).epoch == 1.0


def test_the_stream_depends_on_the_seed_alone(folder):
    def rows(stream, steps):
        return np.concatenate([stream.raw_rows(step) for step in steps])

    wanted = rows(TokenStream(folder, 5, 4), range(12))
    assert np.array_equal(rows(TokenStream(folder, 5, 2, "responses"), range(24)), wanted)
    again = TokenStream(folder, 5, 4)
    again.batch(30)
    assert np.array_equal(again.raw_rows(7), wanted[28:32])
    assert not np.array_equal(rows(TokenStream(folder, 6, 4), range(12)), wanted)


def test_order_of_a_seed_is_fixed_for_good(tmp_path):
    folder = write_packed(tmp_path, [[[(1, 1)]] * 10], 2)
    np.arange(20, dtype=np.uint16).tofile(folder / "tokens-00000.bin")
    stream = TokenStream(folder, 1, 10)
    assert stream.batch(0).tokens[:, 0].tolist() == [6, 10, 4, 18, 14, 0, 16, 12, 2, 8]


def test_running_hash_is_a_chain_over_rows(folder):
    whole, halves = TokenStream(folder, 1, 4), TokenStream(folder, 1, 2)
    first = extend_hash(START_HASH, whole.raw_rows(0))
    assert extend_hash(extend_hash(START_HASH, halves.raw_rows(0)), halves.raw_rows(1)) == first
    state = bytes(16)
    for row in whole.raw_rows(0):
        state = hashlib.blake2b(state + row.tobytes(), digest_size=16).digest()
    assert first == state.hex()
    assert extend_hash(START_HASH, TokenStream(folder, 2, 4).raw_rows(0)) != first


def test_document_length_weighs_by_token(tmp_path):
    folder = write_packed(tmp_path, [[[(1, 1), (2, 4)]]], 8)
    assert TokenStream(folder, 0, 1).document_length == (2 * 2 + 6 * 6) / 8


def test_bad_folders_say_what_to_do(folder, tmp_path):
    index = np.load(folder / "index-00000.npy")
    np.save(folder / "index-00000.npy", index + np.array([0, 0, 1]))
    with pytest.raises(InputError, match="overlap or cross a row"):
        TokenStream(folder, 0, 21).batch(0)
    np.save(folder / "index-00000.npy", index)
    with pytest.raises(InputError, match=r"packed\.json is missing; run the packing stage"):
        TokenStream(tmp_path / "nothing", 0, 1)
    tokens = folder / "tokens-00001.bin"
    tokens.write_bytes(tokens.read_bytes()[:-2])
    with pytest.raises(
        InputError, match=r"tokens-00001\.bin has 78 bytes, but packed\.json says 80"
    ):
        [TokenStream(folder, 0, 7).batch(step) for step in range(3)]
    (folder / "packed.json").write_text("{")
    with pytest.raises(InputError, match=r"packed\.json is damaged"):
        TokenStream(folder, 0, 1)
    empty = write_packed(tmp_path / "empty", [], 8)
    with pytest.raises(InputError, match="have no rows"):
        TokenStream(empty, 0, 1)


def test_digest_of_large_data_reads_spread_blocks(tmp_path):
    (tmp_path / "packed.json").write_text("{}")
    tokens = tmp_path / "tokens-00000.bin"
    tokens.write_bytes(bytes(2**16))
    before = data_digest(tmp_path, budget=2**12, block=2**8)
    assert before != data_digest(tmp_path)
    for place in (0, 2**16 - 1):
        changed = bytearray(2**16)
        changed[place] = 1
        tokens.write_bytes(changed)
        assert data_digest(tmp_path, budget=2**12, block=2**8) != before
