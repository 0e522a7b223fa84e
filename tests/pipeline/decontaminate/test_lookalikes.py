"""Documents that look like items: which are meant, which are no cause, which are shown."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from dreamer_study.pipeline.decontaminate.agreement import Target
from dreamer_study.pipeline.decontaminate.omissions import without_closing
from dreamer_study.pipeline.decontaminate.sample import sample_documents
from dreamer_study.pipeline.storage.documents import find_shards
from dreamer_study.pipeline.text.instructions import sentences
from dreamer_study.pipeline.text.words import Words, text_column, word_blocks
from tests.pipeline.decontaminate.items import WORDS, item_table
from tests.pipeline.decontaminate.test_decontaminate import grades, run
from tests.pipeline.documents import table, write

FIGURE = "[asy] draw((0,0)--(9,0)--(9,40)--cycle); [/asy]"
TRIANGLE = r"Point D lies on side BC of \triangle ABC with \angle BAD = 25 and BD = 7. How long is DC if BC is 19?"
LIST = "A list has the numbers 14, 3, 27, 8, 31, 19 and y. Its median is 15. What is y?"
POLAR = "Write the point (0,7) in polar coordinates. Enter your answer in the form (r,θ), where r > 0 and 0 ≤ θ < 2π."
BALLS = (
    "In how many ways can you put 5 balls in 2 boxes if the balls look alike but the boxes do not?"
)
GARDEN = (
    "A garden is 12 meters long and 7 meters wide, and a path of 2 meters runs around all of the garden. "
    "What is the area of the path in square meters?"
)
FISH = "Ann keeps 55 red fish and 206 blue fish in 3 tanks behind her house. How many fish does Ann keep?"
ANGLE = r"Let $t$ be a real number between $2$ and $9$ so that the sum of $\sin t$ and $t$ is least. Find $t$."
TEAMS = "In how many ways may 12 pupils who are distinguishable sit in 4 rows, if Ann may sit beside Ben?"
CURVE = "What is the domain of the function that is drawn here, if the curve goes on for ever at both of its ends?"
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
        (
            r"Express $444_{10}$ in base $5$.",
            r"Sam did homework. Express $444_{10}$ in base $5$. Then came lunch.",
        ),
        (r"What is $\log_82 + \frac12$ of 90?", r"What is $\log_8 2 + \frac{1}{2}$ of 90?"),
        (LIST, LIST.replace("list", "row")),
        (LIST, f"Sam wrote this. {LIST.replace('Its', 'Their')} Then came lunch."),
        (POLAR, "Write the point (0,7) in polar coordinates."),
        (BALLS, BALLS.replace("5", "five").replace("2", "two")),
        (BALLS, BALLS.replace("look alike", "are equal")),
        (
            "How many hens has Zoe if Zoe sells 3 of 8?",
            "How many hens has Tom if Tom sells 3 of 8?",
        ),
        (
            FISH,
            FISH.replace("55", "fifty-five")
            .replace("206", "two hundred and six")
            .replace("3", "three"),
        ),
        (ANGLE, ANGLE.replace("least", "smallest")),
        (FISH, FISH.replace("3 tanks", "some tanks")),
        (GARDEN, GARDEN.replace("12 meters", "12.00 meters")),
        (GARDEN.replace("12", "1,000.5"), GARDEN.replace("12", "1000.50")),
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
        (GARDEN, GARDEN.replace("12", "120")),
        (
            GARDEN,
            GARDEN.replace(
                "area of the path in square meters", "longest side of the path around it"
            ),
        ),
        (TRIANGLE, TRIANGLE.replace("19", "-19")),
        (POLAR, POLAR.replace("(0,7)", "(2,-2)")),
        ("What is the value of 2/5 + 1/3?", r"What is the value of $2/\pi \int_0^1 x dx$?"),
        ("Find the value of x + 7 if x = 2.", "Find the value of x + 7 if x = 21."),
        ("Compute 2 + 3 + 10 + 7.", "Compute 2 + 3 + 10 + 7 + 9."),
        (FISH.replace("55", "50"), FISH.replace("55", "fifty-five")),
        (FISH, FISH.replace("3 tanks", "n tanks")),
        (ANGLE, ANGLE.replace("least", "greatest")),
        (ANGLE, ANGLE.replace("sum", "product")),
        (ANGLE, ANGLE.replace("sin", "tan")),
        (TEAMS, TEAMS.replace("Ann may", "Ann may not")),
        (TEAMS, TEAMS.replace("dist", "indist")),
        (CURVE, CURVE.replace("domain", "range")),
        (
            r"Simplify $2 \cdot \frac{t+1}{t}$ for $t > 0$.",
            r"Simplify $2 \cdot t + \frac1t$ for $t > 0$.",
        ),
        (f"{CURVE} {FIGURE}", CURVE),
        (f"{CURVE} {FIGURE}", f"{CURVE} {FIGURE.replace('9', '8')}"),
        (
            "Is every square a rhombus?",
            "Tell me about shapes. Is every square a rhombus? Why is that so?",
        ),
    ],
)
def test_another_problem_of_like_wording_stays(tmp_path: Path, item: str, document: str) -> None:
    dropped, _ = run(tmp_path, [(document, "Some.")], item_table([(item, "")]))
    assert dropped == {}


@pytest.mark.parametrize(
    ("response", "found"),
    [
        (
            "A. Zero is odd\nB. No prime is even\nC. Each square has a root\nD. Every even number is a sum",
            True,
        ),
        ("A. Zero is even\nB. Two primes are even\nC. Each cube has a root\nD. One is odd", False),
        ("The first one.", False),
    ],
)
def test_a_stem_that_anybody_may_use_needs_its_options(
    tmp_path: Path, response: str, found: bool
) -> None:
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
    dropped, _ = run(tmp_path, rows, items)
    assert {row: reason for row, (reason, _) in dropped.items()} == {
        0: "contaminated_solution",
        1: "contaminated_solution",
        3: "contaminated_exact",
    }
    assert grades(tmp_path) == {"exact": 1, "solution": 3}


LETTERS = "Sam writes 12 letters on Monday and 15 on Friday, then sends two thirds of them by post. How many are sent?"
TOLD = "Sam sends two thirds of all letters that he writes by post: 12 on Monday, 15 more on a Friday. What is sent?"
SYSTEM = "Suppose real numbers $x$ and $y$ satisfy equations $x + y = 14$ and $xy = 33$. Find the larger number."
TURNED = "Given the equations $xy = 33$ and $x + y = 14$ for real numbers $x$ and $y$, which number is the larger?"
OWN = (
    "Give the mean of the numbers of all pupils:",
    "And then say how many pupils more than 19 there would be,",
)


@pytest.mark.parametrize(
    ("item", "answer", "document", "own", "grade"),
    [
        (
            GARDEN,
            "92.5",
            GARDEN.replace("garden", "meadow"),
            r"$b = \frac{185}{2}$ meters",
            "overlap",
        ),
        (GARDEN, "92", GARDEN.replace("garden", "meadow"), "B", "overlap"),
        (GARDEN, "92", GARDEN.replace("garden", "meadow"), "93", "template"),
        (GARDEN, "92", GARDEN, "93", "exact"),  # a wrong answer undoes no leak
        (
            GARDEN,
            "92",
            f"{OWN[0]} 31, 40. {GARDEN.replace('garden', 'meadow')} {OWN[1]} or 20.",
            "93",
            "overlap",
        ),
        (
            LETTERS,
            "18",
            LETTERS.replace("How", "His sister is 9 years old and has a dog. How"),
            "18",
            "overlap",
        ),
        (LETTERS, "18", TOLD, "18", "rephrased"),
        (LETTERS, "18", TOLD, "27", None),
        (
            LETTERS,
            "18",
            "A box of 12 pens weighs 15 grams. Two thirds are full. What is sent?",
            "18",
            None,
        ),
        (SYSTEM, "11", TURNED, "x = 11", "rephrased_formula"),
        ("What is 12 * 15?", "180", "Calculate 12*15.", "180", "overlap"),
        ("12 * 15 = ?", "180", "Work out twelve * fifteen", "180", "overlap"),
        ("What is 12 * 15?", "180", "What is 15 * 12 here?", "180", None),
        (
            "Tom has 8 hens. He sells 3. How many has Tom?",
            "5",
            "Zoe owns 8 cats. She loses 3. So?",
            "5",
            None,
        ),
    ],
)
def test_final_answers_decide_what_words_leave_open(
    tmp_path: Path, item: str, answer: str, document: str, own: str, grade: str | None
) -> None:
    dropped, _ = run(tmp_path, [(document, "Some.", own)], item_table([(item, answer)]))
    assert list(grades(tmp_path)) == ([grade] if grade else [])
    assert bool(dropped) == (grade in ("exact", "overlap", "rephrased"))


def test_a_closing_sentence_that_asks_is_no_formality(tmp_path: Path) -> None:
    sides = "The sides of a triangle are $a = {0}$ and $b = {1}$, and its angles at $A$ and $B$ are equal."
    items = item_table([(f"{sides.format(n, n + 7)} Find $c$.", "") for n in range(2, 8)])
    rows = [
        (f"{sides.format(2, 9)} Find the height of $c$ over all.", ""),
        (f"{sides.format(3, 10)} Find $c$.", ""),
    ]
    assert set(run(tmp_path, rows, items)[0]) == {1}
    assert sentences(r"Let $a = 3. 5$ and \(b. c\) be. It costs $5. Find $c$.")[1:] == [
        "It costs $5. ",
        "Find $c$.",
    ]
    phrases = ["So? Round your answer to tenths.", "So? Write your answer as $a/b$ and find $a+b$."]
    assert without_closing(phrases) == ["So? ", phrases[1]]


def parts(words: list[str]) -> Words:
    ((_, found),) = word_blocks(text_column(pa.array([" ".join(words)])))
    return found


def agrees(passage: list[str], last: int, document: list[str]) -> bool:
    words, item = parts(document), parts(passage)
    return Target(item.ids, item.kinds, last).agrees(words, slice(0, len(words.ids)))


def exchanged(passage: list[str], places: list[int]) -> list[str]:
    """Exchange the words at these places, each for another new word."""
    return [
        f"new{'abcdefgh'[places.index(at)]}" if at in places else word
        for at, word in enumerate(passage)
    ]


@pytest.mark.parametrize(("words", "copy"), [(2, True), (3, False)])
def test_one_word_in_nine_may_be_exchanged(words: int, copy: bool) -> None:
    assert agrees(WORDS[:18], 4, exchanged(WORDS[:18], [2, 6, 10][:words])) == copy


@pytest.mark.parametrize(("times", "copy"), [(6, True), (7, False)])
def test_seven_words_in_ten_are_kept_where_one_is_exchanged_throughout(
    times: int, copy: bool
) -> None:
    passage = [word for other in WORDS[:times] for word in ("ann", other)] + WORDS[
        times : 20 - times
    ]
    assert len(passage) == 20
    assert agrees(passage, 3, ["eva" if word == "ann" else word for word in passage]) == copy


@pytest.mark.parametrize(("words", "copy"), [(2, True), (3, False)])
def test_three_quarters_of_what_is_asked_are_kept(words: int, copy: bool) -> None:
    assert agrees(WORDS[:27], 8, exchanged(WORDS[:27], [20, 22, 24][:words])) == copy
    # before the last sentence
    assert agrees(WORDS[:27], 8, exchanged(WORDS[:27], [4, 8, 12][:words]))


TEMPLATE = "{} keeps {} hens behind the old mill and sells them to the baker at the corner of the long street"


def write_sources(folder: Path, sources: list[str]) -> None:
    for place, source in enumerate(sources):
        draw = random.Random(source)
        texts = [" ".join(draw.choices(WORDS, k=30)) for _ in range(4000)]
        if source == "template":
            texts = [TEMPLATE.format(draw.choice(WORDS), draw.randrange(50)) for _ in range(600)]
        parts = [
            table(((text, "") for text in texts[i : i + 500]), source, i)
            for i in range(0, len(texts), 500)
        ]
        write(folder, *parts, prefix=f"{place}-", shard_bytes=100_000)


@pytest.mark.slow
def test_every_source_has_its_share_in_any_order(tmp_path: Path) -> None:
    samples = []
    for sources in (["plain", "template", "other"], ["template", "other", "plain"]):
        folder = tmp_path / sources[0]
        write_sources(folder, sources)
        batches = list(sample_documents(find_shards([folder]), 2000, ["source", "row"]))
        samples.append(
            sorted((row["source"], row["row"]) for batch in batches for row in batch.to_pylist())
        )
    rows, others = samples
    assert rows == others
    counts = Counter(source for source, _ in rows)
    # more than its share of 140: n-grams of few must show
    assert counts["template"] == pytest.approx(500, abs=20)
    assert counts["plain"] == counts["other"] == pytest.approx(930, abs=30)
    plain = [row for name, row in rows if name == "plain"]
    assert max(b - a for a, b in pairwise(plain)) <= 6  # evenly


WALK = (
    "Mark walks 3 km along the {way} and after that 12 km towards the harbour at noon, with a heavy"
    " bag and an old map. Which of the two ways that the signs name has Mark then taken home?"
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("northeast", "northwest"),
        ("Northeast.", r"\text{northwest}"),
        ("northeast", "to the northwest"),
        ("northeast", "He stands in the northwest."),
        ("Monday", "on Tuesday"),
        ("yes", "no"),
        ("Yes.", "No, it is not."),
        ("Yes, he has.", "no"),
        ("true", r"\textbf{False}"),
        ("True", "No"),
        ("A", "B"),
        ("(A)", r"\text{(C)}"),
        ("A.", "b"),
    ],
)
def test_another_problem_with_another_answer_in_words_stays(
    tmp_path: Path, ours: str, theirs: str
) -> None:
    """One word of the question is exchanged, so that words alone would be an edited copy."""
    item = WALK.format(way="river")
    other = WALK.format(way="railway")
    rows = [(other, "Some.", theirs), (other, "Some.", ours), (other, "Some.", "")]
    dropped, _ = run(tmp_path, rows, item_table([(item, ours)]))
    assert dropped == dict.fromkeys((1, 2), ("contaminated_overlap", "clips/0"))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("northeast", "Northeast."),
        ("northeast", r"\text{northeast}"),
        ("northeast", "He stands in the northeast."),
        ("yes", "Yes, he has."),
        ("yes", "**True**"),
        ("no", "It is not."),
        ("A", "(a)"),
        ("A", r"\text{(A)}."),
    ],
)
def test_an_edited_copy_with_the_same_answer_in_words_goes(
    tmp_path: Path, ours: str, theirs: str
) -> None:
    item = WALK.format(way="river")
    rows = [(WALK.format(way="railway"), "Some.", theirs)]
    dropped, _ = run(tmp_path, rows, item_table([(item, ours)]))
    assert dropped == {0: ("contaminated_overlap", "clips/0")}


def test_letters_of_listed_options_may_differ_where_these_stand_in_another_order(
    tmp_path: Path,
) -> None:
    item = WALK.format(way="river")
    rows = [(f"{WALK.format(way='railway')}\n(A) the left\n(B) the right", "Some.", "B")]
    items = item_table([(item, "A")])
    dropped, _ = run(tmp_path, rows, items)
    assert dropped == {0: ("contaminated_overlap", "clips/0")}
