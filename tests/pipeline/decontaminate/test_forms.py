r"""An item in another form: other marks around mathematics, another style, an instruction behind."""

import re
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from benchmarks.truth.forms import (
    ANSWERS,
    FORMS,
    in_mathematics,
    items_of,
    set_in,
    with_another_number,
)
from dreamer_study.pipeline.text.answers import answer_key
from dreamer_study.pipeline.text.instructions import without_instruction
from dreamer_study.pipeline.text.layout import plain_signs
from tests.pipeline.decontaminate.items import item_table
from tests.pipeline.decontaminate.test_decontaminate import grades, run

CARD = (
    r"If $3a+5b=41$ and $2a-b=4$ for the digits $a$ and $b$ that a clerk wrote on a card, what is the value of "
    r"the product $7(a+b)$ in the register?"
)
BOTH = (
    r"Let $u$ be a number with $u^2 + u + 3 = 0$. Compute $\left( u + \frac{3}{u} \right)^2 + \left( u^2 + "
    r"\frac{9}{u^2} \right)^2$ for both such numbers."
)
CONTEST = (
    r"Let $w=a+bi$ be a number with $\vert w \vert = 7$ and $b > 0$ such that the distance between $(2+3i)w^3$ "
    r"and $w^5$ is largest. Compute $w^4.$"
)
SUMMED = CONTEST.replace(" is largest. Compute", " is largest, and let").replace(
    "w^4.$", "w^4 = c+di$. Find $c+d$."
)
JARS = "Nora has 14 shelves in her shop and puts 25 jars on each shelf. She then sells 90 jars. How many jars are left?"
TOLD = "The shop that Nora owns holds 14 shelves; every shelf carries 25 jars. After 90 jars were sold, what remained?"
EDGES = "How many edges does a heptagonal pyramid have?"
SUFFIXES = (
    "\n\nPlease reason step by step, and put your final answer within \\boxed{}.",
    " Let's think step by step.",
    "\nAnswer:",
    '\n\nRemember to put your answer on its own line after "Answer:".',
    " /no_think",
    " Show your work.",
    "\nPlease make sure your final answer is boxed.",
)
INSTRUCTION = (
    "Read the list above with care and decide which of its words does not belong to the others, then give that "
    "word on a line of its own at the end of your reply, with nothing else on that line, and say in one short "
    "sentence before it what the others have in common."
)
WALK = "{0} walks 3 km {1} and after that 12 km north from the house at noon. In which direction does {0} stand then?"


@pytest.mark.parametrize("form", FORMS)
def test_items_are_found_in_every_form_and_no_other_numbers(tmp_path: Path, form: str) -> None:
    draw = Random(1)
    items = items_of(draw, 3)
    rows = []
    for item in items:
        answer = list(ANSWERS.values())[len(rows) % len(ANSWERS)](item.answer)
        rows.append((FORMS[form](item.question), "Some.", answer))
    known = {item.question for item in items}
    changed = [with_another_number(draw, item.question) for item in items]
    others = [(FORMS[form](text), "Some.", "") for text in changed if text and text not in known]
    dropped, _ = run(tmp_path, [*rows, *others], item_table([*items]))
    assert set(dropped) == set(range(len(rows)))


@pytest.mark.parametrize(
    ("item", "answer", "question", "response", "own", "grade"),
    [
        (CARD, "70", CARD.replace("clerk", "scribe"), "Some.", r"\(70\)", "overlap"),
        (CARD, "70", CARD.replace("clerk", "scribe"), "Some.", r"\(71\)", "template"),
        (BOTH, "8", *BOTH.split(" Compute "), "", "template"),
        (BOTH, "8", BOTH[:70], BOTH[70:], "", "exact"),
        (CONTEST, "-375 + 500i", SUMMED, "Some.", "125", "overlap"),
        (CONTEST, "-375 + 500i", f"{SUMMED} Think step by step.", "Some.", "125", "overlap"),
        (JARS, "260", TOLD, "Some.", "260", "rephrased"),
        (JARS, "260", TOLD.replace("14", "90", 1).replace("After 90", "After 14"), "", "260", None),
        (WALK.format("Mark", "east"), "yes", WALK.format("Mark", "west"), "So.", "yes", "template"),
        (EDGES, "14", f"Question 7: {EDGES}", "Some.", "", "exact"),
        (CARD, "70", f"Look.\n> {CARD}", "Some.", "", "exact"),
    ],
)
def test_copies_between_forms(
    tmp_path: Path,
    item: str,
    answer: str,
    question: str,
    response: str,
    own: str,
    grade: str | None,
) -> None:
    dropped, _ = run(tmp_path, [(question, response, own)], item_table([(item, answer)]))
    found = [name for name in grades(tmp_path) if name != "rephrased_loosely"]
    assert found == ([grade] if grade else [])
    assert bool(dropped) == (grade not in (None, "template"))


