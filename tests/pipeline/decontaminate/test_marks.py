"""Marks of mathematics: those around it say nothing, those within it make another problem."""

from pathlib import Path

import pytest

from dreamer_study.pipeline.text.answers import answer_key
from tests.pipeline.decontaminate.items import item_table
from tests.pipeline.decontaminate.test_decontaminate import run

SHORT = "Find the value of ${}$ for the card."
LONG = (
    "A clerk in the old office near the river wrote the expression ${}$ on a card for her friends and asked them "
    "which of their values would be the largest one for all small numbers that fit. What do they say about it today?"
)
OTHERS = r"""
n!|n
5!|5
n!!|n!
(n+1)!|(n+1)
[3,9)|(3,9]
[3,9)|[3,9]
(3,9)|[3,9]
\{3,9\}|(3,9)
x < 5|x > 5
x < 5|x \le 5
x ≤ 5|x ≥ 5
x \le 5|x \ge 5
x = 5|x \ne 5
x = 5|x > 5
A \cup B|A \cap B
A ∪ B|A ∩ B
x \in A|x \notin A
x + 5|x - 5
a/b|ab
\sin x|\cos x
\sinh x|\sin x
x^2|x_2
x^2|x2
x^2|2x
x_2|x2
x²|x₂
2^{10}|2_{10}
‖x‖|x
\left|x\right||x
\bar{z}|z
\lfloor x \rfloor|\lceil x \rceil
\sqrt{x}|x
\sqrt[3]{x}|\sqrt{x}
f'(x)|f(x)
A'|A
5%|5
5^\circ|5
\pm 5|5
"""
PAIRS = [line.rpartition("|")[::2] for line in OTHERS.strip().splitlines()]
SAME = r"""
[3,9)|\left[3, 9\right)
|x|+1|\left\lvert x \right\rvert + 1
n! + 5|n! \,+\, 5
x² ≤ 5|x^{2} \leq 5
x_{12}|x₁₂
\frac{a}{b}|{a \over b}
5^\circ|5°
x \ne 5|x \not= 5
3 \times 4|3 \cdot 4
\sqrt{2}+1|√2 + 1
"""
FORMS = [line.rsplit("|", 1) for line in SAME.strip().splitlines()]


@pytest.mark.parametrize("pair", PAIRS, ids="|".join)
def test_another_mark_makes_another_problem(tmp_path: Path, pair: tuple[str, str]) -> None:
    for number, text in enumerate((SHORT, LONG)):
        for ours, theirs in (pair, pair[::-1]):
            folder = tmp_path / f"{number}{ours == pair[0]}"
            folder.mkdir()
            rows = [(text.format(theirs), "Some.", ""), (text.format(ours), "Some.", "")]
            assert set(run(folder, rows, item_table([(text.format(ours), "")]))[0]) == {1}


@pytest.mark.parametrize("pair", FORMS, ids="|".join)
def test_one_mark_in_two_writings_is_one(tmp_path: Path, pair: tuple[str, str]) -> None:
    for number, text in enumerate((SHORT, LONG)):
        (tmp_path / str(number)).mkdir()
        rows = [(text.format(pair[1]), "Some.", "")]
        assert set(run(tmp_path / str(number), rows, item_table([(text.format(pair[0]), "")]))[0])


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if "%" not in pair[0] and "5^" not in pair[0]], ids="|".join
)
def test_answers_differ_by_a_mark(pair: tuple[str, str]) -> None:
    assert answer_key(pair[0]) != answer_key(pair[1])


@pytest.mark.parametrize(
    "form",
    [
        r"[math]{}[/math]",
        r"<latex>{}</latex>",
        r"[imath]{}[/imath]",
        r"*{}*",
        r"_{}_",
        r"__{}__",
        r"***{}***",
        r"<b>{}</b>",
        r"<p>{}</p>",
        r"$\color{{blue}}{{{}}}$",
        r"\textcolor{{red}}{{{}}}",
        r"\\({}\\)",
        r"$\displaystyle{{{}}}$",
        r"\ensuremath{{{}}}",
        r"\left.{}\right.",
        r"Answer:{}",
        r"={}",
        r"({})",
        r"\begin{{align*}}{}\end{{align*}}",
        r"&nbsp;{}",
        r"<span>{}</span>",
    ],
)
def test_marks_around_an_answer_say_nothing(form: str) -> None:
    for answer in ("70", r"\frac{3}{4}", r"2\sqrt{3}", "x^2", "1,000", "-5", "5!", "x_1"):
        assert answer_key(form.format(answer)) == answer_key(answer)


@pytest.mark.parametrize(
    ("answer", "forms"),
    [
        ("1000", r"1 000|1\,000|1{,}000|1,000|1~000|1\;000|1'000|１０００"),
        ("x^2", "x²|x<sup>2</sup>|x^{2}"),
        ("x_1", "x₁|x<sub>1</sub>|x_{1}"),
        (r"2 \times 3x", r"2 × 3x|2 \cdot 3x|2*3x|2&times;3x"),
        (r"x \le 5", r"x ≤ 5|x \leq 5|x &le; 5|x <= 5"),
        (r"\frac{\pi}{2}", r"\\frac{\\pi}{2}|π/2|\dfrac\pi2|{\pi \over 2}"),
        ("10^{-3}", "10⁻³|0.001|10^-3"),
        ("[3,9)", r"\([3,9)\)|\left[3,9\right)|$[3, 9)$"),
    ],
)
def test_answers_in_two_writings_are_one(answer: str, forms: str) -> None:
    assert {form: answer_key(form) for form in forms.split("|")} == dict.fromkeys(
        forms.split("|"), answer_key(answer)
    )
