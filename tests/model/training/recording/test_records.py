"""Which seed goes on after screening, from the logged steps of each."""

import pytest

from model.training.recording.records import best_rates, choose_seed, further_rates
from pipeline.errors import InputError
from tests.model.saved_files import write_values


@pytest.fixture
def run(tmp_path):
    """A function that writes the log of a run: every `log_every`-th of its steps of 10 tokens each."""

    def write(name, losses, log_every=1):
        (tmp_path / name).mkdir()
        steps = [(n, 10 * n, loss) for n, loss in enumerate(losses, start=1) if n % log_every == 0]
        write_values(tmp_path / name, steps)
        return tmp_path / name

    return write


def test_the_final_tenth_decides_and_of_equals_the_lower_seed(run):
    early, late, even = [1.0] * 18 + [3.0, 3.0], [9.0] * 17 + [2.0] * 3, [5.0] * 17 + [2.0] * 3
    runs = {7: run("early", early), 5: run("late", late), 3: run("even", even)}
    assert choose_seed(runs, 200) == 3
    assert choose_seed({seed: runs[seed] for seed in (5, 7)}, 200) == 5


def test_one_step_is_enough_where_every_step_is_logged(run):
    assert choose_seed({0: run("a", [2.0]), 1: run("b", [1.0])}, 10) == 1


@pytest.mark.parametrize(("log_every", "logged"), [(3, 0), (2, 1)])
def test_a_choice_by_few_losses_is_refused_in_one_line(run, log_every, logged):
    runs = {seed: run(str(seed), [2.0, 2.0], log_every) for seed in (0, 1)}
    with pytest.raises(InputError) as refused:
        choose_seed(runs, 20)
    said = f"{runs[0] / 'steps.csv'}: of the final tenth {logged} losses are logged, too few to choose between seeds"
    assert str(refused.value).startswith(said)
    assert "lower training.log_every" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_steps_left_out_do_not_matter_where_enough_are_logged(run):
    runs = {seed: run(str(seed), [9.0] * 900 + [loss] * 100, 10) for seed, loss in ((0, 2.0), (1, 1.0))}
    assert choose_seed(runs, 10_000) == 1


def test_what_came_after_the_race_decides_nothing(run):
    """A run that was chosen by a race has gone on since, or another study has trained it further."""
    first, second = [9.0] * 18 + [1.0] * 3, [9.0] * 18 + [2.0] * 3
    runs = {0: run("short", first), 1: run("long", second + [0.1] * 100)}
    assert choose_seed(runs, 205) == 0
    runs[0] = run("other", first + [9.0] * 100)
    assert [choose_seed(runs, stop_at) for stop_at in (205, 1210)] == [0, 1]


def rows(variant: str, losses: dict[float, list[float | None]]) -> list[dict[str, object]]:
    known = {"variant": variant, "depth": 4}
    return [{**known, "learning_rate": rate, "loss": loss} for rate, found in losses.items() for loss in found]


def test_the_rate_of_the_lowest_mean_loss_is_chosen_and_a_grid_grows_at_an_edge_that_is_best():
    inside = rows("LA", {1: [3.0, 3.0], 2: [2.0, 2.4], 8: [2.1, 2.5]})
    edge = rows("DR", {1: [3.0], 2: [2.0], 8: [1.0]})
    assert best_rates([*inside, *edge]) == {("LA", 4): 2, ("DR", 4): 8}
    assert best_rates(rows("LA", {1: [2.0], 2: [2.0]})) == {("LA", 4): 1}, "the lower one of equals"
    assert best_rates(rows("LA", {1: [3.0, 3.0], 2: [1.0, None]})) == {("LA", 4): 1}, "a training failed at 2"
    assert best_rates(rows("LA", {1: [None]})) == {}
    assert further_rates([1, 2, 8], inside) == []
    assert further_rates([1, 2, 8], [*inside, *edge]) == [32]
    assert further_rates([1, 2, 8], [*edge, *rows("X", {1: [1.0], 2: [2.0]})]) == [0.5, 32]
