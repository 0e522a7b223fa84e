"""The device itself, whether the model computes there what it should, and whole training steps.

A training step is that of the trainer, over documents as long as a row unless said otherwise, so that its FLOPs are
those of context 4096.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.gpu.device_timing import Say, Sizes, forget_peak, milliseconds, peak_gigabytes
from benchmarks.gpu.kernels import compile_options
from benchmarks.random_stream import write_random_stream
from model import ops
from model.accounting import training_flops_per_token
from model.config import DreamerConfig, dr_da, la
from model.dreamer import Dreamer
from model.generate import generate
from model.ops import Routing, cross_entropy_sum, swiglu_experts
from model.ops.device import device_name, peak_flops
from model.ops.torch_kernels.routing import dispatch
from model.training.config import read_run
from model.training.step.wrapping import compile_parts, recompute_activations
from model.training.trainer import Trainer

TIMED_STEPS = 3


def facts(sizes: Sizes, say: Say) -> None:
    """Report versions, the device's clocks, and two ceilings: bytes copied and bfloat16 products a second."""
    say(what="torch", value=torch.__version__)
    say(what="Python", value=platform.python_version())
    say(what="device", value=device_name(sizes.device))
    if sizes.device.type == "cuda":
        say(what="CUDA", value=torch.version.cuda)
        say(what="cuDNN", value=str(torch.backends.cudnn.version()))
        say(what="memory", value=f"{torch.cuda.get_device_properties(0).total_memory / 1e9:.1f} GB")
    clocks(sizes, say, "at the start")
    side = 64 if sizes.tiny else 8192
    left, right = (torch.randn(side, side, device=sizes.device, dtype=sizes.dtype) for _ in range(2))
    time_ms = milliseconds(lambda: left @ right, sizes, 20)
    say(what=f"product of {side} x {side}", value=f"{2 * side**3 / time_ms / 1e9:,.1f} TFLOP/s")
    block = torch.randn(2**14 if sizes.tiny else 2**30, device=sizes.device)
    copy = torch.empty_like(block)
    time_ms = milliseconds(lambda: copy.copy_(block), sizes, 20)
    say(what="copy, read and written", value=f"{2 * block.nbytes / time_ms / 1e6:,.0f} GB/s")


def clocks(sizes: Sizes, say: Say, when: str) -> None:
    """Read clocks, power and temperature from nvidia-smi; change nothing."""
    if sizes.device.type != "cuda":
        return
    fields = "driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,clocks_throttle_reasons.active"
    try:
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        told = f"nvidia-smi: {error}"
    say(what=f"clocks {when} ({fields})", value=told)


