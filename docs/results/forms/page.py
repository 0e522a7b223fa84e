"""Write the tables of this page from the rows of its study.

python docs/results/forms/page.py [runs/forms/results.duckdb]

With a results file it writes `ratios.csv`, where `p` is that of one ratio, without a correction.
Then it makes the tables of `README.md` from the rows by SQL: the ratios, and the primary figures
with Holm's correction over the four, as the protocol says.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from sql_tables import between_marks, table  # noqa: E402  (in the folder of all pages)

ROWS = """
select
    variant, task, metric, ratio, ratios.low, ratios.high, p, score_low, score_high, at_least,
    reached, significant, within_checkpoint, seeds
from token_ratios as ratios
join (select variant, task, metric, baseline, p from internal.computed_ratios) as computed
    using (variant, task, metric, baseline)
order by task, metric, variant
"""
CELLS = """
with cells as (
    select
        variant,
        case when metric = 'accuracy' then task else 'loss' end as measure,
        case when significant then '**' else '' end as bold,
        bold || format('{:.2f} ({:.2f} to {:.2f})', ratio, low, high) || bold
        || case when reached then '' else ' †' end as cell
    from read_csv(?)
    where metric = 'accuracy' or task = 'validation'
)

select
    variant as model,
    max(cell) filter (measure = 'world_expressions') as "expressions (primary)",
    max(cell) filter (measure = 'world_recall') as recall,
    max(cell) filter (measure = 'average') as "average accuracy",
    max(cell) filter (measure = 'loss') as "held-out loss"
from cells
group by variant
order by variant
"""
PRIMARY = """
with tested as (
    select
        variant, ratio, low, high, p, within_checkpoint,
        count(*) over () + 1 - row_number() over (order by p) as times
    from read_csv(?)
    where task = 'world_expressions' and metric = 'accuracy'
)

select
    variant as model,
    format('{:.2f} ({:.2f} to {:.2f})', ratio, low, high) as "expressions",
    format('{:.2f}', p) as p,
    format('{:.2f}', least(1, max(times * p) over (order by p))) as "p after Holm",
    case when within_checkpoint then 'less than one checkpoint apart' else '' end as remark
from tested
order by p
"""


def main() -> None:
    """Write the rows, if a results file is given, and the tables."""
    if len(sys.argv) > 1:
        with closing(duckdb.connect(sys.argv[1], read_only=True)) as results:
            rows = results.execute(ROWS).df()
        rows.to_csv(HERE / "ratios.csv", index=False, float_format="%.6g")
    page = HERE / "README.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), HERE), encoding="utf-8")


def with_tables(page: str, folder: Path) -> str:
    """Return a page with the tables of a folder's rows between its marks."""
    tables = [table(CELLS, folder / "ratios.csv"), table(PRIMARY, folder / "ratios.csv")]
    return between_marks(page, tables)


if __name__ == "__main__":
    main()
