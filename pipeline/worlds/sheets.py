"""Generate sheets: documents of several questions over small alphabets.

Each question is answered by one symbol. Each family asks for one ability, and models learn each in
minutes on a core:

* expressions (depth): `minus plus 2 3 4 1 ;`, prefix expressions modulo a small number, of up to so
  many operations, and their values (Mano, arXiv 2510.25741). Of few operations, or modulo 3, they
  can be memorised in width.
* recall (attention and a second layer): pairs of a key and a value, then keys: `c r a m ... a m ;`
  (multi-query associative recall, arXiv 2312.04927).
* chain (depth, in stages): pairs from one alphabet to the next and on to a third, or a fourth,
  shuffled, then `once c m ;` for one hop, `twice c R ;` for two, `thrice c S ;` for three.
* tracking (recurrence in time): numbers, now and then the sum so far modulo a small number:
  `4 1 3 = 3 ; 2 = 0 ;` (arXiv 2602.18333).

The answer follows its question at once: a sign between key and answer costs models a layer, and
recall is not learned.

A sheet begins with its family's name, and asks nothing about a table twice. Short expressions stand
in many sheets.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from string import ascii_letters, ascii_lowercase, ascii_uppercase

from dreamer_study.pipeline.tokens.tokenizer import MARK
from dreamer_study.pipeline.worlds.drawing import pick, shuffled

KINDS = 10  # letters of an alphabet
ALPHABETS = (
    ascii_lowercase[:KINDS],
    ascii_lowercase[KINDS : 2 * KINDS],
    ascii_uppercase[:KINDS],
    ascii_uppercase[KINDS : 2 * KINDS],
)
# keys of recall where there are more pairs than letters of an alphabet
MANY_KEYS = "".join(letter for letter in ascii_letters if letter not in ALPHABETS[1])
HOPS = ("once", "twice", "thrice")
SIGNS = ("plus", "minus")


@dataclass(frozen=True)
class Sheet:
    """A document of questions: what they are about, and each question with its answer.

    Benchmarks ask the last one.
    """

    beginning: str
    questions: tuple[tuple[str, str], ...]
    # The symbols that may be the answer to the last question, by its form and the beginning.
    options: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole document."""
        answered = [f"{question} {answer}{MARK}" for question, answer in self.questions]
        return " ".join([self.beginning, *answered])

    @property
    def answer(self) -> str:
        """The answer to the last question."""
        return self.questions[-1][1]

    @property
    def prompt(self) -> str:
        """The document up to the last answer, without the space before it."""
        return self.text.removesuffix(f" {self.answer}{MARK}")


def draw_expressions(random: Random, questions: int, operations: int, modulus: int) -> Sheet:
    """Draw expressions of 1 to `operations` operations, mostly short: the smaller of two draws."""
    asked = []
    for _ in range(questions):
        size = 1 + min(int(random.random() * operations) for _ in range(2))
        text, value = _expression(random, size, modulus)
        asked.append((text, str(value)))
    return Sheet("expressions", tuple(asked), tuple(map(str, range(modulus))))


def _expression(random: Random, operations: int, modulus: int) -> tuple[str, int]:
    """Draw one expression and work out its value.

    Its operations are divided at random between left and right.
    """
    if not operations:
        value = int(random.random() * modulus)
        return str(value), value
    sign = pick(random, SIGNS)
    before = int(random.random() * operations)
    left, first = _expression(random, before, modulus)
    right, second = _expression(random, operations - 1 - before, modulus)
    value = first + second if sign == "plus" else first - second
    return f"{sign} {left} {right}", value % modulus


def draw_recall(random: Random, questions: int, pairs: int) -> Sheet:
    """Draw pairs of different keys and any values, then keys to recall the values of.

    Each key is asked for once.
    """
    keys, values = ALPHABETS[:2]
    if pairs > KINDS:
        keys = MANY_KEYS
    table = [(key, pick(random, values)) for key in shuffled(random, keys)[:pairs]]
    asked = tuple(shuffled(random, table)[:questions])
    beginning = " ".join(["recall", *map(" ".join, table)])
    options = tuple(sorted({value for _, value in table}))
    return Sheet(beginning, asked, options)


def draw_chain(random: Random, questions: int, pairs: int, tables: int) -> Sheet:
    """Draw tables of letter pairs, each leading to the next, and questions over one or several."""
    letters = [shuffled(random, alphabet)[:pairs] for alphabet in ALPHABETS[: tables + 1]]
    ways = []  # word for the number of hops, first letter, last letter
    for hops, word in enumerate(HOPS[:tables], 1):
        for starts, ends in zip(letters, letters[hops:], strict=False):
            ways += [(word, start, end) for start, end in zip(starts, ends, strict=True)]
    chosen = shuffled(random, ways)[:questions]
    asked = tuple((f"{word} {start}", end) for word, start, end in chosen)
    told = shuffled(random, [f"{start} {end}" for word, start, end in ways if word == HOPS[0]])
    _, last_answer = asked[-1]
    options = next(ends for ends in letters if last_answer in ends)
    return Sheet(" ".join(["chain", *told]), asked, tuple(sorted(options)))


def draw_tracking(random: Random, questions: int, moves: int, modulus: int) -> Sheet:
    """Draw rows of 1 to `moves` numbers, after each row the sum of all numbers so far."""
    total = 0
    asked = []
    for _ in range(questions):
        count = 1 + int(random.random() * moves)
        numbers = [int(random.random() * modulus) for _ in range(count)]
        total = (total + sum(numbers)) % modulus
        asked.append((" ".join([*map(str, numbers), "="]), str(total)))
    return Sheet("tracking", tuple(asked), tuple(map(str, range(modulus))))
