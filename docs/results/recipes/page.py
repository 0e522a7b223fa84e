"""Write the tables of this page from the rows of its studies.

python docs/results/recipes/page.py runs/recipes-{clean,copies,leaks,raw}

Compares the studies with the first one and writes `ratios.csv` and `leaks.csv`; then makes the
tables of `README.md` from these by SQL. Without studies it makes the tables alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import dreamer_study

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from sql_tables import between_marks, table  # noqa: E402  (in the folder of all pages)

RATIOS = """
select
    replace(study, 'recipes-', '') as study,
    case task when 'average' then metric else 'held-out loss' end as measure,
    case
        when ratio is null then 'no scores in common'
        else format('{:.3f} ({:.3f} to {:.3f})', ratio, low, high)
    end as "tokens over clean (95 % CI)",
    case when significant then 'yes' else 'no' end as significant,
    case when detectable is null then '' else format('{:.2f}', detectable) end as "can detect",
    seeds
from read_csv(?)
where task in ('average', 'validation')
order by study, metric, task
"""
LEAKS = """
select
    replace(study, 'recipes-', '') as study,
    case items when 'every' then 'all' else items end as items,
    number,
    format('{:.1f} %', 100 * "first") as clean,
    format('{:.1f} %', 100 * second) as "with leaks",
    format('{:+.1f} ({:+.1f} to {:+.1f})', 100 * difference, 100 * low, 100 * high)
        as "too high by (95 % CI)"
from read_csv(?)
where task = 'all'
order by study, number
"""


def main() -> None:
    """Write the rows, where studies are named, and the tables."""
    if studies := sys.argv[1:]:
        write_rows(studies)
    page = HERE / "README.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), HERE), encoding="utf-8")


def write_rows(studies: list[str]) -> None:
    """Compare studies with the first one, and write the rows."""
    found = dreamer_study.compare_tokens(*studies)
    found.ratios.to_csv(HERE / "ratios.csv", index=False)
    found.leaks.to_csv(HERE / "leaks.csv", index=False)
    for note in found.notes:
        print(note)


def with_tables(page: str, folder: Path) -> str:
    """Return a page with the tables of a folder's rows between its marks."""
    tables = [table(RATIOS, folder / "ratios.csv"), table(LEAKS, folder / "leaks.csv")]
    return between_marks(page, tables)


if __name__ == "__main__":
    main()
