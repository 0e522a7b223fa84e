"""Measure training speed on one CPU thread, at the sizes of a preset: `python -m benchmarks.training_cpu`.

LA, DR and DR+DA, trained by `Trainer`, beside (a) this repository's reference of each, the equations written
down plainly, and (b) a mixture-of-experts model of `transformers` of LA's sizes (Qwen3-MoE, random weights), in the
fastest of the implementations it offers. Rounds of a few steps of each alternate, so that whatever else the machine
does meets all alike; a ratio is the median over rounds of the ratio in one round. The text is random, its lengths are
those of short problems.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
import yaml
from torch import Tensor, nn

from benchmarks.random_stream import write_random_stream
from model import ops
from model.accounting import training_flops_per_token
from model.config import DreamerConfig, dr, dr_da, la
from model.dreamer import Dreamer
from model.ops import Documents
from model.training.config import read_run
from model.training.stream import IGNORED, Batch, TokenStream
from model.training.trainer import Trainer

PRESETS = Path(__file__).parents[1] / "flows" / "study" / "presets"
STEPS = 3  # of each contestant in a round
OFFERED = (("eager", "batched_mm", "grouped_mm"), ("sdpa", "eager"))  # by transformers: for experts, for attention


class StudyTrainer:
    """Take training steps as a study does: `Trainer` over the random tokens in `root / "data"`."""

    def __init__(self, root: Path, name: str, config: DreamerConfig, recipe: dict) -> None:
        folder = root / name
        folder.mkdir()
        training = {
            "tokens": 10**9,
            "batch_tokens": recipe["batch_tokens"],
            "loss_on": recipe["loss_on"],
            "learning_rate": recipe["learning_rate"],
            "device": "cpu",
        }
        values = {"run_id": name, "model": config.to_dict(), "training": training, "data": "../data"}
        (folder / "run.json").write_text(json.dumps(values))
        self.trainer = Trainer(read_run(folder))

    def step(self) -> int:
        """Train one step; the number of real tokens in it."""
        before = self.trainer.tokens
        self.trainer.train_step()
        return self.trainer.tokens - before


class Plain:
    """A straightforward training step around any network: torch's own loss, clipping and AdamW, the same stream.

    A network of this repository is computed by the reference.
    """

    def __init__(self, stream: TokenStream, module: nn.Module, hidden: Callable[[Batch], Tensor], head: Tensor) -> None:
        self.stream, self.module, self.hidden, self.head, self.steps = stream, module.train(), hidden, head, 0
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=1e-3, fused=True)

    def step(self) -> int:
        """Train one step; the number of real tokens in it."""
        batch = self.stream.batch(self.steps)
        wanted = batch.targets != IGNORED
        with ops.engine("reference"):
            F.cross_entropy(self.hidden(batch)[wanted] @ self.head.T, batch.targets[wanted]).backward()
        nn.utils.clip_grad_norm_(self.module.parameters(), 0.5)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        return batch.real_tokens


def variants(preset: dict, depth: int) -> dict[str, DreamerConfig]:
    """Configure LA as the preset has it, and DR and DR+DA matched to LA."""
    sizes = {
        "vocabulary_size": preset["data"]["tokenizer"]["vocabulary_size"],
        "sequence_length": preset["training"]["sequence_length"],
    }
    baseline = la(depth, **preset["models"]["baseline"], **sizes)
    return {"LA": baseline, "DR": dr(depth, baseline=baseline), "DR+DA": dr_da(depth, baseline=baseline)}


def reference(stream: TokenStream, config: DreamerConfig) -> Plain:
    """Set up this repository's reference, trained plainly."""
    model = Dreamer(config)

    def hidden(batch: Batch) -> Tensor:
        return model(batch.tokens, positions=batch.positions, documents=batch.documents, return_hidden=True)

    return Plain(stream, model, hidden, model.head)


