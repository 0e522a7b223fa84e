"""Write the tables and figures of the atlas's page from the rows of the package.

    python docs/results/atlas/page.py

In README.md the tables stand between marks, one pair for each; the text around them is written by
hand.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import yaml

from dreamer_study.flows.atlas.bundled import results_file, worlds
from dreamer_study.flows.atlas.table import Ability, Atlas, read_atlas, table
from dreamer_study.flows.commands.results.atlas import best_cell, ratio_cell, unmatched_flops
from dreamer_study.reports.figures.ability_map import ability_map
from dreamer_study.reports.figures.forest import forest
from dreamer_study.reports.figures.rendering import Figure, save
from dreamer_study.reports.text.numbers import span
from dreamer_study.sql.results import query

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
from claims import CLAIMS, judge  # noqa: E402  (beside this file)

PAGE = FOLDER / "README.md"
PAPERS = FOLDER / "papers.yaml"
OPERATIONS = FOLDER / "operations.csv"
AT_THE_END = """
    select variant, item_id, value
    from items
    join runs using (run_id)
    join models using (study_id, model_id)
    where task = 'world_expressions'
    qualify items.tokens = max(items.tokens) over (partition by run_id)
"""
UNMATCHED = "‡"
END = "<!-- end of the table -->\n"
MIXTURE = "mixture"  # the world that has all architectures
KINDS = {  # of the architectures of a study of the mixture
    "mixture-dense": "dense attention",
    "mixture-experts": "mixture of experts",
    "mixture-depth": "recurrent in depth",
    "mixture-time": "recurrent in time",
    "mixture-hybrids": "hybrid",
}
OWN_KINDS = {  # of those whose study has several kinds
    "Mamba": "recurrent in time",
    "Jamba": "hybrid",
    "Llama-1": "dense attention",
    "Mamba-1": "recurrent in time",
}


def main() -> None:
    """Write the tables into the page, and the figures beside it."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for world in worlds():
        for name, drawn in figures(read_atlas(world)):
            save(drawn, FOLDER / name)
            print(FOLDER / name)


def with_tables(text: str) -> str:
    """Return a text with all tables between their marks."""
    for world in worlds():
        atlas = read_atlas(world)
        text = with_table(text, f"{world}: architectures", architectures(atlas))
        text = with_table(text, f"{world}: origins", origins(atlas))
        text = with_table(text, f"{world}: figures", images(atlas))
    text = with_table(text, "operations", operations())
    return with_table(text, "claims", claims())


def with_table(text: str, name: str, lines: Iterator[str]) -> str:
    """Put lines between the marks of a table, in a text that has these marks."""
    begin = f"<!-- {name}, by docs/results/atlas/page.py -->\n"
    if begin not in text:
        return text
    before, rest = text.split(begin)
    return before + begin + "".join(lines) + END + rest.split(END, 1)[1]


def operations() -> Iterator[str]:
    """Yield the table of accuracies on expressions of one operation, of two, and so on.

    They are of the last checkpoint, the mean over seeds; the best architecture comes first.
    """
    items = pd.read_csv(OPERATIONS)
    answers = query(results_file(MIXTURE), AT_THE_END).merge(items, on="item_id")
    accuracies = answers.pivot_table(index="variant", columns="operations", values="value")
    accuracies["new"] = answers[~answers["in_training"]].groupby("variant")["value"].mean()
    accuracies["all"] = answers.groupby("variant")["value"].mean()
    counts = items["operations"].value_counts().sort_index()
    new = int((~items["in_training"]).sum())
    heads = [f"{number} operations ({count})" for number, count in counts.items()]
    heads[0] = heads[0].replace("operations", "operation")
    yield line(["architecture", *heads, f"not in training ({new})", f"all ({len(items)})"])
    yield line(["---"] * (len(heads) + 3))
    for variant, row in accuracies.sort_values("all", ascending=False).iterrows():
        yield line([str(variant), *(f"{100 * accuracy:.0f} %" for accuracy in row)])


def claims() -> Iterator[str]:
    """Yield the table of the claims, with what the rows say about each."""
    yield line(["#", "claim", "source", "verdict", "numbers"])
    yield line(["---"] * 5)
    for place, claim in enumerate(CLAIMS, start=1):
        links = ", ".join(paper_link(paper) for paper in claim.papers)
        judged = judge(claim)
        yield line([str(place), claim.text, links, judged.verdict, judged.numbers])


def figures(atlas: Atlas) -> Iterator[tuple[str, Figure]]:
    """Yield the name of the file of each figure, and the figure."""
    for ability in atlas.abilities:
        drawn = forest(atlas.ratios, ability.task, ability.metric)
        if drawn:
            yield f"{atlas.world}-{ability.name}.svg", drawn
    drawn = ability_map(atlas.ratios)
    if drawn:
        yield f"{atlas.world}-map.svg", drawn


