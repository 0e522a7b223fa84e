"""A contest gives the answer of an item a form with letters of its own, and asks for their sum."""

import numpy as np
import pyarrow as pa
import pytest

from dreamer_study.pipeline.decontaminate.contest_forms import plain_question, plain_questions
from dreamer_study.pipeline.decontaminate.item_index import ItemIndex
from dreamer_study.pipeline.decontaminate.scan import search
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings

ITEMS = {
    "Tina has 4 white and 9 black buttons in a jar, and she takes 5 of them at once. {}": (
        "What is the probability that exactly 3 are black?",
        "the probability that exactly 3 are black",
        r"\frac{56}{143}",
    ),
    r"In triangle $PQR$, $PQ = 17$, $QR = 10$ and $RP = 21$, and $S$ halves the side $QR$. {}": (
        "Find the length of $PS$.",
        "the length of $PS$",
        r"2\sqrt{85}",
    ),
    r"The polynomial $F(x) = x^3 - 9x + 4$ has the roots $u$, $v$ and $w$, which all differ. {}": (
        "Compute $u^4 + v^4 + w^4$.",
        "the sum $u^4 + v^4 + w^4$",
        "162",
    ),
}
FORMS = [
    "{} is $m/n$, where $m$ and $n$ are relatively prime. Find $m+n$.",
    r"{} can be written as $\frac{{p}}{{q}}$ with coprime $p$ and $q$. Compute $p + q$.",
    r"{} can be expressed as $\frac{{a\sqrt{{b}}}}{{c}}$; find $a+b+c$.",
    r"{} has the form $a\sqrt{{b}}/c$, where $b$ is squarefree. Determine the value of $a+b+c$.",
    r"{} is $k\pi$. Find $k$.",
    "{} is $N$. Find the remainder when $N$ is divided by 1000.",
    "Let $N$ be {}. Find the remainder when $N$ is divided by $1000$.",
    "Given that {} is $m/n$ in simplest form, find $m+n$.",
    r"{} is \(m/n\) in lowest terms. Find the sum of \(m\) and \(n\).",
    "{} is $m/n$. Find the sum of its numerator and denominator.",
    "{} is $m/n$ in lowest terms. What is $m + n$? Put your final answer within \\boxed{{}}.",
]


def found(questions: list[str], answers: list[str]) -> set[int]:
    """Search the items in questions; return the places of those that hold one."""
    items = [setting.format(question) for setting, (question, _, _) in ITEMS.items()]
    keys = [answer for _, _, answer in ITEMS.values()]
    table = pa.table({"question": items, "answer": keys})
    index = ItemIndex(table, DecontaminationSettings())
    index.settle(np.zeros(index.masked.size, np.int64), common=20)
    responses = pa.array(["Some steps."] * len(questions))
    matches = search(index, pa.array(questions), responses, pa.array(answers))
    removed = [match for match in matches if match.grade in DecontaminationSettings().remove]
    pairs = [(match.document, match.item) for match in removed]
    assert len(pairs) == len(set(pairs))
    return {match.document for match in removed}


@pytest.mark.parametrize("answer", ["", "199"])
def test_an_item_in_the_form_of_a_contest_is_found(answer: str) -> None:
    questions = [
        setting.format(form.format(asked))
        for setting, (_, asked, _) in ITEMS.items()
        for form in FORMS
    ]
    missing = set(range(len(questions))) - found(questions, [answer] * len(questions))
    assert [questions[place] for place in missing] == []


def test_another_number_or_another_question_in_such_a_form_is_another_problem() -> None:
    questions = [
        setting.replace("4 white", "6 white")
        .replace("= 17", "= 25")
        .replace("9x", "8x")
        .format(form)
        for setting in ITEMS
        for form in FORMS
    ]
    asked = [asked for _, asked, _ in ITEMS.values() for _ in FORMS]
    changed = [text.format(what) for text, what in zip(questions, asked, strict=True)]
    other = [
        setting.format(form.format("the number of ways to lay them in a row of two colours"))
        for setting in ITEMS
        for form in FORMS
    ]
    both = [*changed, *other]
    assert [both[place] for place in found(both, [""] * len(both))] == []


@pytest.mark.parametrize(
    "question",
    [
        "Ann has m pens and Ben has n. Find m + n.",
        r"If $x + y = 7$ and $xy = 12$, find $x + y + xy$.",
        r"The number $N$ is $3^{40}$. Find the remainder when $N$ is divided by 7.",
        "Half of the pens are red. Find the sum of 3 and 4.",
        "",
    ],
)
def test_a_question_with_letters_of_the_problem_stays(question: str) -> None:
    assert plain_question(question) is None


def test_rows_without_a_question_are_left_out() -> None:
    rows, plain = plain_questions(pa.array([None, "", f"So {FORMS[0].format('the sum of it')}"]))
    assert (rows, plain) == ([2], ["Find So the sum of it."])
