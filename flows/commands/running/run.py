"""`dreamer run`: run a study in this process, shown in Prefect unless --plain is given."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dreamer_study.flows.atlas.bundled import world_of, worlds
from dreamer_study.flows.atlas.table import read_atlas, with_study
from dreamer_study.flows.commands.results.atlas import has_map, print_atlas
from dreamer_study.flows.commands.results.printing import (
    PrintedAnswer,
    print_answer,
    read_printed,
)
from dreamer_study.flows.commands.running.display import shown
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.estimates.disk_space import data_bytes
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.beginning import (
    check_and_warn,
    nothing_to_do,
    run_plain,
    staying,
)
from dreamer_study.flows.running.live_results import patiently
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import lasting_name, load_study
from dreamer_study.pipeline.storage.files import naming
from dreamer_study.sql.statistics.expectations import check_expectations

PARAMETERS = ("study", "mirror", "root", "accept_code_change", "trust_code", "until")  # of the flow


def run(options: argparse.Namespace) -> int:
    """Run a study to its report unless it is complete, then print its answer and the paths.

    Returns the exit status: 1 where an effect that the study expects is missed, else 0. Where
    Prefect's server was lost this process ends here, since its threads would wait.
    """
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    options.trust_code |= study.trusted
    wanted = Options(options.until, options.accept_code_change, options.trust_code)
    with reports.listening(reports.Lines()):  # a results file may be held by another program
        complete = nothing_to_do(study)
        results = None
        if complete and options.until == "report":
            results = _read_results(study)
    lost = False
    if not complete:
        with shown(study):
            lost = _run(study, wanted, options)
            if options.until == "report":
                results = _read_results(study)
    status = _print_results(study, results) if results else 0
    if lost:
        reports.end_now(status)
    return status


def _run(study: Study, wanted: Options, options: argparse.Namespace) -> bool:
    """Run a study; returns whether Prefect was lost."""
    with only_run(study), _server(study, options) as server:
        check_and_warn(study, wanted, data_bytes)
        with staying(study.folder), naming(study.folder):
            if options.plain:
                run_plain(study, wanted)
                return False
            parameters = {name: getattr(options, name) for name in PARAMETERS}
            # A server that outlives this process finds the study by these, from another folder.
            parameters |= {"study": lasting_name(study), "root": str(study.folder)}
            return run_shown(study, wanted, parameters, server)


@dataclass(frozen=True)
class _Results:
    """What is printed at the end of a run: the answer, and the effects that the study expects."""

    answer: PrintedAnswer
    effects: pd.DataFrame | None


def _read_results(study: Study) -> _Results:
    """Read what is printed at the end; waits where another program holds the results file."""
    answer = patiently(lambda: read_printed(study.database, study.study_id))
    effects = None
    if study.expect:
        effects = patiently(
            lambda: check_expectations(study.database, study.study_id, study.expect)
        )
    return _Results(answer, effects)


def _print_results(study: Study, results: _Results) -> int:
    """Print the answer, the effects that the study expects, and the paths.

    Returns the exit status.
    """
    every_row = f"`dreamer sql {study.arguments} 'FROM token_ratios'` prints them"
    print_answer(results.answer, study.models.compared_with, every_row=every_row)
    world = world_taken(study)
    shown = with_study(read_atlas(world), study.database, study.study_id) if world else None
    if shown:
        console.print()
        print_atlas(shown)
    status = 0
    if results.effects is not None:
        status = 0 if results.effects["held"].all() else 1
        console.print("\nwhat the study expects\n")
        print_table(results.effects)
    console.print(f"\nreport   {study.report.resolve()}\nresults  {study.database.resolve()}")
    if shown and has_map(shown):
        arguments = f"{world} --with {study.arguments}"
        console.print(f"map      in the report; `dreamer atlas {arguments} --plot map.svg`")
    return status


def world_taken(study: Study) -> str | None:
    """Return the world of the atlas whose baseline is the study's too; None where there is none."""
    baseline = study.variant(study.models.compared_with)
    world = world_of(baseline.origin) if baseline.origin else None
    is_same = world in worlds() and read_atlas(world).baseline == baseline.name
    return world if is_same else None


def _server(study: Study, options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Start Prefect's server, unless the study runs without."""
    if options.plain:
        return nullcontext()
    from dreamer_study.flows.commands.run_here import starting_server

    return starting_server(study)


def run_shown(study: Study, options: Options, parameters: Mapping[str, Any], server: Any) -> bool:
    """Run a study as a flow of Prefect with these parameters, or plainly if no server answers.

    Returns whether the server was lost, or none was there.
    """
    from dreamer_study.flows.commands.run_here import run_in_process
    from dreamer_study.flows.prefect.server import NoServer

    try:
        return run_in_process(study, options, parameters, server)
    except NoServer as error:  # on which no result depends
        reports.write_line(f"{error}; the study continues without Prefect")
    run_plain(study, options)
    return True
