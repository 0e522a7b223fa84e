"""Measure decontamination on real problems that look alike; decides whether a change of its rules
is kept.

    python -m benchmarks.truth.lookalikes --mirror FOLDER [--each 300]

Items of real benchmarks are planted as copies in another style, which must be found, and as other
problems of like wording, which must stay. Real training rows show what is removed of natural
neighbours. Prints some of what went wrong.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa

from benchmarks.tables import print_table
from benchmarks.truth.documents import read_dropped, write_documents
from dreamer_study.pipeline.benchmarks.items import benchmark_items
from dreamer_study.pipeline.benchmarks.table import resolve_benchmark
from dreamer_study.pipeline.decontaminate.decontaminate import decontaminate
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.text.number_words import CARDINALS

BENCHMARKS = ("gsm8k", "mathqa", "mmlu_math")
# words: a word exchanged in a shorter item makes another problem as often as not
EXCHANGED_FROM = 8
SHOWN = 5  # wrong documents that are printed
LATIN, CYRILLIC = "aeopcxyAEOPCXHKMT", "аеорсхуАЕОРСХНКМТ"
WORDS = ("coloured", "rather", "market", "quickly", "garden", "silver", "under", "brother")
SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
NUMBER, WHOLE = re.compile(r"\d+"), re.compile(r"(?<![\d.,/])\d+(?![\d/]|[.,]\d)")
SPELLED = {str(value): word for word, value in CARDINALS.items()}
MORE = "A shop nearby sold 14 toy trains."
WORD = re.compile(r"(?<![\w\\{$^])[A-Za-z]{3,}(?![\w}$^])")
Item = dict[str, str]
# of a problem, given another one; an empty text where the edit does not apply
Edit = Callable[[Random, str, str], str]


class Planted(NamedTuple):
    """A document: its kind, the id of the item that a planted one was made from, and its final
    answer."""

    kind: str
    question: str
    response: str = "Some."
    item: str = ""
    answer: str = ""


def as_latex(draw: Random, text: str, other: str) -> str:
    """Set numbers between dollar signs, and fractions as a command."""
    text = re.sub(r"(?<![\d./])(\d+)/(\d+)(?![\d./])", r"$\\dfrac{\1}{\2}$", text)
    return re.sub(r"(?<![\d.,${}^_])(\d+(?:\.\d+)?)(?![\d$}]|[.,]\d)", r"$\1$", text)


def as_html(draw: Random, text: str, other: str) -> str:
    """Write some blanks, and apostrophes and comparison signs, as HTML entities."""
    text = text.replace("'", "&#39;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(" ", lambda _: draw.choice((" ", " ", " ", "&nbsp;")), text)


def as_unicode(draw: Random, text: str, other: str) -> str:
    """Exchange apostrophes, signs and a few blanks for typographic ones."""
    return (
        text.replace("'", "’").replace(" - ", " − ").replace(" * ", " × ").replace(" ", "\u00a0", 3)
    )


def with_lookalikes(draw: Random, text: str, other: str) -> str:
    """Exchange a third of the letters that Cyrillic has too."""
    table = dict(zip(LATIN, CYRILLIC, strict=True))
    return "".join(table[c] if c in table and draw.random() < 0.33 else c for c in text)


def within(draw: Random, text: str, other: str) -> str:
    """Set the problem between other sentences."""
    return f"Alex tried a problem. {text}{'' if text.rstrip()[-1:] in '.?!:' else '.'} Then Alex went home."


def at_one(pattern: re.Pattern[str], edit: Callable[[Random, str], str]) -> Edit:
    """Make an edit of one match of a pattern."""

    def edited(draw: Random, text: str, other: str) -> str:
        if not (places := list(pattern.finditer(text))):
            return ""
        place = draw.choice(places)
        return text[: place.start()] + edit(draw, place[0]) + text[place.end() :]

    return edited


def another_question(draw: Random, text: str, other: str) -> str:
    """Keep the sentences of the set-up and ask what another problem asks."""
    ours, theirs = SENTENCE_END.split(text), SENTENCE_END.split(other)
    long_enough = len(ours) > 1 and len(theirs) > 1 and len(theirs[-1].split()) > 5
    return " ".join([*ours[:-1], theirs[-1]]) if long_enough else ""


def other_number(draw: Random, number: str) -> str:
    return str(int(number) + draw.randint(1, 9))


COPIES: dict[str, Edit] = {
    "verbatim": lambda draw, text, other: text,
    "LaTeX": as_latex,
    "HTML entities": as_html,
    "Unicode signs": as_unicode,
    "look-alike letters": with_lookalikes,
    "within a longer text": within,
    "numbers in words": lambda draw, text, other: WHOLE.sub(
        lambda match: SPELLED.get(match[0], match[0]), text
    ),
    "a sentence more, equal answer": lambda draw, text, other: re.sub(
        r"(?<=\. )(?=[A-Z])", f"{MORE} ", text, count=1
    ),
}
EXCHANGES: dict[str, Edit] = {
    "another word": at_one(WORD, lambda draw, _: draw.choice(WORDS)),
    "one word less": at_one(WORD, lambda draw, _: ""),
    "one word more": at_one(WORD, lambda draw, word: f"{word} {draw.choice(WORDS)}"),
}
OTHERS: dict[str, Edit] = {
    "all numbers swapped": lambda draw, text, other: NUMBER.sub(
        lambda match: other_number(draw, match[0]), text
    ),
    "one number swapped": at_one(NUMBER, other_number),
    "set-up with another question": another_question,
    "another word and answer": at_one(WORD, lambda draw, _: draw.choice(WORDS)),
}
SOLUTIONS: dict[str, Callable[[str], str]] = {
    "solution only": lambda solution: solution,
    "solution only, without annotations": lambda solution: re.sub("<<[^<>]*>>", "", solution).split(
        "####"
    )[0],
}
GENERIC = "generic stem, other options"


def rows(mirror: Path, name: str) -> list[dict[str, str]]:
    """Read all rows of one gzipped file of JSON lines."""
    with gzip.open(mirror / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def planted(items: list[Item], solutions: dict[str, str], each: int) -> Iterator[Planted]:
    """Make `each` documents of every kind from random items."""
    draw = Random(0)
    for kind, edit in (COPIES | EXCHANGES | OTHERS).items():
        made, least = 0, EXCHANGED_FROM if kind in EXCHANGES else 1
        for item in draw.sample(items, len(items)):
            question = edit(draw, item["question"], draw.choice(items)["question"])
            unchanged = question == item["question"] and kind != "verbatim"
            if len(item["question"].split()) < least or unchanged or not question:
                continue
            options = [] if kind in OTHERS else draw.sample(options_of(item), len(options_of(item)))
            answer = "-7919/3" if kind in OTHERS else item["answer"]
            yield Planted(kind, question, lettered(options) or "Some.", item["id"], answer)
            made += 1
            if made == each:
                break
    for kind, edited in SOLUTIONS.items():
        for item in draw.sample(sorted(solutions), min(each, len(solutions))):
            yield Planted(kind, "Explain this.", edited(solutions[item]), item)
    for item in items:
        if (
            options_of(item)
            and len(item["question"].split()) < 10
            and not NUMBER.search(item["question"])
        ):
            others = [option for other in draw.sample(items, 40) for option in options_of(other)]
            yield Planted(GENERIC, item["question"], lettered(others[:4]), item["id"])


def options_of(item: Item) -> list[str]:
    return [option for option in (item["options"] or "").split("\n") if option]


def lettered(options: list[str]) -> str:
    """Write options one a line behind capital letters."""
    return "\n".join(
        f"{letter}. {option}" for letter, option in zip("ABCDEFG", options, strict=False)
    )


def natural(mirror: Path, known: set[str]) -> Iterator[Planted]:
    """Read real rows that are no items themselves."""
    for row in rows(mirror, "openai/gsm8k/main/train"):
        if row["question"] not in known:
            yield Planted(
                "GSM8K train",
                row["question"],
                row["answer"],
                answer=row["answer"].split("#### ")[1],
            )
    for row in rows(mirror, "svamp/svamp/default/train"):
        yield Planted("SVAMP", f"{row['Body']}. {row['Question']}", answer=str(row["Answer"]))


def measure(folder: Path, mirror: Path, each: int) -> None:
    """Plant, search, and print what was removed of each kind, and some of what is wrong."""
    found = [
        benchmark_items(one, mirror / one.repository) for one in map(resolve_benchmark, BENCHMARKS)
    ]
    items = pa.concat_tables(found, promote_options="default")
    listed = items.select(["id", "question", "answer", "options"]).to_pylist()
    solutions = {
        f"gsm8k/{i}": row["answer"] for i, row in enumerate(rows(mirror, "openai/gsm8k/main/test"))
    }
    texts = {item["id"]: item["question"] for item in listed}
    documents = [*planted(listed, solutions, each), *natural(mirror, set(texts.values()))]
    numbered = (
        (str(number), one.kind, one.question, one.response, one.answer)
        for number, one in enumerate(documents)
    )
    decontaminate(
        write_documents(folder / "in", numbered), folder / "out", items, DecontaminationSettings()
    )
    removed = {int(name): because for name, (_, because) in read_dropped(folder / "out").items()}
    wanted = {*COPIES, *EXCHANGES, *SOLUTIONS}
    gone = Counter(documents[number].kind for number in removed)
    report = [
        {
            "kind": kind,
            "documents": size,
            "removed": gone[kind],
            "should be": "all" if kind in wanted else "none",
        }
        for kind, size in Counter(document.kind for document in documents).items()
    ]
    print_table(f"Planted and natural documents, {len(items)} items", report)
    wrong = [
        number
        for number, one in enumerate(documents)
        if (number in removed) != (one.kind in wanted)
    ]
    for number in random.Random(2).sample(wrong, min(SHOWN, len(wrong))):
        item = removed.get(number, documents[number].item)
        print(f"\n--- {documents[number]}\nITEM {item} {texts[item]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--mirror", type=Path, required=True, help="a mirror with GSM8K, MathQA, MMLU and SVAMP"
    )
    parser.add_argument("--each", type=int, default=300, help="planted documents of each kind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lookalikes-") as folder:
        measure(Path(folder), options.mirror, options.each)


if __name__ == "__main__":
    main()
