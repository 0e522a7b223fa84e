"""`dreamer atlas`: the table and the map of architectures that were measured, and of yours."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.flows.atlas.bundled import PREFIX, worlds
from dreamer_study.flows.atlas.table import (
    OF_ABILITY,
    Ability,
    Atlas,
    read_atlas,
    table,
    with_study,
)
from dreamer_study.flows.commands.tables import console, print_csv, print_table
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import naming
from dreamer_study.reports.text.numbers import NOTHING, interval, listed, times
from dreamer_study.reports.text.ratios import LEAST, MOST
from dreamer_study.sql.names import AT_LEAST

FIRST = "mixture"  # the world that is shown where none is named
DRAWN = (".svg", ".pdf", ".png")
NOT_REACHED = "†"
OWN = "*"
NO_INTERVAL = "no interval"
NEVER_ABOVE = "never above chance"
OF = " of "  # between the seeds that learned and all seeds
MATCHED = 0.02  # of the baseline's FLOPs


def atlas(options: argparse.Namespace) -> None:
    """Print the table of a world, and write its map to a file where that is asked for."""
    world = _first_world() if options.world is None else options.world
    shown = read_atlas(world.removeprefix(PREFIX))
    if options.study is not None:
        shown = _with_study(shown, options)
    elif options.root is not None:
        raise InputError("--root says where the study of --with is; give --with too")
    if options.plot:  # before the reader of what is printed may leave
        draw(shown, options.plot)
    if options.csv:
        print_csv(table(shown))
        return
    print_atlas(shown)
    if options.plot:
        console.print(f"map: {options.plot}")


def print_atlas(shown: Atlas) -> None:
    """Print the table of a world, and what is to be known of it."""
    rows = table(shown).to_dict("records")
    print_table(pd.DataFrame([_cells(shown, row) for row in rows]))
    for line in _remarks(shown, rows):
        console.print(line)


def _first_world() -> str:
    if not worlds():
        raise InputError("the atlas has no rows in this package")
    return FIRST if FIRST in worlds() else worlds()[0]


def _with_study(shown: Atlas, options: argparse.Namespace) -> Atlas:
    """Add the rows of a study of yours."""
    from dreamer_study.flows.commands.results.query import find_results
    from dreamer_study.sql.results import query

    database, wanted = find_results(options.study, options.root)
    newest = "select study_id from studies order by created_at desc nulls last, study_id"
    study_id = wanted or str(query(database, newest)["study_id"].iloc[0])
    return with_study(shown, database, study_id)


def draw(shown: Atlas, file: Path) -> None:
    """Write the map of a world to a file.

    Raises InputError for another ending than those of `DRAWN`, and for a world without a map.
    """
    # with Altair, which takes a second
    from dreamer_study.reports.figures.ability_map import ability_map
    from dreamer_study.reports.figures.rendering import save

    if file.suffix not in DRAWN:
        raise InputError(f"{file}: a map ends in {', '.join(DRAWN[:-1])} or {DRAWN[-1]}")
    drawn = ability_map(shown.ratios, shown.own) if has_map(shown) else None
    if drawn is None:
        raise InputError(
            f"the world {shown.world} has no map: a map needs two abilities and four architectures"
        )
    if file.is_dir():
        raise InputError(f"{file}: this is a folder; name a file")
    if not file.parent.is_dir():
        raise InputError(f"{file}: there is no folder {file.parent}")
    with naming(file):
        save(drawn, file)


def has_map(shown: Atlas) -> bool:
    """Tell whether a world can have a map, which needs two abilities."""
    return len(shown.abilities) == 2


def _cells(shown: Atlas, row: Mapping[str, Any]) -> dict[str, object]:
    """Format a row of the table for a terminal."""
    name = row["variant"]
    if name in shown.own:
        name += f" {OWN}"
    ratios = {measure.name: ratio_cell(measure, row) for measure in shown.measures}
    bests = {f"best {ability.name}": best_cell(ability, row) for ability in shown.abilities}
    return {
        "architecture": name,
        **ratios,
        **bests,
        "parameters": row["parameters"],
        "learning rate": _rate(row["learning_rate"]),
    }


def _rate(rate: float | None) -> str:
    """Format a learning rate, or that none is chosen yet."""
    return NOTHING if rate is None or pd.isna(rate) else f"{rate:g}"


def ratio_cell(ability: Ability, row: Mapping[str, Any]) -> str:
    """Format the ratio of an ability: `1.29x (0.99 to 1.67) †`, a bound, or that there is none."""
    if row["baseline"]:
        return "1x"
    values = _of_ability(ability, row)
    if pd.isna(values["ratio"]):
        return NEVER_ABOVE if values["near_chance"] is True else "none"
    ends = interval(values)
    if values["bound"]:
        text = f"{_sign(values['bound'])} {times(values['ratio'])}"
        return f"{text} ({ends})" if values["decay_bound"] and ends else text
    text = f"{times(values['ratio'])} ({ends or NO_INTERVAL})"
    return f"{text} {NOT_REACHED}" if values["reached"] is False else text


def _of_ability(ability: Ability, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row of the table says about an ability, by `OF_ABILITY`; None for unknown."""
    values = {name: row[f"{ability.name}_{name}"] for name in OF_ABILITY}
    known = {name: None if pd.isna(value) else value for name, value in values.items()}
    for name in ("near_chance", "reached"):
        if known[name] is not None:
            known[name] = bool(known[name])  # numpy's truth is not the same object as True
    return known


def _sign(bound: str) -> str:
    return LEAST if bound == AT_LEAST else MOST


