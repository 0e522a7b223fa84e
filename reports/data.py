"""Read what the views and tables of a results file hold about one study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.definitions import INTERNAL
from dreamer_study.sql.materialised import keep_views
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.results import connect

LONGEST_NAME = 200  # characters
SHOWN_OF_NAME = 40  # characters of one that is longer
# the columns that figures show
NAMES = ("study_id", "variant", "baseline", "model_id", "run_id", "task", "metric", "filter")
VALIDATION = "validation"  # the task that stands for the held-out documents of the curated corpus
# stands for a null depth: results entered from elsewhere may lack the model's row
# Names that every object of JavaScript has, in which Vega keeps groups by name.
OF_EVERY_OBJECT = frozenset(
    {
        "__defineGetter__",
        "__defineSetter__",
        "__lookupGetter__",
        "__lookupSetter__",
        "__proto__",
        "constructor",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "toLocaleString",
        "toString",
        "valueOf",
    }
)
UNSEEN = "\u2060"  # a word joiner, which takes no room
UNKNOWN_DEPTH = -1
# Frames that have the average over tasks beside the tasks.
REPEATED = (
    "ratios",
    "mean_factors",
    "efficiency",
    "curve",
    "accuracy",
    "raw_accuracy",
    "loss_curve",
    "loss",
    "results",
)
# Queries by the name of an attribute of `StudyData`; the study's id is the only parameter.
QUERIES = {
    "order": "select variant, baseline from internal.variants where study_id = ? order by place",
    # In the order of the view, which decides what is said first.
    "ratios": (
        "select ratios.*, bests.own_value as best, bests.baseline_value as baseline_best from"
        " token_ratios_against(null) as ratios left join internal.score_efficiency(null) as bests"
        " on (bests.study_id, bests.depth, bests.variant, bests.task, bests.measure) is not"
        " distinct from (ratios.study_id, ratios.depth, ratios.variant, ratios.task, ratios.metric)"
        " where ratios.study_id = ? order by ratios.depth, ratios.place, ratios.metric, ratios.task"
        " <> 'average', ratios.task <> 'validation', ratios.task"
    ),
    "noise": "from study_noise where study_id = ?",
    "mean_factors": (
        "select * exclude (place) from mean_factors_against(null) where study_id = ? order by all"
    ),
    "factor_by_target": (
        "from factor_by_target where study_id = ? "
        "qualify task in ('average', 'validation') or count(distinct task) over () = 1"
    ),
    "at_scores": (
        "from internal.tokens_at_scores where study_id = ? "
        "qualify task in ('average', 'validation') or count(distinct task) over () = 1"
    ),
    "efficiency": (
        "select * rename (baseline_value as baseline_accuracy, own_value as own_best), "
        "max(bound) filter (variant = baseline) over (partition by depth, task) as baseline_bound "
        "from internal.score_efficiency(null) where study_id = ? and measure = 'accuracy' "
        "order by depth, place, task = 'average', task"
    ),
    "averaged": (
        "select task from internal.chosen_metric where study_id = ? and averaged and kind ="
        " 'accuracy'"
    ),
    "best": "from best_accuracy where study_id = ?",
    "curve": (
        "select * rename (value as accuracy) from internal.mean_curves where study_id = ? "
        "and measure = 'accuracy' order by all"
    ),
    "accuracy": "from token_accuracy where study_id = ? order by all",
    "counted": (
        "select distinct depth, variant, run_id from internal.counted_scores where study_id = ? "
        "and measure in ('accuracy', 'loss', 'perplexity')"
    ),
    "cut_short": (
        "select depth, variant, ends from internal.cut_curves where study_id = ? order by all"
    ),
    "raw_accuracy": (
        "select r.depth, r.variant, r.task, c.tokens, avg(r.accuracy) as accuracy from"
        " internal.raw_accuracy r join internal.curve_points c on (c.study_id, c.run_id, c.task,"
        " c.run_tokens) = (r.study_id, r.run_id, r.task, r.tokens) where r.study_id = ? and"
        " c.measure = 'accuracy' group by all order by all"
    ),
    "loss": "from token_loss where study_id = ? order by all",
    "loss_curve": "from internal.mean_curves where study_id = ? and measure = 'loss' order by all",
    "perplexity": (
        "select * rename (value as perplexity) from internal.token_scores where study_id = ? "
        "and measure = 'perplexity' order by all"
    ),
    "resources": "from table_1 where study_id = ?",
    "models": (
        "select study_id, model_id, coalesce(variant, model_id) as variant, depth, config,"
        " try_cast(config as json) ->> '$.remarks' as remarks, try_cast(try_cast(config as json)"
        " ->> '$.expert_size' as double) as expert_size from models where study_id = ?"
    ),
    "results": "from table_2 where study_id = ?",
    "funnel": "from funnel where study_id = ?",
    "funnel_by_source": "from funnel_by_source where study_id = ?",
    "curation": "from curation where study_id = ?",
    "dropped": (
        "select stage, replace(reason, '_', ' ') as reason, sum(documents)::double as documents,"
        " sum(characters)::double as characters, sum(tokens)::double as tokens from curation where"
        " study_id = ? and reason <> 'kept' and documents > 0 group by all order by documents desc,"
        " reason"
    ),
    "sources": "from table_4 where study_id = ?",
    "unmarked": (
        "select source, unmarked from sources where study_id = ? and unmarked > 0 order by source"
    ),
    "runs": (
        "select r.*, m.variant, m.depth, recipe, devices from runs r join internal.model_runs m"
        " using (study_id, run_id) left join internal.run_details using (run_id) join"
        " internal.variants v on (v.study_id, v.variant) = (m.study_id, m.variant) where r.study_id"
        " = ? order by m.depth, v.place, r.seed, r.run_id"
    ),
    # Backward takes twice as much as forward. Seconds are those of the device that trained, in the
    # median of the runs; the spread is how many times as fast as its slowest run the fastest was.
    "costs": (
        "select m.depth, m.variant, 3 * any_value(flops_per_token) as flops, 1 /"
        " median(tokens_per_second) as seconds, max(tokens_per_second) / min(tokens_per_second) as"
        " spread from internal.model_runs m left join models using"
        " (study_id, model_id) where study_id = ? group by all"
    ),
    "elsewhere": "select variant, origin from origins where study_id = ? order by variant",
    "tuning": (
        "select * replace (coalesce(chosen, false) as chosen) from tuning where study_id = ? order"
        " by all"
    ),
    "tuning_settings": (
        "select * replace (coalesce(chosen, false) as chosen) from tuning_settings where study_id"
        " = ? order by all"
    ),
    "training_curves": "from internal.training_curves where study_id = ?",
    "training_means": "from internal.training_means where study_id = ?",
    "failures": (
        "select variant, depth, run_id, failure from internal.run_details join internal.model_runs"
        " using (run_id) where study_id = ? and failure is not null order by run_id"
    ),
    "gini": "from expert_gini where study_id = ? and depth is null",
    "gini_at_end": "from internal.gini_at_end where study_id = ?",
    "concentration": "from internal.expert_concentration where study_id = ?",
    "selections": (
        "select ranks.variant, model_depth, ranks.depth, expert, selections from"
        " internal.latest_expert_ranks as ranks join internal.expert_runs using (study_id, run_id)"
        " where study_id = ? and ranks.depth between shared_from and shared_to"
    ),
    "diversity": (
        "select depth_of_model as model_depth, * from internal.expert_diversity where study_id = ?"
    ),
    "attention": (
        "select variant, depth, a.* from depth_attention a join internal.model_runs using (run_id)"
        " where study_id = ? and a.tokens <= coalesce(claimed_tokens, a.tokens) and run_id in"
        " (select run_id from internal.expert_runs) qualify tokens = max(tokens) over (partition by"
        " run_id)"
    ),
    "other_depths": (
        "select trained_depth as model_depth, * from depth_accuracy where study_id = ? qualify"
        " bool_or(depth <> trained_depth) over (partition by run_id) and accuracy is not null"
    ),
    "scored_items": (
        "select task from items join internal.model_runs using (run_id) where study_id = ? limit 1"
    ),
    "examples": (
        "from internal.model_answers where study_id = ? qualify dense_rank() over (partition by"
        " depth, task order by apart desc, item_id) <= 60 order by depth, task, apart desc, item_id"
    ),
    # How many seeds were right on these questions at each checkpoint, counted from the first one.
    "answers_over_training": (
        "with shown as (select distinct depth, task, item_id from internal.model_answers where"
        " study_id = $1 qualify dense_rank() over (partition by depth, task order by apart desc,"
        " item_id) <= 60), scored as (select depth, variant, task, items.item_id, items.tokens,"
        " value, row_number() over (partition by run_id, task, items.item_id order by items.tokens)"
        " as place from items join internal.model_runs using (run_id) join shown using (depth,"
        " task, item_id) join internal.chosen_metric using (study_id, task, metric, filter) where"
        " study_id = $1 and kind = 'accuracy' and isfinite(value) and items.tokens <="
        " coalesce(claimed_tokens, items.tokens)) select depth, task, item_id, variant, place,"
        " min(tokens) as tokens, sum(value) as right, count(*) as seeds from scored group by all"
        " order by all"
    ),
    "usual_answers": (
        "select depth, task, variant, arg_max(text, n) as text, max(n) / sum(n) as share, sum(n) as"
        " items from (select depth, task, variant, text, count(*) as n from internal.model_answers"
        " where study_id = ? group by all order by all) group by all order by all"
    ),
    "checkpoints": (
        "select variant, m.depth, seed, status, c.* from checkpoints c join internal.model_runs m"
        " using (run_id) where study_id = ? and c.tokens <= coalesce(claimed_tokens, c.tokens)"
    ),
    "mismatches": "from internal.stream_mismatches where study_id = ?",
    "evaluated_with": (
        "select distinct task, code_version, data_version, harness_version, packages, weights from"
        " internal.study_evaluations join internal.evaluation_versions using (run_id, tokens, task)"
        " where study_id = ?"
    ),
    "by_steps": "select * rename (value as steps) from accuracy_by_fact(?) where fact = 'steps'",
    "answered": (
        "select depth, variant, task, item_id, avg(value) as share from internal.final_items(?)"
        " group by all order by all"
    ),
    # The seconds of one evaluation: a forward pass takes a third of a training step.
    "levels": (
        "select levels.*, cards.* exclude (study_id, task), tokens / (3 * (select"
        " median(tokens_per_second) from runs where runs.study_id = levels.study_id)) as seconds"
        " from benchmark_levels as levels left join benchmark_cards as cards using (study_id, task)"
        " where levels.study_id = ? order by task"
    ),
    # Rows of before the results changed are left out.
    "difficulty": (
        "with curves as (from internal.measured_curves where study_id = ? and metric = 'accuracy')"
        " select ratios.* from ratios_by_difficulty as ratios join curves as own on (own.study_id,"
        " own.depth, own.variant, own.task) is not distinct from (ratios.study_id, ratios.depth,"
        " ratios.variant, ratios.task) join curves as base on (base.study_id, base.depth,"
        " base.variant, base.task) is not distinct from (ratios.study_id, ratios.depth,"
        " ratios.baseline, ratios.task) where ratios.digest = own.digest || base.digest order by"
        " all"
    ),
    "versions": (
        "select distinct task, task_version from internal.study_evaluations where study_id = ?"
    ),
}


@dataclass(frozen=True)
class StudyData:
    """The row of `studies`, and a data frame for each name in `QUERIES` that was read.

    A frame is an attribute of its name. Rows about a variant name the `baseline` too, with which
    the variant is compared.
    """

    study: dict[str, Any]
    frames: dict[str, pd.DataFrame]

    def __getattr__(self, name: str) -> pd.DataFrame:
        try:
            return self.__dict__["frames"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def variants(self) -> list[str]:
        """All variants in the order of the study, the baseline first."""
        return list(self.order["variant"])

    @property
    def baseline(self) -> str:
        """The variant that the others are compared with."""
        return baseline_of(self.order)

    @property
    def depths(self) -> list[int]:
        """All depths that any row is about; `UNKNOWN_DEPTH` comes at the end."""
        depths: set[int] = set()
        for frame in (self.resources, self.runs, self.efficiency):
            depths.update(int(depth) for depth in frame["depth"])
        return sorted(depths, key=lambda depth: (depth == UNKNOWN_DEPTH, depth))

    @property
    def unit(self) -> str:
        """What a ratio is of: training tokens, or training steps of curves from elsewhere."""
        return f"training {json_object(self.study.get('config')).get('unit') or 'tokens'}"

    @property
    def bytes_per_token(self) -> float | None:
        """The bytes of a token that the loss counts, on average; None where that is unknown."""
        known = json_object(self.study.get("config")).get("bytes_per_token")
        return known if isinstance(known, float) and known > 0 else None

    def drawable(self) -> StudyData:
        """Return the same data with an unseen sign behind names that no figure can be drawn of."""
        return replace(self, frames={name: _drawable(frame) for name, frame in self.frames.items()})

    def without_repeats(self) -> StudyData:
        """Return the same data without the rows of an only task beside its average."""
        read = [name for name in REPEATED if name in self.frames]
        shown = {name: without_repeats(self.frames[name]) for name in read}
        return replace(self, frames=self.frames | shown)

    def config(self, *path: str) -> dict[str, Any]:
        """A part of the study's configuration by its path; empty where there is none.

        Paths are for example "study", "training" and "packages".
        """
        section = json_object(self.study.get("config"))
        for name in path:
            part = section.get(name)
            section = part if isinstance(part, dict) else {}
        return section


def read_study(database: Path, study_id: str, names: Sequence[str] = tuple(QUERIES)) -> StudyData:
    """Read the named frames of a study, `order` among them.

    Raises InputError for no such file or study, or a lock.
    """
    with closing(connect(database, read_only=True)) as connection:
        if len(names) == len(QUERIES):  # for a few frames this takes longer than their queries
            keep_views(connection, study_id)
        frames = {}
        for name in names:
            query = QUERIES[name].replace(f"{INTERNAL}.", "")  # views that are kept have no schema
            frames[name] = _plain(connection.execute(query, [study_id]).df())
        studies = connection.execute("from studies where study_id = ?", [study_id]).df()
        if studies.empty and frames["order"].empty:
            rows = connection.execute("select study_id from studies order by study_id").fetchall()
            others = ", ".join(other for (other,) in rows)
            raise InputError(f"{database}: no study {study_id!r}; it has {others or 'none'}")
    for frame in frames.values():
        check_lengths(frame, NAMES, str(database))
    baseline = baseline_of(frames["order"])
    for name, frame in frames.items():
        if "variant" in frame:
            frames[name] = frame.assign(baseline=baseline)
    # A study that was entered by hand may lack its row.
    study = {"study_id": study_id} if studies.empty else studies.to_dict("records")[0]
    study = {key: None if pd.isna(value) else value for key, value in study.items()}
    return StudyData(study, frames)


def check_lengths(frame: pd.DataFrame, columns: Sequence[str], where: str) -> None:
    """Raise InputError for a name that no figure can show: to lay out a long one takes minutes."""
    for column in columns:
        if column not in frame or frame[column].dtype.kind in "biufmM":
            continue
        names = frame[column].dropna().astype(str)
        too_long = names[names.str.len() > LONGEST_NAME]
        if len(too_long):
            name = too_long.iloc[0]
            raise InputError(
                f"{where}: {column} {name[:SHOWN_OF_NAME]!r}... has {len(name):,} characters; a"
                f" name has at most {LONGEST_NAME}"
            )


def _drawable(frame: pd.DataFrame) -> pd.DataFrame:
    """Put `UNSEEN` behind the names of a frame that every object of JavaScript has."""
    changed = {}
    for column in NAMES:
        if column in frame:
            is_taken = frame[column].isin(OF_EVERY_OBJECT)
            if is_taken.any():
                changed[column] = frame[column].where(~is_taken, frame[column] + UNSEEN)
    return frame.assign(**changed) if changed else frame


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Make depths of models whole numbers, and other nullable numbers floats.

    A null is `UNKNOWN_DEPTH` among depths, NaN among others.
    """
    model_depth = "model_depth" if "model_depth" in frame.columns else "depth"
    for column in frame.columns:
        if column == model_depth:
            frame[column] = frame[column].fillna(UNKNOWN_DEPTH).astype(int)
        elif isinstance(frame[column].dtype, pd.Int64Dtype | pd.Int32Dtype | pd.Float64Dtype):
            frame[column] = frame[column].astype(float)
    return frame


