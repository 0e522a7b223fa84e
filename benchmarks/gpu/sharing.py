"""Measure small trainings that share a GPU, by processes that stay: models of the preset gpu-small.

With CUDA's MPS daemon where CUDA_MPS_PIPE_DIRECTORY names one: start it before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpu.device_timing import Say, Sizes
from benchmarks.random_stream import write_run
from dreamer_study.flows.plan.model_plan import plan_models
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.training.random_stream import write_random_stream

PRESET = "gpu-small"
ROUNDS = ("a new process for each", "processes that stay")
CHECKPOINTS = 16


def sharing(sizes: Sizes, say: Say) -> None:
    """Measure seconds and tokens a second of trainings side by side, in processes new and kept."""
    study = load_study(PRESET)
    models = [model.config for model in plan_models(study, study.data.tokenizer.vocabulary_size)]
    length = study.training.sequence_length
    batch_tokens = study.training.batch_tokens
    tokens = 2 * length if sizes.tiny else 100 * batch_tokens
    numbers = (1, 2) if sizes.tiny else (study.compute.per_gpu, 6, 18, 24)
    recipe = {
        "tokens": tokens,
        "batch_tokens": length if sizes.tiny else batch_tokens,
        "checkpoints": [tokens * number // CHECKPOINTS for number in (4, 8, 12, 16)],
        "precision": "float32" if sizes.tiny else "bfloat16",
        "device": sizes.device.type,
        "compile": False,
    }
    for processes in numbers:
        with tempfile.TemporaryDirectory() as place:
            data = write_random_stream(
                Path(place) / "data",
                sequence_length=length,
                vocabulary_size=study.data.tokenizer.vocabulary_size,
                rows=2 * batch_tokens // length,
                document_lengths=(length // 8, length // 2),
            )
            workers = [_started(Path(place)) for _ in range(processes)]
            for number, name in enumerate(ROUNDS):
                began = time.perf_counter()
                for place_of, worker in enumerate(workers):
                    folder = Path(place) / f"run-{number}-{place_of}"
                    config = models[place_of % len(models)]
                    write_run(folder, data, config, seed=place_of, **recipe)
                    request = {"arguments": [str(folder)], "log": str(folder / "log.txt")}
                    worker.stdin.write(json.dumps(request) + "\n")
                    worker.stdin.flush()
                answers = [worker.stdout.readline().strip() for worker in workers]
                seconds = time.perf_counter() - began
                say(
                    processes=processes,
                    mps="CUDA_MPS_PIPE_DIRECTORY" in os.environ,
                    trainings=name,
                    ended_well=answers.count("0"),
                    seconds=seconds,
                    tokens_per_second=processes * tokens / seconds,
                )
            for worker in workers:
                worker.stdin.close()
                worker.wait()


def _started(folder: Path) -> subprocess.Popen[str]:
    """Start a process that trains one run after the other, as the product's evaluators stay."""
    program = ["dreamer_study.model.worker", "dreamer_study.model.train", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
