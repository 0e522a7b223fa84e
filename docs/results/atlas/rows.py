"""Write the rows of the atlas into the package, from the finished studies of a world.

    python docs/results/atlas/rows.py mixture runs/mixture-dense runs/mixture-experts ...

Give the folders or the results files of new studies: those that the package has already stay. A
variant whose trainings are not all complete is left out and named. `left_out.yaml` says what could
not be measured, and why. Afterwards `python docs/results/atlas/page.py` writes the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from dreamer_study.flows.atlas.bundled import WORLDS, results_file, worlds
from dreamer_study.flows.atlas.collecting import collect
from dreamer_study.flows.atlas.table import read_folder
from dreamer_study.pipeline.errors import InputError

LEFT_OUT = Path(__file__).parent / "left_out.yaml"
MOST_BYTES = 1_000_000  # of all worlds: the package stays small


def main(world: str, *studies: str) -> None:
    """Write the rows of a world."""
    results = [results_of(Path(study)) for study in studies]
    left_out = yaml.safe_load(LEFT_OUT.read_text(encoding="utf-8")).get(world) or {}
    reasons = [{"variant": name, "reason": reason} for name, reason in left_out.items()]
    kept = results_file(world) if world in worlds() else None
    remarks = collect(results, WORLDS / world, reasons, kept=kept)
    names = read_folder(WORLDS / world).architectures["variant"]
    print(f"{world}: {len(names)} architectures: {', '.join(names)}")
    for remark in remarks:
        print(remark)
    size = sum(file.stat().st_size for file in WORLDS.rglob("*") if file.is_file())
    print(f"{size:,} bytes of all worlds")
    if size > MOST_BYTES:
        raise SystemExit(f"the atlas is larger than {MOST_BYTES:,} bytes")


def results_of(study: Path) -> Path:
    """Return the results file of a study's folder, or the file itself."""
    return study / "results.duckdb" if study.is_dir() else study


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except InputError as error:
        raise SystemExit(f"rows.py: {error}") from None
