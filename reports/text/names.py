"""Name benchmarks, stages and depths as a reader knows them, put them in order, shorten them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile
from typing import Any

from dreamer_study.reports.data import VALIDATION, json_object
from dreamer_study.reports.text.numbers import NOTHING
from dreamer_study.sql.names import AVERAGE

TASKS = {
    "gsm8k": "GSM8K",
    "math": "MATH",
    "mmlu_math": "MMLU (math)",
    "mathqa": "MathQA",
    VALIDATION: "Held-out documents",
    AVERAGE: "Average",
}
LONG_NAME = 20  # characters
MANY_TASKS = 8  # where there are more, a figure has the averages and one benchmark at a time
PART = re.compile(
    r"(?:.*[^A-Za-z0-9])?", re.DOTALL
)  # up to the last mark that separates parts of a name
LONGEST = 34  # characters of a word in a table, a legend or a figure
TELLING = 8  # characters: less of a name tells a reader too little
CUT = "…"  # stands for what is left out of a name
STAGES = {
    "documents": "Read",
    "traces": "Strip reasoning traces",
    "clean": "Clean",
    "deduplicate": "Deduplicate",
    "decontaminate": "Decontaminate",
    "tokens": "Tokenise and pack",
}


def owner(variant: str) -> str:
    """Name a variant before "’s" in the head of a column, where a long name has no room.

    It is the baseline, which the caption names.
    """
    return variant if len(variant) <= LONG_NAME else "the baseline"


def architecture_in_words(config: Any) -> str:
    """Say what a model is by its configuration (JSON): `one layer used at every depth`.

    Empty where that is unknown.
    """
    values = json_object(config)
    if "recurrent" not in values:
        return values.get("module", "")
    prelude = values.get("prelude", 0)
    coda = values.get("coda", 0)
    if values["recurrent"] and (prelude or coda):
        text = (
            f"one layer used {_iterations(values)} times, between {prelude} and {coda} of their own"
        )
    elif values["recurrent"]:
        text = "one layer used at every depth"
    elif values.get("depth") == 1:
        text = "a single layer"
    else:
        text = "a layer of its own for each depth"
    if values.get("depth_attention"):
        text += ", attention over depths"
    if values.get("recurrence_after"):
        text += f", once until {values['recurrence_after']:,} tokens"
    if values.get("expert_pool"):
        text += ", one pool of experts for all layers"
    return text


def _iterations(values: Mapping[str, Any]) -> Any:
    """Count how often a recurrent layer is used, by the fields of its configuration."""
    depth = values.get("depth")
    return NOTHING if depth is None else depth - values.get("prelude", 0) - values.get("coda", 0)


def layers_of(config: Any) -> str:
    """Say how many layers a model has by its configuration (JSON), and how often they are used."""
    values = json_object(config)
    depth = values.get("depth")
    if depth is None:
        return NOTHING
    own = values.get("prelude", 0) + values.get("coda", 0)
    if values.get("recurrent") and own:
        return f"{own}, and 1 used {depth - own} times"
    if values.get("recurrent"):
        return f"1, used {depth} times"
    return str(depth)


def shortened(question: str, answer: str) -> tuple[str, str]:
    """Shorten a question to its end, which asks, and an answer to its end, the result."""
    return ending(question, 100), ending(answer, 20)


def ending(text: str, most: int) -> str:
    """Keep the end of a text, at most `most` characters, from the beginning of a word."""
    if len(text) <= most:
        return text
    end = text[-most:]
    _, _, from_word_on = end.partition(" ")
    return f"… {from_word_on or end}"


@dataclass(frozen=True)
class ShortNames:
    """The texts that the page shows in place of a study's long names; no two names share one.

    `shown` has the text of each word of a name that is longer than `LONGEST`.
    """

    shown: Mapping[str, str]

    def __call__(self, text: str) -> str:
        """Shorten each long word of a text: names as everywhere, other words in their middle."""
        return " ".join(map(self._word, text.split(" ")))

    def _word(self, word: str) -> str:
        if len(word) <= LONGEST:
            return word
        # a name may stand within marks or other words: `(name,`, `name-seed-4`
        named = self._names.sub(lambda name: self.shown[name[0]], word) if self.shown else word
        return _cut_word(word, LONGEST // 2) if named == word else named

    @cached_property
    def _names(self) -> re.Pattern[str]:
        """Match any of the names, the longest first."""
        return re.compile("|".join(map(re.escape, sorted(self.shown, key=len, reverse=True))))


def short_names(*kinds: Iterable[str]) -> ShortNames:
    """Shorten the names of a study, kind by kind: variants, benchmarks, sources of data.

    Where two kinds would have a text in common, all names are shortened together.
    """
    words = [[word for name in kind for word in name.split(" ")] for kind in kinds]
    shown = shortest_of_kinds(words, LONGEST)
    return ShortNames({word: text for word, text in shown.items() if text != word})


def shortest_of_kinds(kinds: Iterable[Iterable[str]], most: int) -> dict[str, str]:
    """Shorten the names of each kind as `shortest` does; names of two kinds differ too."""
    shown: dict[str, str] = {}
    for kind in kinds:
        shown |= shortest([name for name in kind if name not in shown], most)
    if len(set(shown.values())) < len(shown):
        return shortest(shown, most)
    return shown


def shortest(names: Iterable[str], most: int) -> dict[str, str]:
    """Shorten names of more than `most` characters; different names have different texts.

    The parts that all long names have in common at both ends go: `run-adamw-lr-search` and
    `run-muon-lr-search` become `run-adamw…` and `run-muon…`. What is still long is cut where the
    names differ, as near to the middle as possible. Names that no one cut tells apart are numbered.
    Texts have `most` characters at most, unless so few have no room for a number.
    """
    whole = list(dict.fromkeys(names))
    long = [name for name in whole if len(name) > most]
    taken = set(whole).difference(long)
    kept = most - len(CUT)
    heads = sorted(range(1, kept), key=lambda head: abs(2 * head - kept))
    for texts in (_differing_parts(long, most), long):
        for head in heads:
            cuts = [_cut_word(text, kept - head, head) for text in texts]
            if len(taken.union(cuts)) == len(whole):
                of_long = dict(zip(long, cuts, strict=True))
                return {name: of_long.get(name, name) for name in whole}
    of_long = {}
    for name in long:
        of_long[name] = _numbered(name, most, taken)
        taken.add(of_long[name])
    return {name: of_long.get(name, name) for name in whole}


def _differing_parts(names: list[str], most: int) -> list[str]:
    """Return names without the parts that all have in common at their beginnings and ends.

    Where little is left and there is room, the part before stays: `…subject_07…`.
    """
    start = _common_beginning(names)
    end = _common_beginning([name[start:][::-1] for name in names])
    lengths = [len(name) - end for name in names]
    if len(names) < 2 or min(lengths) == start:
        return names
    while start and min(lengths) - start < TELLING:
        earlier = len(PART.match(names[0][: start - 1])[0])
        if max(lengths) - earlier + 2 * len(CUT) > most:
            break
        start = earlier
    before = CUT if start else ""
    after = CUT if end else ""
    return [f"{before}{name[start : len(name) - end]}{after}" for name in names]


def _cut_word(word: str, tail: int, head: int | None = None) -> str:
    """Keep `head` and `tail` characters of a word that is longer; without a head one fewer."""
    head = tail - len(CUT) if head is None else head
    if len(word) <= head + len(CUT) + tail:
        return word
    return f"{word[:head]}{CUT}{word[-tail:]}"


def _numbered(name: str, most: int, taken: Collection[str]) -> str:
    """Cut a name at its end, with the first number that makes a text which is not taken."""
    for number in count(1):
        end = f"{CUT}{number}"
        text = f"{name[: max(0, most - len(end))]}{end}"
        if text not in taken:
            return text
    raise AssertionError("numbers have no end")


def _common_beginning(names: Iterable[str]) -> int:
    """Count the characters with which names begin, up to a mark that separates their parts."""
    alike = takewhile(lambda characters: len(set(characters)) == 1, zip(*names, strict=False))
    text = "".join(characters[0] for characters in alike)
    return len(PART.match(text)[0])


def task_name(task: str) -> str:
    """Name a benchmark: as the paper spells it, else as the results do."""
    return TASKS.get(task, task)


def ability_name(task: str) -> str:
    """Name what a benchmark asks for in a word: of the built-in worlds without their prefix."""
    return task_name(task).removeprefix("world_")


def goal_name(task: str) -> str:
    """Name what is to be reached on a task: `average accuracy`, or `accuracy on GSM8K`."""
    return "average accuracy" if task == AVERAGE else f"accuracy on {task_name(task)}"


def task_order(tasks: Iterable[str], average_first: bool = False) -> list[str]:
    """Sort the distinct tasks by name.

    The average is at the end, as in the paper's tables, or at the beginning.
    """

    def key(task: str) -> tuple[bool, str]:
        comes_late = (task == AVERAGE) != average_first
        return comes_late, task_name(task)

    return sorted(set(tasks), key=key)


def are_many(tasks: Iterable[str]) -> bool:
    """Tell whether there are more benchmarks than a figure has panels for."""
    return len(set(tasks) - {AVERAGE}) > MANY_TASKS


def stage_name(stage: str) -> str:
    """Name what a stage of the pipeline does; an unknown stage by its own name."""
    return STAGES.get(stage, stage)


def depth_name(depth: int, short: bool = False) -> str:
    """Name a depth: `Depth 16`, or short `16`.

    An unknown depth, as of curves from elsewhere, is negative: `Unknown depth`, or short a dash.
    """
    if depth < 0:
        return NOTHING if short else "Unknown depth"
    return f"{depth:.0f}" if short else f"Depth {depth:.0f}"


def panel_name(depth: int, depths: Collection[int]) -> str:
    """Return the title of a depth's panel; empty if the figure shows one depth alone.

    Architectures may have other depths than the study says: an LSTM of two layers stands beside
    models of depth 4, so "Depth 4" above a single panel would be wrong.
    """
    return depth_name(depth) if len(set(depths)) > 1 else ""


def model_name(row: Mapping[str, Any], several_depths: bool) -> str:
    """Name the model of a row with `variant` and `depth`: `DR of depth 16`.

    `DR` where the study has one depth, or the depth is unknown.
    """
    if not several_depths or row["depth"] < 0:
        return row["variant"]
    return f"{row['variant']} of depth {row['depth']:.0f}"


def measure_name(row: Mapping[str, Any]) -> str:
    """Name within a sentence what a row with `metric` and `task` measures.

    Examples: `average accuracy`, `loss on GSM8K`.
    """
    if row["metric"] == "accuracy":
        return goal_name(row["task"])
    if row["task"] == AVERAGE:
        return "average correct-answer bits per byte"
    if row["task"] == VALIDATION:
        return "loss on held-out documents"
    return f"loss on {task_name(row['task'])}"


def measure_label(row: Mapping[str, Any]) -> str:
    """Name for an axis or a head what a row with `metric` and `task` measures.

    Examples: `Average accuracy`, `GSM8K, loss`.
    """
    of_loss = row["metric"] != "accuracy"
    if row["task"] == AVERAGE:
        return "Average loss" if of_loss else "Average accuracy"
    name = task_name(row["task"])
    return f"{name}, loss" if of_loss else name
