"""Compare studies of one model on other data: what is a step of curation worth, in tokens?

The studies' curves of a model are entered side by side into a results file of their own, each study
as a variant and the first one as the baseline. So ratio, interval and test are those of any study.

    clean.yaml    LA: accuracies at 80k, 160k, ... tokens     the variant `clean`, the baseline
    raw.yaml      LA: accuracies at 80k, 160k, ... tokens     the variant `raw`

The data may differ, and nothing else: not what a token is (tokenizer), not what is asked
(benchmarks), not how a model is trained.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.connection import connect
from dreamer_study.sql.ingest import ingest
from dreamer_study.sql.results import ask
from dreamer_study.sql.statistics.comparison import welch
from dreamer_study.sql.statistics.compute import compute_statistics
from dreamer_study.sql.statistics.trained import (
    BENCHMARK,
    PACKED,
    TOKENIZER,
    VALIDATION,
    ModelKey,
    TrainedStudy,
    model_name,
    named,
    other_recipes,
    other_settings,
    read_trained,
    same_held_out,
    searched_apart,
)

STUDY = "corpora"  # the study that holds all others side by side
ALL_TASKS = "all"
LEAKED = "leaked"
OTHERS = "others"
EVERY = "every"


@dataclass(frozen=True)
class TokenComparison:
    """What the data of each study are worth, in tokens of the first study.

    `ratios` has a row for each model (`depth`, `variant`), each study after the first, task and
    metric: the study's tokens over the first study's at equal scores, and the other columns of the
    view `token_ratios`. `leaks` has a row for each model, study and benchmark ('all': over all),
    and for `items` 'leaked' (the study's training documents hold a copy, the first study's do
    not), 'others' (neither do) and 'every'. `first` and `second` are accuracies at the last
    checkpoint, and `difference` has its 95 % interval `low` to `high`. `notes` say what is left out
    or differs.
    """

    ratios: pd.DataFrame
    leaks: pd.DataFrame
    notes: list[str]


def compare_corpora(
    studies: Sequence[tuple[Path, str]], *, despite: bool = False
) -> TokenComparison:
    """Compare studies (results file and id) with the first of them, for every model in common.

    With `despite`, studies whose models or recipes differ are compared all the same, and a note
    says how they differ. Raises InputError for fewer than two studies, a study that is named twice,
    another tokenizer, other items of a benchmark, another way to evaluate, no model in common, and
    without `despite` other models or recipes.
    """
    if len(studies) < 2:
        raise InputError(
            "--tokens takes two or more studies; the first is what the others are over"
        )
    read = named([read_trained(path, study_id) for path, study_id in studies])
    for study in read:
        _refuse_unknown_data(study)
    first, *others = read
    notes = []
    for other in others:
        _refuse_other_questions(first, other)
        notes += _notes_on(first, other, despite=despite)
    tables = []
    leaks: list[dict[str, Any]] = []
    for model in first.models:
        sharing = [other for other in others if model in other.models]
        if sharing:
            tables.append(_ratios(model, first, sharing))
            for other in sharing:
                leaks += _leaks(model, first, other)
    if not tables:
        names = " and ".join(study.name for study in read)
        raise InputError(f"{names} have no model in common: give one variant the same name in all")
    ratios = pd.concat(tables, ignore_index=True)
    if ratios.empty:
        raise InputError("; ".join(["the studies have no scores of one benchmark in all", *notes]))
    return TokenComparison(ratios, pd.DataFrame(leaks), notes)


# --- what must be equal ---


def _refuse_unknown_data(study: TrainedStudy) -> None:
    if not study.inputs:
        raise InputError(
            f"{study.path} does not say on which data {study.study_id} was made, as files of"
            " versions before this one do not; `dreamer run` of that study again writes that down"
        )


def _refuse_other_questions(first: TrainedStudy, other: TrainedStudy) -> None:
    """Raise InputError where a token, a benchmark or an evaluation is another one."""
    found = []
    if first.inputs.get(TOKENIZER) != other.inputs.get(TOKENIZER):
        found.append(
            "another tokenizer, so that a token is not the same amount of text (`data.like` takes"
            " that of another study)"
        )
    for name in first.benchmarks:
        what = f"{BENCHMARK}{name}"
        if what in other.inputs and other.inputs[what] != first.inputs[what]:
            found.append(f"other items of the benchmark {name}")
    for what, value in first.inputs.items():
        if what.startswith("evaluation.") and other.inputs.get(what) != value:
            found.append(f"{what} {other.inputs.get(what)} in place of {value}")
    if not set(first.benchmarks) & set(other.benchmarks):
        found.append("no benchmark in common")
    if found:
        raise InputError(
            f"{other.name} cannot be compared with {first.name}: it has {'; '.join(found)}"
        )


def _notes_on(first: TrainedStudy, other: TrainedStudy, *, despite: bool) -> list[str]:
    """Return a line for all that is left out of a comparison, or differs without harm.

    Raises InputError for other models and recipes, unless `despite`.
    """
    differing = [*other_settings(first, other), *other_recipes(first, other)]
    if differing and not despite:
        raise InputError(
            f"{other.name} was not trained as {first.name} was: {'; '.join(differing)};"
            " --despite-differences compares them all the same"
        )
    pair = f"{other.name} and {first.name}"
    notes = [
        f"beware: {other.name} differs from {first.name} beside its data: {each}"
        for each in differing
    ]
    notes += searched_apart(first, other)
    notes += [
        f"left out: {name}, which {present.name} asks and {missing.name} does not"
        for present, missing in ((first, other), (other, first))
        for name in present.benchmarks
        if name not in missing.benchmarks
    ]
    notes += [
        f"left out: {model_name(model)}, which {present.name} trains and {missing.name} does not"
        for present, missing in ((first, other), (other, first))
        for model in present.models
        if model not in missing.models
    ]
    if not same_held_out(first, other):
        notes.append(
            f"left out: the loss on held-out documents, as those of {pair} are not the same ones"
            " (`data.like` takes those of another study)"
        )
    if first.inputs.get(PACKED) == other.inputs.get(PACKED):
        notes.append(f"beware: {pair} trained on the same data")
    return notes


# --- ratios ---


def _ratios(model: ModelKey, first: TrainedStudy, others: Sequence[TrainedStudy]) -> pd.DataFrame:
    """Compute the ratios of a model on other data over the same model on the first study's."""
    tasks = [name for name in first.benchmarks if all(name in other.benchmarks for other in others)]
    if all(same_held_out(first, other) for other in others):
        tasks.append(VALIDATION)
    with tempfile.TemporaryDirectory(prefix="dreamer-corpora-") as folder:
        joined = Path(folder) / "results.duckdb"
        with closing(connect(joined)):  # stays open, since opening a file again takes time
            ingest(joined, _side_by_side(model, [first, *others], tasks))
            replicates = ask(first.path, "replicates").set_index("study_id")["replicates"]
            _take_metrics(joined, first.path)
            with closing(connect(joined)) as connection:
                compute_statistics(
                    connection,
                    STUDY,
                    replicates=int(replicates.get(first.study_id, 1000)),
                    baselines=[first.name],
                )
            rows = ask(joined, "study_ratios", study=STUDY)
    depth, variant = model
    rows = rows.rename(columns={"variant": "study", "baseline": "over"})
    rows = rows.drop(columns=["study_id", "depth"])
    rows.insert(0, "variant", variant)
    rows.insert(0, "depth", pd.Series([depth] * len(rows), dtype="Int64"))
    return rows


