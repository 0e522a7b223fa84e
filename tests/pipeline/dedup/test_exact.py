"""Keys of whole texts: equal but for case, white space and typography."""

import pyarrow as pa

from pipeline.dedup.exact import exact_keys, normal_text
from pipeline.text.words import text_column


def test_normal_form_of_whole_texts() -> None:
    assert normal_text("  Two   Words,\nthen\t( 3 + 4 ) . ") == "two words,then(3+4)."
    assert normal_text("1 2") != normal_text("12")
    same, _ = exact_keys(text_column(pa.array(["A b.", "a  B ."]), pa.array(["c", "C\n"])))
    assert (same[0] == same[1]).all()
    other, lengths = exact_keys(text_column(pa.array(["x+y", "x-y", None, ""])))
    assert len({tuple(key) for key in other.tolist()}) == 3
    assert lengths.tolist() == [3, 3, 0, 0]
