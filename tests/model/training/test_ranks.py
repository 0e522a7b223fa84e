"""Several processes training one run: the same result as one, and a clean end when one of them
dies."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch

from dreamer_study.model.checkpoints.checksums import BRANCHES, branch_name, list_branches
from dreamer_study.model.checkpoints.models import load_model, newest_state
from dreamer_study.model.processes import HOPELESS
from dreamer_study.model.train import main, train
from dreamer_study.model.training.step_log import read_record
from dreamer_study.pipeline.storage.locks import try_lock
from tests.model.own_process import CONTEXT, train_in_own_process
from tests.model.packed_folder import write_run
from tests.model.test_contract import write_own_run
from tests.waiting import PATIENCE_SECONDS, until

LAYERED = {"recurrent": False, "depth_attention": False}


def rank_environments(count):
    """Return the environment that torchrun gives to each rank."""
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [{"RANK": str(rank), "LOCAL_RANK": str(rank), **common} for rank in range(count)]


def rank(arguments, environment, errors):
    """One process: what it prints as an error goes to a file."""
    os.environ.update(environment)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.exit(main(arguments))


class Group:
    """All ranks of one run."""

    def __init__(self, folder, count, *options):
        self.errors = folder.with_name(f"{folder.name}-errors.txt")
        self.errors.write_text("")
        self.processes = [
            CONTEXT.Process(
                target=rank, args=([str(folder), *options], environment, str(self.errors))
            )
            for environment in rank_environments(count)
        ]
        for process in self.processes:
            process.start()

    def wait(self, seconds=PATIENCE_SECONDS):
        """Their exit statuses and the lines they have printed."""
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, deadline - time.monotonic()))
        statuses = [process.exitcode for process in self.processes]
        for process in self.processes:
            if process.exitcode is None:
                process.kill()
        return statuses, self.errors.read_text().splitlines()


def wait_for_any(folder, pattern):
    until(lambda: list(folder.glob(pattern)), pause=0.01)


def steps(folder):
    return read_record(folder)[1]


def assert_equal_but_for_rounding(folder, reference):
    for name in ("step", "tokens"):
        assert steps(folder)[name] == steps(reference)[name]
    for name in ("loss", "gradient_norm", "learning_rate"):
        assert steps(folder)[name].to_pylist() == pytest.approx(
            steps(reference)[name].to_pylist(), rel=1e-3
        )
    one, other = (newest_state(place / "state") for place in (folder, reference))
    assert one.values["stream_hash"] == other.values["stream_hash"]
    assert one.values["origin"] == other.values["origin"]
    checkpoints = [
        sorted(path.name for path in (run / "checkpoints").iterdir()) for run in (folder, reference)
    ]
    assert checkpoints[0] == checkpoints[1]
    for name, tensor in one.tensors.items():
        if name.endswith("counts") or name.startswith("random"):
            assert torch.equal(tensor, other.tensors[name]), name
        elif name.startswith(("model.", "average.")) and not name.endswith("bias"):
            torch.testing.assert_close(tensor, other.tensors[name], rtol=5e-2, atol=5e-3, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("model", [LAYERED, {}], ids=["LA", "DR+DA"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_ranks_do_together_what_one_process_does(tmp_path, model, count):
    """Seven rows: some ranks have more than others. One has smaller micro-batches."""
    recipe = {"batch_tokens": 112, "micro_batch_tokens": 16, "learning_rate": 1e-3}
    alone = write_run(tmp_path, name="alone", model=model, **recipe)
    shared = write_run(tmp_path, name="shared", model=model, **recipe)
    train_in_own_process(alone)
    assert Group(shared, count).wait() == ([0] * count, [])
    assert_equal_but_for_rounding(shared, alone)


@pytest.mark.slow
def test_ranks_train_branches_together(tmp_path):
    recipe = {"batch_tokens": 112, "micro_batch_tokens": 16, "learning_rate": 1e-3}
    recipe |= {"branches": 0.4, "checkpoints": [1500], "warmup_steps": 5}
    alone = write_run(tmp_path, name="alone", **recipe)
    shared = write_run(tmp_path, name="shared", **recipe)
    train_in_own_process(alone)
    assert Group(shared, 2).wait() == ([0, 0], [])
    assert_equal_but_for_rounding(shared, alone)
    assert list_branches(shared) == list_branches(alone)
    for start, end in list_branches(alone):
        one, other = (
            load_model(run / BRANCHES / branch_name(start, end)).state_dict()
            for run in (shared, alone)
        )
        for name, tensor in one.items():
            if not name.endswith("bias"):
                torch.testing.assert_close(tensor, other[name], rtol=5e-2, atol=5e-3, msg=name)


@pytest.mark.slow
def test_weights_that_only_one_rank_has_used_get_gradients_on_all(tmp_path):
    recipe = {"batch_tokens": 32, "micro_batch_tokens": 16}
    alone, shared = (
        write_own_run(tmp_path / name, "Rare", {}, **recipe) for name in ("alone", "shared")
    )
    train_in_own_process(alone, trust_code=True)
    assert Group(shared, 2, "--trust-code").wait() == ([0, 0], [])
    assert_equal_but_for_rounding(shared, alone)


@pytest.mark.slow
def test_ranks_wait_together_and_go_on_from_the_state_that_is_there_then(tmp_path):
    """Another process trains the run while both ranks wait for it."""
    recipe = {"batch_tokens": 112, "micro_batch_tokens": 16, "learning_rate": 1e-3}
    folder = write_run(tmp_path, name="run", **recipe)
    twin = tmp_path / "twin"
    shutil.copytree(folder, twin)
    train_in_own_process(twin, stop_at=300)
    with (folder / ".lock").open("a+") as file:
        assert try_lock(file)
        group = Group(folder, 2, "--wait")
        time.sleep(12)  # in which both ranks begin to wait
        shutil.copytree(twin, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".lock"))
    assert group.wait() == ([0, 0], [])
    train_in_own_process(twin)
    assert_equal_but_for_rounding(folder, twin)


@pytest.mark.slow
def test_killed_ranks_go_on_to_the_same_bits_and_in_another_number(tmp_path):
    """All ranks die at once, in the middle; as many go on exactly, one alone but for rounding."""
    recipe = {
        "batch_tokens": 64,
        "tokens": 6000,
        "checkpoints": [1000, 5000],
        "learning_rate": 1e-3,
    }
    calm, killed, fewer = (
        write_run(tmp_path, name=name, **recipe) for name in ("calm", "killed", "fewer")
    )
    assert Group(calm, 2).wait() == ([0, 0], [])
    for folder in (killed, fewer):
        group = Group(folder, 2)
        wait_for_any(folder, "checkpoints/[0-9]*[0-9]")
        for process in group.processes:
            process.kill()
        group.wait()
        assert newest_state(folder / "state").values["tokens"] < 6000
    assert Group(killed, 2).wait() == ([0, 0], [])
    one, other = (newest_state(folder / "state") for folder in (calm, killed))
    assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    assert steps(killed).drop_columns(["seconds"]).equals(steps(calm).drop_columns(["seconds"]))
    train_in_own_process(fewer)
    assert_equal_but_for_rounding(fewer, calm)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 2])
def test_a_lost_rank_ends_the_others(tmp_path, lost):
    """The first rank says so in one line, and of its own loss the parent of the ranks knows."""
    folder = write_run(tmp_path, tokens=100_000_000, checkpoints=[], save_every_seconds=0)
    group = Group(folder, 3)
    wait_for_any(folder, "state/[0-9]*[0-9]")
    group.processes[lost].kill()
    statuses, lines = group.wait()
    assert statuses == [-signal.SIGKILL if number == lost else 1 for number in range(3)]
    assert ["another rank has ended" in line for line in lines] == ([True] if lost else [])
    tokens = newest_state(folder / "state").values["tokens"]
    assert train(folder, stop_at=tokens + 1) == "stopped"
    assert newest_state(folder / "state").values["tokens"] > tokens


@pytest.mark.slow
def test_sigterm_to_one_rank_saves_and_stops_all(tmp_path):
    folder = write_run(tmp_path, tokens=100_000_000, checkpoints=[], save_every_seconds=1000)
    group, progress = Group(folder, 2), folder / "progress.json"
    until(lambda: progress.exists() and json.loads(progress.read_text())["tokens"], pause=0.01)
    group.processes[1].terminate()
    statuses, lines = group.wait()
    assert (statuses, lines) == ([143, 143], [])
    assert newest_state(folder / "state").values["step"] == len(steps(folder)) > 0


@pytest.mark.slow
def test_what_meets_all_ranks_is_said_once(tmp_path):
    folder = write_run(tmp_path, learning_rate=1e30, warmup_steps=0, checkpoints=[])
    statuses, (line,) = Group(folder, 2).wait()
    assert statuses == [HOPELESS, HOPELESS]
    assert "gradient norm nan; training stopped" in line
    assert json.loads((folder / "progress.json").read_text())["state"] == "failed"


@pytest.mark.slow
def test_what_meets_the_first_rank_only_ends_all_at_once(tmp_path):
    folder = write_run(tmp_path)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        statuses, (line,) = Group(folder, 2).wait()
    assert statuses == [2, 2]
    assert "is being trained by another process" in line


@pytest.mark.slow
def test_processes_of_their_own_end_cleanly_too(tmp_path):
    """Unlike the group's, they tear the interpreter down, with threads and connections in it."""
    folder = write_run(tmp_path, batch_tokens=16)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "dreamer_study.model.train", str(folder)],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in rank_environments(2)
    ]
    said = [process.communicate(timeout=PATIENCE_SECONDS)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [2, 2]
    assert said == [
        "bad input: batch_tokens (16) make 1 rows, but there are 2 ranks; give at least one row for each rank\n",
        "",
    ]


@pytest.mark.slow
def test_two_machines_train_a_run_by_torchrun(tmp_path):
    """As docs/scale.md starts a run on several machines; here both are this one."""
    recipe = {"batch_tokens": 64, "learning_rate": 1e-3}
    alone, shared = (write_run(tmp_path, name=name, **recipe) for name in ("alone", "shared"))
    train_in_own_process(alone)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
    options = [
        "--nnodes",
        "2",
        "--nproc-per-node",
        "1",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        place,
    ]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        *options,
        "-m",
        "dreamer_study.model.train",
        str(shared),
    ]
    machines = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [machine.communicate(timeout=PATIENCE_SECONDS)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said
    assert_equal_but_for_rounding(shared, alone)
    assert steps(shared)["loss"].to_pylist() == pytest.approx(
        steps(alone)["loss"].to_pylist(), abs=1e-5
    )
    one, other = (newest_state(folder / "state") for folder in (shared, alone))
    away = {
        n: (t - other.tensors[n]).abs().max().item()
        for n, t in one.tensors.items()
        if n.startswith("model.")
    }
    assert max(away.values()) < 1e-4, away


def test_an_incomplete_environment_is_bad_input(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([str(write_run(tmp_path))]) == 2
    assert (
        capsys.readouterr().err
        == "bad input: WORLD_SIZE is 2, but RANK is not set: start it with torchrun\n"
    )
