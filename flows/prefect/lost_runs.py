"""End flow runs that Prefect shows as under way though no process runs their study.

Such runs are there after a `kill -9`.
"""

from __future__ import annotations

import sys
from typing import Any

from dreamer_study.flows.progress.study_lock import runs_elsewhere
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError


def say_lost_runs(*, every: bool = False) -> None:
    """End lost flow runs, and print a line for each that a user has started.

    Where that fails, prints why.
    """
    try:
        for name in end_lost_runs(every=every):
            print(
                f"{name}: its process has ended meanwhile; start the study again to continue",
                flush=True,
            )
    # of Prefect, its client or its database: what is shown as running harms nobody
    except Exception as error:
        message = str(error) or type(error).__name__
        reason = message.splitlines()[0]
        print(
            f"which flow runs have ended meanwhile is not known ({reason})",
            file=sys.stderr,
            flush=True,
        )


def end_lost_runs(*, every: bool = False) -> list[str]:
    """Set flow runs whose process is gone to `Crashed`; returns the names of those of users.

    With `every`, all flow runs under way count as gone: on the server of one study, before its next
    run begins.
    """
    from prefect import get_client
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    under_way = FlowRunFilterStateType(
        any_=[StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]
    )
    unfinished = FlowRunFilter(state=FlowRunFilterState(type=under_way))
    message = (
        "The process of this run has ended, and no server heard how. `dreamer status` shows the"
        " study"
    )
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=unfinished)
        # A suspended run has no process: Prefect starts it again when it is resumed.
        runs = [run for run in runs if run.state_name != "Suspended" or every]
        lost_runs = [run for run in runs if every or is_lost(run.parameters)]
        for run in lost_runs:
            client.set_flow_run_state(run.id, Crashed(message=message), force=True)
    return [run.name for run in lost_runs if run.deployment_id]


def is_lost(parameters: dict[str, Any]) -> bool:
    """Check that the study of a flow run is on this machine, where no process runs the study."""
    try:
        study = load_study(
            parameters["study"],
            root=parameters.get("root"),
            changes=parameters.get("overrides"),
        )
        return study.folder.exists() and not runs_elsewhere(study)
    # of another flow, another machine or another user
    except (InputError, KeyError, OSError):
        return False
