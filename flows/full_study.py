"""The Prefect flows: `full-study` and its four sub-flows, thin shells over the plain functions of this package.

Every flow takes the same few words (which study, where its data and outputs lie) and finds what came before it in the
content-addressed store, so each can also be run by itself, a second run does nothing, and a killed one goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect import flow, task
from prefect.artifacts import create_link_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE

from flows.running import progress
from flows.stages.evaluate import evaluate_runs
from flows.stages.prepare import Prepared, prepare_data
from flows.stages.results import enter_evaluations, enter_runs, enter_study
from flows.stages.train import Run, plan_models, train_models
from flows.study.configuration import Study, load_study
from pipeline.storage.store import Store
from reports.page.report import write_report
from sql.results import query

# The store is the cache; Prefect's own would only remember what a task returned, not whether its files still exist.
stage = task(cache_policy=NO_CACHE, persist_result=False)


@stage(name="curate, tokenise and pack")
def _prepare(study: Study) -> Prepared:
    prepared = prepare_data(study, Store(study.store_folder))
    enter_study(study, prepared)
    return prepared


@stage(name="train every model and seed")
def _train(study: Study) -> list[Run]:
    store = Store(study.store_folder)
    prepared = prepare_data(study, store)
    planned = plan_models(study, prepared.vocabulary_size)
    runs = train_models(study, store, prepared.packed, planned)
    enter_runs(study, planned, runs)
    return runs


@stage(name="evaluate every checkpoint")
def _evaluate(study: Study) -> None:
    store = Store(study.store_folder)
    prepared = prepare_data(study, store)
    planned = plan_models(study, prepared.vocabulary_size)
    runs = train_models(study, store, prepared.packed, planned)
    enter_evaluations(study, evaluate_runs(study, store, prepared, runs))


@stage(name="write the report")
def _report(study: Study) -> str:
    progress.report("write report", 0.0, "figures and tables")
    path = write_report(study.database, study.study_id, study.report.parent)
    progress.report("write report", 1.0, str(path))
    return str(path)


@flow(name="prepare-data")
def prepare_data_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> None:
    """Sources to packed token shards."""
    _prepare(load_study(study, mirror=mirror, root=root))


@flow(name="train-models")
def train_models_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> None:
    """Matched models, trained on the same token stream."""
    _train(load_study(study, mirror=mirror, root=root))


@flow(name="evaluate-checkpoints")
def evaluate_checkpoints_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> None:
    """Every checkpoint on every benchmark, into the results database."""
    _evaluate(load_study(study, mirror=mirror, root=root))


@flow(name="report")
def report_flow(study: str = "demo", mirror: str | None = None, root: str | None = None) -> str:
    """The HTML report and its figures."""
    return _report(load_study(study, mirror=mirror, root=root))


@flow(name="full-study")
def full_study(study: str = "demo", mirror: str | None = None, root: str | None = None) -> str:
    """Take a study from raw data to its report; returns the report's path.

    `study` is a preset's name or the path of a YAML file; `mirror` a folder with data in the hub's layout; `root` where
    everything is written (default runs/<name>).
    """
    words = {"study": study, "mirror": mirror, "root": root}
    chosen = load_study(**words)
    with _artifacts():
        prepare_data_flow(**words)
        train_models_flow(**words)
        evaluate_checkpoints_flow(**words)
        path = report_flow(**words)
    factors = query(chosen.database, f"SELECT * FROM data_efficiency WHERE study_id = '{chosen.study_id}'")
    rows = factors.astype(object).where(factors.notna(), None).to_dict("records")
    create_table_artifact(rows, key="data-efficiency", description=f"Data-efficiency factors of {chosen.study_id}")
    create_link_artifact(chosen.report.resolve().as_uri(), link_text="The report", key="report")
    return path


@contextmanager
def _artifacts() -> Iterator[None]:
    """Progress as artifacts of the flow run, for the UI, besides whoever else listens."""
    with progress.listening(progress.Artifacts()):
        yield


if __name__ == "__main__":
    full_study()
