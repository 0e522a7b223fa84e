"""The other views on rows with known answers: accuracies, averages, tables, costs, funnel and experts."""

from __future__ import annotations

import itertools

import pytest

from tests.sql.by_hand import efficiency, enter, pair, put

# Which number is the accuracy ---------------------------------------------------------------------------------------


def add(sql, task, metric, filter_name, value, tokens=10):
    sql.execute(
        "insert into evaluations (run_id, tokens, task, metric, filter, value) values ('s-4-LA-None', ?, ?, ?, ?, ?)",
        [tokens, task, metric, filter_name, value],
    )


def accuracies(sql):
    return dict(sql.execute("select task, accuracy from token_accuracy").fetchall())


def test_the_declared_metric_is_taken_and_others_are_kept_beside_it(sql):
    enter(sql, {"LA": {}})
    add(sql, "gsm8k", "exact_match", "strict-match", 0.1)
    add(sql, "gsm8k", "exact_match", "flexible-extract", 0.2)
    add(sql, "mathqa", "acc_norm", "none", 0.3)
    add(sql, "mathqa", "acc", "none", 0.4)
    assert accuracies(sql) == {"gsm8k": 0.2, "mathqa": 0.4, "average": pytest.approx(0.3)}


def test_an_undeclared_task_takes_the_first_listed_metric_and_the_plainest_filter(sql):
    enter(sql, {"LA": {}})
    add(sql, "mine", "exact_match", "none", 0.1)
    add(sql, "mine", "acc", "none", 0.2)
    add(sql, "mine", "acc", "strict-match", 0.3)
    add(sql, "gsm8k", "exact_match", "strict-match", 0.4)  # the declared filter is not there
    add(sql, "only a loss", "cross_entropy", "none", 0.5)
    assert accuracies(sql) == {"mine": 0.2, "gsm8k": 0.4, "average": pytest.approx(0.3)}


def test_users_declare_their_own_benchmarks(sql):
    enter(sql, {"LA": {}})
    add(sql, "proofs", "grade", "judge", 0.7)
    sql.execute("insert into benchmarks (task, metric, filter, chance) values ('proofs', 'grade', 'judge', 0.5)")
    rows = sql.execute("select accuracy, chance from token_accuracy where task = 'proofs'").fetchall()
    sql.execute("delete from benchmarks where task = 'proofs'")
    assert rows == [(0.7, 0.5)]


def test_perplexities_never_enter_accuracy_or_the_average(sql):
    enter(sql, {"LA": {"t": {10: 0.5, 20: 0.6}}})
    for tokens, value in ((10, 7.0), (20, 6.5)):
        add(sql, "college", "word_perplexity", "none", value * 10, tokens)
        add(sql, "college", "perplexity", "none", value, tokens)
        add(sql, "college", "bits_per_byte", "none", 0.7, tokens)
    assert sql.execute("select task, max(accuracy) from token_accuracy group by task order by task").fetchall() == [
        ("average", 0.6),
        ("t", 0.6),
    ]
    assert sql.execute("select tokens, perplexity, metric from token_perplexity order by tokens").fetchall() == [
        (10, 7.0, "perplexity"), (20, 6.5, "perplexity"),
    ]  # fmt: skip
    assert sql.execute("select task, perplexity, accuracy from table_2").fetchall() == [
        ("college", 6.5, None), ("t", None, 0.6), ("average", None, 0.6),
    ]  # fmt: skip


def test_the_best_perplexity_is_at_the_first_checkpoint_with_it(sql):
    enter(sql, {"LA": {"t": {10: 0.5, 20: 0.6, 30: 0.6}}})
    for tokens, value in ((10, 7.0), (20, 6.5), (30, 6.5)):
        add(sql, "college", "perplexity", "none", value, tokens)
    assert sql.execute("select best_tokens from table_2 where task = 'college'").fetchall() == [(20,)]


# The average --------------------------------------------------------------------------------------------------------


