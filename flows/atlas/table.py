"""Read the table of a world of the atlas: an architecture a row, the fewest tokens first."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from dreamer_study.flows.atlas.architectures import DESCRIBING, WITH_BESTS, describe
from dreamer_study.flows.atlas.bundled import ARCHITECTURES, LEFT_OUT, RATIOS, world_folder
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.text.names import ability_name
from dreamer_study.reports.text.numbers import counted
from dreamer_study.reports.text.ratios import best_estimate, bound_of
from dreamer_study.sql.names import AVERAGE, UNDER_WAY

VALIDATION = "validation"
YOURS = "(yours)"  # behind a name that the atlas has too
# Columns that each ability has, and the average of the abilities.
OF_ABILITY = (
    "ratio",
    "low",
    "high",
    "score_low",
    "score_high",
    "bound",
    "decay_bound",
    "seeds",
    "reached",
    "near_chance",
    "best",
    "seeds_learned",
)
OF_BASELINE = ("best", "seeds_learned")  # of them, those that the baseline has too

# Columns of architectures that may look like numbers, or be empty.
TEXTS = (
    "variant",
    "rates_tried",
    "device",
    "study",
    "version",
    "made",
    "configuration",
    "searched",
)


@dataclass(frozen=True)
class Ability:
    """What is measured of architectures: a task and a metric, and the name of both."""

    task: str
    metric: str

    @property
    def name(self) -> str:
        """The name of the column in tables: `expressions`, `recall`, `average` or `loss`."""
        if self.task == VALIDATION:
            return "loss"
        if self.task == AVERAGE:
            return "average"
        return ability_name(self.task)


@dataclass(frozen=True)
class Atlas:
    """A world: a row for each architecture, their ratios, and what has no row.

    `architectures` and `ratios` have the columns of `architectures.csv` and `ratios.csv`;
    `left_out` has an architecture and a reason in each row. `own` are the variants that were added
    from a study, and `unfinished` says what that study still lacks.
    """

    world: str
    architectures: pd.DataFrame
    ratios: pd.DataFrame
    left_out: pd.DataFrame
    own: tuple[str, ...] = ()
    unfinished: str = ""

    @property
    def baseline(self) -> str:
        """The architecture that the others are compared with."""
        (name,) = self.architectures.loc[self.architectures["baseline"], "variant"]
        return name

    @cached_property
    def abilities(self) -> list[Ability]:
        """What is measured: accuracies on benchmarks, or without any the loss."""
        accuracies = self.ratios[self.ratios["metric"] == "accuracy"]
        tasks = [task for task in sorted(set(accuracies["task"])) if task != AVERAGE]
        return [Ability(task, "accuracy") for task in tasks] or [Ability(VALIDATION, "loss")]

    @cached_property
    def measures(self) -> list[Ability]:
        """The abilities, and where there are several, their average as the last one."""
        average = Ability(AVERAGE, "accuracy")
        has_average = len(self.abilities) > 1 and len(self.rows_of(average))
        return [*self.abilities, average] if has_average else self.abilities

    def rows_of(self, ability: Ability) -> pd.DataFrame:
        """Return the ratios of an ability, one row for each architecture but the baseline."""
        rows = self.ratios
        return rows[(rows["task"] == ability.task) & (rows["metric"] == ability.metric)]


def read_atlas(world: str) -> Atlas:
    """Read a world. Raises InputError where the atlas has no such world."""
    return read_folder(world_folder(world))


def read_folder(folder: Path) -> Atlas:
    """Read the folder of a world."""
    texts = dict.fromkeys(TEXTS, str)
    architectures = pd.read_csv(folder / ARCHITECTURES, dtype=texts)
    return Atlas(
        world=folder.name,
        architectures=architectures.fillna(dict.fromkeys(TEXTS, "")),
        ratios=pd.read_csv(folder / RATIOS),
        left_out=pd.read_csv(folder / LEFT_OUT),
    )


def with_study(atlas: Atlas, database: Path, study_id: str) -> Atlas:
    """Add the variants that a study has trained beside rows of the atlas.

    Raises InputError where the study does not take the baseline from this world, or has trained
    nothing else.
    """
    # with DuckDB, which the table alone does without
    from dreamer_study.sql.results import ask, connect

    with closing(connect(database, read_only=True)) as connection:
        joined = connection.execute(
            "select variant, origin from origins where study_id = ?", [study_id]
        ).fetchall()
        frames = {
            table: connection.execute(f"from {table} where study_id = ?", [study_id]).df()
            for table in DESCRIBING
        }
    ratios = ask(database, WITH_BESTS, study=study_id)
    elsewhere = dict(joined)
    measured_rows = atlas.architectures.set_index("variant")
    baseline_study = measured_rows.loc[atlas.baseline, "study"]
    is_compared = (ratios["baseline"] == atlas.baseline).any()
    if elsewhere.get(atlas.baseline) != baseline_study or not is_compared:
        raise InputError(
            f"{database}: {study_id} is not compared with {atlas.baseline} of the atlas's world"
            f" {atlas.world}, which {baseline_study} has trained; `dreamer new FILE --module FILE"
            f" --atlas {atlas.world}` writes a study that is"
        )
    models = frames["models"]
    frames["models"] = models[~models["variant"].isin(elsewhere)]
    own = tuple(frames["models"]["variant"])
    if not own:
        raise InputError(f"{database}: {study_id} has trained nothing beside the atlas")
    ratios = ratios[ratios["variant"].isin(own) & (ratios["baseline"] == atlas.baseline)]
    described = describe(frames, atlas.baseline)
    measured = set(atlas.architectures["variant"])
    names = {name: f"{name} {YOURS}" if name in measured else name for name in own}
    described = described.assign(variant=described["variant"].map(names))
    ratios = ratios.assign(variant=ratios["variant"].map(names))
    return Atlas(
        world=atlas.world,
        architectures=pd.concat([atlas.architectures, described], ignore_index=True),
        ratios=pd.concat([atlas.ratios, ratios], ignore_index=True),
        left_out=atlas.left_out,
        own=tuple(names.values()),
        unfinished=_unfinished(frames, ratios),
    )


def _unfinished(frames: Mapping[str, pd.DataFrame], ratios: pd.DataFrame) -> str:
    """Say what the own variants of a study lack: trainings, or ratios of their newest curves."""
    runs = frames["runs"].merge(frames["models"][["model_id"]], on="model_id")
    if runs.empty:
        return "no training has begun"
    under_way = runs["status"].isin(UNDER_WAY)
    if under_way.any():
        return f"{int((~under_way).sum())} of {len(runs)} trainings have ended"
    failed = int((runs["status"] == "failed").sum())
    if failed:
        return f"{failed} of {counted(len(runs), 'training')} failed"
    if ratios["outdated"].eq(True).any():
        return "its ratios are older than its curves (`dreamer intervals` computes them)"
    return ""


def table(atlas: Atlas) -> pd.DataFrame:
    """Return a row for each architecture: by abilities learned, then by the mean of the ratios.

    So those that have a ratio, or an upper bound, for every ability come first, the lowest
    geometric mean of the ratios first; a bound counts as its value. Each ability, and the average
    of all, has these columns behind its name:

    - `_ratio`: the tokens over the baseline's, with the 95 % interval `_low` to `_high`, at scores
      from `_score_low` to `_score_high`;
    - `_bound`: 'at least' or 'at most' where the ratio is a bound, else empty; `_decay_bound`: the
      same where that is because the learning rate decays at these scores;
    - `_seeds`: the number of seeds, the smaller one of both;
    - `_reached`: whether the baseline's best was reached; `_best`: the best score;
    - `_near_chance`: whether one of both never rose above chance, so that there is no ratio;
    - `_seeds_learned`: at how many seeds the last checkpoint lies above chance.
    """
    frame = atlas.architectures.copy()
    is_baseline = frame["baseline"].astype(bool)
    not_learned = pd.Series(0, index=frame.index)
    for ability in atlas.measures:
        rows = atlas.rows_of(ability).set_index("variant")
        records = rows.to_dict("records")
        has_ratio = rows["ratio"].notna() | rows["high"].notna()  # or is better than any
        if ability in atlas.abilities:
            not_learned += frame["variant"].map(~has_ratio).eq(True)
        rows = rows.assign(
            ratio=[best_estimate(row) for row in records],
            bound=[bound_of(row) for row in records],
        )
        for column in OF_ABILITY:
            frame[f"{ability.name}_{column}"] = frame["variant"].map(rows[column])
        frame.loc[is_baseline, f"{ability.name}_ratio"] = 1.0
        for column in OF_BASELINE:
            frame.loc[is_baseline, f"{ability.name}_{column}"] = rows[f"baseline_{column}"].max()
    return _ranked(frame, not_learned, atlas)


def _ranked(frame: pd.DataFrame, not_learned: pd.Series, atlas: Atlas) -> pd.DataFrame:
    """Sort by the number of abilities that were not learned, then by the mean of the ratios."""
    ratios = [f"{ability.name}_ratio" for ability in atlas.abilities]
    effect = np.log(frame[ratios].astype(float)).mean(axis=1)
    order = frame.assign(not_learned=not_learned, effect=effect).sort_values(
        ["not_learned", "effect", "variant"], na_position="last"
    )
    own_columns = [
        f"{measure.name}_{column}" for measure in atlas.measures for column in OF_ABILITY
    ]
    others = [name for name in frame.columns if name not in ("variant", *own_columns)]
    return order[["variant", *own_columns, *others]].reset_index(drop=True)
