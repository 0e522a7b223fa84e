"""The rows a report is made of: what the views and tables of a results file hold about one study, read once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pandas as pd

from pipeline.errors import InputError
from reports.theme import BASELINE
from reports.words import missing
from sql.results import connect

UNKNOWN_DEPTH = -1  # stands for a null depth: results entered from elsewhere may lack the model's row
MODEL = ["depth", "variant", "task"]
LAST_CHECKPOINT = "qualify tokens = max(tokens) over (partition by run_id)"
# What is read, by the name of the field of `Rows`; the study's id is the only parameter.
SOURCES = {
    "efficiency": "from data_efficiency where study_id = ?",
    "interpolated": "from data_efficiency_interpolated where study_id = ?",
    "intervals": "from factor_intervals where study_id = ?",
    "compute": "from compute_efficiency where study_id = ?",
    "averaged": "select task from chosen_metric where study_id = ? and averaged",
    "best": "from best_accuracy where study_id = ?",
    "curve": "from accuracy_curve where study_id = ?",
    "accuracy": "from token_accuracy where study_id = ?",
    "perplexity": "from token_perplexity where study_id = ?",
    "resources": "from table_1 where study_id = ?",
    "results": "from table_2 where study_id = ?",
    "funnel": "from funnel where study_id = ?",
    "funnel_by_source": "from funnel_by_source where study_id = ?",
    "curation": "from curation where study_id = ?",
    "runs": "select r.*, m.variant, m.depth from runs r join model_runs m using (study_id, run_id) where study_id = ?",
    "steps": "select variant, depth, status, s.* from steps s join model_runs using (run_id) where study_id = ?",
    "gini": "from expert_gini where study_id = ?",
    "lorenz": f"from expert_lorenz where study_id = ? {LAST_CHECKPOINT}",
    "selections": f"from expert_selections where study_id = ? and depth is not null {LAST_CHECKPOINT}",
    "diversity": "select depth_of_model as model_depth, * from expert_diversity where study_id = ?",
    "attention": "select variant, depth, a.* from depth_attention a join model_runs using (run_id) "
    f"where study_id = ? {LAST_CHECKPOINT}",
    "fitted": "from data_efficiency_fitted where study_id = ?",
    "fits": "from fitted_curves where study_id = ?",
    "fitted_lines": "from fitted_lines where study_id = ?",
    "other_depths": "select trained_depth as model_depth, * from depth_accuracy where study_id = ?",
    "checkpoints": "select variant, m.depth, seed, status, c.* from checkpoints c join model_runs m using (run_id) "
    "where study_id = ?",
    "mismatches": "from stream_mismatches where study_id = ?",
    "going_back": "select g.* from steps_going_back g join model_runs using (run_id) where study_id = ?",
    "entered_twice": "select t.* from rows_entered_twice t join model_runs using (run_id) where study_id = ?",
    "evaluated_with": "select distinct task, code_version, data_version, harness_version, packages "
    "from evaluation_versions join model_runs using (run_id) where study_id = ?",
    "versions": "select distinct task, task_version from evaluations join model_runs using (run_id) where study_id = ?",
}


@dataclass(frozen=True)
class Rows:
    """Data frames by name, as in `SOURCES`; the factors have what belongs to them joined on (`_joined`)."""

    study: dict[str, Any]
    frames: dict[str, pd.DataFrame]
    absent: tuple[str, ...] = field(default=())

    def __getattr__(self, name: str) -> pd.DataFrame:
        try:
            return self.__dict__["frames"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def variants(self) -> list[str]:
        """Every variant that any row is about."""
        frames = (self.resources, self.runs, self.efficiency)
        return sorted({name for frame in frames for name in frame["variant"].dropna()})

    @property
    def depths(self) -> list[int]:
        """Every depth that any row is about, unknown last."""
        found = {int(depth) for frame in (self.resources, self.runs, self.efficiency) for depth in frame["depth"]}
        return sorted(found, key=lambda depth: (depth == UNKNOWN_DEPTH, depth))

    @property
    def config(self) -> dict[str, Any]:
        """The study's configuration and package versions, empty when there is none or it is not a JSON object."""
        try:
            config = json.loads(self.study.get("config") or "{}")
        except ValueError:
            return {}
        return config if isinstance(config, dict) else {}


def read_rows(database: Path, study_id: str) -> Rows:
    """Read everything about a study. Raises InputError when the file is missing or locked, or has no such study."""
    connection = connect(database, read_only=True)
    try:
        frames, absent = {}, []
        for name, query in SOURCES.items():
            try:
                frames[name] = _tidy(connection.execute(query, [study_id]).df())
            except duckdb.CatalogException:  # a file from elsewhere, without this table: said in the report
                absent.append(name)
                frames[name] = _tidy(_no_rows(query))
        study = connection.execute("from studies where study_id = ?", [study_id]).df().to_dict("records")
        if not study and frames["resources"].empty and frames["runs"].empty:
            known = [row[0] for row in connection.execute("select study_id from studies order by study_id").fetchall()]
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{database}: no study {study_id!r}; {has}")
    finally:
        connection.close()
    row = (
        {key: None if missing(value) else value for key, value in study[0].items()} if study else {"study_id": study_id}
    )
    for name, rule in (("efficiency", "first"), ("interpolated", "interpolated")):
        frames[name] = _joined(frames[name], frames["intervals"], frames["best"], rule)
    return Rows(row, frames, tuple(absent))


def _no_rows(query: str) -> pd.DataFrame:
    """What a query gives in a results file without rows: its columns."""
    with TemporaryDirectory() as folder:
        connection = connect(Path(folder) / "empty.duckdb")
        try:
            return connection.execute(query, [""]).df()
        finally:
            connection.close()


def _tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """The depths of models as whole numbers, null as `UNKNOWN_DEPTH`; other nullable numbers as floats, null as NaN."""
    model_depth = "model_depth" if "model_depth" in frame.columns else "depth"
    for column in frame.columns:
        if column == model_depth:
            frame[column] = frame[column].fillna(UNKNOWN_DEPTH).astype(int)
        elif isinstance(frame[column].dtype, pd.Int64Dtype | pd.Int32Dtype | pd.Float64Dtype):
            frame[column] = frame[column].astype(float)
    return frame


def _joined(factors: pd.DataFrame, intervals: pd.DataFrame, best: pd.DataFrame, rule: str) -> pd.DataFrame:
    """The factors with the interval of their rule, the variant's own best and tokens, and the bound of the baseline."""
    chosen = intervals[intervals["rule"] == rule].drop_duplicates(MODEL)[[*MODEL, "low", "high"]]
    own = best[[*MODEL, "accuracy", "tokens_trained"]].rename(columns={"accuracy": "own_best"})
    baseline = factors[factors["variant"] == BASELINE][["depth", "task", "bound"]]
    joined = factors.merge(chosen, on=MODEL, how="left").merge(own, on=MODEL, how="left")
    return joined.merge(baseline.rename(columns={"bound": "baseline_bound"}), on=["depth", "task"], how="left")
