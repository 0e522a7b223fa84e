"""Run a study of pairs in parts over one store, and count how often the intervals are right.

    python docs/results/twins/run.py docs/results/twins/slow.yaml FOLDER

Every B is A's twin, the model of the same number with other seeds, and every S is A at a quarter of
the learning rate. A part has the models of four numbers: else the ratios of every two of ninety
models would be computed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import yaml

from dreamer_study.sql.results import query

KINDS = {"B": "twin", "S": "slow"}
MEASURES = {
    ("loss", "validation"): "held-out documents",
    ("loss", "average"): "right answers",
    ("accuracy", "average"): "accuracy",
}
COLUMNS = ["kind", "variant", "metric", "task", "ratio", "low", "high", "at_least", "reached"]


def ratios(study: dict, models: dict[str, dict], place: Path, store: Path) -> pd.DataFrame:
    """Run the study with these models alone; return each model's ratio against its A."""
    part = {**study, "name": place.name, "root": str(place), "store": str(store)}
    part["models"] = {**study["models"], "variants": list(models.values())}
    file = place.with_suffix(".yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(part))
    command = [
        sys.executable,
        "-m",
        "dreamer_study.flows.commands.cli",
        "run",
        file,
        "--plain",
        "--until",
        "evaluate",
    ]
    subprocess.run(command, check=True)
    return pd.concat(
        query(
            place / "results.duckdb",
            f"from token_ratios_against('A{name[1:]}') where variant = '{name}'",
        )
        for name in models
        if name[0] in KINDS
    )


def main(file: Path, folder: Path) -> None:
    """Run the parts of a study, write the ratios beside its file, and print the counts."""
    study = yaml.safe_load(file.read_text())
    models = {variant["name"]: variant for variant in study["models"]["variants"]}
    numbers = sorted({int(name[1:]) for name in models})
    parts = []
    for first in numbers[::4]:
        of_part = range(first, first + 4)
        part = {name: model for name, model in models.items() if int(name[1:]) in of_part}
        parts.append(ratios(study, part, folder / f"{study['name']}-{first}", folder / "store"))
    rows = pd.concat(parts)
    rows = rows.assign(kind=rows["variant"].str[0].map(KINDS))[COLUMNS]
    rows.to_csv(file.with_suffix(".csv"), index=False, float_format="%.4g")
    for (metric, task), measure in MEASURES.items():
        is_measured = rows["low"].notna() & rows["high"].notna()
        own = rows[(rows["metric"] == metric) & (rows["task"] == task) & is_measured]
        holds = (own["low"] <= 1) & (own["high"] >= 1)
        for kind, held in holds.groupby(own["kind"]):
            print(f"{measure}: {held.sum()} of {len(held)} intervals of {kind} models hold 1")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
