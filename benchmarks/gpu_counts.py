"""Count what one micro-batch of each preset asks of a GPU: `python -m benchmarks.gpu_counts [PRESET ...]`.

No GPU is needed (benchmarks/fake_gpu.py): kernels, bytes moved, waits of the host and memory follow from shapes alone.
Eager: what torch.compile fuses is not seen.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch

from benchmarks.fake_gpu import Ledger, device, pretended_gpu
from flows.stages.models import plan_models
from flows.study.loading import load_study
from model.config import DreamerConfig
from model.evaluation.language_model import narrow
from model.evaluation.scoring import log_likelihoods
from model.generate import generate
from model.profiling.random_stream import write_random_stream
from model.training import trainer as training
from model.training.config import read_run

PRESETS = ("gpu-small", "paper-mini", "paper-16", "paper-32")
MICRO_BATCHES = 2  # the second has the gradients of the first in memory


@dataclass(frozen=True)
class Counts:
    """What a micro-batch, and a whole step with its optimiser, ask of the device."""

    operations: int  # kernels of a micro-batch
    moved: int  # bytes that they read and write
    waits: dict[str, int]  # of the host for the device, in a whole step of one micro-batch
    peak: int  # bytes held at most


def models(preset: str) -> tuple[dict[str, DreamerConfig], dict]:
    """Read the models of a preset by their names, and its training settings."""
    study = load_study(preset)
    vocabulary = study.data.tokenizer.vocabulary_size
    settings = study.training
    chosen = {
        "micro_batch_tokens": settings.micro_batch_tokens or settings.batch_tokens,
        "checkpointing": settings.checkpointing,
        "averaging": settings.averaging,
        "loss_on": settings.loss_on,
    }
    return {model.model_id: model.config for model in plan_models(study, vocabulary)}, chosen


def count_training(config: DreamerConfig, settings: dict) -> tuple[Counts, Ledger]:
    """Count a step of two micro-batches; what a micro-batch asks is the difference to a step of one."""
    found = []
    for micro_batches in range(1, MICRO_BATCHES + 1):
        with tempfile.TemporaryDirectory() as place, pretended_gpu() as ledger:
            trainer = _trainer(Path(place), config, settings, micro_batches)
            ledger.forget()
            trainer.train_step()
            found.append(ledger)
            del trainer
    one, two = found
    operations, moved = two.operations - one.operations, two.moved - one.moved
    counts = Counts(operations.total(), moved.total(), dict(Counter(one.waits)), two.peak)
    difference = Ledger()
    difference.operations, difference.moved = operations, moved
    difference.waits = list((Counter(two.waits) - Counter(one.waits)).elements())
    return counts, difference


def count_evaluation(config: DreamerConfig) -> tuple[Ledger, Ledger]:
    """Count the scoring of a batch of continuations, and the generation of a few tokens."""
    found = []
    for what in ("score", "generate"):
        with pretended_gpu() as ledger:
            model = _model(config).eval()
            narrow(model)
            ledger.forget()
            prompt = list(range(config.sequence_length // 4))
            with torch.no_grad():
                if what == "score":
                    pairs = [(prompt[:-row], [1, 2, 3]) for row in range(1, 9)]
                    list(log_likelihoods(model, pairs, batch_tokens=16_384))
                else:
                    generate(model, [prompt] * 4, max_new_tokens=4, end_token=config.vocabulary_size)
            found.append(ledger)
    return tuple(found)


def _model(config: DreamerConfig):
    from model.dreamer import Dreamer

    with device():
        return Dreamer(config, dtype=torch.bfloat16)


def _trainer(root: Path, config: DreamerConfig, settings: dict, micro_batches: int):
    length = config.sequence_length
    micro = settings["micro_batch_tokens"]
    data = write_random_stream(
        root / "data",
        sequence_length=length,
        vocabulary_size=config.vocabulary_size,
        rows=2 * micro // length,
        document_lengths=(length // 8, length // 2),
    )
    values = {**settings, "tokens": 10**12, "batch_tokens": micro * micro_batches, "precision": "bfloat16"}
    run = {"run_id": "counts", "model": config.to_dict(), "training": values, "data": str(data)}
    (root / "run.json").write_text(json.dumps(run))
    with patch.object(training, "choose_device", lambda *_: device()):
        return training.Trainer(read_run(root))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_counts", description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", default=PRESETS)
    parser.add_argument("--operations", action="store_true", help="list the operations that move most bytes")
    options = parser.parse_args(arguments)
    for preset in options.presets:
        configs, settings = models(preset)
        for name, config in configs.items():
            counts, ledger = count_training(config, settings)
            print(f"{preset:12} {name:10} {counts.operations:6} operations {counts.moved / 1e9:8.1f} GB moved "
                  f"{counts.peak / 1e9:6.1f} GB at most, waits {counts.waits}, more {Counter(ledger.waits)}", flush=True)
            if options.operations:
                for operation, size in ledger.moved.most_common(25):
                    print(f"    {operation:40} {ledger.operations[operation]:6} {size / 1e9:8.1f} GB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