def test_the_average_is_that_of_the_average_curve(sql):
    enter(
        sql,
        {
            "LA": {"a": {10: 0.8, 20: 0.2}, "b": {10: 0.1, 20: 0.5}},
            "DR": {"a": {10: 0.4, 20: 0.9}, "b": {10: 0.5, 20: 0.5}},
        },
    )
    best = dict(sql.execute("select task, accuracy from best_accuracy where variant = 'LA'").fetchall())
    assert best == {"a": 0.8, "b": 0.5, "average": pytest.approx(0.45)}  # not 0.65, the mean of the bests
    assert efficiency(sql, task="average") == (pytest.approx(0.45), 10, 10, 1.0, "at least")


def test_the_average_needs_all_tasks_of_the_study_at_a_checkpoint(sql):
    enter(sql, {"LA": {"a": {10: 0.1, 20: 0.3}, "b": {20: 0.5}}, "DR": {"a": {10: 0.9}}})
    rows = sql.execute("select variant, tokens, accuracy from token_accuracy where task = 'average'").fetchall()
    assert rows == [("LA", 20, pytest.approx(0.4))]
    assert efficiency(sql, task="average") == (pytest.approx(0.4), 20, None, None, None)


def test_the_average_counts_the_same_items_once(sql):
    enter(sql, {"LA": {"math": {10: 0.2}, "gsm8k": {10: 0.4}}})
    add(sql, "math_verify", "math_verify", "none", 0.9)
    assert accuracies(sql)["average"] == pytest.approx(0.3)
    sql.execute("delete from evaluations where task = 'math'")
    assert accuracies(sql)["average"] == pytest.approx(0.65)


def test_the_average_has_the_error_of_independent_tasks_and_the_mean_chance(sql):
    enter(sql, {"LA": {"a": {10: 0.2}, "b": {10: 0.4}}}, chance=0.25)
    sql.execute(
        "update evaluations set stderr = if(task = 'a', 0.03, 0.04), chance = if(task = 'a', 0.2, 0.3), items = 100"
    )
    row = sql.execute("select stderr, chance, items from token_accuracy where task = 'average'").fetchall()
    assert row == [(pytest.approx(0.025), pytest.approx(0.25), 200)]


# Questions with arguments, tables, costs ----------------------------------------------------------------------------


def test_tokens_to(sql):
    enter(
        sql, {"LA": {"t": {10: 0.1, 1000: 0.5}}, "DR": {"t": {10: 0.3, 1000: 0.6}}, "mine": {"t": {10: 0.1, 1000: 0.2}}}
    )
    rows = sql.execute(
        "select variant, tokens, tokens_interpolated, bound, tokens_trained from tokens_to('t', 0.3)"
    ).fetchall()
    assert rows == [
        ("DR", 10, 10.0, "at most", 1000),
        ("LA", 1000, pytest.approx(100), "exactly", 1000),
        ("mine", None, None, "more than", 1000),
    ]


def test_efficiency_against_another_baseline(sql):
    enter(sql, {"LA": {"t": {10: 0.1, 20: 0.2}}, "DR": {"t": {10: 0.1, 20: 0.4}}, "DR+DA": {"t": {10: 0.4, 20: 0.5}}})
    rows = sql.execute("select variant, factor, bound from efficiency_against('DR') where task = 't'").fetchall()
    assert rows == [("LA", 1.0, "at most"), ("DR", 1.0, "exact"), ("DR+DA", 2.0, "at least")]


def test_compute_efficiency_weighs_tokens_with_flops_and_seconds(sql):
    pair(sql, {10: 0.1, 20: 0.5}, {10: 0.5, 20: 0.6})
    sql.execute("update models set flops_per_token = if(variant = 'LA', 100, 110)")
    sql.execute("update runs set tokens_per_second = if(model_id = 'LA-4', 1000, 500)")
    rows = sql.execute(
        "select variant, factor_tokens, factor_flops, factor_seconds from compute_efficiency where task = 't'"
    ).fetchall()
    assert rows == [("LA", 1.0, 1.0, 1.0), ("DR", 2.0, pytest.approx(2 / 1.1), 1.0)]


