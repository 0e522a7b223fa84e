"""What is packed comes out again, and is harmless in a page."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from reports.page.packing import packed, unpacked


@given(st.text())
def test_packed_text_comes_out_again_and_cannot_end_a_script_element(text: str) -> None:
    made = packed(text)
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", made)
    assert unpacked(made) == text
    assert packed(text) == made
