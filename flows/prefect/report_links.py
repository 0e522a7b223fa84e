"""Link to reports from Prefect's pages.

No browser opens a file from a server's page, so `make up` serves the reports of its studies. The
page of another run, as that of a worker, names the file and the command that opens it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

from dreamer_study.flows.jobs.private_files import private_folder, write_private
from dreamer_study.flows.prefect.server import secret
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.reports.page.serving import server

# an environment variable: where reports are served, for the flow runs of `make up`
ADDRESS = "DREAMER_REPORTS"


@contextmanager
def serving_reports(port: int = 0) -> Iterator[str]:
    """Serve the reports of studies that run on this machine during the block.

    Yields the address, which runs inherit. The address has another port where `port` is taken.
    """
    # before the block, which may change the temporary folder
    find = partial(find_report, private_folder("reports"))
    try:
        serving = server(find, port)
    except OSError:
        serving = server(find)
    with serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        os.environ[ADDRESS] = f"http://127.0.0.1:{serving.server_port}"
        try:
            yield os.environ[ADDRESS]
        finally:
            serving.shutdown()
            os.environ.pop(ADDRESS, None)


def report_text(study: Study) -> str:
    """Say in Markdown where a study's report is: a link that opens, else a path and a command."""
    if ADDRESS in os.environ:
        return f"[The report]({link_to_report(study)})"
    return (
        f"The report is `{study.report.resolve()}` on the machine that ran the study."
        f" There `dreamer report {study.arguments} --watch` serves the page at an address that it"
        " prints."
    )


def link_to_report(study: Study) -> str:
    """Return the address of a study's report: where reports are served, else the file's."""
    report = study.report.resolve()
    if ADDRESS not in os.environ:
        return report.as_uri()
    # Studies of one name may be in several folders, which other users of the machine may know:
    # they reach the port.
    name = f"{study.name}-{digest([str(report), secret()])}"
    write_private(private_folder("reports") / name, str(report))
    return f"{os.environ[ADDRESS]}/{name}/"


def find_report(links: Path, study: str) -> Path | None:
    """Find the report of a study in a folder of links; None for any other name."""
    if study not in os.listdir(links):
        return None
    page = Path((links / study).read_text())
    return page if page.is_file() else None
