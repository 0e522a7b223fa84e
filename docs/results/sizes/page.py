"""Write the tables of this page from the rows of its five studies, and judge by the protocol.

python docs/results/sizes/page.py [runs/sizes-64 runs/sizes-96 runs/sizes-128 runs/sizes-96-carried
    runs/sizes-128-carried]

With the folders of the studies it writes four files of rows. Then it makes the tables of
`README.md` from these by SQL, and prints what the protocol concludes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import dreamer_study

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from sql_tables import MEASURE, between_marks, table  # noqa: E402  (in the folder of all pages)

WIDTHS = (64, 96, 128)
SEARCHED = "searched at each width"
CARRIED = "carried from width 64"
CARRIED_RATE = 1e-3
SIGNIFICANCE = 0.05
FILES = ("ratios.csv", "trends.csv", "settings.csv", "differences.csv")
RATES = """
with grid as (
    select variant, list(distinct learning_rate order by learning_rate) as rates
    from tuning
    group by variant
)

select distinct variant, learning_rate, rates
from tuning
join grid using (variant)
where chosen
order by variant
"""
BESTS = """
select variant, task, best
from internal.measured_curves
where metric = 'accuracy' and task in ('average', 'world_expressions', 'world_recall')
order by variant, task
"""
BY_WIDTH = """
with cells as (
    select
        size, rates, flops_per_token,
        case
            when bound is null then format('{:.2f} ({:.2f} to {:.2f})', ratio, low, high)
            else bound || format(' {:.2f}', value)
        end
        || case when reached then '' else ' †' end as cell
    from read_csv(?)
    where task = 'average' and metric = 'accuracy'
)

select
    size as width,
    format('{:,}', max(flops_per_token)::bigint) as "FLOPs a token of LA",
    max(cell) filter (rates = 'searched at each width') as "DR, rates searched at each width",
    max(cell) filter (rates = 'carried from width 64') as "DR, rates carried from width 64"
from cells
group by size
order by size
"""
TRENDS = """
select
    MEASURE as measure,
    rates,
    format('{:.2f} ({:.2f} to {:.2f})', per_tenfold, per_tenfold_low, per_tenfold_high)
    as "factor for ten times the FLOPs",
    format('{:.2f}', p) as "p of no change",
    format('{:.2f}', p_of_line) as "p of a straight line"
from read_csv(?)
order by measure, rates desc
""".replace("MEASURE", MEASURE)
SETTINGS = """
select
    width, variant as model, rates, learning_rate as "learning rate", tried as "rates tried",
    format('{:.1f} %', 100 * expressions) as "best on expressions",
    format('{:.1f} %', 100 * recall) as "best on recall"
from read_csv(?)
order by width, model, rates desc
"""


def main() -> None:
    """Write the rows, where studies are named, and the tables; print the verdicts."""
    if studies := sys.argv[1:]:
        write_rows(studies)
    page = HERE / "README.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), HERE), encoding="utf-8")
    rows = {name: pd.read_csv(HERE / name) for name in FILES}
    print(of_trend(rows["trends.csv"]))
    print(of_carrying(rows["ratios.csv"], rows["settings.csv"], rows["differences.csv"]))


def write_rows(folders: list[str]) -> None:
    """Write the rows of the studies: those of `WIDTHS`, then those with carried rates."""
    studies = [dreamer_study.results(folder) for folder in folders]
    searched = dict(zip(WIDTHS, studies[:3], strict=True))
    carried = dict(zip(WIDTHS[1:], studies[3:], strict=True))
    lines = {SEARCHED: searched, CARRIED: {**searched, **carried}}
    ratios = []
    trends = []
    for rates, of_width in lines.items():
        sizes = dreamer_study.compare_sizes(*of_width.values(), over="hidden_size")
        ratios.append(sizes.ratios.assign(rates=rates))
        trends.append(sizes.trends.assign(rates=rates))
        for note in sizes.notes:
            print(f"{rates}: {note}")
    settings = []
    for width, study in searched.items():
        settings.append(_settings(study, width, SEARCHED))
    for width, study in carried.items():
        settings.append(_settings(study, width, CARRIED))
    differences = []
    for width, study in carried.items():
        compared = dreamer_study.compare(searched[width], study).accuracies
        is_best = compared["checkpoint"] == "best"
        differences.append(compared[is_best].assign(width=width))
    written = (ratios, trends, settings, differences)
    for name, frames in zip(FILES, written, strict=True):
        pd.concat(frames).to_csv(HERE / name, index=False, float_format="%.8g")


def _settings(study: dreamer_study.Results, width: int, rates: str) -> pd.DataFrame:
    """List the learning rate of each model of a study, the rates tried, and its best scores."""
    by_model = study.sql(BESTS).pivot(index="variant", columns="task", values="best")
    found = by_model.rename(columns=lambda task: task.removeprefix("world_")).reset_index()
    if rates == CARRIED:
        return found.assign(width=width, rates=rates, learning_rate=CARRIED_RATE, tried="none")
    chosen = study.sql(RATES)
    tried = [", ".join(f"{rate:g}" for rate in grid) for grid in chosen.pop("rates")]
    return found.merge(chosen.assign(tried=tried), on="variant").assign(width=width, rates=rates)


def with_tables(page: str, folder: Path) -> str:
    """Return a page with the tables of a folder's rows between its marks."""
    files = ("ratios.csv", "trends.csv", "settings.csv")
    queries = zip((BY_WIDTH, TRENDS, SETTINGS), files, strict=True)
    return between_marks(page, [table(query, folder / name) for query, name in queries])


def of_trend(trends: pd.DataFrame) -> str:
    """Say whether DR's ratio changes with the width, by the protocol's primary rule."""
    is_primary = (
        (trends["rates"] == SEARCHED)
        & (trends["task"] == "average")
        & (trends["metric"] == "accuracy")
    )
    (row,) = trends[is_primary].to_dict("records")
    low = row["per_tenfold_low"]
    high = row["per_tenfold_high"]
    factor = f"{row['per_tenfold']:.2f} times for ten times the FLOPs ({low:.2f} to {high:.2f})"
    if row["p_of_line"] < SIGNIFICANCE:
        return f"No slope is concluded, as the ratios do not lie on a line: {factor}."
    if low > 1:
        return f"DR's ratio grows with width: {factor}."
    if high < 1:
        return f"DR's ratio falls with width: {factor}."
    return f"A change with width cannot be told: {factor}."


def of_carrying(ratios: pd.DataFrame, settings: pd.DataFrame, differences: pd.DataFrame) -> str:
    """Say whether the rates carry, by the protocol's rule and its addendum.

    `differences` are carried minus searched.
    """
    beyond_noise = differences["adjusted_p"] < SIGNIFICANCE
    if (beyond_noise & (differences["difference"] < 0)).any():
        return "The rates do not carry: a best accuracy is lower by more than noise."
    searched = settings[settings["rates"] == SEARCHED]
    if (searched["learning_rate"] == CARRIED_RATE).all():
        return "The rates carry: the search chose the rate of width 64 at each width."
    is_primary = (ratios["task"] == "average") & (ratios["metric"] == "accuracy")
    by_width = ratios[is_primary & (ratios["size"] > WIDTHS[0])].pivot(
        index="size", columns="rates", values=["low", "high"]
    )
    lowest_high = by_width["high"].min(axis=1, skipna=False)
    highest_low = by_width["low"].max(axis=1, skipna=False)
    if (highest_low <= lowest_high).all() and not beyond_noise.any():
        return "The rates carry: no ratio and no best accuracy differs by more than noise."
    return "Whether the rates carry is open."


if __name__ == "__main__":
    main()