def test_table_1_has_the_papers_units_and_order(sql):
    sql.execute(
        "insert into models values ('s', 'x', 'DR+DA', 16, 1170800000, 941300000, 4783900000, null),"
        "('s', 'y', 'LA', 16, 1170800000, 938900000, 4782700000, null), ('s', 'z', null, 16, null, null, null, null)"
    )
    put(sql, "runs", [{"study_id": "s", "run_id": str(n), "model_id": "y", "tokens_per_second": n} for n in (100, 200)])
    columns = "variant, depth, parameters_billion, flops_billion_per_token, memory_gigabytes, tokens_per_second, runs"
    assert sql.execute(f"select {columns} from table_1").fetchall() == [
        ("LA", 16, 1.1708, 0.9389, 4.7827, 150.0, 2),
        ("DR+DA", 16, 1.1708, 0.9413, 4.7839, None, 0),
        ("z", 16, None, None, None, None, 0),
    ]


def test_table_2_has_a_row_for_each_model_and_task_with_its_interval(sql):
    for variant, best in (("DR+DA", 0.5), ("LA", 0.4), ("DR", 0.3)):
        enter(sql, {variant: {"gsm8k": {10: 0.1, 20: best}, "math": {10: 0.1, 20: best}}})
    for rule, high in (("first", 1.5), ("interpolated", 2.0)):
        row = {"study_id": "s", "depth": 4, "variant": "DR", "task": "math", "rule": rule, "low": 0, "high": high}
        put(sql, "factor_intervals", [row])
    columns = "variant, task, accuracy, data_efficiency, bound, low, high, metric"
    rows = sql.execute(f"select {columns} from table_2").fetchall()
    assert [row[:2] for row in rows] == list(itertools.product(("LA", "DR", "DR+DA"), ("gsm8k", "math", "average")))
    assert rows[4] == ("DR", "math", 0.3, 1.0, "at most", 0.0, 1.5, "exact_match")


# The paper's Table 2 by depth: accuracy of gsm8k, math, mmlu_math and mathqa, and the printed Average.
TABLE_2 = {
    16: {
        "LA": ((43.8, 40.9, 26.6, 22.9), 32.3),
        "DR": ((47.6, 47.8, 44.5, 45.6), 45.7),
        "DR+DA": ((51.7, 50.7, 38.5, 37.1), 43.4),
    },
    32: {
        "LA": ((49.7, 48.2, 37.2, 26.0), 39.5),
        "DR": ((51.5, 51.3, 45.3, 43.2), 47.6),
        "DR+DA": ((56.3, 54.5, 50.0, 50.8), 51.4),
    },
}


def test_printed_results_of_the_paper_entered_as_rows_come_out_again(sql):
    # Only bests are printed, without their checkpoints, so the paper's Average (the best of the average curve) cannot
    # be had from them: entered at one checkpoint they give the mean of the bests. The average curve implies that this
    # is at least the printed Average, for no checkpoint has all bests at once; and so it is, for all six models.
    metrics = {"gsm8k": "exact_match", "math": "exact_match", "mmlu_math": "acc", "mathqa": "acc"}
    for depth, models in TABLE_2.items():
        for variant, (row, _) in models.items():
            name = f"{variant}-{depth}"
            sql.execute(
                "insert into models (study_id, model_id, variant, depth) values ('p', ?, ?, ?)", [name, variant, depth]
            )
            sql.execute("insert into runs (study_id, run_id, model_id) values ('p', $1, $1)", [name])
            for (task, metric), value in zip(metrics.items(), row, strict=True):
                place = {"run_id": name, "tokens": 100_000_000_000, "task": task, "metric": metric}
                put(sql, "evaluations", [{**place, "value": value}])
    found = sql.execute("select depth, variant, accuracy from table_2 where task = 'average'").fetchall()
    assert len(found) == 6
    for depth, variant, average in found:
        row, printed = TABLE_2[depth][variant]
        assert average == pytest.approx(sum(row) / 4)
        assert average > printed + 0.1


# Curation and experts -----------------------------------------------------------------------------------------------


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
    by_source = sql.execute("select source, stage, documents, kept, reasons from funnel_by_source").fetchall()
    assert by_source[1] == ("a", "clean", 10, 9, "too short 1")
    assert by_source[5] == ("b", "clean", 10, 5, "not text 4, too short 1")


