"""Generate arithmetic stories of a chosen number of chained steps: sums in words.

Example of two steps: "Ann has 3 coins. She finds 4 more. Then she loses 2. How many coins does Ann
have?"

All values stay within 0 to 9, so that the length of the chain is the only difficulty. The words are
few: a tokenizer of a few hundred tokens holds them whole, and a small model learns them in minutes.
The order of the steps does not change the answer, so a model may add them up in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from random import Random

from dreamer_study.pipeline.worlds.drawing import HIGHEST, STARTS, pick, words

_WOMEN = """
Ann Mia Eva Zoe Lily Rosa Ella Nora Ruth Jane Kate Lucy Mary Sara
"""
WOMEN = tuple(_WOMEN.split())
_MEN = """
Ben Tom Sam Max Leo Dan Paul Jack Mark Hugo Noah Omar Eric Adam
"""
MEN = tuple(_MEN.split())
_THINGS = """
coins cards pens cups books balls keys stones shells stamps beads nuts plums pears toys hats figs
eggs bricks badges rings boxes seeds roses
"""
THINGS = tuple(_THINGS.split())
GAINS = ("finds", "buys", "gets", "wins", "makes")
LOSSES = ("loses", "sells", "drops", "breaks", "mails")
OPENINGS = ("{name} has {start} {thing}.", "{name} owns {start} {thing}.")
LINKS = ("{Pronoun}", "Then {pronoun}")
QUESTIONS = ("How many {thing} does {name} have?", "How many {thing} has {name} now?")


@dataclass(frozen=True)
class Step:
    """One gain (`change` above 0) or loss: "Then she finds 4 more."."""

    verb: str
    change: int
    link: int


@dataclass(frozen=True)
class Story:
    """A story of gains and losses that asks how many things a person has at the end."""

    name: str
    thing: str
    start: int
    steps: tuple[Step, ...]
    opening: int
    closing: int

    @property
    def values(self) -> tuple[int, ...]:
        """The values at the start and after each step."""
        return tuple(accumulate((step.change for step in self.steps), initial=self.start))

    @cached_property
    def question(self) -> str:
        """The story in words."""
        pronoun = "she" if self.name in WOMEN else "he"
        opening = OPENINGS[self.opening].format(name=self.name, start=self.start, thing=self.thing)
        steps = []
        for step in self.steps:
            link = LINKS[step.link].format(pronoun=pronoun, Pronoun=pronoun.capitalize())
            steps.append(f"{link} {step.verb} {_amount(step)}.")
        question = QUESTIONS[self.closing].format(name=self.name, thing=self.thing)
        return " ".join([opening, *steps, question])

    @property
    def answer(self) -> str:
        """The one right answer: a digit."""
        return str(self.values[-1])

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the question, in order."""
        return (self.start, *(abs(step.change) for step in self.steps))

    def reasoning(self, random: Random) -> str:
        """Write a long-winded way to the answer, like a reasoning model."""
        sums = []
        lines = []
        for step, (before, after) in zip(self.steps, pairwise(self.values), strict=True):
            sign = "+" if after > before else "-"
            sums.append(f"{before} {sign} {abs(after - before)} = {after}")
            lines.append(f"{self.name} {step.verb} {_amount(step)}, so that is {sums[-1]}.")
        starts = (
            "Okay, let me go through this one step at a time.",
            "Alright, I have to keep count here.",
        )
        start = pick(random, starts)
        check = pick(random, ("Wait, let me check that again:", "Hmm, just to be sure, once more:"))
        return "\n".join(
            [
                f"{start} In the beginning {self.name} has {self.start} {self.thing}.",
                *lines,
                f"{check} {', then '.join(sums)}. That holds.",
                f"So the number of {self.thing} that {self.name} has in the end must be"
                f" {self.answer}.",
            ]
        )

    def with_other_numbers(self, random: Random) -> Story | None:
        """Draw the numbers again: a story in equal words.

        None where the draw gives no such story.
        """
        value = start = pick(random, STARTS)
        steps = []
        for step in self.steps:
            room = HIGHEST - value if step.change > 0 else value
            if not room:
                return None
            change = 1 + pick(random, range(room))
            steps.append(replace(step, change=change if step.change > 0 else -change))
            value += steps[-1].change
        return replace(self, start=start, steps=tuple(steps))

    def with_another_word(self, random: Random) -> Story:
        """Exchange one verb for another of equal meaning."""
        place = pick(random, range(len(self.steps)))
        step = self.steps[place]
        verbs = GAINS if step.change > 0 else LOSSES
        others = [verb for verb in verbs if verb != step.verb]
        changed = replace(step, verb=pick(random, others))
        return replace(self, steps=(*self.steps[:place], changed, *self.steps[place + 1 :]))

    def with_another_name(self, random: Random) -> Story:
        """Exchange the person's name for another, wherever it stands."""
        names = WOMEN if self.name in WOMEN else MEN
        return replace(self, name=pick(random, [name for name in names if name != self.name]))

    def keys(self) -> list[tuple]:
        """Return keys of which two stories that may be taken for duplicates have one in common.

        Every story with a common key counts as similar: the words are many, so that few clean
        stories are lost. Two stories that differ in one verb agree in the first or the second half
        of the verbs. In a story of few steps, one verb is a large part of the text, so that more
        has to agree. The order of steps does not count.
        """
        problem = (self.thing, self.start, *sorted(step.change for step in self.steps))
        verbs = [step.verb for step in self.steps]
        if len(verbs) == 1:
            return [(problem, *verbs, self.name, self.closing, self.steps[0].link)]
        if len(verbs) == 2:
            return [(problem, *sorted(verbs), *sorted(step.link for step in self.steps))]
        if len(verbs) == 3:
            return [(problem, *sorted(verbs))]
        half = len(verbs) // 2
        return [
            (problem, "first", *sorted(verbs[:half])),
            (problem, "second", *sorted(verbs[half:])),
        ]

    def marks(self) -> Iterator[tuple[Hashable, Sequence[str]]]:
        """Yield texts as words, each behind what has to agree before n-grams are compared.

        A story that holds many n-grams of one text of a benchmark item may be taken for a leak. The
        first text is the question with all numbers equated, behind its thing, where most leaks
        show; the second the question as written.
        """
        exact = words(self.question)
        yield self.thing, ["0" if word.isdigit() else word for word in exact]
        yield None, exact


def _amount(step: Step) -> str:
    return f"{step.change} more" if step.change > 0 else str(-step.change)


def draw(random: Random, steps: int, nouns: int | None = None) -> Story:
    """Draw a new story, of the first `nouns` names and things (none: of all).

    Each value is uniform over the values other than the previous one: answers are near uniform.
    """
    of_each = None if nouns is None else nouns // 2
    value = start = pick(random, STARTS)
    told = []
    for _ in range(steps):
        after = pick(random, [other for other in range(HIGHEST + 1) if other != value])
        verb = pick(random, GAINS if after > value else LOSSES)
        told.append(Step(verb, after - value, pick(random, range(len(LINKS)))))
        value = after
    return Story(
        name=pick(random, WOMEN[:of_each] + MEN[:of_each]),
        thing=pick(random, THINGS[:nouns]),
        start=start,
        steps=tuple(told),
        opening=pick(random, range(len(OPENINGS))),
        closing=pick(random, range(len(QUESTIONS))),
    )