def json_object(text: Any) -> dict[str, Any]:
    """Read a JSON object; empty where the text is none."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def baseline_of(rows: pd.DataFrame) -> str:
    """Return the baseline of rows about variants."""
    return str(rows["baseline"].iloc[0]) if len(rows) else "the baseline"


def without_baseline(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the variants that are compared with the baseline."""
    return rows[rows["variant"] != rows["baseline"]]


def without_repeats(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop the rows of a study's only task, which say what those of its average over tasks say."""
    tasks = set(rows["task"]) - {AVERAGE, VALIDATION}
    averages = rows[rows["task"] == AVERAGE]
    if "one_task" in rows:
        averages = averages[averages["one_task"].astype(bool)]
    if len(tasks) != 1 or averages.empty:
        return rows
    repeated = rows["task"].isin(tasks)
    if "metric" in rows and averages["metric"].notna().all():
        repeated &= rows["metric"].isin(averages["metric"])
    if "perplexity" in rows:
        repeated &= rows["perplexity"].isna()
    return rows[~repeated]


def mean_of_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Average rows of `depth_accuracy` over the runs of each model; `seeds` has their number."""
    keys = ["study_id", "variant", "model_depth", "task", "depth"]
    return rows.groupby(keys, as_index=False, sort=False).agg(
        accuracy=("accuracy", "mean"),
        stderr=("stderr", "mean"),
        items=("items", "max"),
        chance=("chance", "max"),
        seeds=("run_id", "nunique"),
        seed_error=("accuracy", "sem"),  # of the mean over the seeds
    )
