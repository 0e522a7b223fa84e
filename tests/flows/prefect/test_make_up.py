"""What `make up` registers: the list of prefect.yaml, and what users have changed in Prefect."""

from __future__ import annotations

import json
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.runner import Runner

import dreamer_study.flows.commands.make_up
from dreamer_study.flows.commands.make_up import TASK_LINES, deployments, read_limit, serve
from dreamer_study.flows.prefect.deployments import read_deployments, register
from dreamer_study.flows.study.loading import presets
from dreamer_study.pipeline.errors import InputError
from tests.flows.small_study import PROJECT


@flow
def changed(study: str = "demo", until: str = "report") -> None:
    """Stand in for a study."""


@pytest.mark.slow
def test_the_list_has_what_the_documentation_names_and_every_preset() -> None:
    listed = {one.name: (one.flow_name, one.parameters) for one in deployments()}
    assert listed == {
        "full-study": ("full-study", {"study": "demo"}),
        "prepare": ("full-study", {"study": "demo", "until": "prepare"}),
        "report": ("report", {"study": "demo"}),
        **{name: ("full-study", {"study": name}) for name in presets()},
    }
    assert all(one.description for one in deployments(PROJECT / "prefect.yaml"))


def listed(folder: Path, **entry: Any) -> list[Any]:
    """The deployments of a list with one entry."""
    path = folder / "prefect.yaml"
    entry = {"name": "changed", "entrypoint": "here", **entry}
    path.write_text(json.dumps({"deployments": [entry]}))
    return read_deployments(path, {"here": changed})


def test_a_setting_that_is_left_out_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed(tmp_path, schedules=[{"cron": "0 3 * * *"}])
    assert capsys.readouterr().err == (
        f"{tmp_path}/prefect.yaml: changed: `make up` does not read schedules; set it in Prefect's"
        " pages, where it stays\n"
    )


def test_a_flow_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"changed: entrypoint is none of here$"):
        listed(tmp_path, entrypoint="elsewhere.py:flow")


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_a_limit_that_is_none_is_one_line(text: str) -> None:
    assert read_limit("2") == 2
    with pytest.raises(InputError, match=f"^LIMIT={text} is no number of studies"):
        read_limit(text)


def test_as_many_studies_run_at_once_as_was_said_and_nothing_is_paused_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[int | None, bool, bool]] = []
    monkeypatch.setenv(TASK_LINES, "")
    monkeypatch.delenv(TASK_LINES)

    async def start(runner: Runner) -> None:
        names_studies = "of %(flow_run_name)r" in os.environ.get(TASK_LINES, "")
        started.append((runner.limit, runner.pause_on_shutdown, names_studies))

    monkeypatch.setattr(dreamer_study.flows.commands.make_up, "register", lambda *_: None)
    monkeypatch.setattr(Runner, "start", start)
    for limit in (1, 2):
        serve([], limit, tmp_path / "record.json", [])
    assert started == [(1, False, False), (2, False, True)]
    assert capsys.readouterr().out.count("Up to 2 studies run at once, each with its own") == 1


@pytest.mark.slow
def test_what_a_user_has_changed_stays_and_what_the_list_has_changed_comes(
    client: SyncPrefectClient, tmp_path: Path
) -> None:
    record = tmp_path / "record.json"

    def registered(**entry: Any) -> Any:
        register(Runner(), listed(tmp_path, **entry), record)
        return client.read_deployment_by_name("changed/changed")

    first = registered(description="ours", parameters={"study": "demo"}, tags=["ours", "old"])
    assert (first.parameters, first.paused) == ({"study": "demo"}, False)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600

    # Prefect's pages give schedules no slug, and Prefect deletes such ones where it keeps others.
    schedules = [
        DeploymentScheduleCreate(
            schedule=IntervalSchedule(interval=timedelta(days=1)), active=active, slug=slug
        )
        for active, slug in ((True, "daily"), (False, None), (True, None))
    ]
    client.create_deployment_schedules(first.id, schedules)
    mine = {"parameters": {"study": "mine.yaml"}, "tags": ["ours", "old", "mine"]}
    update = DeploymentUpdate(**mine, concurrency_limit=3, paused=True)
    client.update_deployment(first.id, update)
    before = client.read_deployment_by_name("changed/changed")
    assert len(before.schedules) == 3

    same = registered(description="ours", parameters={"study": "demo"}, tags=["ours", "old"])
    for name in ("parameters", "tags", "description", "paused", "schedules"):
        assert getattr(same, name) == getattr(before, name), name
    assert same.global_concurrency_limit.limit == 3

    new = registered(
        description="new", parameters={"study": "demo", "until": "train"}, tags=["ours", "new"]
    )
    assert new.parameters == {"study": "mine.yaml", "until": "train"}
    assert new.tags == ["ours", "mine", "new"]
    assert (new.description, new.paused) == ("new", True)
    assert new.schedules == before.schedules

    record.unlink()  # as of an earlier `make up`, which has paused all at its end
    older = registered(description="other", parameters={"study": "demo"}, tags=["ours"])
    assert (older.description, older.parameters) == ("new", new.parameters)
    assert older.paused is False
