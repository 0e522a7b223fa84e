"""Views on runs, curation, claims, experts and the baseline."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.reports.data import QUERIES, read_study
from dreamer_study.sql.results import connect
from dreamer_study.sql.statistics.compute import compute_statistics
from tests.reports.small_results import STUDY, whole_study
from tests.sql.by_hand import PLACES, enter, put


def test_table_1_has_the_papers_units_and_order(sql):
    sql.execute(
        "insert into models values ('s', 'x', 'DR+DA', 16, 1170800000, 941300000, 4783900000, null, 2),"
        "('s', 'y', 'LA', 16, 1170800000, 938900000, 4782700000, null, 1),"
        "('s', 'z', null, 16, null, null, null, null, null)"
    )
    put(
        sql,
        "runs",
        [
            {"study_id": "s", "run_id": str(n), "model_id": "y", "tokens_per_second": n}
            for n in (100, 200)
        ],
    )
    columns = "variant, depth, parameters_billion, flops_billion_per_token, memory_gigabytes, tokens_per_second, runs"
    assert sql.execute(f"select {columns} from table_1").fetchall() == [
        ("LA", 16, 1.1708, 0.9389, 4.7827, 150.0, 2),
        ("DR+DA", 16, 1.1708, 0.9413, 4.7839, None, 0),
        ("z", 16, None, None, None, None, 0),
    ]


def test_a_training_is_cut_into_stretches(sql):
    put(
        sql,
        "runs",
        [{"study_id": "s", "run_id": "r", "model_id": "m", "tokens_per_second": 5.0, "mfu": 0.2}],
    )
    put(
        sql,
        "steps",
        [{"run_id": "r", "step": n, "tokens": 10 * n, "loss": 1.0} for n in range(1, 101)],
    )
    sql.execute("update steps set loss = 'nan' where step = 100")
    found = sql.execute("from training_curves order by tokens").df()
    assert 40 <= len(found) <= 100
    assert found["loss"].dropna().eq(1).all()
    assert found["losses_not_finite"].sum() == 1
    assert found["tokens"].iloc[0] == 10, "the first steps are not blurred"


@pytest.mark.parametrize(
    ("steps", "first", "batch"),
    [(200, 1, 16), (1000, 1, 16), (977, 3, 1043), (5000, 2500, 7)],
)
def test_the_last_stretch_of_a_training_is_as_long_as_those_before(sql, steps, first, batch):
    """Losses of 1 and, at the very last step, of 9: the mean over many steps is near 1."""
    put(sql, "runs", [{"study_id": "s", "run_id": "r", "model_id": "m"}])
    rows = [
        {"run_id": "r", "step": n, "tokens": batch * n, "loss": 9.0 if n == steps else 1.0}
        for n in range(first, steps + 1)
    ]
    put(sql, "steps", rows)
    tokens, loss = sql.execute(
        "select tokens, loss from training_curves order by tokens desc limit 1"
    ).fetchone()
    steps_in_the_stretch = 8 / (loss - 1)
    assert steps_in_the_stretch >= steps / 120
    assert tokens == pytest.approx(batch * (steps - (steps_in_the_stretch - 1) / 2))


def test_the_mean_loss_of_a_model_is_over_its_runs_that_count(sql):
    losses = {"a": 1.0, "b": 2.0, "screened": 9.0, "failed": 9.0, "training": 9.0}
    runs = [
        {
            "study_id": "s",
            "run_id": run,
            "model_id": "m",
            "status": run if run in ("screened", "failed", "training") else "complete",
        }
        for run in losses
    ]
    put(sql, "runs", runs)
    steps = [
        # seeds have slightly different tokens; the failed run ended early
        {"run_id": run, "step": n, "tokens": 10 * n + place, "loss": loss}
        for place, (run, loss) in enumerate(losses.items())
        for n in range(1, 51 if run == "failed" else 101)
    ]
    put(sql, "steps", steps)
    found = sql.execute("from training_means order by tokens").df()
    assert len(found) >= 40
    assert found["loss"].eq(1.5).all()
    assert found["seeds"].eq(2).all()
    assert found["seed_error"].round(9).eq(0.5).all()
    assert found["tokens"].is_monotonic_increasing
    sql.execute("update runs set status = 'training'")
    under_way = sql.execute("from training_means").df()
    assert under_way["seeds"].eq(5).all()  # while none has ended all count


def curate(sql, rows):
    names = ("source", "stage", "reason", "documents", "tokens")
    put(sql, "curation", [{"study_id": "s"} | dict(zip(names, row, strict=True)) for row in rows])


def test_funnel_follows_the_pipeline(sql):
    curate(
        sql,
        [
            ("a", "deduplicate", "kept", 6, None),
            ("a", "deduplicate", "near duplicate", 3, None),
            ("b", "deduplicate", "kept", 5, None),
            ("a", "documents", "kept", 10, None),
            ("b", "documents", "kept", 10, None),
            ("a", "clean", "kept", 9, None),
            ("a", "clean", "too short", 1, None),
            ("b", "clean", "kept", 5, None),
            ("b", "clean", "too short", 1, None),
            ("b", "clean", "not text", 4, None),
            ("a", "tokens", "kept", 6, 20),
            ("b", "tokens", "kept", 5, 15),
        ],
    )
    assert sql.execute("select * exclude (study_id, characters_kept) from funnel").fetchall() == [
        ("documents", 20, 20, 0, 1.0, 1.0, None, None),
        ("clean", 20, 14, 6, 0.7, 0.7, None, "not text 4, too short 2"),
        ("deduplicate", 14, 11, 3, pytest.approx(11 / 14), 0.55, None, "near duplicate 3"),
        ("tokens", 11, 11, 0, 1.0, 0.55, 35, None),
    ]
    by_source = sql.execute(
        "select source, stage, documents, kept, reasons from funnel_by_source"
    ).fetchall()
    assert by_source[1] == ("a", "clean", 10, 9, "too short 1")
    assert by_source[5] == ("b", "clean", 10, 5, "not text 4, too short 1")


def test_funnel_puts_unknown_stages_last_by_size(sql):
    stages = {"judge": 5, "filter": 7, "documents": 9, "empty": None}
    curate(sql, [("a", stage, "kept", documents, None) for stage, documents in stages.items()])
    found = [row[0] for row in sql.execute("select stage from funnel").fetchall()]
    assert found == ["documents", "filter", "judge", "empty"]


def test_the_data_sets_of_a_study_have_licences_documents_and_tokens(sql):
    rows = [
        ("a", "documents", "kept", 9, None),
        ("a", "documents", "empty", 1, None),
        ("a", "tokens", "kept", 6, 30),
    ]
    rows.append(("b", "tokens", "kept", 2, 10))
    curate(sql, rows)
    commits = {"revision": "c0f", "commit": "c0ffee"}
    put(
        sql,
        "sources",
        [{"study_id": "s", "source": "a", "repository": "o/a", "licence": "mit", **commits}],
    )
    columns = "source, revision, licence, documents_read, documents, tokens, share_of_tokens"
    assert sql.execute(f"select {columns} from table_4").fetchall() == [
        ("a", "c0ffee", "mit", 10, 6, 30, 0.75),
        ("b", None, None, None, 2, 10, 0.25),
    ]


OF_TASKS = ("study_evaluations", "token_accuracy", "raw_accuracy", "depth_accuracy")
OF_RUNS = ("training_curves", "training_means", "expert_gini")
RUN = {"run_id": "s-4-DR-None"}


@pytest.fixture
def shared(sql):
    """A run of 40 tokens and of tasks t and late, which studies s and long have; s wants 20 tokens
    of task t."""
    tasks = {"t": {10: 0.1, 20: 0.2, 40: 0.4}, "late": {10: 0.3, 20: 0.3, 40: 0.5}}
    enter(sql, {"DR": tasks})
    place = {**RUN, "metric": "exact_match", "filter": "none"}
    sql.execute("update runs set tokens = 20")
    sql.execute("insert into models select * replace ('long' as study_id) from models")
    sql.execute(
        "insert into runs by name select * replace ('long' as study_id, 40 as tokens) from runs"
    )
    rows = [
        {**place, "task": task, "tokens": at, "value": 0.1}
        for task, curve in tasks.items()
        for at in curve
    ]
    put(sql, "raw_evaluations", rows)
    put(sql, "depth_evaluations", [{**row, "depth": 2} for row in rows])
    put(sql, "steps", [{**RUN, "step": n, "tokens": 10 * n, "loss": 1.0} for n in (1, 2, 3, 4)])
    put(
        sql,
        "depth_attention",
        [{**RUN, "tokens": at, "query_depth": 1, "key_depth": 0} for at in (10, 20, 40)],
    )
    put(sql, "checkpoints", [{**RUN, "tokens": at, "step": at // 10} for at in (10, 20, 40)])
    versions = [{key: row[key] for key in ("run_id", "tokens", "task")} for row in rows]
    put(sql, "evaluation_versions", [{**row, "code_version": row["task"]} for row in versions])
    put(
        sql,
        "expert_usage",
        [{**RUN, "tokens": at, "depth": 1, "expert": 0, "selections": 5} for at in (10, 20, 40)],
    )
    return sql


def seen(sql, study):
    """Which tasks the views show of a study, where they have tasks, and up to how many tokens."""
    most, own = (
        "max(tokens) from {} where study_id = ?",
        "list(distinct task order by task) filter (task <> 'average')",
    )
    asked = [(view, f"select {own}, {most}") for view in OF_TASKS] + [
        (view, f"select {most}") for view in OF_RUNS
    ]
    return [sql.execute(query.format(view), [study]).fetchall()[0] for view, query in asked]


@pytest.mark.slow
def test_results_without_claims_are_seen_whole(shared):
    everything = [(["late", "t"], 40)] * len(OF_TASKS) + [(40,)] * len(OF_RUNS)
    assert seen(shared, "s") == seen(shared, "long") == everything


@pytest.mark.slow
def test_a_study_sees_nothing_of_its_runs_that_was_made_for_another(shared):
    whole = seen(shared, "long")
    put(shared, "claims", [{**RUN, "study_id": "s", "tokens": at, "task": "t"} for at in (10, 20)])
    assert seen(shared, "long") == whole
    assert seen(shared, "s") == [(["t"], 20)] * len(OF_TASKS) + [(20,)] * len(OF_RUNS)
    average = "select tokens, accuracy from token_accuracy where study_id = 's' and task = 'average' order by tokens"
    assert shared.execute(average).fetchall() == [(10, 0.1), (20, 0.2)]
    assert shared.execute("select distinct task from compared_tasks('s')").fetchall() == [("t",)]


@pytest.mark.slow
def test_a_report_has_nothing_that_was_made_for_another_study(shared):
    put(shared, "claims", [{**RUN, "study_id": "s", "tokens": at, "task": "t"} for at in (10, 20)])
    for name, query in QUERIES.items():
        frame = shared.execute(query, ["s"]).df()
        assert "tokens" not in frame or not frame["tokens"].max() > 20, name
        assert "task" not in frame or "late" not in set(frame["task"]), name


NAMES = {"LA": "X", "DR": "Y", "DR+DA": "Z", "tiny": "another's"}


def frames(path: Path) -> dict[str, pd.DataFrame]:
    """All that a report reads, rows in one order, after the factors were computed."""
    with connect(path) as connection:
        compute_statistics(connection, STUDY, replicates=20)
    read = read_study(path, STUDY)
    assert read.baseline == read.variants[0]
    return read.frames


@pytest.mark.slow
def test_variants_of_other_names_have_the_same_numbers(tmp_path: Path) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    with connect(path) as connection:
        connection.execute("update studies set baseline = 'DR'")
    before = frames(path)
    with connect(path) as connection:
        for name, other in NAMES.items():
            connection.execute("update models set variant = ? where variant = ?", [other, name])
        connection.execute("update studies set baseline = 'Y'")
    after = frames(path)
    assert before["efficiency"]["factor"].nunique() == 2
    back = {other: name for name, other in NAMES.items()}
    for name, frame in after.items():
        for column in {"variant", "baseline"} & {*frame}:
            frame[column] = frame[column].replace(back)
        order = list(frame)
        expected = (
            before[name].sort_values(order, ignore_index=True) if len(frame) else before[name]
        )
        pd.testing.assert_frame_equal(
            frame.sort_values(order, ignore_index=True), expected, obj=name
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("baseline", "order"),
    [(None, ["LA", "DR", "DR+DA", "tiny"]), ("tiny", ["tiny", "LA", "DR", "DR+DA"])],
)
def test_the_baseline_comes_first_and_is_the_first_one_by_default(
    tmp_path: Path, baseline: str | None, order: list[str]
) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    with connect(path) as connection:
        connection.execute("update studies set baseline = ?", [baseline])
    data = read_study(path, STUDY)
    assert data.variants == order
    assert set(data.mean_factors["baseline"]) == {order[0]}


RECURRENT = '{"recurrent": true}'


def use(sql, variant, usage, config=None):
    """Enter how often a run has selected each expert, `usage` by depth and expert; read its rows of
    `expert_gini`."""
    model = {
        "study_id": "s",
        "model_id": "m",
        "variant": variant,
        "depth": 2,
        "config": config or RECURRENT,
    }
    put(sql, "models", [model])
    sql.execute("insert into runs (study_id, run_id, model_id) values ('s', 'r', 'm')")
    sql.executemany(
        "insert into expert_usage values ('r', 10, ?, ?, ?)",
        [(d, e, n) for d, row in usage.items() for e, n in row.items()],
    )
    return {
        depth: (pytest.approx(gini), experts, used)
        for depth, gini, experts, used in sql.execute(
            "select depth, gini, experts, experts_used from expert_gini"
        ).fetchall()
    }


AROUND = '{"recurrent": true, "depth": 4, "prelude": 1, "coda": 2}'
POOL = '{"recurrent": true, "depth": 4, "prelude": 1, "coda": 2, "expert_pool": true}'


@pytest.mark.parametrize(
    ("variant", "config", "own"),
    [
        ("DR", None, ()),
        ("LA", "not json", (1, 2, 3, 4)),
        ("LA", '{"recurrent": false}', (1, 2, 3, 4)),
        ("DR", AROUND, (1, 3, 4)),
        ("DR", '{"recurrent": true, "depth": 4, "prelude": 1}', (1,)),
        ("LA", '{"recurrent": false, "expert_pool": true}', ()),
        ("DR", POOL, ()),
    ],
)
def test_balance_is_that_of_its_definition(sql, variant, config, own):
    """Experts that were never selected count; a depth without selections has no row."""
    usage = {1: {0: 1, 1: 3, 2: 0}, 2: {0: 0, 1: 0, 2: 4}, 3: {0: 2, 1: 0, 2: 5}, 4: {0: 0}}
    found = use(sql, variant, usage, config)
    rows = sql.execute(
        "select depth, experts, share from expert_concentration order by all"
    ).fetchall()
    assert found.keys() == {depth for depth, *_ in rows} == {1, 2, 3, None}
    whole = Counter()
    for depth, selections in usage.items():
        whole.update(
            {(depth if depth in own else 0, expert): count for expert, count in selections.items()}
        )
    for depth, (gini, experts, used) in found.items():
        counts = sorted(whole.values() if depth is None else usage[depth].values(), reverse=True)
        assert experts == len(counts)
        apart = sum(abs(one - other) for one in counts for other in counts)
        assert apart / (2 * experts * sum(counts)) == gini
        assert sum(count > 0 for count in counts) == used
        curve = {most: share for of, most, share in rows if of == depth}
        assert curve == {most: pytest.approx(sum(counts[:most]) / sum(counts)) for most in curve}
        assert (min(curve), max(curve)) == (1, experts)
        assert len(curve) == experts or experts > 9


def test_the_gini_at_the_end_is_the_mean_over_runs_that_came_to_the_end(sql):
    """Shares of 1 to 3, of 0 to 4, and even ones: Gini coefficients of 0.25, 0.5 and 0."""
    put(
        sql,
        "models",
        [{"study_id": "s", "model_id": "m", "variant": "DR", "depth": 2, "config": RECURRENT}],
    )
    ends = {"a": [1, 3], "b": [0, 4], "screened": [2, 2], "failed": [2, 2]}
    statuses = {"a": "complete", "b": None, "screened": "screened", "failed": "failed"}
    put(
        sql,
        "runs",
        [
            {"study_id": "s", "run_id": run, "model_id": "m", "status": statuses[run]}
            for run in ends
        ],
    )
    earlier = {"run_id": "a", "tokens": 10, "depth": 1, "expert": 0, "selections": 1}
    later = [
        {"run_id": run, "tokens": 20, "depth": 1, "expert": expert, "selections": count}
        for run, counts in ends.items()
        for expert, count in enumerate(counts)
    ]
    put(sql, "expert_usage", [earlier, {**earlier, "expert": 1, "selections": 9}, *later])
    experts_for_90 = "select experts_for_90 from expert_diversity"
    assert sql.execute(experts_for_90).fetchall() == [(1.5,)], "two of one run, one of the other"
    at_end = "select variant, gini, lowest, highest, runs from gini_at_end"
    assert sql.execute(at_end).fetchall() == [("DR", 0.375, 0.25, 0.5, 2)]
    sql.execute("update runs set status = 'screened'")
    assert sql.execute(at_end).fetchall() == [("DR", 0.1875, 0.0, 0.5, 4)], "none came to the end"
    assert sql.execute(experts_for_90).fetchall() == [(1.75,)]


def test_diversity_counts_the_experts_with_nine_tenths_of_the_selections(sql):
    for variant in ("LA", "DR"):
        model = {
            "study_id": "s",
            "model_id": variant,
            "variant": variant,
            "depth": 2,
            "place": PLACES[variant],
        }
        put(sql, "models", [{**model, "config": RECURRENT if variant == "DR" else None}])
        sql.execute("insert into runs (study_id, run_id, model_id) values ('s', $1, $1)", [variant])
    usage = {
        ("LA", 10): {1: [50, 50, 0, 0]},
        ("LA", 20): {1: [90, 9, 1], 2: [50, 40, 10]},
        ("DR", 20): {1: [25, 25, 25, 25, 0], 2: [60, 29, 1, 10]},
    }
    for (run, tokens), depths in usage.items():
        place = {"run_id": run, "tokens": tokens}
        rows = [
            {**place, "depth": depth, "expert": expert, "selections": count}
            for depth, counts in depths.items()
            for expert, count in enumerate(counts)
        ]
        put(sql, "expert_usage", rows)
    columns = "variant, depth, experts_for_90, baseline_experts_for_90, ratio"
    assert sql.execute(f"select {columns} from expert_diversity").fetchall() == [
        ("LA", 1, 1, 1, 1),
        ("LA", 2, 2, 2, 1),
        ("DR", 1, 4, 1, 4),
        ("DR", 2, 3, 2, 1.5),
    ]


@pytest.mark.slow
def test_a_large_pool_keeps_points_evenly_spread_over_the_logarithm(sql):
    use(sql, "DR", {1: {expert: 1 + expert for expert in range(1000)}})
    counts = [
        row[0]
        for row in sql.execute(
            "select experts from expert_concentration where depth = 1"
        ).fetchall()
    ]
    assert (counts[0], counts[-1]) == (1, 1000)
    assert 15 < len(counts) <= 24
    assert all(
        later / earlier < 1.5 for earlier, later in itertools.pairwise(counts) if earlier >= 10
    )


def test_a_complete_run_stands_for_the_experts_of_its_model(sql):
    sql.execute(
        "insert into models (study_id, model_id, variant, depth) values ('s', 'm', 'DR', 2)"
    )
    for seed, status in ((3, "complete"), (2, "complete"), (1, "screened"), (0, "failed")):
        columns = (
            "insert into runs (study_id, run_id, model_id, seed, status) values ('s', ?, 'm', ?, ?)"
        )
        sql.execute(columns, [f"r{seed}", seed, status])
        sql.execute("insert into expert_usage values (?, 10, 1, 0, 5)", [f"r{seed}"])
    assert sql.execute("select run_id from expert_runs").fetchall() == [("r2",)]
