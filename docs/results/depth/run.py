"""Run the studies of depth, one for each world, and collect factors, rates and curves.

    python docs/results/depth/run.py FOLDER

The studies share a store. What is done is not done again, so the same command continues studies
that were stopped. After each study the files beside this one are written anew.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import vl_convert
import yaml

from dreamer_study.sql.results import query

HERE = Path(__file__).parent
WORLDS = {  # problems, and training tokens of each run and of each training of the search
    "expressions of up to 4": ({"families": ["expressions"]}, 1_200_000),
    "chain of two tables": ({"families": ["chain"]}, 1_200_000),
    "expressions of up to 6": ({"families": ["expressions"], "operations": 6}, 2_400_000),
    "chain of three tables": (
        {"families": ["chain"], "chain_tables": 3, "chain_pairs": 3},
        1_600_000,
    ),
}
QUERIES = {
    "factors": """
        select
            metric, task, variant, factor, low, high, covered, bound, bound_low, bound_high, seeds
        from mean_factors
        where variant <> 'LA' and task in ('average', 'validation')
        order by metric, task, variant
    """,
    "rates": """
        select variant, learning_rate, seed, loss, chosen
        from tuning
        order by variant, learning_rate, seed
    """,
    "curves": """
        select variant, seed, tokens, accuracy
        from token_accuracy
        where task = 'average'
        order by variant, seed, tokens
    """,
}


def run(world: str, folder: Path) -> Path:
    """Run the study of a world to its report; return the study's folder."""
    problems, tokens = WORLDS[world]
    study = yaml.safe_load((HERE / "study.yaml").read_text())
    name = world.replace(" ", "-")
    study |= {"name": name, "root": str(folder / name), "store": str(folder / "store")}
    study["data"]["world"] |= problems
    study["training"]["tokens"] = study["training"]["tune"]["tokens"] = tokens
    file = folder / f"{name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(study, sort_keys=False))
    subprocess.run(
        [sys.executable, "-m", "dreamer_study.flows.commands.cli", "run", file, "--plain"],
        check=True,
    )
    return folder / name


def collect(folders: dict[str, Path]) -> None:
    """Write the rows of all studies that are done, and their curves as a figure."""
    for name, text in QUERIES.items():
        by_world = {
            world: query(folder / "results.duckdb", text) for world, folder in folders.items()
        }
        rows = pd.concat(by_world, names=["world"]).reset_index("world").reset_index(drop=True)
        rows.to_csv(HERE / f"{name}.csv", index=False, float_format="%.4g")
        if name == "curves":
            (HERE / "curves.svg").write_text(vl_convert.vegalite_to_svg(figure(rows)))


def figure(curves: pd.DataFrame) -> dict:
    """Draw accuracy over training tokens in each world: the mean of the seeds, and each faintly."""
    # by the checkpoint's number, as the tokens of one checkpoint differ a little between seeds
    number = curves.groupby(["world", "variant", "seed"]).cumcount()
    means = curves.groupby(["world", "variant", number], as_index=False)[
        ["tokens", "accuracy"]
    ].mean()
    rows = pd.concat([curves, means.assign(seed=-1)])
    spec = {
        "mark": {"type": "line"},
        "width": 320,
        "height": 220,
        "encoding": {
            "x": {
                "field": "tokens",
                "type": "quantitative",
                "title": "training tokens",
                "axis": {"format": "~s"},
            },
            "y": {"field": "accuracy", "type": "quantitative", "scale": {"zero": False}},
            "color": {
                "field": "variant",
                "type": "nominal",
                "title": None,
                "sort": ["LA", "DR", "DR+DA"],
            },
            "detail": {"field": "seed"},
            "opacity": {"condition": {"test": "datum.seed < 0", "value": 1}, "value": 0.2},
            "strokeWidth": {"condition": {"test": "datum.seed < 0", "value": 3}, "value": 1},
        },
    }
    return {
        "data": {"values": rows.to_dict("records")},
        "facet": {"field": "world", "type": "nominal", "title": None, "sort": list(WORLDS)},
        "columns": 2,
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
        "spec": spec,
    }


if __name__ == "__main__":
    done = {}
    for world in WORLDS:
        done[world] = run(world, Path(sys.argv[1]).resolve())
        collect(done)
