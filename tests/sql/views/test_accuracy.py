"""Which metric is the accuracy of a task, perplexities, the average, and accuracy at other
depths."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dreamer_study.sql.results import ingest, query
from tests.sql.by_hand import efficiency, enter, enter_scores, put

# Which number is the accuracy
# ---------------------------------------------------------------------------------------


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
    sql.execute(
        "insert into benchmarks (task, metric, filter, chance) values ('proofs', 'grade', 'judge', 0.5)"
    )
    rows = sql.execute(
        "select accuracy, chance from token_accuracy where task = 'proofs'"
    ).fetchall()
    sql.execute("delete from benchmarks where task = 'proofs'")
    assert rows == [(0.7, 0.5)]


@pytest.mark.slow
def test_perplexities_never_enter_accuracy_or_the_average(sql):
    enter(sql, {"LA": {"t": {10: 0.5, 20: 0.6, 30: 0.6}}})
    for tokens, value in ((10, 7.0), (20, 6.5), (30, 6.5)):
        add(sql, "college", "word_perplexity", "none", value * 10, tokens)
        add(sql, "college", "perplexity", "none", value, tokens)
        add(sql, "college", "bits_per_byte", "none", 0.7, tokens)
    assert sql.execute(
        "select task, max(accuracy) from token_accuracy group by task order by task"
    ).fetchall() == [
        ("average", 0.6),
        ("t", 0.6),
    ]
    perplexities = "select tokens, value, metric from token_scores where measure = 'perplexity' order by tokens"
    assert sql.execute(perplexities).fetchall() == [
        (10, 7.0, "perplexity"), (20, 6.5, "perplexity"), (30, 6.5, "perplexity"),
    ]  # fmt: skip
    assert sql.execute("select task, perplexity, accuracy, best_tokens from table_2").fetchall() == [
        ("college", 6.5, None, 20), ("t", None, 0.6, 20), ("average", None, 0.6, 20),
    ]  # fmt: skip


# The average
# --------------------------------------------------------------------------------------------------------


def test_the_average_is_that_of_the_average_curve(sql):
    enter(
        sql,
        {
            "LA": {"a": {10: 0.8, 20: 0.2}, "b": {10: 0.1, 20: 0.5}},
            "DR": {"a": {10: 0.4, 20: 0.9}, "b": {10: 0.5, 20: 0.5}},
        },
    )
    best = dict(
        sql.execute("select task, accuracy from best_accuracy where variant = 'LA'").fetchall()
    )
    # not 0.65, the mean of the bests
    assert best == {"a": 0.8, "b": 0.5, "average": pytest.approx(0.45)}
    found = efficiency(sql, task="average")
    assert (found.goal, found.goal_tokens, found.tokens) == (pytest.approx(0.45), 10, 10)


def test_the_average_needs_all_tasks_of_the_study_at_a_checkpoint(sql):
    enter(sql, {"LA": {"a": {10: 0.1, 20: 0.3}, "b": {20: 0.5}}, "DR": {"a": {10: 0.9}}})
    rows = sql.execute(
        "select variant, tokens, accuracy from token_accuracy where task = 'average'"
    ).fetchall()
    assert rows == [("LA", 20, pytest.approx(0.4))]
    found = efficiency(sql, task="average")
    assert (found.goal, found.factor) == (pytest.approx(0.4), None)


def test_the_average_counts_the_same_items_once(sql):
    enter(sql, {"LA": {"math": {10: 0.2}, "gsm8k": {10: 0.4}}})
    add(sql, "math_verify", "math_verify", "none", 0.9)
    assert accuracies(sql)["average"] == pytest.approx(0.3)
    sql.execute("delete from evaluations where task = 'math'")
    assert accuracies(sql)["average"] == pytest.approx(0.65)


def test_the_average_counts_a_family_once_in_value_error_and_chance(sql):
    # chance 0.1, 0.1, 0.2, unknown
    values = {"world_short": 0.2, "world_long": 0.4, "mathqa": 0.8, "mine": 0.4}
    enter(sql, {"LA": {task: {10: value} for task, value in values.items()}})
    put(
        sql, "raw_evaluations", sql.execute("select * exclude (task_version) from evaluations").df()
    )
    sql.execute(
        "update evaluations set items = 100, stderr = 0.06, chance = case task when 'mine' then 0.3 end"
    )
    average = "select accuracy, stderr, chance, items from token_accuracy where task = 'average'"
    error = 0.06 * (2 * (1 / 6) ** 2 + 2 * (1 / 3) ** 2) ** 0.5
    mean = (0.3 + 0.8 + 0.4) / 3, error, (0.1 + 0.2 + 0.3) / 3, 400
    assert sql.execute(average).fetchall() == [pytest.approx(mean)]
    raw = "select accuracy from raw_accuracy where task = 'average'"
    assert sql.execute(raw).fetchall() == [pytest.approx((0.5,))]
    # now the only one of its family
    sql.execute("delete from evaluations where task = 'world_long'")
    assert accuracies(sql)["average"] == pytest.approx((0.2 + 0.8 + 0.4) / 3)


@pytest.mark.slow
def test_chance_is_that_of_the_best_trivial_rule_where_it_is_known(sql):
    enter(sql, {"LA": {"mathqa": {10: 0.34}, "mine": {10: 0.4}}}, items=401)
    chances = "select task, chance from token_accuracy where task <> 'average' order by task"
    near = "select task, near_chance from data_efficiency where task = 'mathqa'"
    assert sql.execute(chances).fetchall() == [("mathqa", 0.2), ("mine", None)]
    assert sql.execute(near).fetchall() == [("mathqa", False)]
    try:
        sql.execute("update benchmarks set trivial = 0.3 where task = 'mathqa'")
        assert sql.execute(chances).fetchall() == [("mathqa", 0.3), ("mine", None)]
        assert sql.execute(near).fetchall() == [("mathqa", True)]
        sql.execute("update benchmarks set trivial = 0.1 where task = 'mathqa'")
        assert sql.execute(chances).fetchall() == [("mathqa", 0.2), ("mine", None)]
    finally:
        sql.execute("update benchmarks set trivial = null")


def test_accuracy_at_other_depths_is_that_of_the_chosen_metric_at_the_latest_checkpoint(sql):
    sql.execute(
        "insert into models (study_id, model_id, variant, depth) values ('s', 'm', 'DR', 4)"
    )
    sql.execute("insert into runs (study_id, run_id, model_id) values ('s', 'r', 'm')")
    place = {"run_id": "r", "task": "mathqa", "filter": "none"}
    put(sql, "evaluations", [{**place, "tokens": 20, "metric": "acc", "value": 0.4}])
    rows = [
        {**place, "tokens": tokens, "depth": depth, "metric": "acc", "value": value}
        for tokens, depth, value in ((10, 4, 0.1), (20, 2, 0.3), (20, 4, 0.4), (20, 8, 0.35))
    ]
    rows.append({**place, "tokens": 20, "depth": 4, "metric": "acc_norm", "value": 0.9})
    put(sql, "depth_evaluations", rows)
    found = sql.execute(
        "select variant, trained_depth, depth, tokens, accuracy, chance from depth_accuracy"
    ).fetchall()
    assert found == [
        ("DR", 4, 2, 20, 0.3, 0.2),
        ("DR", 4, 4, 20, 0.4, 0.2),
        ("DR", 4, 8, 20, 0.35, 0.2),
    ]


# Losses
# -------------------------------------------------------------------------------------------------------------


def losses(sql):
    return dict(sql.execute("select task, loss from token_loss").fetchall())


def test_the_loss_of_a_benchmark_is_that_of_its_gold_answers(sql):
    enter(sql, {"LA": {"a": {10: 0.5}, "b": {10: 0.6}}})
    add(sql, "a", "gold_bits_per_byte", "none", 0.8)
    add(sql, "a", "bits_per_byte", "none", 0.7)
    add(sql, "b", "gold_bits_per_byte", "none", 0.4)
    add(sql, "validation", "bits_per_byte", "none", 1.5)
    add(sql, "college", "bits_per_byte", "none", 1.2)
    add(sql, "college", "perplexity", "none", 6.5)
    assert losses(sql) == {
        "a": 0.8, "b": 0.4, "average": pytest.approx(0.6), "validation": 1.5, "college": 1.2
    }  # fmt: skip
    assert accuracies(sql) == {"a": 0.5, "b": 0.6, "average": pytest.approx(0.55)}
    perplexities = "select task, value from token_scores where measure = 'perplexity'"
    assert sql.execute(perplexities).fetchall() == [("college", 6.5)]


def test_the_average_loss_is_over_the_tasks_of_the_average_accuracy_that_have_one(sql):
    enter(sql, {"LA": {"math": {10: 0.2}, "gsm8k": {10: 0.4}, "c": {10: 0.3}}})
    add(sql, "math_verify", "math_verify", "none", 0.9)  # the items of math
    for task, value in (("math", 0.5), ("math_verify", 0.9), ("gsm8k", 0.7)):
        add(sql, task, "gold_bits_per_byte", "none", value)
    assert losses(sql)["average"] == pytest.approx(0.6)


def test_the_error_of_a_loss_is_the_given_one_and_a_loss_has_no_chance(sql):
    enter(sql, {"LA": {"mathqa": {10: 0.5}}}, metric="acc")
    add(sql, "mathqa", "gold_bits_per_byte", "none", 0.8)
    sql.execute("update evaluations set items = 100, chance = 0.2")
    wanted = (
        "select value, stderr, chance from mean_curves where measure = 'loss' and task = 'mathqa'"
    )
    assert sql.execute(wanted).fetchall() == [(0.8, None, None)]
    sql.execute("update evaluations set stderr = 0.03")
    assert sql.execute(wanted).fetchall() == [(0.8, 0.03, None)]


def test_an_unlisted_metric_has_a_curve_without_a_measure(sql):
    enter(sql, {"LA": {"t": {10: 0.5}}})
    add(sql, "t", "my own", "none", 3.0)
    rows = sql.execute(
        "select measure, metric, value from mean_curves where task = 't' order by value"
    ).fetchall()
    assert rows == [("accuracy", "exact_match", 0.5), (None, "my own", 3.0)]


# Raw weights beside averaged ones
# -----------------------------------------------------------------------------------


def test_raw_weights_stand_beside_the_averaged_ones(sql):
    enter(sql, {"LA": {"t": {10: 0.5, 20: 0.6}, "u": {10: 0.7, 20: 0.8}}})
    place = {"run_id": "s-4-LA-None", "metric": "exact_match", "filter": "none"}
    raw = [
        {**place, "tokens": tokens, "task": task, "value": value}
        for tokens, task, value in ((10, "t", 0.4), (10, "u", 0.5), (20, "t", 0.3))
    ]
    put(sql, "raw_evaluations", raw)
    found = sql.execute("select task, tokens, accuracy from raw_accuracy order by all").fetchall()
    assert found == [
        ("average", 10, pytest.approx(0.45)),  # at 20 tokens a task is missing
        ("t", 10, 0.4),
        ("t", 20, 0.3),
        ("u", 10, 0.5),
    ]
    versions = [
        {"run_id": "s-4-LA-None", "tokens": 10, "task": task, "weights": "raw"} for task in "tu"
    ]
    put(sql, "evaluation_versions", versions)
    assert sql.execute("select task, tokens from raw_accuracy").fetchall() == [("t", 20)], (
        "evaluated raw since"
    )


# What models answer
# --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_answer_of_a_model_is_that_of_most_seeds_at_the_last_checkpoint_that_the_study_claims(
    sql,
):
    said = {"LA": ("7", "7", "3"), "DR": ("3", "4", "3")}
    for variant, texts in said.items():
        for seed, text in enumerate(texts):
            enter(sql, {variant: {"t": {10: 0.5, 20: 0.5, 30: 0.5}}}, seed=seed)
            place = {"run_id": f"s-4-{variant}-{seed}", "task": "t", "item_id": "a"}
            written = {10: "no", 20: text, 30: "later"}
            rows = [
                {**place, "tokens": t, "text": one, "question": "3 + 4?", "gold": "7"}
                for t, one in written.items()
            ]
            put(sql, "answers", rows)
            right = {"metric": "exact_match", "filter": "none", "value": float(text == "7")}
            put(sql, "items", [{**place, "tokens": tokens, **right} for tokens in written])
    sql.execute("update runs set tokens = 20")
    sql.execute(
        "insert into internal.claims select distinct 's', run_id, tokens, task from evaluations where tokens < 30"
    )
    rows = "select variant, question, gold, text, share_right, seeds, apart from internal.model_answers order by 1 desc"
    assert sql.execute(rows).fetchall() == [
        ("LA", "3 + 4?", "7", "7", pytest.approx(2 / 3), 3, pytest.approx(2 / 3)),
        ("DR", "3 + 4?", "7", "3", 0, 3, pytest.approx(2 / 3)),
    ]


# Facts about items
# --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_accuracy_of_each_value_of_a_fact_is_over_its_items_at_the_end(path):
    right = {10: [0.0, 0.0, 0.0, 0.0], 20: [1.0, 1.0, 0.0, 1.0]}
    enter_scores(path, {"LA": {"t": right}}, chance=0.25)
    facts = [
        {"study_id": "s", "task": "t", "item_id": item, "fact": "steps", "value": steps}
        for item, steps in (("t/0", 1), ("t/1", 1), ("t/2", 2))  # nothing is known of the last item
    ]
    ingest(path, {"item_facts": pa.Table.from_pylist(facts)})
    rows = query(path, "from accuracy_by_fact('s')").to_dict("records")
    assert [(row["value"], row["accuracy"], row["items"]) for row in rows] == [(1, 1, 2), (2, 0, 1)]
    assert {row["tokens"] for row in rows} == {20}
    assert {row["chance"] for row in rows} == {0.25}
    first, second = (row["stderr"] for row in rows)
    assert first == 0
    assert second != second  # of one item no error is known
    assert not len(query(path, "from accuracy_by_fact('another')"))