def smoke(sizes: Sizes, say: Say) -> None:
    """Small models on the device against the plain reference in float64: outputs, gradients, generation."""
    torch.manual_seed(0)
    common = {"vocabulary_size": 96, "hidden_size": 64, "query_heads": 4, "key_value_heads": 2, "head_size": 16}
    common |= {"depth_head_size": 16, "experts": 9, "active_experts": 2, "expert_size": 32, "routing_size": 16}
    for config in (la(3, **common), dr_da(3, **common)):
        tokens = torch.randint(96, (4, 64), device=sizes.device)
        documents = (torch.arange(64, device=sizes.device) // 24).expand(4, 64)
        with sizes.device:
            exact = Dreamer(config).double()
        with ops.engine("reference"):
            expected = _outputs_and_gradients(exact, tokens, documents)
        # Wherever two experts score alike bfloat16 may choose the other one, so its limit is wide.
        ways = {
            "float32": (torch.float32, 1e-4),
            "bfloat16": (torch.bfloat16, 0.1),
            "bfloat16, recomputed": (torch.bfloat16, 0.1),
            "bfloat16, compiled": (torch.bfloat16, 0.1),
        }
        for name, (dtype, limit) in ways.items():
            with sizes.device:
                model = Dreamer(config, dtype=dtype)
            model.load_state_dict(exact.state_dict())
            if "compiled" in name:
                torch._dynamo.reset()
                compile_parts(model, **compile_options(sizes))
            elif "recomputed" in name:
                recompute_activations(model)
            try:
                found = _outputs_and_gradients(model, tokens, documents)
            except RuntimeError as error:  # the other checks are still worth knowing
                say(check=f"{config.variant}: {name}", holds=False, error=str(error)[:500])
                continue
            for what, pair in zip(("logits", "gradients"), zip(found, expected, strict=True), strict=True):
                _check(say, f"{config.variant}: {what}, {name}", *pair, limit)
        _check_generation(config, sizes, say)
    _check_experts(sizes, say)
    _check_loss(sizes, say)


def _outputs_and_gradients(model: Dreamer, tokens: Tensor, documents: Tensor) -> tuple[Tensor, Tensor]:
    logits = model.train()(tokens, documents=documents)
    F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()
    return logits.detach(), torch.cat([parameter.grad.flatten().double() for parameter in model.parameters()])


def _check(say: Say, what: str, found: Tensor, expected: Tensor, limit: float) -> None:
    error = ((found.double() - expected.double()).norm() / expected.double().norm()).item()
    say(check=what, relative_error=error, limit=limit, holds=error <= limit)


def _check_generation(config: DreamerConfig, sizes: Sizes, say: Say) -> None:
    """Compare greedy generation with the cache with running the whole text again for every token."""
    with sizes.device:
        model = Dreamer(config).eval()
    prompts = [[5, 7, 11], [3, 1, 4, 1, 5, 9], [2]]
    written = generate(model, prompts, max_new_tokens=12, end_token=0)
    agree = 0
    for prompt, new in zip(prompts, written, strict=True):
        text = list(prompt)
        with torch.no_grad():
            while len(text) < len(prompt) + 12:
                chosen = int(model(torch.tensor([text], device=sizes.device))[0, -1].argmax())
                if chosen == 0:
                    break
                text.append(chosen)
        agree += text[len(prompt) :] == list(new)
    say(check=f"{config.variant}: generation with a cache", relative_error=1 - agree / 3, limit=0.0, holds=agree == 3)


def _check_experts(sizes: Sizes, say: Say) -> None:
    """Experts without a token, and more experts than one grouped product takes on CUDA."""
    T, A, H, width = 64, 2, 32, 16
    for E in (12, 1100):
        ids = torch.rand(T, E // 2, device=sizes.device).topk(A, dim=-1).indices * 2  # none of odd number
        leaves = [
            (torch.randn(*shape, device=sizes.device) * 0.3).bfloat16().requires_grad_()
            for shape in ((T, H), (T, A), (E, H, 2 * width), (E, width, H))
        ]
        exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
        x, weights, inward, outward = exact
        gate, up = torch.einsum("th,tahf->taf", x, inward[ids]).chunk(2, dim=-1)
        expected = torch.einsum("taf,tafh,ta->th", F.silu(gate) * up, outward[ids], weights)
        x, scores, inward, outward = leaves
        found = swiglu_experts(x, Routing(ids, scores, dispatch(ids, E)), inward, outward)
        _check(say, f"{E} experts: outputs", found.detach(), expected.detach(), 2e-2)
        gradient = torch.randn_like(expected)
        wanted = torch.autograd.grad(expected, exact, gradient)
        made = torch.autograd.grad(found, leaves, gradient.to(found.dtype))
        for name, one, other in zip(("x", "weights", "inward", "outward"), made, wanted, strict=True):
            _check(say, f"{E} experts: gradient of {name}", one, other, 2e-2)
        unused = sum(part[1::2].abs().max().item() for part in made[2:])
        say(check=f"{E} experts: no gradient for unused ones", relative_error=unused, limit=0.0, holds=unused == 0)


def _check_loss(sizes: Sizes, say: Say) -> None:
    hidden, head = (torch.randn(n, 64, device=sizes.device).mul(0.5).bfloat16().requires_grad_() for n in (300, 1000))
    targets = torch.randint(1000, (300,), device=sizes.device)
    exact = [part.detach().double().requires_grad_() for part in (hidden, head)]
    expected = F.cross_entropy(exact[0] @ exact[1].T, targets, reduction="sum")
    wanted = torch.autograd.grad(expected, exact)
    for compiled in (False,) if sizes.tiny else (False, True):  # on a CPU nothing of a loss is compiled
        loss = cross_entropy_sum(hidden, head, targets, 64_000, compiled)
        name = "loss in chunks, compiled" if compiled else "loss in chunks"
        _check(say, name, loss.detach(), expected.detach(), 1e-3)
        made = torch.autograd.grad(loss, [hidden, head])
        for leaf, one, other in zip(("hidden", "head"), made, wanted, strict=True):
            _check(say, f"{name}: gradient of {leaf}", one, other, 2e-2)


def eager_steps(sizes: Sizes, say: Say, variant: str) -> None:
    """Training steps without compiling, at growing micro-batches until memory ends."""
    for micro in sizes.micro_batches:
        if not _one_setting(sizes, say, variant, micro, compile=False, checkpointing=False):
            break


def compiled_steps(sizes: Sizes, say: Say, variant: str) -> None:
    """Training steps with compiled parts, at the largest micro-batch but one that memory allows."""
    for micro in sizes.micro_batches[-2::-1]:
        if _one_setting(sizes, say, variant, micro, compile=True, checkpointing=False):
            break


def other_steps(sizes: Sizes, say: Say, variant: str) -> None:
    """Training steps on packed shorter documents; and at the largest micro-batch, recomputing each depth."""
    lengths = (8, 32) if sizes.tiny else (200, 1800)
    _one_setting(sizes, say, variant, sizes.micro_batches[-2], compile=True, checkpointing=False, lengths=lengths)
    _one_setting(sizes, say, variant, sizes.micro_batches[-1], compile=True, checkpointing=True)


def _one_setting(
    sizes: Sizes,
    say: Say,
    variant: str,
    micro: int,
    *,
    compile: bool,
    checkpointing: bool,
    lengths: tuple[int, int] | None = None,
) -> bool:
    """Measure one setting and say its numbers; False where memory was short."""
    settings = {"compile": compile, "checkpointing": checkpointing}
    forget_peak(sizes)
    result = {"variant": variant, "micro_batch": micro, **settings, "documents": "packed" if lengths else "whole rows"}
    with _trainer(sizes, variant, micro, batch=sizes.batch_tokens, lengths=lengths, **settings) as trainer:
        cuda = sizes.device.type == "cuda"
        clock = time.perf_counter if cuda else time.process_time
        times, before = [], 0
        for number in range(2 if sizes.tiny else 1 + TIMED_STEPS):
            started, before = clock(), trainer.tokens
            try:
                loss, *_ = trainer.train_step()
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if "out of memory" not in str(error).lower():
                    raise
                trainer.halved = {"step": 1, "from": micro}
            if trainer.halved:
                say(**result, tokens_per_second=None, mfu=None, peak_gigabytes=peak_gigabytes(sizes))
                return False
            if cuda:
                torch.cuda.synchronize()
            times.append(clock() - started)
            if number == 0:
                result["first_step_seconds"] = times[0]
        rate = (trainer.tokens - before) / statistics.median(times[1:])
        stream = trainer.stream
        flops = training_flops_per_token(trainer.run.model, stream.document_length, stream.target_share)
        peak = peak_flops(device_name(sizes.device), trainer.precision)
        say(
            **result,
            tokens_per_second=rate,
            step_ms=1e3 * statistics.median(times[1:]),
            spread_ms=1e3 * (max(times[1:]) - min(times[1:])),
            tflops=rate * flops / 1e12,
            mfu=rate * flops / peak if peak else None,
            peak_gigabytes=peak_gigabytes(sizes),
            largest_load=_largest_loads(trainer),
            loss=loss,
        )
    return True


def _largest_loads(trainer: Trainer) -> dict[str, float]:
    """Measure in one forward pass the largest load over the mean of each attention's routers, in the worst layer."""
    batch = trainer.stream.batch(trainer.step)
    tokens, documents = (part[:1].to(trainer.device) for part in (batch.tokens, batch.documents))
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        trainer.model(tokens, documents=documents, return_hidden=True)
    found: dict[str, float] = {}
    for name, router in trainer.model.routers().items():
        attention = name.split(".")[3]  # blocks.0.attentions.experts.router
        load = (router.counts.max() / router.counts.float().mean()).item()
        found[attention] = round(max(load, found.get(attention, 0.0)), 2)
        router.counts.zero_()
    return found


@contextmanager
def _trainer(
    sizes: Sizes,
    variant: str,
    micro: int,
    *,
    batch: int,
    compile: bool,
    checkpointing: bool,
    lengths: tuple[int, int] | None = None,
) -> Iterator[Trainer]:
    """Build a trainer over random tokens."""
    config = sizes.configs()[variant]
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        data = write_random_stream(
            root / "data",
            sequence_length=config.sequence_length,
            vocabulary_size=config.vocabulary_size,
            rows=4 * batch // config.sequence_length,
            document_lengths=lengths or (config.sequence_length, config.sequence_length),
        )
        training = {
            "tokens": 10**12,
            "batch_tokens": batch,
            "micro_batch_tokens": micro,
            "precision": "bfloat16",
            "device": sizes.device.type,
            "compile": compile and not sizes.tiny,
            "checkpointing": checkpointing,
        }
        run = {"run_id": variant, "model": config.to_dict(), "training": training, "data": str(data)}
        (root / "run.json").write_text(json.dumps(run))
        torch._dynamo.reset()
        torch.compiler.set_stance("default")  # the trainer allows no compiling after its first step
        trainer = Trainer(read_run(root))
        if compile and sizes.tiny:
            trainer.compile(**compile_options(sizes))
        yield trainer
