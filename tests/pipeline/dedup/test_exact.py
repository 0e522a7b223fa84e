"""Keys of whole texts: equal but for case, white space and typography."""

import pyarrow as pa

from pipeline.dedup.exact import exact_keys
from pipeline.text.words import text_column


def test_normal_form_of_whole_texts() -> None:
    alike = ["  Two   Words,\nthen\t( 3 + 4 ) . ", "two words,then(3+4)."]
    keys, lengths = exact_keys(text_column(pa.array([*alike, "1 2", "12"])))
    assert (keys[0] == keys[1]).all()
    assert (keys[2] != keys[3]).any()
    assert lengths[0] == len(alike[1])
    same, _ = exact_keys(text_column(pa.array(["A b.", "a  B ."]), pa.array(["c", "C\n"])))
    assert (same[0] == same[1]).all()
    other, lengths = exact_keys(text_column(pa.array(["x+y", "x-y", None, ""])))
    assert len({tuple(key) for key in other.tolist()}) == 3
    assert lengths.tolist() == [3, 3, 0, 0]