def images(atlas: Atlas) -> Iterator[str]:
    """Yield the lines that show the figures, the map first."""
    for name, drawn in reversed(list(figures(atlas))):
        yield f"\n![{drawn.title}]({name})\n"
    yield "\n"


def architectures(atlas: Atlas) -> Iterator[str]:
    """Yield the table of architectures: ratios, best accuracies, parameters."""
    measures = [measure.name for measure in atlas.measures]
    bests = [f"best {ability.name}" for ability in atlas.abilities]
    kinds = kinds_of_architectures()
    heads = ["architecture", "kind", *measures, *bests, "parameters"]
    yield line(heads)
    yield line(["---"] * len(heads))
    for row in table(atlas).to_dict("records"):
        yield line(
            [
                row["variant"],
                kinds.get(row["variant"], ""),
                *(with_scores(measure, row, atlas) for measure in atlas.measures),
                *(best_cell(ability, row) for ability in atlas.abilities),
                f"{row['parameters']:,}",
            ]
        )


def with_scores(measure: Ability, row: Mapping[str, Any], atlas: Atlas) -> str:
    """Format a ratio, with the scores that it is about where these end below the baseline's best.

    Example: `2.42x (1.36 to 4.31) † at 47 to 52 %`.
    """
    text = ratio_cell(measure, row)
    low, high = row[f"{measure.name}_score_low"], row[f"{measure.name}_score_high"]
    best_of_baseline = atlas.rows_of(measure)["baseline_best"].max()
    if pd.isna(high) or math.isclose(high, best_of_baseline) or measure.metric == "loss":
        return text
    return f"{text} at {span(low, high, measure.metric)}"


def origins(atlas: Atlas) -> Iterator[str]:
    """Yield the table of how each row was trained and where, and the one of what has no row."""
    costs = atlas.architectures.set_index("variant")["flops_per_token"]
    unmatched = unmatched_flops(atlas)
    flops = f"FLOPs a token over {atlas.baseline}’s"
    settings = ["size found", flops, "learning rate", "tried"]
    heads = ["architecture", "paper", "code", *settings, "study", "measured"]
    yield line(heads)
    yield line(["---"] * len(heads))
    rows = atlas.architectures.sort_values(["study", "variant"])
    for row in rows.to_dict("records"):
        gap = row["flops_per_token"] / costs[atlas.baseline] - 1
        apart = f" {UNMATCHED}" if row["variant"] in unmatched else ""
        rate = f"{row['learning_rate']:g}"
        study = study_name(row["study"])
        yield line(
            [
                row["variant"],
                paper_link(paper_of(row["variant"])),
                code_of(row["configuration"]),
                row["searched"],
                f"{gap:+.1%}{apart}",
                rate if row["rate_inside"] else f"{rate} (edge)",
                row["rates_tried"],
                f"[{study}](studies/{study}.yaml)",
                f"{row['made']}, version {row['version']}, {row['device']}",
            ]
        )
    for row in atlas.left_out.to_dict("records"):
        reason = f"not measured: {row['reason']}"
        yield line([row["variant"], reason, *[""] * (len(heads) - 2)])
    if unmatched:
        yield f"\n{UNMATCHED} marks FLOPs that are not within 2 % of {atlas.baseline}’s.\n"
    if not atlas.architectures["rate_inside"].all():
        yield "\n(edge) marks a learning rate at the edge of those tried.\n"


def paper_of(variant: str) -> str:
    """Return where an architecture was published."""
    papers = yaml.safe_load(PAPERS.read_text(encoding="utf-8"))
    if variant not in papers:
        raise SystemExit(f"{PAPERS}: add where {variant} was published")
    return papers[variant]


def paper_link(paper: str) -> str:
    """Link to a paper by its number at arXiv, or to an address by the name of its host."""
    if paper.startswith("https://"):
        return f"[{urlsplit(paper).netloc}]({paper})"
    return f"[{paper}](https://arxiv.org/abs/{paper})"


def code_of(configuration: str) -> str:
    """Name the code of an architecture: a model type of transformers, a file, or our own."""
    written = yaml.safe_load(configuration)
    if "transformers" in written:
        return f"transformers `{written['transformers']}`"
    if "module" in written:
        return "[own.py](studies/own.py)"
    return "this project"


def study_name(study: str) -> str:
    """Return a study's name without its digest: `mixture-dense` of `mixture-dense-3132d9b0`."""
    return study.rpartition("-")[0]


def kinds_of_architectures() -> dict[str, str]:
    """Return the kind of each architecture: that of its study of the mixture, or its own."""
    rows = read_atlas(MIXTURE).architectures
    of_studies = {
        row["variant"]: KINDS.get(study_name(row["study"]), "") for row in rows.to_dict("records")
    }
    return {**of_studies, **OWN_KINDS}


def line(cells: list[str]) -> str:
    """Write a line of a table."""
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
