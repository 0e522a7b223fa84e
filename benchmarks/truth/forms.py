r"""Measure whether copies of mathematical items are found in whatever form they are written.

Decides whether a change of the normal form is kept.

    python -m benchmarks.truth.forms [--each 42]

Items of 25 templates are planted word for word, in ten forms of their mathematics (`$ $`, `\( \)`,
backticks, ...) and with their answers in several forms; all must be removed. As many documents with
one number changed, in the same forms, must stay.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa

from benchmarks.tables import print_table
from benchmarks.truth.documents import read_dropped, write_documents
from dreamer_study.pipeline.decontaminate.decontaminate import decontaminate
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.text.number_words import CARDINALS

# Question and answer; N is drawn anew at each place, as `{0}`, `{1}`, ...
TEMPLATES = (
    (
        r"Compute $\frac{{{0}}}{{{1}}} + \frac{{{2}}}{{{3}}}$ as a common fraction.",
        r"\frac{{{0}}}{{{2}}}",
    ),
    (r"Simplify $\sqrt{{{0}}} \cdot \sqrt{{{1}}} - \sqrt{{{2}}}$ completely.", r"{0}\sqrt{{{1}}}"),
    (r"What is $\frac{{{0}}}{{{1}}}$ of {2} when it is rounded down?", r"{2}"),
    (r"If $x^2 - {0}x + {1} = 0$ and $x > {2}$, what is the value of $x^3 - {3}x$?", r"{0}"),
    (r"Let $f(x) = {0}x - {1}$ and $g(x) = x^2 + {2}$. Find $f(g({3})) - g(f({3}))$.", r"-{0}"),
    (
        r"How many elements does the set $\{{{0}, {1}, {2}, {3}\}} \cup \{{x : x < {0}\}}$ of "
        r"positive integers have?",
        "{1}",
    ),
    (
        r"A wire of ${0}\text{{ cm}}$ is bent into a rectangle whose length is ${1}\text{{ "
        r"cm}}$. How many square centimeters does it enclose?",
        r"{0}\text{{ cm}}^2",
    ),
    (
        r"For which values of $x$ is $\left| x - {0} \right| \le {1}$ and $x \ge {2}$? "
        r"Express your answer in interval notation.",
        r"[{0},{1})",
    ),
    (
        r"In the figure, what is the measure of angle $ABC$ in degrees? [asy] "
        r"draw((0,0)--({0},{1})); label(\"${2}^\circ$\",(1,1)); [/asy]",
        r"{2}^\circ",
    ),
    (
        r"Find the point where the line $y = {0}x - {1}$ meets the $y$-axis, and the distance "
        r"of that point from $({2},{3})$.",
        r"({0},{1})",
    ),
    (
        r"What is the greatest prime factor of ${0}! + {1}!$ for a clerk who knows only ${2}$ "
        r"primes?",
        r"{2}",
    ),
    (r"Expand $(2xy - {0}yz)({1}x + {2}z)$ and give the coefficient of $xyz - {3}$ in it.", r"{1}"),
    (
        r"Solve the system $3a - {0}b = {1}$ and $a + {2}b = {3}$ for the product $ab$.",
        r"\frac{{{0}}}{{{3}}}",
    ),
    (r"Compute $\log_{{{0}}} {1} + \log_{{{0}}} {2}$.", r"{0}"),
    (
        r"Evaluate $\sin {0}^\circ - \cos {1}^\circ + \tan {2}^\circ$ for the sketch on the "
        r"board.",
        r"\frac{{\sqrt{{{0}}}}}{{{1}}}",
    ),
    (
        r"In how many ways can ${0}$ students be seated in $\binom{{{1}}}{{2}}$ chairs, if "
        r"{2} chairs are broken?",
        r"10^{1}",
    ),
    (
        r"A store sells {0} pens for \${1} and {2} pencils for \${3}. How many dollars does a "
        r"child pay for one of each?",
        r"\${1}.50",
    ),
    (
        r"What percent of $1{{,}}{0}00$ is ${1}{2}0$, to the nearest tenth of a percent?",
        r"{0}.{1}\%",
    ),
    (
        r"The sequence ${0}, {1}, {2}, \ldots$ is arithmetic in its first ${3}$ terms. What "
        r"is the sum of its $n$-th and $(n+1)$-st terms at $n = {3}$?",
        r"{0}",
    ),
    (r"Find $w^4$ if $w = {0} + {1}i$ and $\overline{{w}}$ is its conjugate.", r"-{0} + {1}i"),
    (
        r"A regular ${0}$-gon and a ${1}$-gon share a side of length ${2}$. How many degrees "
        r"lie between them?",
        r"\frac{{{0}\pi}}{{{1}}}",
    ),
    (r"Compute ${0} \times {1} - {2} \div {3}$.", r"{0}"),
    (
        r"If $\left( u + \frac{{{0}}}{{u}} \right)^2 = {1}$, find $\left\lfloor u^2 + "
        r"\frac{{{2}}}{{u^2}} \right\rfloor$.",
        r"{1}",
    ),
    (
        r"Express $\begin{{pmatrix}} {0} & {1} \\ {2} & {3} \end{{pmatrix}}^2$ by its trace "
        r"and determinant.",
        r"{3}",
    ),
)  # fmt: skip
NAMES = """
Anna Bruno Clara David Edgar Fiona Georg Helen Ivan Julia Karl Laura Mika Nadia Oscar Petra
"""
# Words alone: two names and two solids of each item.
WORDED = (
    "Which solid has more edges, the one of {0}, a {2} pyramid, or the one of {1}, a {3} prism?"
)
SOLIDS = """
triangular square pentagonal hexagonal heptagonal octagonal nonagonal decagonal
"""
MATHEMATICS = re.compile(r"(?<!\\)\$((?:[^$\\]|\\.)+)\$")
FIGURE = re.compile(r"(\[asy\].*?\[/asy\])")
SIGN = re.compile(r" ?(?<![\\({])([-+=<>]) ?")
NUMBER = re.compile(r"\d+")
SPELLED = {value: word for word, value in CARDINALS.items()}


class Item(NamedTuple):
    """An item; `answer` is its reference."""

    question: str
    answer: str


def set_in(before: str, after: str) -> Callable[[str], str]:
    """Set mathematics between other marks."""
    return lambda text: outside_figures(
        text, lambda part: MATHEMATICS.sub(lambda found: f"{before}{found[1]}{after}", part)
    )


def outside_figures(text: str, edit: Callable[[str], str]) -> str:
    """Edit the parts of a text that are no figures."""
    parts = FIGURE.split(text)
    return "".join(part if FIGURE.match(part) else edit(part) for part in parts)


def in_mathematics(edit: Callable[[str], str]) -> Callable[[str], str]:
    """Edit what stands between dollar signs."""
    return lambda text: MATHEMATICS.sub(lambda found: f"${edit(found[1])}$", text)


def styled(text: str) -> str:
    """Set numbers bold and units upright."""
    text = re.sub(r"\\text\{([^{}]*)\}", r"\\rm{\1}", text)
    return re.sub(r"(?<![\w\\{}.,_^!])(\d+)(?![\w{}.,])", r"\\textbf{\1}", text)


def spaced(text: str) -> str:
    """Take blanks from around signs, or set them there; set a thin one before a unit."""
    tight = SIGN.sub(r"\1", text)
    edited = tight if tight != text else SIGN.sub(r" \1 ", text)
    return edited.replace(r"\text{ ", r"\,\text{")


def fractions(text: str) -> str:
    """Write fractions large and small in turn."""
    sizes = iter("dt" * 20)
    return re.sub(r"\\frac", lambda _: rf"\{next(sizes)}frac", text)


FORMS: dict[str, Callable[[str], str]] = {
    "$ $": lambda text: text,
    r"\( \)": set_in(r"\(", r"\)"),
    r"\[ \]": set_in(r"\[", r"\]"),
    "none": set_in("", ""),
    "backticks": set_in("`", "`"),
    "**": set_in("**", "**"),
    r"\textbf, \rm": in_mathematics(styled),
    r"\, and blanks": in_mathematics(spaced),
    r"\dfrac, \tfrac": in_mathematics(fractions),
    "$$": set_in("$$", "$$"),
}


def as_power(answer: str) -> str:
    """Write a power of ten that stands for a number."""
    return f"10^{len(answer) - 1}" if re.fullmatch("10+", answer) else answer


ANSWERS: dict[str, Callable[[str], str]] = {
    "none": lambda answer: "",
    "as it is": lambda answer: answer,
    "$ $": lambda answer: f"${answer}$",
    r"\( \)": lambda answer: rf"\({answer}\)",
    "full stop": lambda answer: f"{answer}.",
    r"\textbf": lambda answer: rf"\textbf{{{answer}}}",
    "(B)": lambda answer: f"(B) {answer}",
    "in words": lambda answer: SPELLED.get(int(answer), answer) if answer.isdigit() else answer,
    "digits of a power": lambda answer: (
        str(10 ** int(answer[3:])) if re.fullmatch(r"10\^\d", answer) else answer
    ),
}


def items_of(draw: Random, each: int) -> list[Item]:
    """Make different items of every template."""
    items: dict[str, Item] = {}
    for question, answer in TEMPLATES:
        wanted = len(items) + each
        while len(items) < wanted:
            numbers = [
                draw.randint(2, 9) if draw.random() < 0.2 else draw.randint(2, 99) for _ in range(4)
            ]
            made = Item(question.format(*numbers), answer.format(*numbers))
            items.setdefault(made.question, made)
    wanted = len(items) + each
    while len(items) < wanted:
        made = Item(
            WORDED.format(*draw.sample(NAMES.split(), 2), *draw.sample(SOLIDS.split(), 2)),
            draw.choice(NAMES.split()),
        )
        items.setdefault(made.question, made)
    return list(items.values())


def with_another_number(draw: Random, text: str) -> str:
    """Change one number; "" where there is none."""
    places = list(NUMBER.finditer(text))
    if not places:
        return ""
    place = draw.choice(places)
    return f"{text[: place.start()]}{int(place[0]) + draw.randint(1, 9)}{text[place.end() :]}"


def measure(folder: Path, each: int) -> None:
    """Plant, search, and print how many were removed in each form of question and answer."""
    draw = Random(0)
    items = items_of(draw, each)
    known = {item.question for item in items}
    documents: list[tuple[tuple[str, str, str], str, str]] = []
    for form, edit in FORMS.items():
        for item in items:
            question = edit(item.question)
            for name, written in ANSWERS.items():
                answer = written(item.answer)
                if name in ("none", "as it is") or answer != item.answer:
                    documents.append((("copy", form, name), question, answer))
            changed = with_another_number(draw, item.question)
            if changed and changed not in known:
                documents.append((("another number", form, "none"), edit(changed), ""))
                documents.append((("another number", form, "another"), edit(changed), "7919"))
    table = pa.table(
        {
            "id": [f"forms/{number}" for number in range(len(items))],
            "benchmark": ["forms"] * len(items),
            "question": [item.question for item in items],
            "answer": [item.answer for item in items],
        }
    )
    written = (
        (str(number), "forms", question, "Some.", answer)
        for number, (_, question, answer) in enumerate(documents)
    )
    source = write_documents(folder / "in", written)
    started = time.process_time()
    decontaminate(source, folder / "out", table, DecontaminationSettings())
    seconds = time.process_time() - started
    removed = {int(name) for name in read_dropped(folder / "out")}
    sizes = Counter(kind for kind, *_ in documents)
    gone = Counter(documents[number][0] for number in removed)
    for kind, columns in (("copy", [*ANSWERS]), ("another number", ["none", "another"])):
        rows = []
        for form in FORMS:
            cells = {name: (kind, form, name) for name in columns}
            shown = {name: f"{gone[cell]} of {sizes[cell]}" for name, cell in cells.items()}
            rows.append({"form": form, **shown})
        wanted = "all" if kind == "copy" else "none"
        print_table(f"Removed of {kind}, {len(items)} items, by answer; right: {wanted}", rows)
    print(f"{len(documents)} documents, {seconds:.1f} CPU seconds")
    wrong = [
        (kind, question, answer)
        for number, (kind, question, answer) in enumerate(documents)
        if (number in removed) != (kind[0] == "copy")
    ]
    for kind, question, answer in Random(1).sample(wrong, min(8, len(wrong))):
        print(f"\n--- {', '.join(kind)}: {question!r}, answer {answer!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=42, help="items of each template")
    with tempfile.TemporaryDirectory(prefix="forms-") as folder:
        measure(Path(folder), parser.parse_args().each)


if __name__ == "__main__":
    main()