DRAWN = (
    "Ann has 3 red balls and 7 blue balls in a bag, and she draws 4 of them without putting any back. "
    "What is the probability that exactly 2 of all these are red?"
)


@pytest.mark.parametrize(
    "form",
    [
        "Find $m + n$.",
        "The answer can be written as $m/n$ in lowest terms; find $m+n$.",
        r"The answer is $\frac{m}{n}$ for relatively prime $m$ and $n$. Determine $m+n$.",
        "Compute $m+n$ if the answer is $m/n$ in lowest terms.",
        "If it is $m/n$ in lowest terms, what is $m + n$?",
        "Find the sum of $m$ and $n$.",
        "Find the sum of the numerator and denominator of the answer in lowest terms.",
    ],
)
def test_a_contest_form_is_found_with_answers_as_without(tmp_path: Path, form: str) -> None:
    copies = [f"{DRAWN} {form}", f"{DRAWN.replace('puts', 'lays').replace('bag', 'box')} {form}"]
    rows = [(text, "Some.", answer) for text in copies for answer in ("", "13")]
    assert set(run(tmp_path, rows, item_table([(DRAWN, r"\frac{3}{10}")]))[0]) == {0, 1, 2, 3}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "item",
    [
        EDGES,
        r"Compute $\operatorname{arcsec} (-2).$  Express your answer in radians.",
        r"Find $\sec 120^\circ.$",
    ],
)
def test_an_instruction_behind_hides_nothing(tmp_path: Path, item: str, suffix: str) -> None:
    rows = [(item + suffix, "Some.", ""), (item + suffix, "Some.", "14"), (item, "Some.", "")]
    assert set(run(tmp_path, rows, item_table([(item, "14")]))[0]) == {0, 1, 2}


@pytest.mark.parametrize(
    "sentence",
    [
        "Write your answer as $a/b$ and find $a+b$.",
        "Find $c$.",
        "State the solution set.",
        "Show that the solution of $x=2$ is real.",
        "Give the number of steps of a frog that jumps 5 meters.",
        "How many steps?",
        "Give the number of steps of a frog that jumps over the wall.",
        "Put every ball in a box.",
    ],
)
def test_what_asks_is_no_instruction(sentence: str) -> None:
    text = f"Let $x = 3$ be real. {sentence}"
    assert without_instruction(text) == text


def test_other_words_before_one_instruction_are_another_problem(tmp_path: Path) -> None:
    words = ["circle", "prime", "vector", "group", "lattice", "ellipse"]
    others = ["matrix", "field", "integer", "graph", "ring", "polynomial"]
    lists = [others, [*words[:3], *others[3:]], [*others[:2], *words[2:]], words]
    rows = [(f"{' '.join(each)}\n\n{INSTRUCTION}", "Some.", "") for each in lists]
    items = item_table([(f"{' '.join(words)}\n\n{INSTRUCTION}", "prime")])
    assert set(run(tmp_path, rows, items)[0]) == {3}


def test_equal_short_questions_each_have_their_options(tmp_path: Path) -> None:
    options = ["A cube\nA cone", "A ball\nA ring", "A kite\nA wedge"]
    items = item_table([("Which is round?", "")] * 3).append_column("options", pa.array(options))
    rows = [("Which is round?", text.replace("\n", "; "), "") for text in [*options, "A b\nA c"]]
    dropped, _ = run(tmp_path, rows, items)
    assert dropped == {row: ("contaminated_exact", f"clips/{row}") for row in range(3)}


