"""A study run by hand, and the steps that it went through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import run_study
from dreamer_study.flows.study.configuration import Study
from dreamer_study.sql.results import connect
from tests.flows.by_hand import JobsByHand

EVALUATED = Options(until="evaluate")


class Seen(Steps):
    """Keeps the names of the steps: of those that do work, and of those that the store holds."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.cached: list[str] = []

    def call(
        self, kind: Any, name: str, work: Callable[[], Any], *, done: bool = False, **_: Any
    ) -> Any:
        names = self.cached if done else self.steps
        names.append(kind if kind == name else f"{kind} {name}")
        return work()


def run(plan: Plan, jobs: JobsByHand, options: Options = EVALUATED) -> Seen:
    seen = Seen()
    run_study(plan, jobs, seen, options)
    return seen


def change(study: Study, statement: str) -> None:
    with connect(study.database) as connection:
        connection.execute(statement)
