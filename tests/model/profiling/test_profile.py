import json
import subprocess
import sys

import pytest
import torch

from model.profiling import profile
from model.training.config import read_run
from model.training.step.wrapping import compile_parts
from model.training.trainer import Trainer
from tests.model.packed_folder import SMALL, write_packed


def write_run(folder, data="data", **training):
    folder.mkdir(exist_ok=True)
    training = {"tokens": 10_000, "batch_tokens": 64, "device": "cpu", **training}
    (folder / "run.json").write_text(
        json.dumps({"run_id": "small", "model": SMALL, "training": training, "data": data})
    )
    return folder


def trainer_of(tmp_path, **training):
    write_packed(tmp_path / "data", [[[(4, 4), (4, 4)]] * 8], 16)
    return Trainer(read_run(write_run(tmp_path / "run", "../data", **training)))


def test_the_shares_of_a_step_add_up_and_every_component_is_there(tmp_path, engine):
    found = profile.profile_step(trainer_of(tmp_path), warm_up=1, steps=2)
    assert sum(share.seconds for share in found.shares) == pytest.approx(found.seconds)
    parts = {(share.component, share.part) for share in found.shares}
    for component in ("sequence", "depth", "experts"):
        assert (component, "products") in parts
        attention = () if component == "experts" else ("attention",)
        for part in ("routing", "norms and rotation", "sort and gather", *attention):  # native.c does those on the way
            assert ((component, part) in parts) == (engine == "torch")
    assert {"embedding", "head and loss", "norms", "optimiser", "data"} <= {component for component, _ in parts}
    assert found.tokens == 64
    assert found.peak is None


def test_the_flops_of_a_step_are_those_of_accounting(tmp_path, engine):
    trainer = trainer_of(tmp_path, loss_on="responses")
    found = profile.profile_step(trainer, warm_up=1, steps=1)
    counts = profile.flops_by_component(trainer.run.model, trainer.stream.document_length)
    targets = trainer.stream.batch(0).target_tokens
    expected = 3 * (64 * (sum(counts.values()) - counts["head"]) + targets * counts["head"])
    assert sum(share.flops for share in found.shares) == pytest.approx(expected)


def test_nothing_is_left_of_the_profile_in_the_trainer(tmp_path):
    trainer = trainer_of(tmp_path)
    profile.profile_step(trainer, warm_up=1, steps=1)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in trainer.model.modules())
    assert "step" not in vars(trainer.optimizer)
    assert "batch" not in vars(trainer.stream)


@pytest.mark.slow
def test_compiled_and_recomputed_blocks_are_a_component(tmp_path):
    trainer = trainer_of(tmp_path, precision="bfloat16", checkpointing=True)
    compile_parts(trainer.model, dynamic=False, backend="aot_eager")
    torch._dynamo.reset()
    found = profile.profile_step(trainer, warm_up=1, steps=1)
    blocks = {share.part: share for share in found.shares if share.component == "blocks"}
    assert {"products", "attention", "compiled"} <= set(blocks)
    assert sum(share.seconds for share in blocks.values()) > 0.1 * found.seconds
    assert blocks["products"].flops > 0
    assert not {share.component for share in found.shares} & {"sequence", "depth", "experts"}


@pytest.mark.slow
def test_the_command_profiles_a_run_folder_without_touching_it(tmp_path):
    folder = write_run(tmp_path / "run", "nowhere", batch_tokens=128, micro_batch_tokens=16)
    command = [sys.executable, "-m", "model.profiling.profile", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, cut, heading, *rows = [line for line in done.stdout.splitlines() if line]
    assert "two micro-batches of 16 tokens instead of 8" in said
    assert "random tokens" in cut
    assert "DR+DA of depth 2 on cpu in float32" in heading
    assert rows[0].split() == ["component", "part", "ms", "share", "FLOPs", "GFLOP/s", "floor", "ms"]
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_a_folder_without_a_run_is_one_line(tmp_path, capsys):
    assert profile.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.strip() == f"no run in {tmp_path}: run.json is missing"


def test_a_training_that_fails_is_one_line_and_status_1(tmp_path, capsys):
    folder = write_run(tmp_path / "run", "nowhere", learning_rate=1e300, warmup_steps=0)
    assert profile.main([str(folder)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{folder}: step ")
    assert "training stopped" in line


def test_floors_are_printed_where_the_peak_is_known():
    shares = [profile.Share("experts", "products", 0.5, 1e12), profile.Share("optimiser", "", 0.5, 0.0)]
    text = profile.table(profile.StepProfile("DR of depth 2", "NVIDIA H200", "bfloat16", 1000, 1.0, 1e13, shares))
    heading, _, experts, optimiser = text.splitlines()
    assert heading.endswith("1,000.0 GFLOP/s, 10.0% of the peak")
    assert experts.split()[-5:] == ["500.00", "50.0%", "100.0%", "2,000.0", "100.00"]
    assert optimiser.split()[-3:] == ["-", "-", "-"]
