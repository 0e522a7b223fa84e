"""The loop over the jobs of a study: train every run, and evaluate checkpoints as they come.

After each event the plan is asked which work is left, so that a job which was done by another
process, or became possible by a decision, is neither repeated nor forgotten.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dreamer_study.flows.jobs import Event, Failed, Job, Jobs
from dreamer_study.flows.jobs.devices import share_ranks
from dreamer_study.flows.plan.decisions import choose_settings, decide_race
from dreamer_study.flows.plan.study_plan import FAILURE, Checkpoint, Evaluation, Plan, Run
from dreamer_study.flows.progress.reports import read_progress, write_line
from dreamer_study.flows.running.evaluations import Evaluations
from dreamer_study.flows.running.job_descriptions import (
    EVALUATING,
    evaluation_inputs,
    evaluation_job,
    evaluation_name,
    training_inputs,
    training_job,
)
from dreamer_study.flows.running.job_progress import Followed
from dreamer_study.flows.running.live_results import Results
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.steps import Steps
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.integrity import check

Failures = dict[str, BaseException]
"""What has failed, by the name of the job."""

Describe = Callable[[], Job]
"""Describes a job that can start, and writes its `run.json` or `job.json`."""


def train_and_evaluate(
    plan: Plan, jobs: Jobs, steps: Steps, results: Results, options: Options
) -> Failures:
    """Train every run and evaluate its checkpoints as they come.

    A job that fails ends no other. Raises what is no failure of a job: bad input, a stop, a defect.
    """
    _check_inputs(plan)
    _forget_failures(plan)
    _show_finished(plan, steps, options)
    followed = Followed(plan)
    failures: Failures = {}
    notes: set[str] = set()
    submitted: set[str] = set()
    evaluations = Evaluations()
    try:
        with steps.control(jobs):
            _submit_ready(plan, jobs, options, submitted, evaluations)
            for event in jobs.events():
                _note_end(event, failures)
                _say_note(event, notes)
                evaluations.note(event)
                changed = event.ends or event.kind == "checkpoint"
                if changed:
                    _submit_ready(plan, jobs, options, submitted, evaluations)
                followed.tell(event)
                results.update(changed=changed)
    except BaseException:
        jobs.stop()
        raise
    for name, _ in work_left(plan, options, jobs.gpus):
        unfinished = Failed(f"{name}: the process has ended well, and the work is not done")
        if name not in submitted:
            unfinished = Failed(f"{name}: not tried, as others of this run have failed alike")
        failures.setdefault(name, unfinished)
    if not failures:
        shutil.rmtree(plan.study.folder / EVALUATING, ignore_errors=True)
    return failures


def _check_inputs(plan: Plan) -> None:
    """Raise InputError where a file that trainings and evaluations read is damaged."""
    if plan.evaluated:
        return
    for output in (plan.data.world, plan.data.tokenizer, plan.data.packed):
        if output:
            check(output.path)


def _forget_failures(plan: Plan) -> None:
    """Forget the failures of an earlier attempt, and name the races that run again.

    The settings are chosen anew where a model has none: its search is tried again.
    """
    if any(plan.is_untuned(run.model) for run in plan.runs):
        plan.forget_search()
    for run in (*plan.tuning_runs, *plan.runs):
        (run.folder / FAILURE).unlink(missing_ok=True)
        if run.status == "racing" and run.tokens > run.goal:
            write_line(
                f"{run.model.name}: the race of its seeds runs again, at {run.goal:,} tokens"
            )


def _show_finished(plan: Plan, steps: Steps, options: Options) -> None:
    """Show the trainings and evaluations that the store holds already."""
    for run in plan.runs:
        if run.done:
            inputs = training_inputs(plan)
            steps.call("training", run.training_name, _nothing, made_of=inputs, done=True)
        if options.until in ("evaluate", "report"):
            for checkpoint in _evaluated(plan, run):
                name = evaluation_name(run, checkpoint)
                inputs = evaluation_inputs(plan, run)
                steps.call("evaluation", name, _nothing, made_of=inputs, done=True)


def _evaluated(plan: Plan, run: Run) -> Iterator[Checkpoint]:
    """List the checkpoints of a run that have been evaluated on everything."""
    done: dict[Checkpoint, bool] = {}
    for evaluation in plan.evaluations(run):
        done[evaluation.checkpoint] = done.get(evaluation.checkpoint, True) and evaluation.done
    yield from (checkpoint for checkpoint, is_done in done.items() if is_done)


def _nothing() -> None:
    """Do the work of a step that is done."""


def _submit_ready(
    plan: Plan, jobs: Jobs, options: Options, submitted: set[str], evaluations: Evaluations
) -> None:
    """Decide the searches and races that have ended, then submit each new job that can start."""
    search = plan.tuning_runs
    if search:
        choose_settings(plan, search)
        for run in plan.runs:
            _begin(plan, run)
    for runs in plan.undecided:
        decide_race(plan, runs)
    for name, describe in work_left(plan, options, jobs.gpus):
        if name not in submitted and evaluations.may_start(name):
            submitted.add(name)
            jobs.submit(describe())


def _begin(plan: Plan, run: Run) -> None:
    """Forget an earlier failure of a run, or note that the search has no settings for its model."""
    if plan.is_untuned(run.model):
        run.folder.mkdir(parents=True, exist_ok=True)
        reason = "not trained, as every training of the search for its settings has failed"
        write_text_atomically(run.folder / FAILURE, reason, shared=True)
    else:
        (run.folder / FAILURE).unlink(missing_ok=True)


def _note_end(event: Event, failures: Failures) -> None:
    """Note how a job has ended. Raises an error that is more than the failure of one job."""
    job = event.job
    if event.kind == "finished" and job.kind == "training":
        (job.folder / FAILURE).unlink(missing_ok=True)  # of another study that shares the run
    if event.kind != "failed":
        return
    assert event.error is not None, "a job that failed has an error"
    if not isinstance(event.error, Failed):
        raise event.error
    failures[job.name] = event.error
    if job.kind == "training":
        reason = event.error.reason.removeprefix(f"{job.folder}: ")
        write_text_atomically(job.folder / FAILURE, reason, shared=True)


def _say_note(event: Event, said: set[str]) -> None:
    """Say once what a training has noted: how it met a lack of memory, or of the C engine."""
    if event.kind != "finished" or event.job.kind != "training":
        return
    note = read_progress(event.job.folder / "progress.json").get("note")
    if note and note not in said:
        said.add(note)
        write_line(f"{event.job.name}: {note}")


def work_left(plan: Plan, options: Options, gpus: Sequence[int]) -> Iterator[tuple[str, Describe]]:
    """List the jobs that can start now, by name: trainings, and evaluations of checkpoints.

    A training is listed until it is done, an evaluation when its checkpoint is there.
    """
    runs = plan.tuning_runs or plan.runs
    ranks_of = _ranks(plan, runs, gpus)
    for run in runs:
        if run.status == "tuning" and plan.is_measured(run):
            continue
        # a seed that failed in its race, not one that was damaged and removed since
        has_lost = run.status == "screened" and not run.done and not run.is_gone
        if run.failure or has_lost:
            continue
        if not run.done:
            yield run.training_name, partial(training_job, plan, run, ranks_of[run.run_id], options)
        if options.until in ("evaluate", "report") or run.status == "tuning":
            yield from _evaluations_left(plan, run, options)


def _ranks(plan: Plan, runs: Sequence[Run], gpus: Sequence[int]) -> dict[str, int]:
    """Share the GPUs among the runs: how many ranks train each of them.

    After a race the chosen runs share all GPUs, as nobody else is trained any more.
    """
    shares = share_ranks(plan.study, len(runs), gpus)
    ranks = {run.run_id: share for run, share in zip(runs, shares, strict=True)}
    chosen = [run for run in runs if run.status == "chosen"]
    racing = any(run.status == "racing" for run in runs)
    if chosen and len(chosen) < len(runs) and not racing:
        shares = share_ranks(plan.study, len(chosen), gpus)
        ranks |= {run.run_id: share for run, share in zip(chosen, shares, strict=True)}
    return ranks


def _evaluations_left(plan: Plan, run: Run, options: Options) -> Iterator[tuple[str, Describe]]:
    missing: dict[Checkpoint, list[Evaluation]] = defaultdict(list)
    for evaluation in plan.evaluations(run):
        if not evaluation.done:
            missing[evaluation.checkpoint].append(evaluation)
    for checkpoint, evaluations in missing.items():
        describe = partial(evaluation_job, plan, run, checkpoint, evaluations, options)
        yield evaluation_name(run, checkpoint), describe


def evaluation_names(plan: Plan) -> list[str]:
    """Name the evaluations of all checkpoints that are there."""
    return [
        evaluation_name(run, checkpoint)
        for run in plan.runs
        if run.status == "chosen"
        for checkpoint in run.written
    ]
