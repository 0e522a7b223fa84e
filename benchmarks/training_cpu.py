"""Measure training speed on one CPU thread; decides whether a change of the engine or the trainer
is kept.

    python -m benchmarks.training_cpu [--depths 4 8] [--seconds 6]

LA, DR and DR+DA at the sizes of the demo, trained by `Trainer`, beside (a) this repository's
reference of each, the equations written down plainly, and (b) a mixture-of-experts model of
`transformers` of LA's sizes (Qwen3-MoE, random weights), in the fastest of the implementations it
offers. Rounds of a few steps of each alternate, so that whatever else the machine does meets all
alike; a ratio is the median over rounds of the ratio in one round. The text is random, its lengths
are those of short problems.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.random_stream import write_run
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model import ops
from dreamer_study.model.accounting import training_flops_per_token
from dreamer_study.model.config import DreamerConfig, dr, dr_da, la
from dreamer_study.model.dreamer import Dreamer
from dreamer_study.model.ops import Documents
from dreamer_study.model.training.random_stream import write_random_stream
from dreamer_study.model.training.stream import IGNORED, Batch, TokenStream
from dreamer_study.model.training.trainer import Trainer

STEPS = 3  # of each contestant in a round
# by transformers: for experts, for attention
OFFERED = (("eager", "batched_mm", "grouped_mm"), ("sdpa", "eager"))
Step = Callable[[], int]  # takes a training step and returns its real tokens


def trainer_step(trainer: Trainer) -> Step:
    """Train as a study does."""

    def step() -> int:
        before = trainer.tokens
        trainer.train_step()
        return trainer.tokens - before

    return step


def plain_step(
    stream: TokenStream, network: nn.Module, hidden: Callable[[Batch], Tensor], head: Tensor
) -> Step:
    """Train any network plainly: torch's own loss, clipping and AdamW; one of this repository by
    its reference."""
    optimizer = torch.optim.AdamW(
        network.train().parameters(), lr=1e-3, weight_decay=1e-3, fused=True
    )
    batches = map(stream.batch, itertools.count())

    def step() -> int:
        batch = next(batches)
        wanted = batch.targets != IGNORED
        with ops.engine("reference"):
            F.cross_entropy(hidden(batch)[wanted] @ head.T, batch.targets[wanted]).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return batch.real_tokens

    return step


def reference(stream: TokenStream, config: DreamerConfig) -> Step:
    """Train this repository's reference."""
    model = Dreamer(config)

    def hidden(batch: Batch) -> Tensor:
        return model(
            batch.tokens, positions=batch.positions, documents=batch.documents, return_hidden=True
        )

    return plain_step(stream, model, hidden, model.head)


def qwen3(stream: TokenStream, config: DreamerConfig, experts: str, attention: str) -> Step:
    """Train Qwen3-MoE of the sizes of `config`, on the same documents and targets."""
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
        # A row of padding sees nothing; a finite mask keeps its softmax from being one of nothing
        # but -inf.
        mask = mask.clamp(min=torch.finfo(torch.float32).min)
        return model.model(
            input_ids=batch.tokens, attention_mask=mask, position_ids=batch.positions
        ).last_hidden_state

    return plain_step(stream, model, hidden, model.lm_head.weight)


def fastest_transformers(stream: TokenStream, config: DreamerConfig) -> tuple[str, Step]:
    """Find the fastest implementation that transformers offers here; return it with its name."""

    def seconds(step: Step) -> float:
        started = time.process_time()
        step()
        return time.process_time() - started

    found = {}
    for experts, attention in itertools.product(*OFFERED):
        step = qwen3(stream, config, experts, attention)
        step()
        found[f"Qwen3-MoE ({experts} experts, {attention} attention)"] = (
            min(seconds(step) for _ in range(5)),
            step,
        )
    name = min(found, key=lambda name: found[name][0])
    return name, found[name][1]


def measure(contestants: dict[str, Step], seconds: float) -> dict[str, list[float]]:
    """Measure real tokens per second of CPU time, by contestant and round, for about `seconds` of
    CPU time each."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for step in contestants.values():
        step()
    until, rounds = time.process_time() + seconds * len(contestants), 0
    while time.process_time() < until or rounds < 3:
        rounds += 1
        for name, step in contestants.items():
            started = time.process_time()
            tokens = sum(step() for _ in range(STEPS))
            rates[name].append(tokens / (time.process_time() - started))
    return rates


def ratio(of: list[float], to: list[float]) -> str:
    """Format median and quartiles of the ratios within each round."""
    low, middle, high = statistics.quantiles(
        [one / other for one, other in zip(of, to, strict=True)], n=4
    )
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depths", type=int, nargs="+", default=[4], metavar="N")
    parser.add_argument(
        "--seconds", type=float, default=6, help="of CPU time for each contestant (default 6)"
    )
    options = parser.parse_args()
    study = load_study("demo")
    recipe = {
        name: getattr(study.training, name) for name in ("batch_tokens", "loss_on", "learning_rate")
    }
    sizes = {
        "vocabulary_size": study.data.tokenizer.vocabulary_size,
        "sequence_length": study.training.sequence_length,
    }
    torch.set_num_threads(1)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    peer = importlib.util.find_spec("transformers") is not None

    print(f"torch {torch.__version__}, {platform.machine()}, one thread")
    print("rates: real tokens per second of CPU time (median)")
    print("ratios: median (quartiles) over rounds")
    if not peer:
        print("transformers is not installed (pip install '.[bench]'): no comparison with it")
    for depth in options.depths:
        baseline = la(depth, **study.models.dreamer, **sizes)
        configs = {
            "LA": baseline,
            "DR": dr(depth, baseline=baseline),
            "DR+DA": dr_da(depth, baseline=baseline),
        }
        with tempfile.TemporaryDirectory() as place:
            root = Path(place)
            data = write_random_stream(root / "data", **sizes, rows=512, document_lengths=(30, 60))
            stream = TokenStream(
                data, 0, recipe["batch_tokens"] // baseline.sequence_length, recipe["loss_on"]
            )
            contestants: dict[str, Step] = {}
            for name, config in configs.items():
                run = write_run(root / name, data, config, device="cpu", **recipe)
                contestants[name] = trainer_step(Trainer(run))
                contestants[f"{name} reference"] = reference(stream, config)
            label = "transformers"
            if peer:
                label, contestants["transformers"] = fastest_transformers(stream, baseline)
            rates = measure(contestants, options.seconds)
        print(f"\n| depth | model | tokens/s | GFLOP/s | to LA | to its reference | to {label} |")
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
