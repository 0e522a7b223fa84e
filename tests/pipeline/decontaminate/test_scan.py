"""Scanning batches of documents: each document is graded by itself."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.decontaminate.item_index import ItemIndex
from pipeline.decontaminate.scan import search
from pipeline.decontaminate.settings import DecontaminationSettings
from tests.pipeline.decontaminate.items import CLIPS, PARTS, PROSE, SHORT, item_table


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=4).map(" ".join), max_size=8), st.integers(1, 200))
def test_what_is_found_in_a_document_does_not_depend_on_the_others(questions: list[str], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.decontaminate.scan.BLOCK_BYTES", block)
        items = item_table([(CLIPS, PROSE), (SHORT, "42"), (CLIPS.replace("Natalia", "Maria"), "")])
        index = ItemIndex(items, DecontaminationSettings())
        index.settle(np.zeros(index.masked.size, np.int64), 20)
        found = list(search(index, pa.array(questions, pa.string()), pa.array([PROSE] * len(questions), pa.string())))
        alone = [
            replace(match, document=place)
            for place, question in enumerate(questions)
            for match in search(index, pa.array([question]), pa.array([PROSE]))
        ]
    assert found == alone
