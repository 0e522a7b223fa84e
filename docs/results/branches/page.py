"""Write the tables of this page from the rows of its three studies.

python docs/results/branches/page.py [runs/branches-averaged runs/branches-raw runs/branches]

With the folders of the studies it writes `ratios.csv` and `noise.csv`. Then it makes the tables of
`README.md` from the rows by SQL, and judges by the rules of the protocol.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import pandas as pd

import dreamer_study

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from sql_tables import MEASURE, between_marks, table  # noqa: E402  (in the folder of all pages)

WEIGHTS = ("averaged", "raw", "branches")
BASELINE = "LA"
ROWS = """
select
    ratios.variant, task, metric, ratio, low, high, score_low, score_high, at_least, reached,
    significant, within_checkpoint, ratios.seeds, own.best, baseline.best as baseline_best
from token_ratios as ratios
join internal.measured_curves as own using (study_id, depth, variant, task, metric)
join internal.measured_curves as baseline
    on (baseline.study_id, baseline.depth, baseline.variant, baseline.task, baseline.metric)
    = (ratios.study_id, ratios.depth, ratios.baseline, ratios.task, ratios.metric)
order by task, metric, ratios.variant
"""
NOISE = "select task, metric, seed_deviation, item_error from study_noise order by task, metric"
PRIMARY = """
with cells as (
    select
        weights, variant,
        format('{:.2f} ({:.2f} to {:.2f})', ratio, low, high)
        || case when reached then '' else ' †' end as cell
    from read_csv(?)
    where task = 'average' and metric = 'accuracy'
)

select
    weights as "evaluated weights",
    max(cell) filter (variant = 'DR') as DR,
    max(cell) filter (variant = 'DR+DA') as "DR+DA"
from cells
group by weights
order by weights = 'branches', weights = 'raw'
"""
SECONDARY = """
with measured as (
    select
        weights, variant, best, baseline_best, metric,
        MEASURE as measure,
        format('{:.2f} ({:.2f} to {:.2f})', ratio, low, high)
        || case when reached then '' else ' †' end as cell
    from read_csv(?)
    where task in ('average', 'validation')
)

select
    measure, weights as "evaluated weights",
    max(cell) filter (variant = 'DR') as DR,
    max(cell) filter (variant = 'DR+DA') as "DR+DA",
    format('{:.3f}', max(baseline_best)) as "best of LA",
    format('{:.3f}', max(best) filter (variant = 'DR')) as "of DR",
    format('{:.3f}', max(best) filter (variant = 'DR+DA')) as "of DR+DA"
from measured
group by measure, weights
order by measure, weights = 'branches', weights = 'raw'
""".replace("MEASURE", MEASURE)
SEEDS = """
select
    MEASURE as measure,
    format('{:.2f}', exp(max(seed_deviation) filter (weights = 'averaged'))) as averaged,
    format('{:.2f}', exp(max(seed_deviation) filter (weights = 'raw'))) as raw,
    format('{:.2f}', exp(max(seed_deviation) filter (weights = 'branches'))) as branches
from read_csv(?)
where task in ('average', 'validation')
group by measure
order by measure
""".replace("MEASURE", MEASURE)


def main() -> None:
    """Write the rows, where studies are named, and the tables; print the verdicts."""
    if studies := sys.argv[1:]:
        write_rows(studies)
    page = HERE / "README.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), HERE), encoding="utf-8")
    for sentence in verdicts(pd.read_csv(HERE / "ratios.csv")):
        print(sentence)


def write_rows(studies: list[str]) -> None:
    """Write the rows of the three studies, in the order of `WEIGHTS`."""
    for query, name in ((ROWS, "ratios.csv"), (NOISE, "noise.csv")):
        frames = [
            dreamer_study.results(study).sql(query).assign(weights=weights)
            for weights, study in zip(WEIGHTS, studies, strict=True)
        ]
        pd.concat(frames).to_csv(HERE / name, index=False, float_format="%.6g")


def with_tables(page: str, folder: Path) -> str:
    """Return a page with the tables of a folder's rows between its marks."""
    ratios = folder / "ratios.csv"
    tables = [table(PRIMARY, ratios), table(SECONDARY, ratios), table(SEEDS, folder / "noise.csv")]
    return between_marks(page, tables)


def verdicts(ratios: pd.DataFrame) -> list[str]:
    """Judge by the protocol: is the order of the models the same, and are the ratios?"""
    is_primary = (ratios["task"] == "average") & (ratios["metric"] == "accuracy")
    primary = ratios[is_primary].set_index(["variant", "weights"])
    sentences = [f"The order {of_orders(primary)}."]
    for variant in primary.index.unique("variant"):
        for first, second in combinations(WEIGHTS, 2):
            if are_different(primary.loc[variant, first], primary.loc[variant, second]):
                sentences.append(f"{first} and {second} give different ratios of {variant}.")
    return sentences


def of_orders(primary: pd.DataFrame) -> str:
    """Say how the orders of the models by each kind of weights compare."""
    orders = set()
    for weights in WEIGHTS:
        ratios = primary.xs(weights, level="weights")["ratio"].to_dict()
        orders.add(tuple(sorted([BASELINE, *ratios], key={BASELINE: 1.0, **ratios}.__getitem__)))
    if len(orders) == 1:
        (order,) = orders
        return f"is the same: {', '.join(order)}"
    for variant in primary.index.unique("variant"):
        rows = primary.loc[variant]
        if (rows["high"] < 1).any() and (rows["low"] > 1).any():
            return f"differs: {variant} lies on either side of 1"
    return "cannot be distinguished"


def are_different(first: pd.Series, second: pd.Series) -> bool:
    """Tell whether neither interval holds the other's ratio."""
    holds_second = first["low"] <= second["ratio"] <= first["high"]
    holds_first = second["low"] <= first["ratio"] <= second["high"]
    return not holds_second and not holds_first


if __name__ == "__main__":
    main()
