"""Run the study of twins in ten parts over one store, and count how often the intervals are right.

    python docs/results/twins/run.py FOLDER

A part has four pairs of twins and one slow model: else the factors of every two of ninety models would be computed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import yaml

from sql.results import query

MEASURES = {
    ("loss", "validation"): "held-out documents",
    ("loss", "average"): "right answers",
    ("accuracy", "average"): "accuracy",
}


def part(study: dict, number: int, folder: Path) -> dict:
    """Return the study of one part: pairs 4 k + 1 to 4 k + 4, and S k + 1 beside its A."""
    pairs = range(4 * number + 1, 4 * number + 5)
    slow = number + 1
    names = [f"{letter}{pair}" for pair in pairs for letter in "AB"] + [f"S{slow}"] + [f"A{slow}"] * (slow not in pairs)
    variants = [one for one in study["models"]["variants"] if one["name"] in names]
    return {
        **study,
        "name": f"twins-{number}",
        "root": str(folder / str(number)),
        "store": str(folder / "store"),
        "models": {**study["models"], "variants": variants},
    }


def main(folder: Path) -> None:
    study = yaml.safe_load(Path(__file__).with_name("study.yaml").read_text())
    found = []
    for number in range(10):
        file = folder / f"part-{number}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(part(study, number, folder)))
        subprocess.run(
            [sys.executable, "-m", "flows.commands.cli", "run", file, "--plain", "--until", "evaluate"], check=True
        )
        pairs = [("twin", f"A{n}", f"B{n}") for n in range(4 * number + 1, 4 * number + 5)]
        for kind, one, other in (*pairs, ("slow", f"A{number + 1}", f"S{number + 1}")):
            rows = query(
                folder / str(number) / "results.duckdb", f"from mean_factors_against('{one}') where variant = '{other}'"
            )
            found.append(rows.assign(kind=kind))
    rows = pd.concat(found)[
        ["kind", "variant", "metric", "task", "factor", "low", "high", "covered", "bound", "bound_low", "bound_high"]
    ]
    rows.to_csv(Path(__file__).with_name("factors.csv"), index=False, float_format="%.4g")
    for (metric, task), words in MEASURES.items():
        own = rows[(rows["metric"] == metric) & (rows["task"] == task)]
        holds = (own["low"] <= 1) & (own["high"] >= 1)
        twins, slow = (own["kind"] == kind for kind in ("twin", "slow"))
        right = f"{holds[twins].sum()} of {twins.sum()} twins hold 1"
        print(f"{words}: {right}; {(~holds[slow]).sum()} of {slow.sum()} slow ones do not")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
