"""The search for settings: what is chosen, and how it continues."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.model.training.search import (
    best_settings,
    by_rate,
    combinations,
    in_words,
    untried,
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


def test_a_search_goes_on_beyond_a_value_at_an_edge_that_is_best():
    inside = rows("LA", {1: [3.0, 3.0], 2: [2.0, 2.4], 8: [2.1, 2.5]})
    edge = rows("DR", {1: [3.0], 2: [2.0], 8: [1.0]})
    low = rows("X", {1: [1.0], 2: [2.0], 8: [3.0]})
    failed = rows("Y", {1: [None], 2: [None]})
    found = [*inside, *edge, *low, *failed]
    tried = combinations({"learning_rate": [1, 2, 8]})
    further = untried({(name, 4): tried for name in ("LA", "DR", "X", "Y")}, found)
    assert further == {
        ("LA", 4): [],
        ("DR", 4): [{"learning_rate": 32}],
        ("X", 4): [{"learning_rate": 0.5}],
    }, "nothing says where Y should look"


def test_a_setting_goes_beyond_by_itself_and_a_share_never_beyond_the_whole():
    grids = {"learning_rate": [1, 2, 8], "weight_decay": [0.0, 0.1], "decay": [0.2, 0.8]}
    found = rows("LA", {(2, 0.0): [1.0], (2, 0.1): [2.0], (1, 0.0): [2.0], (8, 0.0): [3.0]})
    found = [{**row, "decay": 0.8} for row in found]
    (further,) = untried({("LA", 4): combinations(grids)}, found).values()
    assert further == [{"learning_rate": 2, "weight_decay": 0.0, "decay": 1.0}]
    whole = [{**row, "decay": 1.0} for row in rows("LA", {1: [1.0]})]
    assert untried({("LA", 4): combinations({"decay": [0.5, 1.0]})}, whole) == {("LA", 4): []}


def test_a_search_of_two_settings_tries_the_neighbours_of_its_best_and_not_all_combinations():
    trials = combinations({"learning_rate": [1, 2], "weight_decay": [0.1, 0.2]})
    assert ended(trials, rate=4, decay=0.1) == {"learning_rate": 4, "weight_decay": 0.1}
    assert trials == [
        {"learning_rate": 1, "weight_decay": 0.1},
        {"learning_rate": 1, "weight_decay": 0.2},
        {"learning_rate": 2, "weight_decay": 0.1},
        {"learning_rate": 2, "weight_decay": 0.2},
        {"learning_rate": 4, "weight_decay": 0.1},
        {"learning_rate": 2, "weight_decay": 0.05},
        # around the new best
        {"learning_rate": 8, "weight_decay": 0.1},
        {"learning_rate": 4, "weight_decay": 0.05},
        {"learning_rate": 4, "weight_decay": 0.2},
    ]


@pytest.mark.slow
@given(
    steps=st.tuples(st.integers(-5, 6), st.integers(-5, 6)),
    grid=st.sampled_from([[1e-3, 2e-3], [1e-3, 1.5e-3, 6e-3], [3e-4, 1e-3]]),
)
def test_a_search_ends_where_a_step_of_any_setting_is_worse(steps, grid):
    rate = grid[0] * 2.0 ** steps[0]
    decay = 0.1 * 2.0 ** steps[1]
    trials = combinations({"learning_rate": grid, "weight_decay": [0.1, 0.2]})
    best = ended(trials, rate=rate, decay=decay)
    at = {
        (row["learning_rate"], row["weight_decay"]): row["loss"]
        for row in losses(trials, rate, decay)
    }
    lowest = at[best["learning_rate"], best["weight_decay"]]
    assert lowest == min(at.values())
    of_rates = [each for each, of_decay in at if of_decay == best["weight_decay"]]
    of_decays = [each for of_rate, each in at if of_rate == best["learning_rate"]]
    assert min(of_rates) < best["learning_rate"] < max(of_rates)
    assert min(of_decays) < best["weight_decay"] < max(of_decays)


def losses(trials, rate, decay):
    """Rows of the search, whose loss is lowest at a rate and a weight decay."""
    found = {}
    for values in trials:
        of_rate = abs(math.log(values["learning_rate"] / rate))
        of_decay = abs(math.log(values["weight_decay"] / decay))
        found[values["learning_rate"], values["weight_decay"]] = [1 + of_rate + of_decay]
    return rows("LA", found)


def ended(trials, *, rate, decay):
    """Search to the end, with `trials` as what was tried; return the best settings."""
    model = ("LA", 4)
    while further := untried({model: trials}, losses(trials, rate, decay))[model]:
        trials += further
    (best,) = best_settings(losses(trials, rate, decay)).values()
    return {"learning_rate": best[0], "weight_decay": best[1]}


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
