"""`dreamer publish`: write a folder that is ready to be uploaded to a hub; nothing is uploaded."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml

from dreamer_study.flows.commands.publishing.private_parts import (
    copy_public,
    copy_task,
    without_places,
    without_samples,
)
from dreamer_study.flows.commands.publishing.records import write_records
from dreamer_study.flows.plan.study_plan import Checkpoint, Plan, Run
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.result_rows import COMPLETE, status_of
from dreamer_study.flows.study.configuration import OF_THE_MACHINE, Study
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.flows.study.loading import PUBLISHED, load_study, presets, study_named_by
from dreamer_study.model.evaluation.lm_eval_files import read_task
from dreamer_study.model.evaluation.tokenizer import find_tokenizer
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import atomic_folder
from dreamer_study.pipeline.worlds.tasks import REPOSITORY, WORLD_BENCHMARKS
from dreamer_study.pipeline.worlds.world import WORLD_LICENCE
from dreamer_study.sql.export import export
from dreamer_study.sql.results import ask, query

LIKE = "like"  # folder of the study whose tokenizer and held-out documents are taken
OWNER = "OWNER"  # instead of a name on the hub
CARDS = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True)


def publish(options: argparse.Namespace) -> None:
    """Write the folder, and print the command that would upload it.

    Raises InputError for a folder that is there already, a study without results or one that runs
    now, results of another state of the study file, and models that are not there.
    """
    study = load_study(options.study, root=options.root)
    folder: Path = options.folder
    owner: str = options.owner
    if os.path.lexists(folder):  # a link that leads nowhere too
        raise InputError(
            f"{folder} exists already, and nothing published is overwritten; name a new folder"
        )
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", owner, re.ASCII):
        raise InputError(f"--owner {owner!r}: a name on the hub has letters, digits and . _ - only")
    if not study.database.exists():
        raise InputError(f"{study.database}: no results yet; `{study.run_command}` makes them")
    with only_run(study), atomic_folder(folder) as unfinished:
        chosen = _chosen(study, options.checkpoints)
        left_out = _write(study, chosen, unfinished, folder.name, owner, answers=options.answers)
    message = f"{folder}: written"
    if left_out:
        message += (
            f"; without the questions and answers of {', '.join(left_out)}, which --answers"
            " publishes too, as it does few-shot samples"
        )
    if owner == OWNER:
        message += f"; --owner puts your name on the hub in place of {OWNER}"
    print(message)
    repository = f"{owner}/{study.name}"
    print(shlex.join(["hf", "upload", repository, str(folder), ".", "--repo-type", "dataset"]))


def _chosen(study: Study, wanted: str) -> list[tuple[Run, Checkpoint]]:
    """List the checkpoints of complete runs to publish: the last of each run, all, or none."""
    plan = Plan(study)
    if wanted == "none":
        return []
    if not (plan.prepared and plan.described):
        raise InputError(
            f"{study.store_folder}: no trained models; --checkpoints none publishes the results"
            " alone"
        )
    chosen = []
    for run in plan.runs:
        if status_of(plan, run) == COMPLETE:
            checkpoints = run.written if wanted == "all" else run.written[-1:]
            chosen += [(run, checkpoint) for checkpoint in checkpoints]
    return chosen


def _write(
    study: Study,
    chosen: list[tuple[Run, Checkpoint]],
    made: Path,
    name: str,
    owner: str,
    *,
    answers: bool,
) -> list[str]:
    """Fill a new folder `made`, which will be called `name`.

    Returns the benchmarks whose questions and answers are left out.

    Results come first: all that the cards say is read from them.
    """
    # takes a second, which a refusal need not wait for
    from dreamer_study.reports.page.answer import read_answer
    from dreamer_study.reports.page.report import write_report

    database = made / "results.duckdb"
    left_out = copy_public(study.database, database, WORLD_BENCHMARKS, answers=answers)
    row = _row_of_study(study, database)
    tables = [path.stem for path in export(database, made / "tables")]
    write_report(database, study.study_id, made / "report", papers=False)
    # with every default; ours is as it was written
    (made / "report" / "study.yaml").unlink(missing_ok=True)
    without_samples_of = _copy_study(study, made, answers=answers)
    scores = ask(database, "published_scores", study=study.study_id)
    licences = licences_of(study, database)
    public = {(run.run_id, checkpoint.tokens) for run, checkpoint in chosen}
    write_records(scores, study, made / "evaluations", owner, public)
    for run, checkpoint in chosen:
        _write_model(study, run, checkpoint, made / "models", scores, licences)

    title = f"{study.name}: training tokens to equal accuracy"
    version = row["code_version"]
    _dump(made / PUBLISHED, _environment(database, row))
    _dump(made / "CITATION.cff", _citation(title, version, owner))
    answer = read_answer(database, study.study_id)
    write_card(
        "dataset",
        made,
        study=study,
        licences=licences,
        title=title,
        answer="\n\n".join([*answer.sentences, *answer.second]),
        tables=tables,
        models=len(chosen),
        place=shlex.quote(name),
    )
    return sorted({*left_out, *without_samples_of})


def _row_of_study(study: Study, database: Path) -> dict[str, Any]:
    """Read the row of `studies`; note which other studies are published with it."""
    rows = query(
        database, "from studies where study_id = $study", {"study": study.study_id}
    ).to_dict("records")
    if not rows:
        raise InputError(
            f"{study.database} holds no results of {study.study_id} (the study file has changed)"
        )
    others = sorted({*query(database, "from studies")["study_id"]} - {study.study_id})
    if others:
        write_line(
            f"note: the results file holds {', '.join(others)} too, and they are published with it"
        )
    return rows[0]


def _write_model(
    study: Study,
    run: Run,
    checkpoint: Checkpoint,
    models: Path,
    scores: pd.DataFrame,
    licences: list[dict[str, Any]],
) -> None:
    """Copy a checkpoint with its tokenizer, so that the folder is whole anywhere, and its card."""
    target = models / run.run_id / str(checkpoint.tokens)
    shutil.copytree(checkpoint.folder, target)
    for weights in target.glob("*.safetensors"):  # of an older store nobody else could read them
        weights.chmod((target / "config.json").stat().st_mode)
    shutil.copytree(find_tokenizer(checkpoint.folder), target / "tokenizer")
    of_checkpoint = (scores["run_id"] == run.run_id) & (scores["tokens"] == checkpoint.tokens)
    write_card(
        "model",
        target,
        study=study,
        run=run,
        tokens=checkpoint.tokens,
        scores=scores[of_checkpoint].to_dict("records"),
        licences=licences,
    )


def _environment(database: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    devices = query(database, "select distinct device from runs where device is not null")
    return {
        "dreamer-study": row["code_version"],
        "devices": sorted(devices["device"]),
        "packages": json.loads(row["config"])["packages"],
    }


def _citation(title: str, version: str, owner: str) -> dict[str, Any]:
    program = {
        "type": "software",
        "title": "dreamer-study",
        "authors": [{"name": "dreamer-study contributors"}],
        "version": version,
    }
    return {
        "cff-version": "1.2.0",
        "message": "Please cite these results, and the program that made them.",
        "type": "dataset",
        "title": title,
        "authors": [{"name": owner}],
        "references": [program],
    }


def _copy_study(study: Study, made: Path, *, answers: bool) -> set[str]:
    """Write the study file without settings of this machine, and copy its code and tasks.

    Returns the benchmarks whose few-shot samples are left out.
    """
    beside = study.place.resolve()
    values = study.model_dump(mode="json", exclude_unset=True, exclude=OF_THE_MACHINE)
    values = without_places(values)
    left_out = set[str]()
    if study.data.like:
        values["data"]["like"], left_out = _copy_like(study, study.data.like, made, answers=answers)
    for file in study.code_files:
        _copy(beside / file, made / file)
    for benchmark in study.own_benchmarks:
        files = _task_files(beside, benchmark)
        targets = {file: made / file.relative_to(beside) for file in files}
        if answers:
            for file, target in targets.items():
                _copy(file, target)
            continue
        overrides = dict(benchmark.overrides)
        if copy_task(targets) or without_samples(overrides) != overrides:
            left_out.add(benchmark.name)
    _dump(made / "study.yaml", values if answers else without_samples(values))
    return left_out


def _copy_like(study: Study, name: str, made: Path, *, answers: bool) -> tuple[str, set[str]]:
    """Copy the study that `data.like` names, unless it is a preset.

    Returns its new name, and the benchmarks whose few-shot samples are left out.
    """
    if name in presets():
        return name, set()
    try:
        other = load_study(study_named_by(study, name))
        if other.data.like:
            raise InputError(f"{name} takes both from {other.data.like}")
    except InputError as error:
        write_line(f"note: the study of data.like is not published: {error}")
        return Path(name).name, set()
    left_out = _copy_study(other, made / LIKE, answers=answers)
    return f"{LIKE}/study.yaml", left_out


def _task_files(beside: Path, benchmark: Benchmark) -> set[Path]:
    """List the task file of a benchmark and what it includes, below the study file's folder."""
    if not benchmark.yaml:
        return set()
    task = beside / benchmark.yaml
    needed = read_task(task, "publish", trust_code=True).files
    return {task, *(file for file in needed if file.is_relative_to(beside))}


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def licences_of(study: Study, database: Path) -> list[dict[str, Any]]:
    """List what the study trained on and asked, with licences."""
    rows = ask(database, "published_licences", study=study.study_id).to_dict("records")
    tokenizer = study.data.tokenizer
    if tokenizer.hub:
        rows.append(
            {
                "name": "tokenizer",
                "use": "tokenizer",
                "repository": tokenizer.hub,
                "revision": tokenizer.revision,
            }
        )
    if BUILTIN in study.evaluation.benchmarks:
        world = {"name": "world", "repository": REPOSITORY, "licence": WORLD_LICENCE}
        rows.append({**world, "use": "benchmark"})
    rows += [{**vars(benchmark), "use": "benchmark"} for benchmark in study.own_benchmarks]
    return rows


def _dump(path: Path, values: Mapping[str, Any]) -> None:
    """Write values as JSON, or as YAML where the name of the file asks for it."""
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".json":
        text = json.dumps(values, indent=1)
    else:
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")


def write_card(kind: str, folder: Path, **said: Any) -> None:
    text = CARDS.get_template(f"{kind}.md.j2").render(said)
    (folder / "README.md").write_text(f"{text}\n", encoding="utf-8")