@pytest.mark.parametrize(
    ("value", "forms"),
    [
        (
            "70",
            r"\(70\)|$70.$|\[70\]|`70`|**70**|\textbf{70}|{\bf 70}|70\rm{ seconds}|(C) 70|seventy|70.0",
        ),
        (
            "70",
            r"+70|$\boxed{70}$|70\,\text{cm}^2|x = 70|seventy square feet|7 \times 10^1|\$70|70\%",
        ),
        ("1000000", r"10^6|$10^{6}$|1,000,000|1\,000\,000|one million|1 million"),
        ("3/4", r"\dfrac{3}{4}|\frac34|\tfrac 3 4|0.75|.75|\frac{3}4|\boxed{\frac{3}{4}}"),
        ("-1/2", r"-\frac12|\frac{-1}{2}|-0.5"),
        ("b", r"B|(B)|B.|\text{(B)}|$\textbf{(B)}$|**B**"),
        ("east", r"East|\text{east}|\(\text{East}\)|east.|(C) \text{east}"),
        ("2 sqrt 3", r"2\sqrt{3}|$2\sqrt3$|\(2 \sqrt{3}\)|2\sqrt{3}\text{ cm}"),
        ("no one", "no one"),
        ("two thirds", "two thirds"),
        ("three or four", "three or four"),
        ("12 and 5", r"12 and 5|12 \text{ and } 5"),
    ],
)
def test_answers_have_one_key_in_every_form(value: str, forms: str) -> None:
    assert {form: answer_key(form) for form in forms.split("|")} == dict.fromkeys(
        forms.split("|"), value
    )


@pytest.mark.parametrize("form", FORMS)
def test_signs_are_the_same_in_every_form(form: str) -> None:
    for text in (CARD, BOTH, CONTEST):
        assert plain_signs(FORMS[form](text)) == plain_signs(text)
    assert plain_signs(r"\frac{t+1}{t}") != plain_signs(r"t+\frac1t")


GROUPS = {
    "of all": set_in("{", "}"),
    "twice": set_in("{{", "}}"),
    "within dollars": set_in("${{", "}}$"),
    "around dollars": set_in("{$", "$}"),
    "within brackets": set_in(r"\({", r"}\)"),
    "of signs": in_mathematics(lambda text: text.replace(" + ", " {+} ").replace(" = ", " {=} ")),
    "of exponents": in_mathematics(lambda text: re.sub(r"\^(\d|[a-z])", r"^{{\1}}", text)),
    "of fractions": in_mathematics(
        lambda text: re.sub(r"(\\frac\{[^{}]*\}\{[^{}]*\})", r"{\1}", text)
    ),
}


@pytest.mark.parametrize("group", GROUPS)
def test_braces_that_group_hide_nothing(tmp_path: Path, group: str) -> None:
    """A list in braces may be a set, so such items are left out."""
    items = [item for item in items_of(Random(0), 2) if "ldots" not in item.question]
    rows = [(GROUPS[group](item.question), "Some.", "") for item in items]
    dropped, _ = run(tmp_path, rows, item_table([*items]))
    assert [rows[place][0] for place in range(len(rows)) if place not in dropped] == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (r"\frac{t+1}{t}", r"{t+1 \over t} {+} 1"),
        (r"2^{n+1}", r"2^n+1"),
        (r"\{1, 2\}", "1, 2"),
        (r"\sqrt{x+1}", r"\sqrt x + 1"),
        (r"\sqrt[3]{x+1}", r"\sqrt[3] x + 1"),
        ("{x | x > 2}", "x | x > 2"),
    ],
)
def test_braces_that_say_more_than_a_group_stay(ours: str, theirs: str) -> None:
    assert plain_signs(ours) != plain_signs(theirs)
    assert plain_signs(f"{{{{{ours}}}}}") != plain_signs(theirs)


@pytest.mark.parametrize("answer", ["70", r"\frac{3}{4}", "10^6", "-5", "3 + 2i", r"90^\circ"])
def test_braces_around_an_answer_say_nothing(answer: str) -> None:
    for form in ("{{{}}}", "${{{{{}}}}}$", r"\({{{}}}\)", "{{ {} }}"):
        assert answer_key(form.format(answer)) == answer_key(answer)
