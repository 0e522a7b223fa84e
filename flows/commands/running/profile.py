"""`dreamer profile`: measure where a training step of a study's models spends its time."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from flows.running.machines.devices import Slots
from flows.running.private import compiled_libraries
from flows.running.processes import BAD_INPUT, Failed
from flows.stages.models import describe_run, plan_models
from flows.stages.outputs import Prepared, read_returned
from flows.study.configuration import Study
from flows.study.loading import load_study
from model.profiling.profile import random_data
from pipeline.errors import InputError
from pipeline.storage.store import Output


def profile(options: argparse.Namespace) -> None:
    """Profile the models that the options name."""
    print_profile(load_study(options.study, root=options.root), options.model)


def print_profile(study: Study, model_id: str | None) -> None:
    """Profile one training step of one model of the study, or of each, in a process of its own, and print the result.

    Reads the study's packed tokens, or random tokens of the same shape where there are none yet. Changes nothing of the
    study. Raises InputError for a model the study does not have, or while its vocabulary is not known.
    """
    packed = find_packed(study)
    size = study.data.tokenizer.vocabulary_size
    if packed:
        size = json.loads((packed.path / "packed.json").read_text())["vocabulary_size"]
    if size is None:
        raise InputError(
            "data.tokenizer.vocabulary_size: give it beside 'hub' or 'file', or run the study's data stages first"
        )
    planned = plan_models(study, size)
    chosen = [model for model in planned if model_id in (None, model.model_id)]
    if not chosen:
        known = ", ".join(model.model_id for model in planned)
        raise InputError(f"{study.name} has no model {model_id!r}; it has {known}")
    print(f"tokens: {packed.path if packed else f'random, as {study.folder} has no packed ones of this length yet'}")
    with Slots(study).take() as environment, tempfile.TemporaryDirectory() as place:
        root = Path(place)
        if packed is None:
            data = random_data(root / "data", chosen[0].config, study.training.batch_tokens)
            packed = Output("tokens", "random", data, {})
        for model in chosen:
            run = {**describe_run(study, packed, model, study.training.seeds[0]), "data": str(packed.path.resolve())}
            folder = root / model.model_id
            folder.mkdir()
            (folder / "run.json").write_text(json.dumps(run))
            print(f"\n{_profile(folder, environment)}", end="", flush=True)


def find_packed(study: Study) -> Output | None:
    """Find the study's packed tokens, if they have its sequence length (the settings may have changed since)."""
    try:
        packed = read_returned(study, Prepared).output("tokens")
    except InputError:
        return None
    length = packed.manifest["configuration"]["sequence_length"] if packed else None
    return packed if length == study.training.sequence_length else None


def _profile(folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "model.profiling.profile", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **compiled_libraries(), **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        if done.returncode == BAD_INPUT:
            raise InputError(last)
        raise Failed(f"the profile of {folder.name} ended with status {done.returncode}: {last}")
    return done.stdout
