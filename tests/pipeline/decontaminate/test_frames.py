"""Short items behind a label or a courtesy, or before one: found; with other numbers: kept."""

from pathlib import Path

import pytest

from dreamer_study.pipeline.text.frames import is_frame
from tests.pipeline.decontaminate.items import item_table
from tests.pipeline.decontaminate.test_decontaminate import run

ITEMS = [
    "How many edges does a heptagonal pyramid have?",
    "Compute $7! + 12$.",
    r"Find $\sec 120^\circ.$",
    r"$\frac{3}{4}$ of what number is $27$?",
    "What is the greatest prime factor of 1001?",
    "Simplify $(x+3)(x-5)$ and give the coefficient of $x$.",
]
OTHERS = [
    "How many edges does a hexagonal pyramid have?",
    "Compute $7! + 13$.",
    r"Find $\sec 150^\circ.$",
    r"$\frac{3}{5}$ of what number is $27$?",
    "What is the greatest prime factor of 1002?",
    "Simplify $(x+3)(x-4)$ and give the coefficient of $x$.",
]
PREFIXES = [
    "(5 points) ",
    "3) ",
    "3. ",
    "3: ",
    "a) ",
    "(a) ",
    "(iv) ",
    "IV. ",
    "Exercise 4 - ",
    "Example 2 ",
    "Example 2.3. ",
    "[2019 AMC 10] ",
    "(AMC 2012) ",
    "AIME 2012 I, Problem 3: ",
    "IMO Shortlist 1988/6. ",
    "1.1 ",
    "★ ",
    "\U0001f525 ",
    "• ",
    "- ",
    "* ",
    "> ",
    "→ ",
    "# ",
    "【Problem】",
    "[Easy] ",
    "Given this, ",
    "<|user|>",
    "<|im_start|>user\n",
    "<s>[INST] ",
    "[INST] ",
    "Here's a question for you - ",
    "Please solve: ",
    "Solve the following problem: ",
    "Question: ",
    "Q12. ",
    "Q: ",
    "P6. ",
    "#7 ",
    "№ 7. ",
    "Problem 3 (2 points): ",
    "Problem #12 [4 pts] ",
    "Task: ",
    "User: ",
    "Human: ",
    "### Instruction:\n",
    "## Problem 4\n\n",
    "**Problem 4.** ",
    "**Question:** ",
    "Hi! Can you help me with this? ",
    "Hello, I need help with my homework. ",
    "My teacher asked me this question: ",
    "I'm stuck on this one, please help: ",
    "Quick math question: ",
    "Level 5. ",
    "Geometry. ",
    "Math Problem\n",
    "1) a) ",
    "Part (b). ",
    "Let's try this one: ",
    "(Source: Mathcounts 2001) ",
]
SUFFIXES = [
    " (5 points)",
    " [3 marks]",
    " (AMC 2012)",
    " [2019 AMC 10A #5]",
    " Thanks!",
    " Thank you in advance.",
    " Please help me!",
    "\n\nAssistant:",
    "<|assistant|>",
    " [/INST]",
    "<|im_end|>",
    "\nA:",
    "\nSolution:",
    "\n\n### Response:",
    " ★",
    " \U0001f600",
    " Show all work.",
    " - AMC 2012",
    " (No calculator.)",
    " Any ideas?",
    " How do I solve this?",
]
NO_FRAMES = [
    "If x = 3, ",
    "In a right triangle, ",
    "There are 5 pens. ",
    "Let n be odd. ",
    "Suppose that n is prime. ",
    "(in base 7) ",
    "(x > 0) ",
    "ABC is equilateral. ",
    "For 12 dollars: ",
    "A prism has 5 edges. ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_short_item_behind_a_label_is_found(tmp_path: Path, prefix: str) -> None:
    check(tmp_path, [prefix + item for item in ITEMS], [prefix + other for other in OTHERS])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_short_item_before_a_label_is_found(tmp_path: Path, suffix: str) -> None:
    check(tmp_path, [item + suffix for item in ITEMS], [other + suffix for other in OTHERS])


def test_a_short_item_between_labels_is_found(tmp_path: Path) -> None:
    pairs = list(zip(PREFIXES, SUFFIXES, strict=False))
    copies = [f"{before}{item}{behind}" for before, behind in pairs for item in ITEMS]
    others = [f"{before}{item}{behind}" for before, behind in pairs for item in OTHERS]
    check(tmp_path, copies, others)


def check(tmp_path: Path, copies: list[str], others: list[str]) -> None:
    rows = [(text, "Some.", "") for text in [*copies, *others]]
    dropped, _ = run(tmp_path, rows, item_table([(item, "") for item in ITEMS]))
    wrong = set(dropped) ^ set(range(len(copies)))
    assert [rows[row][0] for row in sorted(wrong)] == []


@pytest.mark.parametrize("text", NO_FRAMES)
def test_what_changes_a_question_is_no_frame(tmp_path: Path, text: str) -> None:
    assert not is_frame(text, 1)
    edges, sum_of = ITEMS[:2]
    rows = [
        (text + edges, "Some.", ""),
        (f"{edges[:-1]} {text}", "Some.", ""),
        (text + sum_of, "", ""),
    ]
    assert run(tmp_path, rows, item_table([(edges, ""), (sum_of, "")]))[0] == {}
