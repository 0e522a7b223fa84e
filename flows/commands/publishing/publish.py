"""`dreamer publish`: write a folder that is ready to be uploaded to a hub; nothing is uploaded."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml

from dreamer_study.flows.commands.publishing.records import write_records
from dreamer_study.flows.plan.study_plan import Checkpoint, Plan, Run
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.result_rows import COMPLETE, status_of
from dreamer_study.flows.study.configuration import OF_THE_MACHINE, Study
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.evaluation.lm_eval_files import read_task
from dreamer_study.model.evaluation.tokenizer import find_tokenizer
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import atomic_folder
from dreamer_study.pipeline.worlds.tasks import REPOSITORY
from dreamer_study.pipeline.worlds.world import WORLD_LICENCE
from dreamer_study.sql.export import copy_afresh, export
from dreamer_study.sql.results import ask, query

OWNER = "OWNER"  # stands for a name on the hub
CARDS = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True)


def publish(options: argparse.Namespace) -> None:
    """Write the folder, and print the command that would upload it.

    Raises InputError for a folder that is there already, a study without results or one that runs
    now, results of another state of the study file, and models that are not there.
    """
    study, folder, owner = (
        load_study(options.study, root=options.root),
        options.folder,
        options.owner,
    )
    if folder.exists():
        raise InputError(
            f"{folder} is there already, and nothing published is overwritten; name a new folder"
        )
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", owner, re.ASCII):
        raise InputError(f"--owner {owner!r}: a name on the hub has letters, digits and . _ - only")
    if not study.database.exists():
        raise InputError(
            f"{study.database}: no results yet; `dreamer run {study.arguments}` makes them"
        )
    with only_run(study), atomic_folder(folder) as made:
        _write(study, _chosen(study, options.checkpoints), made, folder.name, owner)
    print(
        f"{folder}:"
        f" written{f'; --owner puts your name on the hub in place of {OWNER}' * (owner == OWNER)}"
    )
    print(
        shlex.join(
            ["hf", "upload", f"{owner}/{study.name}", str(folder), ".", "--repo-type", "dataset"]
        )
    )


def _chosen(study: Study, wanted: str) -> list[tuple[Run, Checkpoint]]:
    """List the checkpoints of complete runs that are published: the last of each run, all, or
    none."""
    plan = Plan(study)
    if wanted == "none":
        return []
    if not (plan.prepared and plan.described):
        raise InputError(
            f"{study.store_folder}: no trained models; --checkpoints none publishes the results"
            " alone"
        )
    complete = [run for run in plan.runs if status_of(plan, run) == COMPLETE]
    return [
        (run, one)
        for run in complete
        for one in (run.written if wanted == "all" else run.written[-1:])
    ]


def _write(
    study: Study, chosen: list[tuple[Run, Checkpoint]], made: Path, place: str, owner: str
) -> None:
    """Fill a new folder: results first, as all that the cards say is read from them."""
    # takes a second, which a refusal need not wait for
    from dreamer_study.reports.page.answer import read_answer
    from dreamer_study.reports.page.report import write_report

    database = made / "results.duckdb"
    copy_afresh(study.database, database)
    known = query(
        database, "from studies where study_id = $study", {"study": study.study_id}
    ).to_dict("records")
    if not known:
        raise InputError(
            f"{study.database}: holds no results of {study.study_id} (the study file has changed)"
        )
    if others := sorted({*query(database, "from studies")["study_id"]} - {study.study_id}):
        write_line(
            f"note: the results file holds {', '.join(others)} too, and they are published with it"
        )
    tables = [path.stem for path in export(database, made / "tables")]
    write_report(database, study.study_id, made / "report", papers=False)
    # with every default; ours is as it was written
    (made / "report" / "study.yaml").unlink(missing_ok=True)
    _copy_study(study, made)
    scores, licences = (
        ask(database, "published_scores", study=study.study_id),
        _licences(study, database),
    )
    write_records(
        scores,
        study,
        made / "evaluations",
        owner,
        {(run.run_id, one.tokens) for run, one in chosen},
    )
    for run, one in chosen:
        target = made / "models" / run.run_id / str(one.tokens)
        shutil.copytree(one.folder, target)
        # so that the folder is whole anywhere
        shutil.copytree(find_tokenizer(one.folder), target / "tokenizer")
        own = scores[(scores["run_id"] == run.run_id) & (scores["tokens"] == one.tokens)].to_dict(
            "records"
        )
        _card(
            "model", target, study=study, run=run, tokens=one.tokens, scores=own, licences=licences
        )
    title, version = f"{study.name}: training tokens to equal accuracy", known[0]["code_version"]
    devices = sorted(
        query(database, "select distinct device from runs where device is not null")["device"]
    )
    packages = json.loads(known[0]["config"])["packages"]
    _dump(
        made / "environment.json",
        {"dreamer-study": version, "devices": devices, "packages": packages},
    )
    program = {
        "type": "software",
        "title": "dreamer-study",
        "authors": [{"name": "dreamer-study contributors"}],
    }
    cited = {
        "cff-version": "1.2.0",
        "message": "Please cite these results, and the program that made them.",
    }
    cited |= {"type": "dataset", "title": title, "authors": [{"name": owner}]}
    _dump(made / "CITATION.cff", {**cited, "references": [{**program, "version": version}]})
    answer = "\n\n".join(read_answer(database, study.study_id)[0])
    said = {
        "title": title,
        "answer": answer,
        "tables": tables,
        "models": len(chosen),
        "place": shlex.quote(place),
    }
    _card("dataset", made, study=study, licences=licences, **said)


def _copy_study(study: Study, made: Path) -> None:
    """Write the study file without what is of this machine, and copy the code and tasks that lie
    beside it."""
    _dump(
        made / "study.yaml",
        study.model_dump(mode="json", exclude_unset=True, exclude=OF_THE_MACHINE),
    )
    place = study.place.resolve()
    files = {place / name for variant in study.models.variants for name in variant.code_files}
    for task in (place / one.yaml for one in study.own_benchmarks if one.yaml):
        files.add(task)
        files |= {
            file
            for file in read_task(task, "publish", trust_code=True).files
            if file.is_relative_to(place)
        }
    for file in files:
        target = made / file.relative_to(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _licences(study: Study, database: Path) -> list[dict[str, Any]]:
    """List what the study trained on and asked, with licences."""
    rows = ask(database, "published_licences", study=study.study_id).to_dict("records")
    world, tokenizer = (
        {"name": "world", "repository": REPOSITORY, "licence": WORLD_LICENCE},
        study.data.tokenizer,
    )
    hub = {
        "name": "tokenizer",
        "use": "tokenizer",
        "repository": tokenizer.hub,
        "revision": tokenizer.revision,
    }
    asked = [world] * (BUILTIN in study.evaluation.benchmarks) + [
        vars(one) for one in study.own_benchmarks
    ]
    return [*rows, *[hub] * bool(tokenizer.hub), *({**one, "use": "benchmark"} for one in asked)]


def _dump(path: Path, values: Mapping[str, Any]) -> None:
    as_json = path.suffix == ".json"
    text = (
        json.dumps(values, indent=1)
        if as_json
        else yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    )
    path.write_text(text, encoding="utf-8")


def _card(kind: str, folder: Path, **said: Any) -> None:
    text = CARDS.get_template(f"{kind}.md.j2").render(said)
    (folder / "README.md").write_text(f"{text}\n", encoding="utf-8")
