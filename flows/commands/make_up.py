"""Run the deployments of prefect.yaml in the foreground until Ctrl-C (`make up`); start a server if
none answers."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dreamer_study.flows.jobs import BAD_INPUT, Failed
from dreamer_study.flows.jobs.private_files import open_private, private_folder
from dreamer_study.flows.prefect.lost_runs import say_lost_runs
from dreamer_study.flows.prefect.report_links import serving_reports
from dreamer_study.flows.prefect.server import allow_loopback, healthy, kept_alive, ours, secret
from dreamer_study.flows.study.loading import read_yaml
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.locks import try_lock

DEPLOYMENTS = Path("prefect.yaml")


def main() -> None:
    """Serve the deployments; ends with one line where that is not possible."""
    # no process of a study takes modules from the current folder
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        up()
    except (InputError, Failed) as error:
        print(f"make up: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT if isinstance(error, InputError) else 1)


def up() -> None:
    """Start a server if none answers, print its address, serve until stopped, and end the server
    that was started."""
    allow_loopback()
    from prefect import serve
    from prefect.settings import get_current_settings

    address = get_current_settings().api.url
    if not address or not DEPLOYMENTS.exists():
        raise InputError(
            "run this from the project's folder, where pyproject.toml and prefect.yaml are"
        )
    asked: list[int] = []

    def end(number: int, _: object) -> None:
        asked.append(number)
        sys.exit(143)

    signal.signal(signal.SIGTERM, end)
    with only_one(address), serving_reports((urlsplit(address).port or 4200) + 1):
        joins = healthy(address)
        if joins and not (ours(address) or os.environ.get("PREFECT_API_AUTH_STRING")):
            raise InputError(
                f"another user's server answers at {address}, and whoever it obeys could start"
                " studies as you: for another port PREFECT_API_URL=http://127.0.0.1:4201/api make"
                " up; if you trust that one, set its secret in PREFECT_API_AUTH_STRING"
            )
        if not joins:
            print("Prefect's server starts, which may take a minute", flush=True)
        # Without its server Prefect's runner would print a traceback, and goes on by asking from
        # time to time.
        logging.getLogger("prefect.FlowRunCancellingObserver").setLevel(logging.ERROR)
        # Prefect's runner would use a folder of a name for all users
        tempfile.tempdir = str(private_folder("runner"))
        try:
            with nullcontext() if joins else kept_alive(address):
                if not joins:
                    say_lost_runs()
                whose = " (a server that was there before, and stays)" if joins else ""
                print(f"Prefect answers at {address.removesuffix('/api')}{whose}", flush=True)
                if not joins:
                    print(f"Its pages ask for this secret: {secret()}", flush=True)
                print("In a second terminal: prefect deployment run full-study --watch", flush=True)
                listed = deployments()
                if asked:  # the exit was lost in a callback of Prefect's client
                    sys.exit(143)
                serve(*listed, limit=1)
        except KeyboardInterrupt:
            pass


@contextmanager
def only_one(address: str) -> Iterator[None]:
    """Hold the lock of this user's `make up` at an address. Raises InputError where another one
    runs."""
    place = urlsplit(address)
    with open_private(private_folder("up") / f"{place.hostname}-{place.port}.lock") as file:
        if not try_lock(file):
            raise InputError(
                f"it is running already and serves the deployments at {address}; stop it first"
            )
        yield


def deployments(path: Path = DEPLOYMENTS) -> list[Any]:
    """Build the deployments that `prefect.yaml` lists."""
    from prefect.types.entrypoint import EntrypointType

    from dreamer_study.flows.full_study import full_study

    known = ("name", "description", "parameters", "tags")
    listed = read_yaml(str(path), path.read_text())["deployments"]
    # Prefect would leave the folder of a file on the path, and `flows/prefect/` is no Prefect
    by_name = EntrypointType.MODULE_PATH
    return [
        full_study.to_deployment(
            **{key: one[key] for key in known if key in one}, entrypoint_type=by_name
        )
        for one in listed
    ]


if __name__ == "__main__":
    main()
