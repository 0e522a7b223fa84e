"""`dreamer run`: run a study in this process, shown in Prefect unless that is not wanted."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from dreamer_study.flows.commands.data.sources import print_notices
from dreamer_study.flows.commands.results.printing import print_answer
from dreamer_study.flows.commands.running.status import A_SECOND, Watch
from dreamer_study.flows.commands.states import DATA_STAGES
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.jobs.cluster import open_jobs
from dreamer_study.flows.plan.preflight import check_study, study_warnings
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.curation_warnings import say
from dreamer_study.flows.running.live_results import patiently
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import is_complete, run_study
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import lasting_name, load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import naming
from dreamer_study.sql.statistics.expectations import check_expectations

# their reports begin so
STAGES = (*DATA_STAGES, "tune ", "screen ", "train ", "evaluate ", "write ")
PARAMETERS = ("study", "mirror", "root", "accept_code_change", "trust_code", "until")  # of the flow


def run(options: argparse.Namespace) -> int:
    """Run a study to its report unless it is complete, then print its answer and the paths.

    Returns the exit status: 1 where an effect that the study expects is missed, else 0. Where
    Prefect's server was lost this process ends here, since its threads would wait.
    """
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    options.trust_code |= study.trusted
    wanted = Options(options.until, options.accept_code_change, options.trust_code)
    plan = Plan(study)
    lost = False
    with reports.listening(reports.Lines()):  # a results file may be held by another program
        complete = not plan.absent and is_complete(plan)
    if complete:
        reports.write_line(f"Nothing to do: {study.study_id} is complete.")
        say(study_warnings(study))
    else:
        lost = _run_on_screen(study, wanted, options)
    status = 0
    if options.until == "report":
        status = _print_results(study)
    if lost:
        reports.end_now(status)
    return status


def _run_on_screen(study: Study, wanted: Options, options: argparse.Namespace) -> bool:
    """Run a study while its page is shown on a terminal; returns whether Prefect was lost."""
    screen = Console(stderr=True, force_terminal=sys.stderr.isatty())
    # The page is shown on a terminal only; there it shows stages, which else are lines.
    page = Live(Watch(study), console=screen, refresh_per_second=A_SECOND, transient=True)
    lines = reports.Lines(without=STAGES if page.console.is_terminal else ())
    shown = nullcontext() if reports.is_quiet() else page
    with shown, reports.listening(lines), only_run(study), _server(study, options) as server:
        check_study(study, trust_code=options.trust_code)
        say(study_warnings(study))
        print_notices(study.own_sources)
        parameters: dict[str, Any] | None = None
        if not options.plain:
            parameters = {name: getattr(options, name) for name in PARAMETERS}
            # A server that outlives this process finds the study by these, from another folder.
            parameters |= {"study": lasting_name(study), "root": str(study.folder)}
        with _staying(study.folder), naming(study.folder):
            return _run(study, wanted, parameters, server)


def _print_results(study: Study) -> int:
    """Print the answer, the effects that the study expects, and the paths.

    Returns the exit status.
    """
    status = 0
    with reports.listening(reports.Lines()):
        baseline = study.models.compared_with
        patiently(lambda: print_answer(study.database, study.study_id, baseline))
    if study.expect:
        effects = patiently(
            lambda: check_expectations(study.database, study.study_id, study.expect)
        )
        status = 0 if effects["held"].all() else 1
        console.print("\nwhat the study expects\n")
        print_table(effects)
    console.print(f"\nreport   {study.report.resolve()}\nresults  {study.database.resolve()}")
    return status


def _server(study: Study, options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Start Prefect's server, unless the study runs without."""
    if options.plain:
        return nullcontext()
    from dreamer_study.flows.commands.run_here import starting_server

    return starting_server(study)


def _run(study: Study, options: Options, parameters: Mapping[str, Any] | None, server: Any) -> bool:
    """Run a study, with parameters as a flow of Prefect.

    Returns whether its server was lost, or none was there.
    """
    if parameters:
        from dreamer_study.flows.commands.run_here import run_in_process
        from dreamer_study.flows.prefect.server import NoServer

        try:
            return run_in_process(study, options, parameters, server)
        except NoServer as error:  # on which no result depends
            reports.write_line(f"{error}; the study continues without Prefect")
    with recorded(study), open_jobs(study) as (study, jobs):
        run_study(Plan(study), jobs, Steps(study.compute), options)
    return parameters is not None


@contextmanager
def _staying(folder: Path) -> Iterator[None]:
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
