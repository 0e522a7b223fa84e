"""Run a study from top to bottom: prepare the data, train with evaluations as checkpoints come,
statistics, report.

The plan says which work is left, so finished work is not done again. All trainings and evaluations
are `jobs`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any, Literal

from dreamer_study.flows.jobs import Event, Failed, Job, Jobs
from dreamer_study.flows.jobs.devices import share_ranks
from dreamer_study.flows.plan.model_plan import size
from dreamer_study.flows.plan.store_users import register_user
from dreamer_study.flows.plan.study_plan import FAILURE, Checkpoint, Evaluation, Plan, Run
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.job_progress import Followed
from dreamer_study.flows.running.live_results import Results, patiently, report_digest, report_mark
from dreamer_study.flows.running.result_rows import outputs_of
from dreamer_study.model.architectures.code import FOLDER as CODE
from dreamer_study.model.architectures.code import copy_code
from dreamer_study.model.training.step_log import best_rates, choose_seed, mean_losses
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import atomic_folder, write_text_atomically
from dreamer_study.pipeline.storage.integrity import check, sealed
from dreamer_study.pipeline.storage.locks import hold
from dreamer_study.reports.data import StudyData
from dreamer_study.sql.ledger import differing
from dreamer_study.sql.results import ask

Until = Literal["prepare", "train", "evaluate", "report"]
NEXT = {"prepare": "train", "train": "evaluate", "evaluate": "report"}
# a folder of the study, with one for each evaluation that is under way or has failed
EVALUATING = "evaluating"
# a priority before that of every training: an evaluation is short and shows a result
EVALUATION_FIRST = (0,)


class Shown:
    """Show a study while it runs: nowhere, unless a subclass knows a place."""

    def call(self, kind: str, name: str, body: Callable[[], Any]) -> Any:
        """Show a step of this process, and return what `body()` returns."""
        return body()

    def tell(self, event: Event) -> None:
        """Show what has happened to a job."""

    def drawn(self, data: StudyData) -> None:
        """Show the data of a report that has just been written."""


@dataclass(frozen=True)
class Options:
    """How a study is run: to which stage, and what the user has allowed."""

    until: Until = "report"
    accept_code_change: bool = False
    trust_code: bool = False


def run_study(plan: Plan, jobs: Jobs, shown: Shown, options: Options = Options()) -> Path | None:
    """Run a study to its report, or to the end of the stage `options.until`; returns the path of
    the report.

    Where a training or an evaluation fails the others go on, the report is written, and Failed
    names what has failed. Raises InputError for bad input, also of a process.
    """
    plan.study.folder.mkdir(parents=True, exist_ok=True)
    register_user(plan)
    prepare_data(plan, shown.call)
    shown.call("match", "match models", partial(size_models, plan, options))
    write_runs(plan)
    register_user(plan)
    path, failures = None, {}
    if options.until != "prepare":
        results = Results(plan, shown.drawn)
        failures = train_and_evaluate(plan, jobs, shown, results, options)
    if options.until in ("evaluate", "report"):
        shown.call("statistics", "statistics", results.finish)
        while plan.wants_seeds and not failures and decide_seeds(plan):
            failures = train_and_evaluate(plan, jobs, shown, results, options)
            shown.call("statistics", "statistics", results.finish)
    if options.until == "report":
        path = shown.call("report", "report", results.write_report)
    register_user(plan)
    again = f"dreamer run {plan.study.arguments}{' --trust-code' * options.trust_code}"
    if options.until in NEXT and not failures:
        reports.write_line(f"{options.until}: done; `{again}` goes on with {NEXT[options.until]}")
    if failures:
        first, *others = failures.values()
        more = f"; and {len(others)} more" if others else ""
        report = f"; the report of everything else is {path}" if path else ""
        raise Failed(f"{first}{more}{report}; `{again}` tries again")
    return path


def train_and_evaluate(
    plan: Plan, jobs: Jobs, shown: Shown, results: Results, options: Options
) -> dict[str, BaseException]:
    """Train every run and evaluate its checkpoints as they come; returns what has failed, by the
    name of the job."""
    if not plan.evaluated:
        for output in filter(None, (plan.data.world, plan.data.tokenizer, plan.data.packed)):
            check(output.path)  # trainings and evaluations read these files
    followed, failures = Followed(plan), dict[str, BaseException]()
    asked: set[str] = set()
    for run in (*plan.tuning_runs, *plan.runs):
        (run.folder / FAILURE).unlink(missing_ok=True)  # of an earlier attempt
        if run.status == "racing" and run.tokens > run.goal:
            reports.write_line(
                f"{run.model.model_id}: the race of its seeds is held again, at {run.goal:,} tokens"
            )

    def submit() -> None:
        """Decide the searches and races that have ended, then submit each job that can start and
        was not submitted."""
        if search := plan.tuning_runs:
            choose_rates(plan, search)
            for run in plan.runs:
                (run.folder / FAILURE).unlink(missing_ok=True)
        for runs in plan.undecided:
            decide(plan, runs)
        for name, describe in work_left(plan, options, jobs.gpus):
            if name not in asked:
                asked.add(name)
                jobs.submit(describe())

    try:
        submit()
        for event in jobs.events():
            if event.kind == "failed":
                if not isinstance(event.error, Failed):
                    raise event.error or AssertionError("a job that failed has an error")
                failures[event.job.name] = event.error
                if event.job.kind == "training":
                    reason = event.error.reason.removeprefix(f"{event.job.folder}: ")
                    write_text_atomically(event.job.folder / FAILURE, reason, shared=True)
            if event.kind == "finished" and event.job.kind == "training":
                # of another study that shares the run
                (event.job.folder / FAILURE).unlink(missing_ok=True)
            if changed := event.ends or event.kind == "checkpoint":
                submit()
            shown.tell(event)
            followed.tell(event)
            results.update(changed=changed)
    except BaseException:
        jobs.stop()
        raise
    for name, _ in work_left(plan, options, jobs.gpus):
        failures.setdefault(
            name, Failed(f"{name}: the process has ended well, and the work is not done")
        )
    if not failures:
        shutil.rmtree(plan.study.folder / EVALUATING, ignore_errors=True)
    return failures


def work_left(
    plan: Plan, options: Options, gpus: Sequence[int]
) -> Iterator[tuple[str, Callable[[], Job]]]:
    """List the jobs that can start now: trainings that are not done, and evaluations of checkpoints
    that are there.

    Yields the name of each job, and a function that describes the job and writes its `run.json` or
    `job.json`.
    """
    runs = plan.tuning_runs or plan.runs
    racing = any(run.status == "racing" for run in runs)
    going_on = [run for run in runs if run.status == "chosen"]
    of_all, of_chosen = (
        share_ranks(plan.study, count, gpus) for count in (len(runs), max(1, len(going_on)))
    )
    for place, run in enumerate(runs):
        # a failed seed has lost its race
        if run.failure or (run.status == "screened" and not run.done):
            continue
        if not run.done:
            alone = run.status == "chosen" and len(going_on) < len(runs) and not racing
            ranks = of_chosen[going_on.index(run)] if alone else of_all[place]
            yield run.training_name, partial(training_job, plan, run, ranks, options)
        if options.until in ("evaluate", "report") or run.status == "tuning":
            missing: dict[Checkpoint, list[Evaluation]] = defaultdict(list)
            for one in plan.evaluations(run):
                if not one.done:
                    missing[one.checkpoint].append(one)
            for checkpoint, evaluations in missing.items():
                name = f"evaluate {run.name} at {checkpoint.tokens:,} tokens"
                yield (
                    name,
                    partial(evaluation_job, name, plan, run, checkpoint, evaluations, options),
                )


def training_job(plan: Plan, run: Run, ranks: int, options: Options) -> Job:
    """Describe the training of a run to its goal."""
    # the run may have become known just now, by the last evaluation of a search
    write_run(plan, run)
    folder = run.folder.absolute()  # workers of a cluster are elsewhere
    # another study may want the run further
    arguments = [str(folder), "--wait", "--stop-at", str(run.goal)]
    if options.accept_code_change:
        arguments.append("--accept-code-change")
    if options.trust_code:
        arguments.append("--trust-code")
    log = folder / "log.txt"
    return Job(
        "training",
        run.training_name,
        "dreamer_study.model.train",
        tuple(arguments),
        folder,
        log,
        run.priority,
        ranks,
        goal=run.goal,
    )


def evaluation_job(
    name: str,
    plan: Plan,
    run: Run,
    checkpoint: Checkpoint,
    evaluations: list[Evaluation],
    options: Options,
) -> Job:
    """Describe the evaluation of a checkpoint on the benchmarks on which it has not been evaluated
    yet."""
    study = plan.study
    folder = (study.folder / EVALUATING / f"{run.run_id}-{checkpoint.tokens}").resolve()
    values = {
        **{
            name: getattr(study.evaluation, name)
            for name in ("limit", "batch_tokens", "max_new_tokens", "weights")
        },
        "device": study.training.device,
        "depths": sorted(
            {depth for one in evaluations for depth in one.configuration.get("depths", ())}
        ),
        "checkpoints": [
            {
                "run_id": run.run_id,
                "tokens": checkpoint.tokens,
                "path": str(checkpoint.folder.resolve()),
                "answers": checkpoint.point == run.points[-1],
                "outputs": {
                    one.benchmark: {
                        "folder": str(one.folder.resolve()),
                        "configuration": one.configuration,
                    }
                    for one in evaluations
                },
            }
        ],
        "tokenizer": str(plan.data.tokenizer.path.resolve()),
        "tasks": plan.tasks_of(run),
        "trust_code": options.trust_code,
        "observe": str(plan.data.packed.path.resolve()) if study.evaluation.introspect else None,
        "output": str(folder),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomically(folder / "job.json", json.dumps(values, indent=1), durable=False)
    environment = {"HF_HOME": str((study.folder / EVALUATING / "cache").resolve())}
    return Job(
        "evaluation",
        name,
        "dreamer_study.model.evaluate",
        (str(folder / "job.json"),),
        folder,
        folder / "log.txt",
        EVALUATION_FIRST,
        goal=run.expected,
        environment=environment,
    )


def size_models(plan: Plan, options: Options) -> None:
    """Size the models of the study, and store what only running their code has told."""
    while sizing := plan.unsized:
        config, costs = size(sizing, plan.study.place, trust_code=options.trust_code)
        _write_decision(plan.sizing(sizing), {"model": config.to_dict(), "resources": vars(costs)})


def _write_decision(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, sealed(values), shared=True)


def tell_changed_code(run: Run) -> None:
    """Say which file of the model's code differs from that of an earlier run of the model."""
    files = run.content["model"].get("files", {})
    for other in (
        glob(f"{run.model.model_id}-s{run.seed}-*", root_dir=run.folder.parent) if files else ()
    ):
        # removed meanwhile, or damaged
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            before = json.loads((run.folder.parent / other / "run.json").read_bytes())["model"][
                "files"
            ]
            if changed := [name for name in files if before.get(name, files[name]) != files[name]]:
                reports.write_line(
                    f"{run.name}: {changed[0]} differs from {other}'s; the model is trained anew"
                )


