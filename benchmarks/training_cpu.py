"""Training speed of LA, DR and DR+DA on one CPU thread, at the sizes of a preset: `python benchmarks/training_cpu.py`.

Rounds of steps of the three variants alternate, so that whatever else the machine does meets all of them alike. The
text is random, its lengths are those of short problems; the tokens are real ones, trained by the real engine.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import yaml

from model.accounting import flops_per_token
from model.config import DreamerConfig, dr, dr_da, la
from model.run import read_run
from model.trainer import Trainer

PRESETS = Path(__file__).parents[1] / "flows" / "presets"


def write_data(folder: Path, length: int, vocabulary_size: int, rows: int = 512) -> None:
    """A packed folder of random documents of 30 to 60 tokens, a quarter of each the response."""
    generator = np.random.default_rng(0)
    index = []
    for row in range(rows):
        place = row * length
        while (size := int(generator.integers(30, 61))) <= (row + 1) * length - place:
            index.append((place, place + size - size // 4, place + size))
            place += size
    folder.mkdir()
    generator.integers(0, vocabulary_size, rows * length).astype("<u2").tofile(folder / "tokens-00000.bin")
    np.save(folder / "index-00000.npy", np.array(index, dtype=np.int64))
    packed = {
        "dtype": "uint16",
        "sequence_length": length,
        "shards": [{"rows": rows, "documents": len(index)}],
        "tokens": sum(end - start for start, _, end in index),
        "documents": len(index),
        "end_token": 0,
        "vocabulary_size": vocabulary_size,
    }
    (folder / "packed.json").write_text(json.dumps(packed))


def variants(preset: dict, depth: int) -> dict[str, DreamerConfig]:
    """LA as the preset has it, DR and DR+DA matched to it."""
    sizes = {
        "vocabulary_size": preset["data"]["tokenizer"]["vocabulary_size"],
        "sequence_length": preset["training"]["sequence_length"],
    }
    baseline = la(depth, **preset["models"]["baseline"], **sizes)
    return {"LA": baseline, "DR": dr(depth, baseline=baseline), "DR+DA": dr_da(depth, baseline=baseline)}


def trainer(root: Path, name: str, config: DreamerConfig, recipe: dict) -> Trainer:
    """A trainer for one variant over the data in `root`."""
    folder = root / name
    folder.mkdir()
    training = {"tokens": 10**9, "batch_tokens": recipe["batch_tokens"], "loss_on": recipe["loss_on"], "device": "cpu"}
    values = {"run_id": name, "model": config.to_dict(), "training": training, "data": "../data"}
    (folder / "run.json").write_text(json.dumps(values))
    return Trainer(read_run(folder))


def measure(trainers: dict[str, Trainer], seconds: float) -> dict[str, list[float]]:
    """Tokens per second of CPU time, by variant, of rounds of five steps."""
    rates: dict[str, list[float]] = {name: [] for name in trainers}
    for each in trainers.values():
        each.train_step()
    until = time.monotonic() + seconds * len(trainers)
    while time.monotonic() < until or not all(rates.values()):
        for name, each in trainers.items():
            tokens, started = each.tokens, time.process_time()
            for _ in range(5):
                each.train_step()
            rates[name].append((each.tokens - tokens) / (time.process_time() - started))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="demo", help="a file of flows/presets, without .yaml")
    parser.add_argument("--depths", type=int, nargs="+", help="default: those of the preset")
    parser.add_argument("--seconds", type=float, default=10, help="per variant")
    options = parser.parse_args()
    preset = yaml.safe_load((PRESETS / f"{options.preset}.yaml").read_text())

    print(f"torch {torch.__version__}, {platform.machine()}, one thread; real tokens per second of CPU time (median)\n")
    print("| depth | variant | tokens/s | quartiles | to LA | MFLOP/token | GFLOP/s |")
    print("|---|---|---|---|---|---|---|")
    for depth in options.depths or preset["models"]["depths"]:
        configs = variants(preset, depth)
        with tempfile.TemporaryDirectory() as root:
            sizes = configs["LA"]
            write_data(Path(root) / "data", sizes.sequence_length, sizes.vocabulary_size)
            trainers = {name: trainer(Path(root), name, c, preset["training"]) for name, c in configs.items()}
            rates = measure(trainers, options.seconds)
            length = trainers["LA"].stream.document_length
        baseline = statistics.median(rates["LA"])
        for name, values in rates.items():
            rate, flops = statistics.median(values), 3 * flops_per_token(configs[name], length)
            low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (rate, rate, rate)
            print(
                f"| {depth} | {name} | {rate:,.0f} | {low:,.0f} to {high:,.0f} "
                f"| {rate / baseline:.2f} | {flops / 1e6:.2f} | {rate * flops / 1e9:.1f} |"
            )


if __name__ == "__main__":
    main()
