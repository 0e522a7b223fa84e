"""What is tried again, how often, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dreamer_study.flows.jobs import Failed, Stopped
from dreamer_study.flows.jobs.retries import (
    Retries,
    may_pass,
    resumable,
    retries_of,
    with_retries,
)
from dreamer_study.flows.study.configuration import Compute
from dreamer_study.pipeline.errors import BrokenDownload, InputError, Unreachable

KILLED = Failed("killed by signal 9", may_pass=True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KILLED, True),
        (BrokenDownload("it broke off"), True),
        (Failed("the disk is full"), False),
        (Unreachable("the hub does not answer"), False),
        (InputError("no such file"), False),
        (Stopped("train"), False),
        (ConnectionError("the scheduler is lost"), False),
        (KeyError("a defect"), False),
        (None, False),
    ],
)
def test_what_may_pass(error: BaseException | None, expected: bool) -> None:
    assert may_pass(error) == expected


def test_a_study_says_how_often_a_job_is_tried_again() -> None:
    assert retries_of("training", Compute()).count == 1
    assert retries_of("evaluation", Compute(retries=3)).count == 3
    assert retries_of("data", Compute(retries=3)).count == 0
    assert retries_of("download", Compute(retries=0)).count == 3


def raising(*errors: Exception) -> Callable[[], str]:
    """Work that raises these errors one after another, and then returns."""
    left: Iterator[Exception] = iter(errors)

    def work() -> str:
        for error in left:
            raise error
        return "done"

    return work


def test_work_is_repeated_until_it_ends_well_and_each_try_is_said() -> None:
    said: list[str] = []
    assert with_retries(raising(KILLED, KILLED), Retries(2), said.append) == "done"
    assert said == [
        "killed by signal 9; tried again (1 of 2)",
        "killed by signal 9; tried again (2 of 2)",
    ]


@pytest.mark.parametrize("error", [KILLED, InputError("no such file")])
def test_the_last_error_is_raised(error: Exception) -> None:
    tries = 2 if may_pass(error) else 1
    with pytest.raises(type(error)):
        with_retries(raising(*[error] * tries), Retries(1), lambda _: None)


def test_a_hub_that_falls_silent_later_is_tried_again_and_one_that_never_spoke_is_not() -> None:
    silent = Unreachable("the hub does not answer")
    broken = BrokenDownload("it broke off")
    with pytest.raises(Unreachable):
        with_retries(resumable(raising(silent)), Retries(3), lambda _: None)
    work = resumable(raising(broken, silent))
    assert with_retries(work, Retries(3), lambda _: None) == "done"