def _side_by_side(
    model: ModelKey, studies: Sequence[TrainedStudy], tasks: Sequence[str]
) -> dict[str, pa.Table]:
    """Return the rows of a model from several studies, each study as a variant of one study."""
    depth, variant = model
    tables: dict[str, list[pd.DataFrame]] = {
        name: [] for name in ("runs", "steps", "evaluations", "items")
    }
    for study in studies:
        wanted = {"study": study.study_id, "variant": variant, "depth": depth}
        asked = {**wanted, "tasks": [*tasks]}
        runs = ask(study.path, "corpora_runs", **wanted)
        parts = {
            "runs": runs.assign(study_id=STUDY, model_id=study.name),
            "steps": ask(study.path, "corpora_steps", **wanted),
            "evaluations": ask(study.path, "corpora_scores", **asked),
            "items": ask(study.path, "corpora_items", **asked),
        }
        for name, part in parts.items():
            # studies on equal data share runs
            tables[name].append(part.assign(run_id=study.name + "/" + part["run_id"]))
    joined = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
    joined["models"] = pd.DataFrame(
        [
            {"study_id": STUDY, "model_id": study.name, "variant": study.name, "place": place}
            for place, study in enumerate(studies, 1)
        ]
    )
    joined["studies"] = pd.DataFrame(
        [{"study_id": STUDY, "name": STUDY, "baseline": studies[0].name, "config": "{}"}]
    )
    return {
        name: pa.Table.from_pandas(frame, preserve_index=False)
        for name, frame in joined.items()
        if len(frame)
    }


