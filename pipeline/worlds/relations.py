"""Generate problems in which one person's number is defined by another's.

Example of two steps and one distractor: "Eva has 1 less than Ben. Tom has 4 more than Ann. Ann has 3 coins. Ben has 2
more than Ann. How many coins has Eva?"

The statements stand in random order, and a distractor leads away from the answer. So a model has to find the statement
that a statement refers to, one step after the other. Where there is no distractor, adding up all numbers will do. All
values stay within 0 to 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from pipeline.worlds.problem import HIGHEST, NAMES, STARTS, Problem, pick, shuffled

THINGS = ("coins", "cards", "pens", "cups", "books", "balls", "keys", "nuts")
VERBS = ("has", "owns")  # of the first sentence


@dataclass(frozen=True)
class Statement:
    """What is said of one person: "Ben has 2 more than Ann", or "Ann has 3 coins" where there is no other person."""

    name: str
    other: str | None
    change: int


@dataclass(frozen=True)
class Relation(Problem):
    """A problem whose statements define one person's number by another's, and ask for the number of one person.

    A statement refers to a person of an earlier one; `order` is that of the statements in the text.
    """

    thing: str
    statements: tuple[Statement, ...]
    order: tuple[int, ...]
    asked: str
    verb: int

    @property
    def values(self) -> dict[str, int]:
        """Every person's number."""
        values: dict[str, int] = {}
        for statement in self.statements:
            values[statement.name] = (values[statement.other] if statement.other else 0) + statement.change
        return values

    @cached_property
    def question(self) -> str:
        verbs = [VERBS[self.verb], *["has"] * (len(self.order) - 1)]
        told = [self._tell(self.statements[place], verb) for place, verb in zip(self.order, verbs, strict=True)]
        return " ".join([*told, f"How many {self.thing} has {self.asked}?"])

    def _tell(self, statement: Statement, verb: str) -> str:
        if statement.other is None:
            return f"{statement.name} {verb} {statement.change} {self.thing}."
        direction = "more" if statement.change > 0 else "less"
        return f"{statement.name} {verb} {abs(statement.change)} {direction} than {statement.other}."

    @property
    def answer(self) -> str:
        return str(self.values[self.asked])

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(abs(self.statements[place].change) for place in self.order)

    def reasoning(self, random: Random) -> str:
        by_name = {statement.name: statement for statement in self.statements}
        chain = [by_name[self.asked]]
        while chain[0].other:
            chain.insert(0, by_name[chain[0].other])
        values = self.values
        start = pick(random, ("Okay, who is defined by whom here?", "Alright, I have to find where to begin."))
        lines = [
            f"{self._tell(step, 'has')[:-1]}, so that is "
            f"{values[step.other]} {'+' if step.change > 0 else '-'} {abs(step.change)} = {values[step.name]}."
            for step in chain[1:]
        ]
        check = pick(random, ("Wait, is anything left out? No.", "Hmm, nobody else is needed for that."))
        end = f"So the number of {self.thing} that {self.asked} has must be {self.answer}."
        return "\n".join([f"{start} {self._tell(chain[0], 'has')}", *lines, f"{check} {end}"])

    def with_other_numbers(self, random: Random) -> Relation | None:
        start = pick(random, STARTS)
        values, statements = {self.statements[0].name: start}, [replace(self.statements[0], change=start)]
        for statement in self.statements[1:]:
            before = values[str(statement.other)]
            room = HIGHEST - before if statement.change > 0 else before
            if not room:
                return None
            change = 1 + pick(random, range(room))
            statements.append(replace(statement, change=change if statement.change > 0 else -change))
            values[statement.name] = before + statements[-1].change
        return replace(self, statements=tuple(statements))

    def with_another_word(self, random: Random) -> Relation:
        return replace(self, verb=1 - self.verb)

    def with_another_name(self, random: Random) -> Relation:
        old = pick(random, self.statements).name
        new = pick(random, [name for name in NAMES if name not in self.values])

        def renamed(name: str | None) -> str | None:
            return new if name == old else name

        statements = tuple(
            replace(each, name=renamed(each.name), other=renamed(each.other)) for each in self.statements
        )
        return replace(self, statements=statements, asked=renamed(self.asked))


def draw(random: Random, steps: int, distractors: int) -> Relation:
    """Draw a new problem with up to so many distractors.

    Each value is uniform over the values other than the one that it is defined by: answers are near uniform.
    """
    names = shuffled(random, NAMES)[: 1 + steps + pick(random, range(distractors + 1))]
    start = pick(random, STARTS)
    values, statements = [start], [Statement(names[0], None, start)]
    for place in range(1, len(names)):
        other = place - 1 if place <= steps else pick(random, range(place))
        value = pick(random, [value for value in range(HIGHEST + 1) if value != values[other]])
        values.append(value)
        statements.append(Statement(names[place], names[other], value - values[other]))
    return Relation(
        thing=pick(random, THINGS),
        statements=tuple(statements),
        order=tuple(shuffled(random, range(len(names)))),
        asked=names[steps],
        verb=pick(random, range(len(VERBS))),
    )