def best_cell(ability: Ability, row: Mapping[str, Any]) -> str:
    """Format the best score of an ability: `35.1 % (1 of 4)`, where one seed of four learned it."""
    best = row[f"{ability.name}_best"]
    if pd.isna(best):
        return NOTHING
    if ability.metric == "loss":
        return f"{best:.2f}"
    percent = round(100 * best, 6)  # 82.75 whatever the order of the sum of the seeds
    text = f"{percent:.1f} %"
    learned = row[f"{ability.name}_seeds_learned"]
    is_divided = pd.notna(learned) and 0 < learned < row["seeds"]
    return f"{text} ({learned:.0f} of {row['seeds']})" if is_divided else text


def _remarks(shown: Atlas, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines under the table: what it shows, its signs, and what was not measured."""
    architectures = shown.architectures
    baseline = shown.baseline
    made = sorted(set(architectures["made"]))
    seeds = sorted({*architectures["seeds"]} - {0})  # none has ended in a study that has begun
    lines = [
        f"{shown.world}: training tokens divided by those of {baseline}, to equal"
        f" {_what_is_equal(shown)}, up to the lower of the two bests; below 1x fewer. Brackets:"
        " 95 % intervals over seeds and items.",
        *_signs(shown, rows),
        f"Measured {_span(made)}, {_span(seeds)} seeds each.",
    ]
    (of_baseline,) = [row for row in rows if row["baseline"]]
    for ability in shown.abilities:
        if of_baseline[f"{ability.name}_seeds_learned"] == 0:
            lines.append(
                f"On {ability.name}, {baseline} itself is above chance at no seed, so that there"
                " are no ratios."
            )
    if shown.own:
        lines.append(f"{OWN}: trained by your study.")
    if shown.unfinished:
        lines.append(f"Your study is not complete: {shown.unfinished}. Its row will change.")
    at_edge = architectures[~architectures["rate_inside"].astype(bool)]
    if len(at_edge):
        names = ", ".join(at_edge["variant"])
        lines.append(
            "learning rate at the edge of those tried, so that a better one may lie beyond:"
            f" {names}"
        )
    unmatched = [f"{name} ({gap:+.1%})" for name, gap in unmatched_flops(shown).items()]
    if unmatched:
        lines.append(
            f"FLOPs not within {100 * MATCHED:g} % of {baseline}'s: {', '.join(unmatched)}"
        )
    for row in shown.left_out.to_dict("records"):
        lines.append(f"not measured: {row['variant']}: {row['reason']}")
    others = [f"`dreamer atlas {world}`" for world in worlds() if world != shown.world]
    if others:
        lines.append(f"Other problems: {', '.join(others)}")
    return lines


def _what_is_equal(shown: Atlas) -> str:
    """Say what both have reached: `accuracy on expressions and on recall`, or `loss`."""
    if shown.abilities[0].metric == "loss":
        return "loss"
    return "accuracy on " + listed([ability.name for ability in shown.abilities])


def _signs(shown: Atlas, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each sign that a cell of the table has, such as `†`, with its meanings."""
    meanings: dict[str, list[str]] = {sign: [] for sign in (NOT_REACHED, LEAST, MOST, NO_INTERVAL)}
    for row in rows:
        for measure in shown.measures:
            for sign, meaning in _meanings(measure, row, shown.baseline):
                meanings[sign].append(meaning)
    lines = [
        f"{sign}: {'; or '.join(dict.fromkeys(told))}" for sign, told in meanings.items() if told
    ]
    bests = [best_cell(ability, row) for row in rows for ability in shown.abilities]
    divided = [re.search(rf"\d+{OF}\d+", cell) for cell in bests]
    examples = [found[0] for found in divided if found]
    if examples:
        lines.append(f"{examples[0]}: the last checkpoint is above chance at {examples[0]} seeds")
    return lines


def _meanings(ability: Ability, row: Mapping[str, Any], baseline: str) -> Iterator[tuple[str, str]]:
    """Yield each sign of the cell of an ability, with what it means there."""
    values = _of_ability(ability, row)
    if row["baseline"] or values["ratio"] is None:
        return
    if values["bound"]:
        yield _sign(values["bound"]), _why_bound(values, baseline)
        return
    if not interval(values):
        yield NO_INTERVAL, _why_no_interval(values)
    if values["reached"] is False:
        yield (
            NOT_REACHED,
            f"the best lies below {baseline}'s by more than two standard errors of the difference",
        )


def _why_bound(values: Mapping[str, Any], baseline: str) -> str:
    """Say why a bound stands in place of a ratio."""
    if values["decay_bound"]:
        return "a bound with an interval: the learning rate decays at these scores"
    if values["bound"] == AT_LEAST and values["near_chance"]:
        return "a lower bound: the mean over seeds never rose above chance"
    if values["bound"] == AT_LEAST:
        return f"a lower bound: the mean over seeds never rose above {baseline}'s first checkpoint"
    if values["near_chance"]:
        return f"an upper bound: {baseline} never rose above chance"
    return f"an upper bound: the first checkpoint was above {baseline}'s best"


def _why_no_interval(values: Mapping[str, Any]) -> str:
    if values["seeds"] == 1:
        return "one seed has none"
    return "without one of the seeds, the two curves have no score in common"


def unmatched_flops(shown: Atlas) -> dict[str, float]:
    """Return by how much the FLOPs of architectures differ that are not matched, by name."""
    costs = shown.architectures.set_index("variant")["flops_per_token"]
    gaps = costs / costs[shown.baseline] - 1
    return {str(name): float(gap) for name, gap in gaps.items() if abs(gap) > MATCHED}


def _span(values: list[Any]) -> str:
    """Say the first and the last of sorted values; one value once."""
    first, last = values[0], values[-1]
    return str(first) if first == last else f"{first} to {last}"