def _take_metrics(joined: Path, path: Path) -> None:
    """Copy which metric is the accuracy of a benchmark, and the kind of each metric."""
    with closing(connect(path, read_only=True)) as connection:
        benchmarks = connection.sql("from benchmarks").to_arrow_table()
        metrics = connection.sql("from internal.metrics").fetchall()
    ingest(joined, {"benchmarks": benchmarks})
    with closing(connect(joined)) as connection:
        connection.executemany(
            "insert into internal.metrics values (?, ?, ?, ?) on conflict do nothing", metrics
        )


# --- items that leaked ---


def _leaks(model: ModelKey, first: TrainedStudy, other: TrainedStudy) -> list[dict[str, Any]]:
    """Compare accuracies on the items that only the other study trained on, and on the others."""
    trained_on = [_items_trained_on(study) for study in (first, other)]
    leaked = trained_on[1] - trained_on[0]
    if not leaked:
        return []
    keys = ["task", "metric", "filter", "item_id"]
    sides = [_last_scores(model, study) for study in (first, other)]
    pairs = _of_every_seed(sides[0].merge(sides[1], on=keys, suffixes=("_first", "_second")))
    names = list(zip(pairs["task"], pairs["item_id"], strict=True))
    is_leaked = pd.Series([name in leaked for name in names], index=pairs.index)
    is_clean = pd.Series([name not in trained_on[0] | leaked for name in names], index=pairs.index)
    depth, variant = model
    rows = []
    for task in [ALL_TASKS, *pairs["task"].unique()]:
        of_task = pairs["task"].isin([task] if task != ALL_TASKS else pairs["task"])
        groups = {LEAKED: is_leaked, OTHERS: is_clean, EVERY: is_leaked | ~is_leaked}
        for items, chosen in groups.items():
            part = pairs[of_task & chosen]
            if len(part):
                rows.append(
                    {
                        "depth": depth,
                        "variant": variant,
                        "study": other.name,
                        "over": first.name,
                        "task": task,
                        "items": items,
                        "number": len(part),
                        **welch(_by_seed(part, "first"), _by_seed(part, "second")),
                    }
                )
    return rows


def _of_every_seed(pairs: pd.DataFrame) -> pd.DataFrame:
    """Keep the items that all seeds of both sides have answered."""
    first = pairs["seed_values_first"].map(len)
    second = pairs["seed_values_second"].map(len)
    return pairs[(first == first.max()) & (second == second.max())]


def _by_seed(pairs: pd.DataFrame, side: str) -> np.ndarray:
    """Return the scores of a side [I, N]."""
    return np.stack(pairs[f"seed_values_{side}"].to_list())


def _last_scores(model: ModelKey, study: TrainedStudy) -> pd.DataFrame:
    """Read the scores of a model's items at its last checkpoint."""
    depth, variant = model
    with closing(connect(study.path, read_only=True)) as connection:
        return connection.execute(
            "select task, metric, filter, item_id, seed_values from compared_scores(?)"
            " where checkpoint = 'final' and variant = ? and depth is not distinct from ?",
            [study.study_id, variant, depth],
        ).df()


def _items_trained_on(study: TrainedStudy) -> set[tuple[str, str]]:
    """Return the items, as task and id, of which the study's training documents hold a copy."""
    with closing(connect(study.path, read_only=True)) as connection:
        rows = connection.execute(
            "select task, item_id from found_items where study_id = ? and trained",
            [study.study_id],
        ).fetchall()
    return set(rows)
