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
    """Estimate the models, data, disk and time of a study, and the ratio that it can detect.

    Args:
        study, root, mirror: as for `load`
        gpus: the number of GPUs; by default the GPUs of this machine
        tflops: the TFLOP/s (1e12 FLOPs per second) that one GPU sustains, to estimate the time
        measure: run ten training steps of each model here, to estimate the time
        price: the price of one hour of a GPU or core, in any currency, to estimate `cost`
        trust_code: let the models and tasks of the study run Python, which gives their sizes

    Returns an `Estimate`. Nothing is trained, except for the ten steps of `measure`.

    Raises InputError for a wrong study, impossible numbers, models that cannot be matched, and data
    sets that differ from what the study says.
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
    """Run a study, or continue it: finished work is not done again.

    Args:
        study, root, mirror: as for `load`. A mapping or a `Study` is written to `study.yaml` in the
            folder of the study, so that the command can find it.
        until: the last stage to run: "prepare", "train", "evaluate" or "report"
        trust_code: let the models and tasks of the study run Python
        accept_code_change: continue trainings that another version of the code started
        prefect: show the run in Prefect; a server is started if PREFECT_API_URL names none
        on_event: a function that is called with a `Progress` or a `Note` for every event, one call
            at a time, but from any thread; by default, lines go to standard error

    Returns the results, which have rows once models are trained. The call blocks until the study
    ends. Separate processes train the models. Ctrl-C ends them, and the next call continues from
    their newest states. If `on_event` raises an exception for a `Progress`, the run ends in the
    same way, unless the exception is an OSError, such as a full disk.

    Raises InputError for a study that cannot run here. If a training or an evaluation fails, the
    report of everything else is written first, and then Failed is raised.
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
    """Run a study in this process, with or without Prefect."""
    with only_run(study):
        if not prefect:
            check_and_warn(study, options, data_bytes)
            with staying(study.folder), naming(study.folder):
                run_plain(study, options)
            return
        # takes seconds, so a plain run does not import it
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
