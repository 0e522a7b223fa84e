"""Problems that look alike: copies in another style are found, other problems of like wording stay."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.pipeline.decontaminate.items import item_table
from tests.pipeline.decontaminate.test_stage import run

FIGURE = "[asy] draw((0,0)--(9,0)--(9,40)--cycle); [/asy]"
TRIANGLE = r"Point D lies on side BC of \triangle ABC with \angle BAD = 25 and BD = 7. How long is DC if BC is 19?"
LIST = "A list has the numbers 14, 3, 27, 8, 31, 19 and y. Its median is 15. What is y?"
POLAR = "Write the point (0,7) in polar coordinates. Enter your answer in the form (r,θ), where r > 0 and 0 ≤ θ < 2π."
BALLS = "In how many ways can you put 5 balls in 2 boxes if the balls look alike but the boxes do not?"
GARDEN = (
    "A garden is 12 meters long and 7 meters wide, and a path of 2 meters runs around all of the garden. "
    "What is the area of the path in square meters?"
)
STEM = "Which of the following claims is right?"
OPTIONS = "Every even number is a sum\nNo prime is even\nEach square has a root\nZero is odd"
SOLUTION = (
    "The garden with its path is 12 + 2 * 2 = <<12+2*2=16>>16 meters long and 7 + 4 = 11 meters wide.\n"
    "So both together cover 16 * 11 = <<16*11=176>>176 square meters, and the path 176 - 84 = 92.\n#### 92"
)


@pytest.mark.parametrize(
    ("item", "document"),
    [
        (f"{TRIANGLE} {FIGURE}", TRIANGLE),
        (TRIANGLE, f"Look at this. {FIGURE} {TRIANGLE}"),
        (TRIANGLE, TRIANGLE.replace(r"\triangle ", "△").replace(r"\angle ", "∠")),
        (TRIANGLE, TRIANGLE.replace("\\", r"\textbackslash ")),
        (TRIANGLE, TRIANGLE.replace(" ", "&nbsp;")),
        (TRIANGLE, TRIANGLE.replace("o", "\u043e").replace("e", "\u0435")),
        (r"Express $444_{10}$ in base $5$.", r"Sam did homework. Express $444_{10}$ in base $5$. Then came lunch."),
        (r"What is $\log_82 + \frac12$ of 90?", r"What is $\log_8 2 + \frac{1}{2}$ of 90?"),
        (LIST, LIST.replace("list", "row")),
        (LIST, f"Sam wrote this. {LIST.replace('Its', 'Their')} Then came lunch."),
        (POLAR, "Write the point (0,7) in polar coordinates."),
        (BALLS, BALLS.replace("5", "five").replace("2", "two")),
        (BALLS, BALLS.replace("look alike", "are equal")),
        ("How many hens has Zoe if Zoe sells 3 of 8?", "How many hens has Tom if Tom sells 3 of 8?"),
    ],
)
def test_a_copy_in_another_style_is_removed(tmp_path: Path, item: str, document: str) -> None:
    dropped, _ = run(tmp_path, [(document, "Some.")], item_table([(item, "")]))
    assert set(dropped) == {0}


@pytest.mark.parametrize(
    ("item", "document"),
    [
        (BALLS, BALLS.replace("2", "3")),
        (BALLS, BALLS.replace("2", "three")),
        (LIST, LIST.replace("27", "28")),
        (GARDEN, GARDEN.replace("12", "13")),
        (GARDEN, GARDEN.replace("area of the path in square meters", "longest side of the path around it")),
        (TRIANGLE, TRIANGLE.replace("19", "-19")),
        (POLAR, POLAR.replace("(0,7)", "(2,-2)")),
        ("What is the value of 2/5 + 1/3?", r"What is the value of $2/\pi \int_0^1 x dx$?"),
        ("Find the value of x + 7 if x = 2.", "Find the value of x + 7 if x = 21."),
        ("Compute 2 + 3 + 10 + 7.", "Compute 2 + 3 + 10 + 7 + 9."),
        ("Is every square a rhombus?", "Tell me about shapes. Is every square a rhombus? Why is that so?"),
    ],
)
def test_another_problem_of_like_wording_stays(tmp_path: Path, item: str, document: str) -> None:
    dropped, _ = run(tmp_path, [(document, "Some.")], item_table([(item, "")]))
    assert dropped == {}


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ("A. Zero is odd\nB. No prime is even\nC. Each square has a root\nD. Every even number is a sum", True),
        ("A. Zero is even\nB. Two primes are even\nC. Each cube has a root\nD. One is odd", False),
        ("The first one.", False),
    ],
)
def test_a_stem_that_anybody_may_use_needs_its_options(tmp_path: Path, response: str, found: bool) -> None:
    items = item_table([(STEM, "No prime is even")]).append_column("options", pa.array([OPTIONS]))
    dropped, _ = run(tmp_path, [(STEM, response), ("", f"Choose well. {STEM} {response}")], items)
    assert set(dropped) == ({0, 1} if found else set())


def test_a_worked_solution_without_its_question_is_removed(tmp_path: Path) -> None:
    items = item_table([(GARDEN, "92")]).append_column("solution", pa.array([SOLUTION]))
    plain = "The garden with its path is 12 + 2 * 2 = 16 meters long and 7 + 4 = 11 meters wide. So both together cover"
    rows = [
        ("Explain.", SOLUTION),
        ("", f"{plain} 16 * 11 = 176 square meters, and the path 176 - 84 = 92. Done."),
        ("", SOLUTION.replace("12", "13").replace("176", "187")),
        (GARDEN, SOLUTION),
    ]
    dropped, results = run(tmp_path, rows, items)
    assert {row: reason for row, (reason, _) in dropped.items()} == {
        0: "contaminated_solution",
        1: "contaminated_solution",
        3: "contaminated_exact",
    }
    assert results["matches"] == {"clips": {"exact": 1, "overlap": 0, "solution": 2, "template": 0}}
