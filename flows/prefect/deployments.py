"""Register the deployments of prefect.yaml with a server, and keep what users have changed there.

What was registered last is remembered in PREFECT_HOME, so that a change in prefect.yaml can be
distinguished from a change in Prefect's pages. An example of what is remembered:

    {"0197c1e2-...": {
        "description": "Raw data to report for the preset demo",
        "parameters": {"study": "demo"},
        "tags": ["demo"]
    }}

The key is the number of a deployment on its server: after `rm -r .prefect`, or on another server,
nothing is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dreamer_study.flows.jobs.private_files import write_private
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.study.loading import read_yaml
from dreamer_study.pipeline.errors import InputError

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.responses import DeploymentResponse
    from prefect.deployments.runner import RunnerDeployment
    from prefect.runner import Runner

Settings = dict[str, Any]

OURS = ("description", "parameters", "tags")  # what prefect.yaml says of a deployment
FOR_POOLS = ("work_pool", "entrypoint")  # what `prefect deploy` reads besides
ABSENT = object()


def read_deployments(path: Path, flows: Mapping[str, Flow[..., Any]]) -> list[RunnerDeployment]:
    """Build the deployments that prefect.yaml lists.

    `flows` has each flow by its entrypoint. Raises InputError for an entrypoint that is not there;
    a line names a setting that is left out.
    """
    from prefect.types.entrypoint import EntrypointType

    deployments = []
    for entry in read_yaml(str(path), path.read_text())["deployments"]:
        where = f"{path}: {entry['name']}"
        flow = flows.get(entry.get("entrypoint"))
        if flow is None:
            raise InputError(f"{where}: entrypoint is none of {', '.join(flows)}")
        unread = entry.keys() - {"name", *OURS, *FOR_POOLS}
        if unread:
            write_line(
                f"{where}: `make up` does not read {', '.join(sorted(unread))}; set it in"
                " Prefect's pages, where it stays"
            )
        ours = {key: entry[key] for key in OURS if key in entry}
        # By the module's name: of a flow that is loaded from a file, Prefect would leave the folder
        # on the path, where `flows/prefect/` would be taken for Prefect.
        by_name = EntrypointType.MODULE_PATH
        deployments.append(flow.to_deployment(entry["name"], **ours, entrypoint_type=by_name))
    return deployments


def register(runner: Runner, deployments: Sequence[RunnerDeployment], record: Path) -> None:
    """Register deployments with the server and with the runner that is to run them.

    A deployment that is on the server keeps what is set there, but for what prefect.yaml has
    changed since the deployment was registered last, as the file `record` remembers.
    """
    from prefect import get_client

    remembered = _read_record(record)
    with get_client(sync_client=True) as client:
        for deployment in deployments:
            wanted = {name: getattr(deployment, name) for name in OURS}
            there = _find(client, deployment)
            if there:
                _keep(deployment, there, remembered.get(str(there.id)))
            number = runner.add_deployment(deployment)
            remembered[str(number)] = wanted
            write_private(record, json.dumps(remembered, indent=1))


def _read_record(record: Path) -> dict[str, Settings]:
    try:
        return json.loads(record.read_text())
    except (OSError, ValueError):  # none yet, or a damaged one: what is on the server stays
        return {}


def _find(client: Any, deployment: RunnerDeployment) -> DeploymentResponse | None:
    """Find a deployment on the server."""
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(f"{deployment.flow_name}/{deployment.name}")
    except ObjectNotFound:
        return None


def _keep(deployment: Any, there: DeploymentResponse, last: Settings | None) -> None:
    """Give a deployment the settings that it has on the server, but for changes of prefect.yaml.

    `last` holds what was registered last. Where nothing is remembered nothing counts as changed.
    """
    if last:
        deployment.paused = there.paused
    else:
        last = {name: getattr(deployment, name) for name in OURS}
        # An earlier `make up` has paused the deployment at its end, and nobody would resume it.
        deployment.paused = False
    if deployment.description == last["description"]:
        deployment.description = there.description
    deployment.parameters = merge_keys(
        last["parameters"], deployment.parameters or {}, there.parameters
    )
    deployment.tags = merge_tags(last["tags"], deployment.tags, there.tags)
    # `to_deployment` gives an empty list, by which Prefect replaces all schedules where one has no
    # slug, as those have that are made in Prefect's pages. Where no list is given schedules stay.
    deployment.model_fields_set.discard("schedules")
    limit = there.global_concurrency_limit
    deployment.concurrency_limit = limit.limit if limit else None
    deployment.concurrency_options = there.concurrency_options
    deployment.enforce_parameter_schema = there.enforce_parameter_schema
    deployment.job_variables = there.job_variables


def merge_keys(last: Settings, ours: Settings, theirs: Settings) -> Settings:
    """Change a mapping of a user where ours has changed.

    >>> merge_keys({"study": "demo"}, {"study": "demo", "until": "train"}, {"study": "mine.yaml"})
    {'study': 'mine.yaml', 'until': 'train'}
    """
    merged = dict(theirs)
    for key in {**last, **ours}:
        value = ours.get(key, ABSENT)
        if value == last.get(key, ABSENT):
            continue
        if value is ABSENT:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def merge_tags(last: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Change the tags of a user where ours have changed.

    >>> merge_tags(["demo", "old"], ["demo", "new"], ["old", "nightly"])
    ['nightly', 'new']
    """
    removed = {*last} - {*ours}
    added = [tag for tag in ours if tag not in last]
    return list(dict.fromkeys([tag for tag in theirs if tag not in removed] + added))