def write_runs(plan: Plan) -> None:
    """Write `run.json` of every known run. Raises InputError as `write_run`."""
    for run in (*plan.tuning_runs, *plan.runs):
        write_run(plan, run)


def write_run(plan: Plan, run: Run) -> None:
    """Write `run.json`: what decides the run, where its data lie, and how far any study has wanted
    it.

    Another study of the store waits meanwhile. Raises InputError for a run trained past a planned
    checkpoint without it, and for other tokens than before where the learning rate decays over
    them.
    """
    if run.missed:  # training does not go back
        points = ", ".join(f"{point:,}" for point in run.missed)
        raise InputError(
            f"{run.name} was trained further by a study with other checkpoints, and has none at"
            f" {points} tokens; name checkpoints that are there (in {run.folder / 'checkpoints'}),"
            f" or remove {run.folder} to train it again"
        )
    path, training, before = run.folder / "run.json", dict(run.content["training"]), {}
    with hold(plan.store.root / "runs.lock", reports.write_line):
        if not run.folder.exists():
            tell_changed_code(run)
        # a damaged file is written again
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            before = json.loads(path.read_bytes())["training"]
            training["checkpoints"] = sorted({*before["checkpoints"], *training["checkpoints"]})
        known = before.get("tokens", training["tokens"])
        if known != training["tokens"] and training["schedule"] != "constant":
            raise InputError(
                f"{run.name}: its learning rate decays ({training['schedule']}) over {known:,}"
                f" tokens, so it cannot be trained over {training['tokens']:,}; keep to {known:,}"
                " tokens, or name another root and store"
            )
        training["tokens"] = max(known, training["tokens"])
        run.folder.mkdir(parents=True, exist_ok=True)
        if not (run.folder / CODE).exists():
            with atomic_folder(run.folder / CODE) as unfinished:
                copy_code(run.model.config, plan.study.place, unfinished)
        data = os.path.relpath(plan.data.packed.path, run.folder)
        text = json.dumps(
            {"run_id": run.run_id, **run.content, "training": training, "data": data}, indent=1
        )
        if not path.exists() or path.read_bytes() != text.encode():
            write_text_atomically(path, text)


