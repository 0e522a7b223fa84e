"""Say where the numbers of tables come from: the view of each table, and the runs and versions behind a study."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.data import StudyData

# The view behind a table by the beginning of the table's name, and the view's column of the model's depth.
VIEWS = {
    "table-1": ("table_1", "depth"),
    "table-2": ("table_2", "depth"),
    "table-3": ("models", "depth"),
    "table-4": ("table_4", "depth"),
    "table-mean-factors": ("mean_factors", "depth"),
    "table-factors": ("data_efficiency", "depth"),
    "table-rules": ("data_efficiency", "depth"),
    "table-compute": ("compute_efficiency", "depth"),
    "table-curve": ("accuracy_curve", "depth"),
    "table-depths": ("depth_accuracy", "trained_depth"),
    "table-runs": ("runs JOIN model_runs USING (study_id, run_id)", "depth"),
    "table-experts": ("expert_gini", "model_depth"),
    "table-funnel-sources": ("funnel_by_source", "depth"),
    "table-funnel": ("funnel", "depth"),
    "table-benchmarks": ("token_accuracy", "depth"),
}
ANSWER = ("mean_factors", "depth")  # the view behind the sentences of the first screen


def view_of(table: str) -> tuple[str, str] | None:
    """Return the view behind a table and the view's column of the model's depth; None for a table of versions."""
    return next((view for name, view in VIEWS.items() if table.startswith(name)), None)


def origins(data: StudyData) -> dict[str, Any]:
    """Return what every number of the study comes from: its id, code, packages, and runs with their checkpoints."""
    written = data.checkpoints.groupby("run_id")["tokens"].agg(["size", "max"])
    runs = data.runs.merge(written, left_on="run_id", right_index=True, how="left")
    names = {"run_id": "run", "variant": "variant", "depth": "depth", "seed": "seed", "status": "status"}
    names |= {"size": "checkpoints", "max": "tokens"}
    chosen = runs[list(names)].rename(columns=names).astype(object)
    return {
        "study": data.study["study_id"],
        "code": data.study.get("code_version"),
        "packages": data.config.get("packages") or {},
        "runs": chosen.where(pd.notna(chosen), None).to_dict("records"),
    }