def test_funnel_puts_unknown_stages_last_by_size(sql):
    stages = {"judge": 5, "filter": 7, "documents": 9, "empty": None}
    curate(sql, [("a", stage, "kept", documents, None) for stage, documents in stages.items()])
    found = [row[0] for row in sql.execute("select stage from funnel").fetchall()]
    assert found == ["documents", "filter", "judge", "empty"]


def use(sql, variant, usage, config=None):
    """Expert usage {depth: {expert: selections}} of one run."""
    sql.execute("insert into models values ('s', 'm', ?, 2, null, null, null, ?)", [variant, config])
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


def test_gini_of_a_recurrent_model_adds_selections_up_over_depths(sql):
    # Each depth uses its own half of the experts, the model uses all of them evenly.
    assert use(sql, "DR", {1: {0: 5, 1: 5}, 2: {2: 5, 3: 5}}) == {1: (0.5, 4, 2), 2: (0.5, 4, 2), None: (0.0, 4, 4)}


def test_gini_of_a_layered_model_keeps_layers_apart(sql):
    assert use(sql, "LA", {1: {0: 9, 1: 1}, 2: {0: 1, 1: 9}}) == {1: (0.4, 2, 2), 2: (0.4, 2, 2), None: (0.4, 4, 4)}


def test_experts_of_a_run_that_no_study_names_are_not_lost(sql):
    sql.execute("insert into expert_usage values ('r', 10, 1, 0, 5), ('r', 10, 1, 1, 5), ('r', 10, 2, 0, 4)")
    found = sql.execute("select depth, gini, experts from expert_gini").fetchall()
    assert found == [(None, pytest.approx(9 / 14 - 0.5), 2), (1, 0.0, 2), (2, 0.5, 2)]


def test_the_configuration_tells_recurrence_and_the_experts_never_selected(sql):
    found = use(sql, "mine", {1: {0: 6}, 2: {0: 6}}, '{"recurrent": false, "experts": 3}')
    assert found == {1: (2 / 3, 3, 1), 2: (2 / 3, 3, 1), None: (2 / 3, 6, 2)}
    assert sql.execute("select rank, expert_share, selection_share from expert_lorenz where depth = 1").fetchall() == [
        (0, 0.0, 0.0),
        (1, pytest.approx(1 / 3), 0.0),
        (2, pytest.approx(2 / 3), 0.0),
        (3, 1.0, 1.0),
    ]


def test_lorenz_curves_rise_to_one_below_the_diagonal(sql):
    use(sql, "DR", {1: {0: 1, 1: 2, 2: 7}, 2: {0: 0, 1: 0, 2: 0}}, "not json")
    curve = sql.execute("select expert_share, selection_share from expert_lorenz where depth = 1").fetchall()
    assert curve == [(0.0, 0.0), (pytest.approx(1 / 3), 0.1), (pytest.approx(2 / 3), 0.3), (1.0, 1.0)]
    depths = {row[0] for row in sql.execute("select depth from expert_lorenz").fetchall()}
    assert depths == {None, 1}  # depth 2 selected nothing


@pytest.mark.parametrize(
    ("variant", "config"), [("DR", None), ("LA", None), ("DR", '{"experts": 7}'), ("LA", '{"experts": 7}')]
)
def test_the_area_under_a_lorenz_curve_gives_the_gini_coefficient(sql, variant, config):
    """Experts that were never selected count in both, whether they have a row or not."""
    found = use(sql, variant, {1: {0: 1, 1: 3}, 2: {2: 4}, 3: {0: 2, 1: 0, 2: 5}}, config)
    rows = sql.execute("select depth, expert_share, selection_share from expert_lorenz").fetchall()
    for depth, (gini, experts, _) in found.items():
        curve = [point for of, *point in rows if of == depth]
        area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(curve))
        assert 1 - 2 * area == gini
        assert [share for share, _ in curve] == [pytest.approx(rank / experts) for rank in range(experts + 1)]
    if variant == "DR" and config is None:
        at_first = [point for depth, *point in rows if depth == 1]
        assert at_first == [[0, 0], [pytest.approx(1 / 3), 0], [pytest.approx(2 / 3), 0.25], [1, 1]]
