"""Count what training with each preset asks of a GPU: `python -m benchmarks.gpu.counts [PRESET ...] [--operations]`.

No GPU is needed (benchmarks/gpu/fake_gpu.py): operations, bytes, waits of the host and memory follow from shapes alone.
All is counted as without torch.compile, which fuses operations and keeps less for the backward pass.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.gpu.fake_gpu import Ledger, device, pretended_gpu
from benchmarks.random_stream import write_random_stream
from flows.stages.models import plan_models
from flows.study.loading import load_study
from model.config import DreamerConfig
from model.dreamer import Dreamer
from model.evaluation.language_model import narrow
from model.evaluation.scoring import log_likelihoods
from model.generate import generate
from model.training import trainer as training
from model.training.config import read_run

PRESETS = ("gpu-small", "paper-mini", "paper-16", "paper-32")
SETTINGS = ("micro_batch_tokens", "checkpointing", "averaging", "loss_on")  # of a study's training


def read_preset(preset: str) -> tuple[dict[str, DreamerConfig], dict[str, Any]]:
    """Read the models of a preset by their names, and the settings that change what a step asks for."""
    study = load_study(preset)
    settings = {name: getattr(study.training, name) for name in SETTINGS}
    settings["micro_batch_tokens"] = settings["micro_batch_tokens"] or study.training.batch_tokens
    planned = plan_models(study, study.data.tokenizer.vocabulary_size)
    return {model.model_id: model.config for model in planned}, settings


def count_step(config: DreamerConfig, settings: dict[str, Any], micro_batches: int) -> Ledger:
    """Count an optimiser step of a new model, which has no moments before it."""
    micro, length = settings["micro_batch_tokens"], config.sequence_length
    with tempfile.TemporaryDirectory() as place, pretended_gpu() as ledger:
        data = write_random_stream(
            Path(place) / "data",
            sequence_length=length,
            vocabulary_size=config.vocabulary_size,
            rows=micro_batches * micro // length,
            document_lengths=(length // 8, length // 2),
        )
        values = {**settings, "tokens": 10**12, "batch_tokens": micro * micro_batches, "precision": "bfloat16"}
        run = {"run_id": "counts", "model": config.to_dict(), "training": values, "data": str(data)}
        (Path(place) / "run.json").write_text(json.dumps(run))
        with patch.object(training, "choose_device", lambda *_: device()):
            trainer = training.Trainer(read_run(Path(place)))
        ledger.forget()
        trainer.train_step()
    return ledger


def count_scoring(config: DreamerConfig) -> Ledger:
    """Count the scoring of eight continuations, of which pairs share a context."""
    with _evaluated(config) as (model, ledger):
        context = list(range(1, config.sequence_length // 4))
        pairs = [(context[row // 2 :], [1, 2, row]) for row in range(8)]
        log_likelihoods(model, pairs, batch_tokens=16 * config.sequence_length)
    return ledger


def count_generation(config: DreamerConfig, tokens: int = 3) -> Ledger:
    """Count the generation of a few tokens for four prompts."""
    with _evaluated(config) as (model, ledger):
        prompts = [list(range(1, config.sequence_length // 4))] * 4
        generate(model, prompts, max_new_tokens=tokens, end_token=config.vocabulary_size)
    return ledger


@contextmanager
def _evaluated(config: DreamerConfig) -> Iterator[tuple[Dreamer, Ledger]]:
    with pretended_gpu() as ledger:
        with device():
            model = Dreamer(config).eval()
        narrow(model)
        ledger.forget()
        with torch.no_grad():
            yield model, ledger


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each model of each preset."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.counts", description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", default=PRESETS, metavar="PRESET")
    parser.add_argument("--operations", action="store_true", help="list the operations that move most bytes")
    options = parser.parse_args(arguments)
    print("| preset | model | operations of a micro-batch | GB moved | GB held at most | host waits of a step |")
    print("|---|---|---|---|---|---|")
    for preset in options.presets:
        configs, settings = read_preset(preset)
        for name, config in configs.items():
            one, two = (count_step(config, settings, micro_batches) for micro_batches in (1, 2))
            operations, moved = two.operations - one.operations, two.moved - one.moved
            row = preset, name, f"{operations.total():,}", f"{moved.total() / 1e9:,.0f}", f"{two.peak / 1e9:.1f}"
            print(f"| {' | '.join(row)} | {len(two.waits)} |", flush=True)
            for operation, size in moved.most_common(20) if options.operations else ():
                print(f"    {operation:40} {operations[operation]:6} {size / 1e9:8.1f} GB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
