"""Tell where the numbers of a page come from: queries, runs with their checkpoints, and versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from reports.data import UNKNOWN_DEPTH, StudyData
from reports.page.packing import packed_json
from reports.tables.origins import Origin
from sql.names import BASELINE

SEPARATOR = " · "  # between a name and the study's label, where a page shows several studies
NAMES = ("variant", "run_id")  # columns of such names
# Views about the data or the study file, so about no run.
OF_NO_RUN = ("curation", "funnel", "funnel_by_source", "studies", "table_4")
# Views about every run of a model. Without a key `run_id`, all other views have numbers of curves, in which screened
# and failed runs do not count.
OF_EVERY_RUN = ("models", "table_1", "depth_accuracy", "token_accuracy", "token_loss", "token_perplexity")


def with_label(name: str, label: str) -> str:
    """Put the label of a study behind the name of one of its variants or runs."""
    return f"{name}{SEPARATOR}{label}"


class Tracer:
    """Number the origins of a page's numbers while the page is written, for `packed` at its end.

    `studies` are those of the page by the `study_id` of its rows, which is a label where a page shows several.
    """

    def __init__(self, studies: Mapping[str, StudyData]) -> None:
        self._studies, self._places = studies, list(studies)
        self._runs = {label: _runs(data) for label, data in studies.items()}
        self._counted = {label: frozenset(data.counted["run_id"]) for label, data in studies.items()}
        self._found: list[list[Any]] = []

    def number(self, origins: tuple[Origin, ...]) -> int:
        """Note the origins of a number; returns their place among all origins of the page."""
        self._found.append([self._told(origin) for origin in origins])
        return len(self._found) - 1

    def answer(self, views: Sequence[str]) -> int:
        """Note the origin of the answer: the rows that these views have of every study."""
        return self.number(tuple(Origin("*", view, {"study_id": label}) for label in self._places for view in views))

    def packed(self) -> str:
        """Pack the origins and what every number of a study comes from: code, packages, and runs with checkpoints."""
        known = [
            {
                "name": label,
                "code": data.study.get("code_version"),
                "packages": data.config.get("packages") or {},
                "runs": self._runs[label],
            }
            for label, data in self._studies.items()
        ]
        return packed_json({"studies": known, "numbers": self._found})

    def _told(self, origin: Origin) -> dict[str, Any]:
        """Return study, query, and the places of the runs, and, if there are any, a note and a checkpoint's tokens."""
        label, tokens = origin.study, origin.keys.get("tokens")
        named = {name: value for name, value in origin.keys.items() if name in NAMES and isinstance(value, str)}
        shown = {name: value.removesuffix(SEPARATOR + label) for name, value in named.items()}
        keys = {**origin.keys, **shown, "study_id": self._studies[label].study["study_id"]}
        every = "run_id" in keys or origin.view in OF_EVERY_RUN
        runs = [
            place
            for place, run in enumerate(self._runs[label])
            if _is_of(run, keys, origin) and (every or run["run"] in self._counted[label])
        ]
        found = {"study": self._places.index(label), "query": origin.query(keys), "runs": runs}
        found |= {"note": origin.note} if origin.note else {}
        return found if tokens is None else {**found, "tokens": int(tokens)}


def _is_of(run: Mapping[str, Any], keys: Mapping[str, Any], origin: Origin) -> bool:
    """Tell whether a number comes from a run: the named one, or one of the model, or of the model's baseline."""
    if "run_id" in keys:
        return run["run"] == keys["run_id"]
    if origin.view in OF_NO_RUN:
        return False
    against = "factor" in origin.view + origin.columns or "efficiency" in origin.view + origin.columns
    variants = (keys.get("variant"), BASELINE) if against else (keys.get("variant"),)
    depth = "trained_depth" if "trained_depth" in keys else "depth"
    of_depth = depth not in keys or run["depth"] == _known(keys[depth])
    of_model = "model_id" not in keys or run["model"] == keys["model_id"]
    return of_depth and of_model and ("variant" not in keys or run["variant"] in variants)


def _runs(data: StudyData) -> list[dict[str, Any]]:
    """Return the runs of a study, each with the tokens of its checkpoints."""
    written = data.checkpoints.groupby("run_id")["tokens"].agg(sorted).to_dict()
    names = {"run_id": "run", "model_id": "model"} | {name: name for name in ("variant", "depth", "seed", "status")}
    listed = data.runs.sort_values(["depth", "variant", "seed", "run_id"])
    chosen = listed[list(names)].rename(columns=names).astype(object)
    rows = chosen.where(pd.notna(chosen), None).to_dict("records")
    return [
        {**row, "depth": _known(row["depth"]), "checkpoints": [int(tokens) for tokens in written.get(row["run"], ())]}
        for row in rows
    ]


def _known(depth: int) -> int | None:
    return None if depth == UNKNOWN_DEPTH else depth