def choose_rates(plan: Plan, search: list[Run]) -> None:
    """Choose each model's learning rate once every training of the search has been evaluated or has
    failed.

    Nothing is chosen while a model has no rate at which every training ended well.
    """
    # the grid may have grown just now
    if not plan.search_ended(search) or len(plan.tuning_runs) > len(search):
        return
    rows, tried = plan.searched(search), sorted({run.learning_rate for run in search})
    chosen = best_rates(rows)
    if len(chosen) < len({run.model.model_id for run in search}):
        return
    rows = [
        {**row, "chosen": chosen[row["variant"], row["depth"]] == row["learning_rate"]}
        for row in rows
    ]
    _write_decision(plan.rates_decision, {"rows": rows})
    losses = mean_losses(rows)
    for (variant, depth), rate in sorted(chosen.items()):
        means = {one: losses.get((variant, depth, one)) for one in tried}
        grid = ", ".join(
            f"{one:g} ({'failed' if mean is None else f'{mean:.4g}'})"
            for one, mean in means.items()
        )
        edge = ", at the edge: a better one may lie beyond" if rate in (tried[0], tried[-1]) else ""
        reports.write_line(f"{variant}-{depth}: learning rate {rate:g}; mean losses: {grid}{edge}")


def decide(plan: Plan, runs: list[Run]) -> None:
    """Choose with which seed a model is trained to the end after a race: the seed with the lowest
    loss.

    A seed whose training has failed has lost.
    """
    chosen = choose_seed({run.seed: run.folder for run in runs if run.done}, runs[0].goal)
    _write_decision(plan.decision(runs), {"seed": chosen, "runs": [run.run_id for run in runs]})


