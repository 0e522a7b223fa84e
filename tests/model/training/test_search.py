"""The search for settings: what is chosen, and how grids grow."""

import pytest

from dreamer_study.model.training.search import (
    best_settings,
    by_rate,
    combinations,
    grown,
    in_words,
)


def rows(variant, losses):
    """Rows of a search over rates, or over rates and weight decays."""
    made = []
    for setting, found in losses.items():
        rate, decay = setting if isinstance(setting, tuple) else (setting, 0.5)
        known = {"variant": variant, "depth": 4, "learning_rate": rate, "weight_decay": decay}
        made += [{**known, "seed": seed, "loss": loss} for seed, loss in enumerate(found)]
    return made


def rates(chosen):
    return {model: settings[0] for model, settings in chosen.items()}


def test_the_settings_of_the_lowest_mean_loss_are_chosen():
    inside = rows("LA", {1: [3.0, 3.0], 2: [2.0, 2.4], 8: [2.1, 2.5]})
    edge = rows("DR", {1: [3.0], 2: [2.0], 8: [1.0]})
    assert rates(best_settings([*inside, *edge])) == {("LA", 4): 2, ("DR", 4): 8}
    equal = best_settings(rows("LA", {1: [2.0], 2: [2.0]}))
    assert rates(equal) == {("LA", 4): 1}, "the lower one of equals"
    failed = best_settings(rows("LA", {1: [3.0, 3.0], 2: [1.0, None]}))
    assert rates(failed) == {("LA", 4): 1}, "a training failed at 2"
    assert best_settings(rows("LA", {1: [None]})) == {}
    both = rows("LA", {(1, 0.1): [3.0], (1, 0.3): [2.0], (2, 0.1): [2.5], (2, 0.3): [2.2]})
    assert best_settings(both) == {("LA", 4): (1, 0.3, 0.0)}


def test_a_grid_grows_at_an_edge_that_is_best():
    inside = rows("LA", {1: [3.0, 3.0], 2: [2.0, 2.4], 8: [2.1, 2.5]})
    edge = rows("DR", {1: [3.0], 2: [2.0], 8: [1.0]})
    low = rows("X", {1: [1.0], 2: [2.0]})
    failed = rows("Y", {1: [None], 2: [None]})
    found = [*inside, *edge, *low, *failed]
    models = [("LA", 4), ("DR", 4), ("X", 4), ("Y", 4)]
    grids = grown({model: {"learning_rate": [1, 2, 8]} for model in models}, found)
    assert grids[models[0]]["learning_rate"] == [1, 2, 8]
    assert grids[models[1]]["learning_rate"] == [1, 2, 8, 32]
    assert grids[models[2]]["learning_rate"] == [0.5, 1, 2, 8]
    assert grids[models[3]]["learning_rate"] == [1, 2, 8], "nothing says where to look"


def test_each_grid_grows_by_itself_and_a_share_never_beyond_the_whole():
    found = rows("LA", {(2, 0.0): [1.0], (2, 0.1): [2.0], (1, 0.0): [2.0], (8, 0.0): [3.0]})
    for row in found:
        row["decay"] = 0.8
    grids = {"learning_rate": [1, 2, 8], "weight_decay": [0.0, 0.1], "decay": [0.2, 0.8]}
    larger = grown({("LA", 4): grids}, found)[("LA", 4)]
    assert larger["learning_rate"] == [1, 2, 8]
    assert larger["weight_decay"] == [0.0, 0.1], "nothing lies below 0"
    assert larger["decay"] == [0.2, 0.8, 1.0]
    whole = {("LA", 4): {"decay": [0.5, 1.0]}}
    assert grown(whole, rows_at_whole()) == whole


def rows_at_whole():
    return [{**row, "decay": 1.0} for row in rows("LA", {1: [1.0]})]


def test_a_table_by_rates_keeps_each_rate_at_its_best_other_settings():
    found = rows("LA", {(1, 0.1): [3.0, 1.0], (1, 0.3): [2.5, 1.0], (2, 0.1): [None, 1.0]})
    kept = by_rate(found)
    assert [(row["learning_rate"], row["loss"]) for row in kept] == [
        (1, 2.5),
        (1, 1.0),
        (2, None),
        (2, 1.0),
    ]
    assert not any("weight_decay" in row for row in kept)


def test_combinations_and_their_words():
    tried = combinations({"learning_rate": [1e-3, 2e-3], "weight_decay": [0.1]})
    assert [in_words(values) for values in tried] == [
        "rate 0.001, weight decay 0.1",
        "rate 0.002, weight decay 0.1",
    ]
    with pytest.raises(KeyError):
        in_words({"momentum": 1.0})