def transformers_model(stream: TokenStream, config: DreamerConfig, experts: str, attention: str) -> Plain:
    """Qwen3-MoE of the sizes of `config`: the same heads, experts, depth, vocabulary, documents and targets."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = Qwen3MoeConfig(
        vocab_size=config.vocabulary_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.depth,
        num_attention_heads=config.query_heads,
        num_key_value_heads=config.key_value_heads,
        head_dim=config.head_size,
        num_experts=config.experts,
        num_experts_per_tok=config.active_experts,
        moe_intermediate_size=config.expert_size,
        norm_topk_prob=True,
        max_position_embeddings=config.sequence_length,
        use_cache=False,
        tie_word_embeddings=False,
        attn_implementation=attention,
        experts_implementation=experts,
    )
    model = Qwen3MoeForCausalLM(sizes)

    def hidden(batch: Batch) -> Tensor:
        mask = Documents(batch.tokens, batch.documents).mask(torch.float32)
        # A row of padding sees nothing; a finite mask keeps its softmax from being one of nothing but -inf.
        mask = mask.clamp(min=torch.finfo(torch.float32).min)
        return model.model(input_ids=batch.tokens, attention_mask=mask, position_ids=batch.positions).last_hidden_state

    return Plain(stream, model, hidden, model.lm_head.weight)


def fastest_transformers(stream: TokenStream, config: DreamerConfig) -> tuple[str, Plain]:
    """Find the fastest implementation that transformers offers here; return it with its name."""
    times = {}
    for experts, attention in itertools.product(*OFFERED):
        contestant = transformers_model(stream, config, experts, attention)
        contestant.step()
        times[experts, attention] = (min(_seconds(contestant, 1) for _ in range(5)), contestant)
    (experts, attention), (_, contestant) = min(times.items(), key=lambda item: item[1][0])
    return f"Qwen3-MoE ({experts} experts, {attention} attention)", contestant


def _seconds(contestant: StudyTrainer | Plain, steps: int) -> float:
    started = time.process_time()
    for _ in range(steps):
        contestant.step()
    return time.process_time() - started


def measure(contestants: dict[str, StudyTrainer | Plain], seconds: float) -> dict[str, list[float]]:
    """Measure real tokens per second of CPU time, by contestant and round, for about `seconds` of CPU time each."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for each in contestants.values():
        each.step()
    until = time.process_time() + seconds * len(contestants)
    while time.process_time() < until or len(rates[next(iter(rates))]) < 3:
        for name, each in contestants.items():
            started = time.process_time()
            tokens = sum(each.step() for _ in range(STEPS))
            rates[name].append(tokens / (time.process_time() - started))
    return rates


def ratio(of: list[float], to: list[float]) -> str:
    """Format median and quartiles of the ratios within each round."""
    low, middle, high = statistics.quantiles([one / other for one, other in zip(of, to, strict=True)], n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="demo", help="a file of flows/study/presets, without .yaml")
    parser.add_argument("--depths", type=int, nargs="+", help="default: those of the preset")
    parser.add_argument("--seconds", type=float, default=6, help="of CPU time for each contestant (default 6)")
    options = parser.parse_args()
    preset = yaml.safe_load((PRESETS / f"{options.preset}.yaml").read_text())
    recipe = preset["training"]
    torch.set_num_threads(1)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    peer = importlib.util.find_spec("transformers") is not None

    print(f"torch {torch.__version__}, {platform.machine()}, one thread; real tokens per second of CPU time (median);")
    print("ratios: median (quartiles) over rounds")
    if not peer:
        print("transformers is not installed (pip install '.[bench]'): no comparison with it")
    for depth in options.depths or preset["models"]["depths"]:
        configs = variants(preset, depth)
        with tempfile.TemporaryDirectory() as root:
            sizes = configs["LA"]
            data = write_random_stream(
                Path(root) / "data",
                sequence_length=sizes.sequence_length,
                vocabulary_size=sizes.vocabulary_size,
                rows=512,
                document_lengths=(30, 60),
            )
            stream = TokenStream(data, 0, recipe["batch_tokens"] // sizes.sequence_length, recipe["loss_on"])
            contestants: dict[str, StudyTrainer | Plain] = {}
            for name, config in configs.items():
                contestants[name] = StudyTrainer(Path(root), name, config, recipe)
                contestants[f"{name} reference"] = reference(stream, config)
            if peer:
                label, contestants["transformers"] = fastest_transformers(stream, sizes)
            rates = measure(contestants, options.seconds)
        heading = f"to {label}" if peer else "to transformers"
        print(f"\n| depth | model | tokens/s | GFLOP/s | to LA | to its reference | {heading} |")
        print("|---|---|---|---|---|---|---|")
        for name, config in configs.items():
            rate = statistics.median(rates[name])
            flops = training_flops_per_token(config, stream.document_length, stream.target_share)
            cells = [
                f"{rate:,.0f}",
                f"{rate * flops / 1e9:.1f}",
                ratio(rates[name], rates["LA"]),
                ratio(rates[name], rates[f"{name} reference"]),
                ratio(rates[name], rates["transformers"]) if peer else "-",
            ]
            print(f"| {depth} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
