"""How evenly experts are used, and how many of them."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.sql.by_hand import PLACES, put

RECURRENT = '{"recurrent": true}'


def use(sql, variant, usage, config=None):
    """Expert usage {depth: {expert: selections}} of one run."""
    model = {"study_id": "s", "model_id": "m", "variant": variant, "depth": 2, "config": config or RECURRENT}
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


def test_gini_of_a_recurrent_model_adds_selections_up_over_depths(sql):
    # Each depth uses its own half of the experts, the model uses all of them evenly.
    assert use(sql, "DR", {1: {0: 5, 1: 5}, 2: {2: 5, 3: 5}}) == {1: (0.5, 4, 2), 2: (0.5, 4, 2), None: (0.0, 4, 4)}


def test_gini_of_a_layered_model_keeps_layers_apart(sql):
    found = use(sql, "LA", {1: {0: 9, 1: 1}, 2: {0: 1, 1: 9}}, "{}")
    assert found == {1: (0.4, 2, 2), 2: (0.4, 2, 2), None: (0.4, 4, 4)}


def test_experts_of_a_run_that_no_study_names_are_not_lost(sql):
    sql.execute("insert into expert_usage values ('r', 10, 1, 0, 5), ('r', 10, 1, 1, 5), ('r', 10, 2, 0, 4)")
    found = sql.execute("select depth, gini, experts from expert_gini").fetchall()
    assert found == [(None, pytest.approx(9 / 14 - 0.5), 2), (1, 0.0, 2), (2, 0.5, 2)]


def test_the_configuration_tells_recurrence_and_the_experts_never_selected(sql):
    found = use(sql, "mine", {1: {0: 6}, 2: {0: 6}}, '{"recurrent": false, "experts": 3}')
    assert found == {1: (2 / 3, 3, 1), 2: (2 / 3, 3, 1), None: (2 / 3, 6, 2)}


@pytest.mark.parametrize(
    ("variant", "config"),
    [("DR", None), ("LA", "not json"), ("DR", '{"experts": 7, "recurrent": true}'), ("LA", '{"experts": 7}')],
)
def test_balance_is_that_of_its_definition(sql, variant, config):
    """Experts that were never selected count, whether they have a row or not; a depth without selections has no row."""
    usage = {1: {0: 1, 1: 3}, 2: {2: 4}, 3: {0: 2, 1: 0, 2: 5}, 4: {0: 0}}
    found = use(sql, variant, usage, config)
    rows = sql.execute("select depth, experts, share from expert_concentration order by all").fetchall()
    assert found.keys() == {depth for depth, *_ in rows} == {1, 2, 3, None}
    whole = Counter()
    for depth, selections in usage.items():
        whole.update({(depth if variant == "LA" else 0, expert): count for expert, count in selections.items()})
    for depth, (gini, experts, used) in found.items():
        counts = sorted(whole.values() if depth is None else usage[depth].values(), reverse=True)
        counts = counts[:experts] + [0] * (experts - len(counts))
        apart = sum(abs(one - other) for one in counts for other in counts)
        assert apart / (2 * experts * sum(counts)) == gini
        assert sum(count > 0 for count in counts) == used
        curve = {most: share for of, most, share in rows if of == depth}
        assert curve == {most: pytest.approx(sum(counts[:most]) / sum(counts)) for most in curve}
        assert (min(curve), max(curve)) == (1, experts)
        assert len(curve) == experts or experts > 9


def test_diversity_counts_the_experts_with_nine_tenths_of_the_selections(sql):
    for variant in ("LA", "DR"):
        model = {"study_id": "s", "model_id": variant, "variant": variant, "depth": 2, "place": PLACES[variant]}
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


def test_a_large_pool_keeps_points_evenly_spread_over_the_logarithm(sql):
    use(sql, "DR", {1: {expert: 1 + expert for expert in range(1000)}})
    counts = [row[0] for row in sql.execute("select experts from expert_concentration where depth = 1").fetchall()]
    assert (counts[0], counts[-1]) == (1, 1000)
    assert 15 < len(counts) <= 24
    assert all(later / earlier < 1.5 for earlier, later in itertools.pairwise(counts) if earlier >= 10)


def test_a_complete_run_stands_for_the_experts_of_its_model(sql):
    sql.execute("insert into models (study_id, model_id, variant, depth) values ('s', 'm', 'DR', 2)")
    for seed, status in ((3, "complete"), (2, "complete"), (1, "screened"), (0, "failed")):
        columns = "insert into runs (study_id, run_id, model_id, seed, status) values ('s', ?, 'm', ?, ?)"
        sql.execute(columns, [f"r{seed}", seed, status])
        sql.execute("insert into expert_usage values (?, 10, 1, 0, 5)", [f"r{seed}"])
    assert sql.execute("select run_id from expert_runs").fetchall() == [("r2",)]
