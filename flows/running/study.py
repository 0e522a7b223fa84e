"""Run a study from top to bottom: prepare, match, train with evaluations, statistics, report.

The plan says which work is left, so finished work is not done again.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dreamer_study.flows.jobs import Failed, Jobs
from dreamer_study.flows.plan.decisions import decide_seeds, size_models
from dreamer_study.flows.plan.store_users import register_user
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.running.ceilings import measure_ceilings
from dreamer_study.flows.running.curation import fetch_data, prepare_data
from dreamer_study.flows.running.job_descriptions import write_runs
from dreamer_study.flows.running.live_results import (
    Results,
    patiently,
    report_digest,
    report_mark,
)
from dreamer_study.flows.running.options import WHOLE, Options
from dreamer_study.flows.running.result_rows import outputs_of
from dreamer_study.flows.running.steps import MODELS, STATISTICS, Steps
from dreamer_study.flows.running.trainings import (
    Failures,
    evaluation_names,
    train_and_evaluate,
)
from dreamer_study.sql.ledger import differing
from dreamer_study.sql.results import ask

NEXT = {"prepare": "train", "train": "evaluate", "evaluate": "report"}


def run_study(plan: Plan, jobs: Jobs, steps: Steps, options: Options = WHOLE) -> Path | None:
    """Run a study to its report, or to the end of the stage `options.until`.

    Returns the path of the report. Where a training or an evaluation fails the others continue, the
    report is written, and Failed names what has failed. Raises InputError for bad input, also of a
    process.
    """
    plan.study.folder.mkdir(parents=True, exist_ok=True)
    register_user(plan)
    fetch_data(plan, steps)
    measure_ceilings(plan, steps, own=True, trust_code=options.trust_code)
    prepare_data(plan, steps)
    measure_ceilings(plan, steps, own=False, trust_code=options.trust_code)
    match_models(plan, steps, options)
    write_runs(plan)
    register_user(plan)
    path: Path | None = None
    failures: Failures = {}
    if options.until != "prepare":
        results = Results(plan, steps.show_results)
        failures = train_and_evaluate(plan, jobs, steps, results, options)
        if options.until in ("evaluate", "report"):
            compute_statistics(plan, steps, results)
            while not failures and needs_seeds(plan):
                write_runs(plan)
                failures = train_and_evaluate(plan, jobs, steps, results, options)
                compute_statistics(plan, steps, results)
        if options.until == "report":
            path = steps.call("report", "report", results.write_report, made_of=(STATISTICS,))
    register_user(plan)
    _say_end(plan, options, failures, path)
    return path


def match_models(plan: Plan, steps: Steps, options: Options) -> None:
    """Size the models: equal FLOPs per token and equal parameters."""
    work = partial(size_models, plan, trust_code=options.trust_code)
    inputs = (plan.data.tokenizer.name,)  # whose vocabulary is a size of every model
    steps.call("match", "match models", work, made_of=inputs, makes=MODELS)


def compute_statistics(plan: Plan, steps: Steps, results: Results) -> None:
    """Enter all rows, and compute ratios with their intervals."""
    inputs = evaluation_names(plan)
    steps.call("statistics", "statistics", results.finish, made_of=inputs, makes=STATISTICS)


def needs_seeds(plan: Plan) -> bool:
    """Decide, where the study asks for that, whether the intervals are too wide for its seeds."""
    if not plan.wants_seeds:
        return False
    study = plan.study
    variants = [variant.name for variant in study.models.trained if not variant.seeds]

    def widest_interval() -> float:
        rows = ask(study.database, "widest_interval", study=study.study_id, variants=variants)
        return rows["high_over_low"].item()

    return decide_seeds(plan, patiently(widest_interval))


def _say_end(plan: Plan, options: Options, failures: Failures, path: Path | None) -> None:
    """Say which command continues, or raise Failed for what has failed."""
    command = plan.study.run_command
    if options.trust_code and "--trust-code" not in command:  # for code of a task
        command += " --trust-code"
    if failures:
        first, *others = failures.values()
        more = f"; and {len(others)} more" if others else ""
        report = f"; the report of everything else is {path}" if path else ""
        raise Failed(f"{first}{more}{report}; `{command}` tries again")
    if options.until in NEXT:
        following = NEXT[options.until]
        write_line(f"{options.until}: done; `{command}` continues with {following}")


def is_complete(plan: Plan) -> bool:
    """Check that no work is left, all rows are in the results, and the report shows them."""
    study = plan.study
    if not (report_mark(study).exists() and study.database.exists() and plan.evaluated):
        return False
    has_all_rows = patiently(lambda: not differing(study.database, outputs_of(plan)))
    return has_all_rows and report_mark(study).read_bytes() == report_digest(plan).encode()
