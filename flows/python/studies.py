"""Plan and run a study from Python."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from dreamer_study.flows.estimates.disk_space import data_bytes
from dreamer_study.flows.estimates.study_estimate import Estimate, Machine, estimate_study
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.python.events import OnEvent, telling
from dreamer_study.flows.python.loading import StudyLike, load
from dreamer_study.flows.python.results import Results
from dreamer_study.flows.running.beginning import (
    check_and_warn,
    nothing_to_do,
    run_plain,
    staying,
)
from dreamer_study.flows.running.options import Options, Until
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import lasting_name, named_by_file
from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.pipeline.storage.files import naming


def plan(
    study: StudyLike,
    *,
    root: Path | str | None = None,
    mirror: Path | str | None = None,
    gpus: int | None = None,
    tflops: float | None = None,
    measure: bool = False,
    price: float | None = None,
    trust_code: bool = False,
) -> Estimate:
    """Estimate what a study will need: models, data, disk, time, and the ratio it can detect.

    Args:
        study, root, mirror: as for `load`
        gpus: how many GPUs there will be, by default those of this machine
        tflops: the TFLOP/s (1e12 FLOPs per second) that one of them sustains, for the time
        measure: time ten training steps of each model here, for the time
        price: of an hour of one GPU or core, in any currency, for `cost`
        trust_code: let models and tasks of the study run Python, for their sizes

    Raises InputError for a wrong study, numbers without sense, models that cannot be matched, and
    data sets that are not as the study says.
    """
    machine = Machine(gpus, tflops, measure, price)
    return estimate_study(load(study, root=root, mirror=mirror), machine, trust_code=trust_code)


def run(
    study: StudyLike,
    *,
    root: Path | str | None = None,
    mirror: Path | str | None = None,
    until: Until = "report",
    trust_code: bool = False,
    accept_code_change: bool = False,
    prefect: bool = False,
    on_event: OnEvent | None = None,
) -> Results:
    """Run a study; what is already done is not done again.

    Args:
        study, root, mirror: as for `load`; a study of values is written to `study.yaml` in its
            folder, by which the command finds it
        until: end after this stage: "prepare", "train", "evaluate" or "report"
        trust_code: let models and tasks of the study run Python
        accept_code_change: continue trainings that other code has started
        prefect: show the run in Prefect, with a server of its own where PREFECT_API_URL names none
        on_event: called with a `Progress` or a `Note` for all that happens, one call at a time, but
            from any thread; by default lines are written to standard error

    Returns the results, which have rows once models were trained. Blocks until the end, in which
    the models are trained in processes of their own; Ctrl-C ends them, and the next call continues
    from their newest states. An exception that `on_event` raises for a `Progress` ends the run
    in the same way, but for an OSError, as of a full disk.

    Raises InputError for a study that cannot be run here, and Failed, after the report of all else
    is written, where a training or an evaluation has failed.
    """
    if until not in get_args(Until):
        raise InputError(
            f"until={until!r}: the stages are {', '.join(get_args(Until))}"
            f"{nearest(until, get_args(Until))}"
        )
    loaded = named_by_file(load(study, root=root, mirror=mirror))
    options = Options(until, accept_code_change, trust_code or loaded.trusted)
    with telling(on_event):
        if not nothing_to_do(loaded):
            _run(loaded, options, prefect=prefect)
    return Results(loaded.database, loaded.study_id, store=loaded.store_folder)


def _run(study: Study, options: Options, *, prefect: bool) -> None:
    """Run a study in this process, alone or as a flow of Prefect."""
    with only_run(study):
        if not prefect:
            check_and_warn(study, options, data_bytes)
            with staying(study.folder), naming(study.folder):
                run_plain(study, options)
            return
        # seconds, which a plain run need not wait for
        from dreamer_study.flows.commands.run_here import starting_server
        from dreamer_study.flows.commands.running.run import run_shown

        parameters = {
            "study": lasting_name(study),
            "mirror": str(study.mirror) if study.mirror else None,
            "root": str(study.folder),
            "accept_code_change": options.accept_code_change,
            "trust_code": options.trust_code,
            "until": options.until,
        }
        with starting_server(study) as server:
            check_and_warn(study, options, data_bytes)
            with staying(study.folder), naming(study.folder):
                run_shown(study, options, parameters, server)
