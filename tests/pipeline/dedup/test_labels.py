"""Problems that differ by labels alone are duplicates, those of other functions are not; and keys of whole texts."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.dedup.exact import exact_keys
from pipeline.dedup.settings import DedupSettings
from pipeline.dedup.signing import without_labels
from pipeline.dedup.stage import deduplicate
from pipeline.text.words import text_column
from tests.pipeline.documents import read, table, write

PROBLEM = (
    "A farmer has 35 cows and buys 15 more of them in the spring, then sells a fifth of the herd to the neighbour who "
    "lives behind the hill. How many cows does the farmer have in the end?"
)
INSTRUCTION = (
    "Compute the value that is asked for below, show each step of the work in a line of its own with a reason beside "
    "each line, and give the result as one fraction without a decimal point, or as a root where no fraction exists: "
)


def kept(folder: Path, questions: list[str]) -> int:
    write(folder / "in", table((question, "It is so.") for question in questions))
    deduplicate([folder / "in"], folder / "out", DedupSettings())
    return len(read(folder / "out"))


@pytest.mark.parametrize(
    "labelled",
    [f"{PROBLEM} (2019 AMC 8 Problems, Question #18)", f"Exercise 12.3: {PROBLEM}", f"18. {PROBLEM} (AMC 8, 2019)"],
)
def test_a_label_keeps_no_duplicate_apart(tmp_path: Path, labelled: str) -> None:
    assert kept(tmp_path, [PROBLEM, labelled]) == 1


@pytest.mark.parametrize(
    "question", ["3 (2 + 4) is 18.", "12.5 km are left.", "Of 20 (2019x + 4) pens", "See f(2019) and (in 2019)."]
)
def test_numbers_of_the_problem_are_no_label(question: str) -> None:
    assert without_labels(pa.array([question])).to_pylist() == [question]


@pytest.mark.parametrize(
    ("one", "other", "different"),
    [
        ("\\sin(x) at 3", "\\cos(x) at 3", 2),
        ("2sin(x) at 3", "2cos(x) at 3", 2),
        ("f(f(x)) at 3", "f(f(f(x))) at 3", 2),
        ("sin(x) at 3", "Sin(x) at the point 3", 1),
        ("the area at 3", "the perimeter at 3", 2),
        ("the greatest area at 3", "the largest area at 3", 1),
    ],
)
def test_other_functions_under_one_long_instruction_are_other_problems(
    tmp_path: Path, one: str, other: str, different: int
) -> None:
    assert kept(tmp_path, [INSTRUCTION + one, INSTRUCTION + other]) == different


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
