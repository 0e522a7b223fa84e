"""`dreamer export --format hf`: write one trained model as a folder for transformers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from dreamer_study.flows.commands.publishing.publish import licences_of, write_card
from dreamer_study.flows.plan.study_plan import Checkpoint, Plan, Run
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import atomic_folder
from dreamer_study.sql.results import ask

Value = TypeVar("Value")


def export_model(options: argparse.Namespace) -> None:
    """Write the folder, and print the line that loads the model.

    Raises InputError for a folder that is not empty, for a model, seed or checkpoint that the study
    does not have or that is one of several, and for a model that does not load by itself.
    """
    folder: Path = options.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty, and nothing in it is overwritten; name another")
    study = load_study(options.study, root=options.root)
    trust_code = options.trust_code or study.trusted
    with only_run(study):
        run, checkpoint = _chosen(study, options)
        with atomic_folder(folder) as unfinished:
            _write(study, run, checkpoint, unfinished, trust_code=trust_code)
    print(f"{folder}: {run.name} at {checkpoint.tokens:,} tokens; to load the model:")
    trusted = ", trust_remote_code=True" if _has_code(folder) else ""
    print(f"AutoModelForCausalLM.from_pretrained({str(folder)!r}{trusted})")


def _chosen(study: Study, options: argparse.Namespace) -> tuple[Run, Checkpoint]:
    """Find the checkpoint to export. Raises InputError where there is none, or no one alone."""
    plan = Plan(study)
    # `data` raises where data sets are not here
    if not (plan.data and plan.described) or plan.tuning_runs:
        raise InputError(
            f"{study.folder}: no trained models yet; `{study.run_command}` trains them"
        )
    runs = plan.runs
    models = {run.model.model_id: run.model for run in runs}
    named = [name for name, model in models.items() if options.model in (None, name, model.variant)]
    model = _only("--model", options.model, named, models)
    of_model = [run for run in runs if run.model.model_id == model]
    seeds = [run.seed for run in of_model]
    if options.seed is None:
        wanted = [run.seed for run in of_model if run.status == "chosen"]  # no loser of a race
    else:
        wanted = [seed for seed in seeds if seed == options.seed]
    seed = _only("--seed", options.seed, wanted, seeds)
    run = next(run for run in runs if (run.model.model_id, run.seed) == (model, seed))
    return run, _checkpoint(run, options.tokens)


def _only(option: str, given: Any, named: list[Value], known: Iterable[Value]) -> Value:
    """Return the only value that an option names. Raises InputError for none, or several."""
    if len(named) == 1:
        return named[0]
    if not named and given is None:
        raise InputError(f"{option}: none is chosen yet; give one of {_listed(known)}")
    if not named:
        raise InputError(f"{option} is {given!r}, but the study has {_listed(known)}")
    raise InputError(f"{option}: there are several, {_listed(named)}; give one")


def _checkpoint(run: Run, tokens: int | None) -> Checkpoint:
    """Choose the checkpoint of a number of tokens, or the last one of a run that has ended."""
    written = run.written
    if not written:
        raise InputError(f"{run.name} has no checkpoint yet")
    if tokens is None:
        if not run.done:
            raise InputError(
                f"{run.name} is not trained to its end, {run.goal:,} tokens; its newest checkpoint"
                f" is --tokens {written[-1].tokens}"
            )
        return written[-1]
    for checkpoint in written:
        if tokens in (checkpoint.tokens, checkpoint.point):
            return checkpoint
    there = _listed(checkpoint.tokens for checkpoint in written)
    raise InputError(f"--tokens is {tokens}, but {run.name} has checkpoints at {there}")


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def _write(study: Study, run: Run, checkpoint: Checkpoint, made: Path, *, trust_code: bool) -> None:
    """Fill a new folder, whose files this user alone can read."""
    # takes seconds, which a refusal need not wait for
    from dreamer_study.model.architectures.code import FOLDER
    from dreamer_study.model.checkpoints.models import load_model
    from dreamer_study.model.evaluation.tokenizer import find_tokenizer, load_tokenizer
    from dreamer_study.model.hub.folder import write_folder

    weights = "raw" if study.evaluation.weights == "raw" else "averaged"
    network = load_model(checkpoint.folder, weights=weights, trust_code=trust_code)
    tokenizer = find_tokenizer(checkpoint.folder)
    network.tokenizer = load_tokenizer(tokenizer)
    write_folder(made, network, tokenizer, checkpoint.folder / FOLDER)
    has_results = study.database.exists()
    write_card(
        "exported_model",
        made,
        study=study,
        run=run,
        tokens=checkpoint.tokens,
        has_code=_has_code(made),
        ratios=_ratios(study, run) if has_results else [],
        scores=_scores(study, run, checkpoint) if has_results else [],
        licences=licences_of(study, study.database) if has_results else [],
    )
    for file in made.iterdir():
        os.chmod(file, 0o600)


def _has_code(folder: Path) -> bool:
    return any(folder.glob("*.py"))


def _ratios(study: Study, run: Run) -> list[dict[str, Any]]:
    """Read the rows of the view `token_ratios` about the model: averages, held-out losses first."""
    rows = ask(study.database, "study_ratios", study=study.study_id)
    own = (rows["variant"] == run.model.variant) & (rows["depth"] == run.model.depth)
    return _plain(rows[own])


def _scores(study: Study, run: Run, checkpoint: Checkpoint) -> list[dict[str, Any]]:
    rows = ask(study.database, "published_scores", study=study.study_id)
    own = (rows["run_id"] == run.run_id) & (rows["tokens"] == checkpoint.tokens)
    return _plain(rows[own])


def _plain(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows with None for what is unknown."""
    return rows.astype(object).where(rows.notna(), None).to_dict("records")
