"""Run Prefect's server for one study, which has hardly any background tasks: `python -m flows.prefect.study_server`.

Takes the arguments of `prefect`. The server's worker of background tasks looks four times a second for new ones, which
is half of what an idle server costs; the interval is not among Prefect's settings, and each default here replaces one
of the library's (`docket.Worker`).
"""

from __future__ import annotations

from datetime import timedelta
from functools import partialmethod

INTERVAL = timedelta(seconds=5)


def main() -> None:
    """Run the command `prefect` with a worker of background tasks that looks for tasks at every INTERVAL."""
    from docket import Worker
    from prefect.cli import app

    rarely = partialmethod(Worker.__init__, minimum_check_interval=INTERVAL, scheduling_resolution=INTERVAL)
    Worker.__init__ = rarely  # type: ignore[method-assign, assignment]
    app()


if __name__ == "__main__":
    main()
