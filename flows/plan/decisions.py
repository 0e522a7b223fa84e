"""What is decided once and stored: sizes, learning rates, seeds of a race, whether seeds suffice.

A decision is a small file in `store/decisions/`, named by a digest of all that decides it; the plan
reads it, and is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dreamer_study.flows.plan.model_plan import shown_name
from dreamer_study.flows.plan.sizes import Sizes
from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.model.training.search import (
    SETTINGS,
    best_settings,
    in_words,
    mean_losses,
    settings_of,
)
from dreamer_study.model.training.step_log import choose_seed
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.integrity import sealed
from dreamer_study.reports.text.numbers import counted, figure


def size_models(plan: Plan, *, trust_code: bool) -> None:
    """Size the models of the study, and store what only running their code has told."""
    answer = Sizes(plan.study, trust_code=trust_code)
    while sizing := plan.unsized:
        config, costs = answer(sizing)
        values = {"model": config.to_dict(), "resources": vars(costs)}
        _write_decision(plan.sizing(sizing), values)


def choose_settings(plan: Plan, search: list[Run]) -> None:
    """Choose each model's learning rate, weight decay and decay once its search has ended.

    A training has ended when it was evaluated or has failed. A model without settings at which
    every training ended well gets none, and is not trained; the others do not wait.
    """
    search_continues = len(plan.tuning_runs) > len(search)
    if not plan.search_ended(search) or search_continues:
        return
    rows = plan.searched(search)
    chosen = best_settings(rows)
    if not chosen:
        return
    for row in rows:
        row["chosen"] = chosen.get((row["variant"], row["depth"])) == settings_of(row)
    _write_decision(plan.rates_decision, {"rows": rows})
    _say_chosen(plan, rows)


def _say_chosen(plan: Plan, rows: list[dict[str, Any]]) -> None:
    """Write a line for each model: its settings, and the mean loss at each that was tried."""
    losses = mean_losses(rows)
    chosen = {(row["variant"], row["depth"]): row for row in rows if row["chosen"]}
    for (variant, depth), best in sorted(chosen.items()):
        names = plan.study.searched(variant)
        of_model = [row for row in rows if (row["variant"], row["depth"]) == (variant, depth)]
        tried = {settings_of(row): [row[name] for name in names] for row in of_model}
        grid = []
        for settings, values in sorted(tried.items()):
            mean = losses.get((variant, depth, settings))
            shown = " ".join(f"{value:g}" for value in values)
            grid.append(f"{shown} ({'failed' if mean is None else f'{mean:.4g}'})")
        edges = [name for name in names if _at_edge(best[name], [row[name] for row in of_model])]
        edge = ""
        if edges:
            which = "" if len(names) == 1 else " of " + ", ".join(map(SETTINGS.__getitem__, edges))
            edge = f", at the edge{which}: a better one may lie beyond"
        what = in_words({name: best[name] for name in names}).replace("rate", "learning rate", 1)
        name = shown_name(plan.study, variant, depth)
        write_line(f"{name}: {what}; mean losses: {', '.join(grid)}{edge}")


def _at_edge(value: float, tried: list[float]) -> bool:
    return value in (min(tried), max(tried))


def decide_race(plan: Plan, runs: Sequence[Run]) -> None:
    """Choose with which seed a model is trained to the end after a race: that of the lowest loss.

    A seed whose training has failed has lost. `finished` are the runs that have not failed: where
    one of these is gone, because it was damaged, the run is trained again, as its rows are.
    """
    finished = {run.seed: run.folder for run in runs if run.done}
    seed = choose_seed(finished, runs[0].goal)
    ended_well = [run.run_id for run in runs if run.done]
    values = {"seed": seed, "runs": [run.run_id for run in runs], "finished": ended_well}
    _write_decision(plan.decision(runs), values)


def decide_seeds(plan: Plan, high_over_low: float) -> bool:
    """Decide by the widest interval of average accuracy whether each model gets more seeds.

    `high_over_low` is its upper end over its lower end; NaN where the interval is not known, and
    then seeds are added too.
    """
    seeds = plan.look
    wanted = plan.study.training.seeds_until.high_over_low
    is_known = high_over_low == high_over_low
    is_narrow = is_known and high_over_low <= wanted
    _write_decision(plan.look_decision(seeds), {"go_on": not is_narrow, "seeds": seeds})
    width = figure(high_over_low) if is_known else "unknown"
    then = "enough" if is_narrow else f"{counted(plan.look, 'seed')} now"
    write_line(
        f"{counted(seeds, 'seed')}: high / low of the widest interval of average accuracy is"
        f" {width}, wanted {wanted:g}: {then}"
    )
    return not is_narrow


def _write_decision(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, sealed(values), shared=True)
