"""The sizes of files at hand."""

from pathlib import Path

import pytest

from pipeline.sources.sizes import COMPRESSION, size_of
from pipeline.sources.table import SOURCES


@pytest.mark.parametrize(
    ("ending", "share"), [(".jsonl", 1), (".jsonl.gz", COMPRESSION), (".jsonl.zst", COMPRESSION), (".csv", 1)]
)
def test_the_text_of_compressed_files_is_longer(tmp_path: Path, ending: str, share: float) -> None:
    (tmp_path / f"a{ending}").write_bytes(b"x" * 1000)
    assert size_of(SOURCES["gsm8k"], [tmp_path / f"a{ending}"]).text == pytest.approx(1000 * share)