def decide_seeds(plan: Plan) -> bool:
    """Decide by the intervals in the results whether seeds are added to the study, and describe the
    new runs."""
    study, seeds = plan.study, plan.look
    variants = [variant.name for variant in study.models.variants if not variant.seeds]
    options = {"study": study.study_id, "variants": variants}
    found = patiently(lambda: ask(study.database, "widest_interval", **options))[
        "high_over_low"
    ].item()
    wanted = study.training.seeds_until.high_over_low
    go_on = not found <= wanted  # also where an interval is unknown
    _write_decision(plan.look_decision(seeds), {"go_on": go_on, "seeds": seeds})
    width, then = (
        "unknown" if found != found else f"{found:.3g}",
        f"{plan.look} seeds now" if go_on else "enough",
    )
    reports.write_line(
        f"{seeds} seeds: high / low of the widest interval of average accuracy is {width}, wanted"
        f" {wanted:g}: {then}"
    )
    write_runs(plan)
    return go_on


def is_complete(plan: Plan) -> bool:
    """Check that no work is left, that no row in the results is missing or changed, and that the
    report shows them."""
    study = plan.study
    if not (report_mark(study).exists() and study.database.exists() and plan.evaluated):
        return False
    whole = patiently(lambda: not differing(study.database, outputs_of(plan)))
    return whole and report_mark(study).read_bytes() == report_digest(plan).encode()
