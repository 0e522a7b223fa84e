"""Begin to run a study: find whether work is left, check the study, and print its warnings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dreamer_study.flows.jobs.cluster import open_jobs
from dreamer_study.flows.plan.preflight import check_study, study_warnings
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.running.curation_warnings import say
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import is_complete, run_study
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.source import notices


def nothing_to_do(study: Study) -> bool:
    """Tell whether a study is complete, and if so print a line and the warnings of the study."""
    plan = Plan(study)
    if plan.absent or not is_complete(plan):
        return False
    write_line(f"Nothing to do: {study.study_id} is complete.")
    say(study_warnings(study))
    return True


def check_and_warn(study: Study, options: Options, data_bytes: Callable[[Study], float]) -> None:
    """Check a study before any work, then print its warnings and the notices of its sources.

    `data_bytes` estimates what the data take. Raises InputError where the study cannot be run here.
    """
    check_study(
        study,
        trust_code=options.trust_code,
        draws=options.until == "report",
        data_bytes=data_bytes,
    )
    say(study_warnings(study))
    for source in study.own_sources:
        for notice in notices(source):
            write_line(f"note: {notice}")


def run_plain(study: Study, options: Options) -> None:
    """Run a study in this process, without Prefect."""
    with recorded(study), open_jobs(study) as (opened, jobs):
        run_study(Plan(opened), jobs, Steps(opened.compute), options)


@contextmanager
def staying(folder: Path) -> Iterator[None]:
    """Raise InputError where a folder is moved or removed during the block, whatever fails first.

    The error says what to do.
    """
    before = folder.stat()
    try:
        yield
    except Exception:
        if folder.exists() and os.path.samestat(before, folder.stat()):
            raise
        # where Prefect has kept how the flow failed
        if folder.exists() and os.listdir(folder) == [".prefect"]:
            shutil.rmtree(folder)
        raise InputError(
            f"{folder} was moved or removed while the study ran; move it back, in the place of what"
            " may be there now, and run the same command again, or give its new place by --root"
        ) from None
