import numpy as np
import pytest

from benchmarks.random_stream import write_random_stream
from model.training.stream import TokenStream


@pytest.mark.parametrize("vocabulary_size", [100, 100_000])
def test_the_training_stream_reads_random_data(tmp_path, vocabulary_size):
    folder = write_random_stream(
        tmp_path / "data", sequence_length=64, vocabulary_size=vocabulary_size, rows=8, document_lengths=(10, 90)
    )
    stream = TokenStream(folder, seed=0, batch_rows=8, loss_on="responses")
    batch = stream.batch(0)
    assert stream.vocabulary_size == vocabulary_size
    assert batch.tokens.min() >= 0
    assert batch.tokens.max() < vocabulary_size
    assert batch.real_tokens == stream.metadata["tokens"] == int((batch.documents >= 0).sum()) == 8 * 64
    assert 0 < batch.target_tokens < batch.real_tokens / 2
    assert batch.positions.max() < 64


def test_random_tokens_are_as_uneven_as_words(tmp_path):
    folder = write_random_stream(
        tmp_path / "data", sequence_length=512, vocabulary_size=1000, rows=40, document_lengths=(512, 512)
    )
    tokens = TokenStream(folder, 0, 40).batch(0).tokens.numpy()
    counts = np.sort(np.bincount(tokens.ravel(), minlength=1000))[::-1]
    assert counts[:10].sum() > 0.2 * counts.sum() > counts[500:].sum()
