"""Several machines train one study: each knows its place, joins living trainings only, and changes no result."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from flows.running.machines import nodes
from flows.running.machines.devices import share_ranks
from flows.running.machines.nodes import Node, first_host, join_trainings, this_node
from flows.running.processes import Failed, stopped_on_exit
from flows.stages.models import plan_models
from flows.stages.outputs import Trained
from flows.stages.prepare import prepare_data
from flows.stages.train import train_models
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.store import Store
from tests.waiting import PATIENCE_SECONDS, until

SMALL = {
    "name": "small",
    "data": {"sources": ["builtin"], "world": {"documents": 200, "items": 10}, "tokenizer": {"vocabulary_size": 300}},
    "models": {
        "depths": [2],
        "variants": ["LA"],
        "baseline": {
            "hidden_size": 16,
            "query_heads": 2,
            "key_value_heads": 1,
            "head_size": 8,
            "experts": 3,
            "active_experts": 2,
            "expert_size": 16,
            "routing_size": 8,
        },
    },
    "training": {
        "tokens": 3000,
        "batch_tokens": 448,
        "sequence_length": 64,
        "checkpoints": 2,
        "seeds": [0],
        "learning_rate": 1e-3,
        "warmup_steps": 5,
        "device": "cpu",
    },
    "evaluation": {"benchmarks": ["builtin"], "limit": 5},
}


def study(root: Path, **training: object) -> Study:
    return load_study({**SMALL, "root": str(root), "training": {**SMALL["training"], **training}})


def test_one_machine_needs_no_word_about_nodes(tmp_path: Path) -> None:
    assert this_node(study(tmp_path), {"SLURM_NODEID": "3", "SLURM_NNODES": "4"}) == Node()


def test_a_node_knows_its_place_by_hand_and_from_slurm(tmp_path: Path) -> None:
    two = study(tmp_path, nodes=2)
    assert this_node(two, {"NODE_RANK": "1", "MASTER_ADDR": "10.0.0.7"}) == Node(1, 2, "10.0.0.7")
    slurm = {"SLURM_NODEID": "0", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "gpu[07-08]", "SLURM_LOCALID": "0"}
    assert this_node(two, slurm) == Node(0, 2, "gpu07")
    assert this_node(two, {**slurm, "SLURM_NODEID": "1"}) == Node(1, 2, "gpu07")
    part = {"SLURM_NNODES": "4", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "gpu08,gpu11"}
    assert this_node(two, {**slurm, **part}) == Node(0, 2, "gpu08")


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a1", "a1"), ("a1,b2", "a1"), ("gpu[07-09,12],login", "gpu07"), ("n[3]-ib,n5-ib", "n3-ib"), ("", "")],
)
def test_the_first_host_of_a_slurm_list(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, r"training\.nodes is 2: start the study on each node with srun, or there with NODE_RANK \(0 to 1\)"),
        ({"NODE_RANK": "2", "MASTER_ADDR": "a"}, r"NODE_RANK \(0 to 1\)"),
        ({"NODE_RANK": "1"}, "MASTER_ADDR"),
        ({"SLURM_NNODES": "3", "SLURM_NODEID": "0"}, "SLURM starts the study on 3 nodes; make them equal"),
        ({"SLURM_NNODES": "2", "SLURM_NODEID": "0", "SLURM_LOCALID": "1"}, "once on each node"),
    ],
)
def test_an_unclear_place_is_bad_input(tmp_path: Path, environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        this_node(study(tmp_path, nodes=2), environment)


def test_every_node_has_a_row_of_the_batch_and_nodes_decide_no_result(tmp_path: Path) -> None:
    assert share_ranks(study(tmp_path, nodes=7), 3) == [1, 1, 1]
    with pytest.raises(InputError, match=r"training\.nodes is 8, but a batch has 7 rows"):
        share_ranks(study(tmp_path, nodes=8), 3)
    assert study(tmp_path, nodes=2).study_id == study(tmp_path).study_id


def test_only_living_trainings_are_joined_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An announcement that nobody touches was left by a node 0 that was killed."""
    joined: list[list[str]] = []
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(nodes, "run_module", lambda module, arguments, **_: joined.append(arguments))
    folder = tmp_path / "nodes"
    folder.mkdir()
    for name, port in (("dead", 1), ("alive", 2)):
        values = {
            "name": str(port),
            "address": f"first:{port}",
            "run": f"/shared/{name}/seed0",
            "ranks": 3,
            "options": ["--stop-at", "9"],
        }
        (folder / f"{name}.json").write_text(json.dumps(values))
    touches: list[int] = []

    def finished() -> bool:
        touches.append(len(touches))
        os.utime(folder / "alive.json", (len(touches), len(touches)))
        return len(touches) == 10

    join_trainings(study(tmp_path, nodes=2), Node(1, 2, "first"), finished)
    place = ["--node", "1", "--nodes", "2", "--ranks", "3", "--first", "first:2"]
    assert joined == [[*place, "/shared/alive/seed0", "--", "--stop-at", "9"]]


NODE_0 = """
import json, sys
from flows.running.machines import nodes
from flows.running.single import only_run
from flows.study.loading import load_study
nodes.BEAT_SECONDS = 0.1
with only_run(load_study(json.loads(sys.argv[1]))):
    print("lives", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def node_0(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a study of two nodes until its input ends."""
    content = {**SMALL, "root": str(tmp_path), "training": {**SMALL["training"], "nodes": 2}}
    command = [sys.executable, "-c", NODE_0, json.dumps(content)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def join_while(chosen: Study, act: Callable[[], None], seconds: float) -> None:
    """Join trainings as node 1, and call `act` after some seconds."""
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        join_trainings(chosen, Node(1, 2, "first"), lambda: False)
    finally:
        timer.join()
        with stopped_on_exit():  # this process goes on: its next test may start processes
            pass


def test_the_others_end_when_node_0_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node_0: subprocess.Popen[str]
) -> None:
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.05)
    node_0.stdout.readline()
    ended = r"node 0 has ended before the models were trained; start the study again on every node"
    with pytest.raises(Failed, match=ended):
        join_while(study(tmp_path, nodes=2), node_0.stdin.close, seconds=2)


def test_the_others_end_when_node_0_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node_0: subprocess.Popen[str]
) -> None:
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(nodes, "SILENCE_SECONDS", 3.0)
    node_0.stdout.readline()
    started = time.monotonic()
    with pytest.raises(Failed, match=r"node 0 has shown no sign of life for 3 s \(.*alive\)"):
        join_while(study(tmp_path, nodes=2), node_0.kill, seconds=2)
    assert time.monotonic() - started > 4
    assert (tmp_path / "nodes" / "alive").exists()


def test_the_others_do_not_wait_for_ever_for_a_node_0_that_never_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(nodes, "SILENCE_SECONDS", 0.5)
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "alive").touch()  # of a node 0 that was killed
    with pytest.raises(Failed, match="no sign of life"):
        join_while(study(tmp_path, nodes=2), lambda: None, seconds=0)


def test_the_sign_of_life_outlives_a_failing_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "BEAT_SECONDS", 0.01)
    touch, failures = Path.touch, iter([OSError("the server does not answer")] * 3)

    def touch_later(path: Path) -> None:
        if error := next(failures, None):
            raise error
        touch(path)

    monkeypatch.setattr(Path, "touch", touch_later)
    with nodes.alive(study(tmp_path, nodes=2)):
        until((tmp_path / "nodes" / "alive").exists)


def test_a_sign_of_life_that_goes_while_it_is_looked_at_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system may also fail otherwise, as one of a network does that has lost a handle."""

    def fails(path: Path) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    sign = tmp_path / "alive"
    sign.touch()
    pulse = nodes._Pulse(sign)
    monkeypatch.setattr(Path, "stat", fails)
    assert pulse.lost() == ""


def train(chosen: Study) -> Trained:
    store = Store(chosen.store_folder)
    prepared = prepare_data(chosen, store)
    return train_models(chosen, store, prepared, plan_models(chosen, prepared.vocabulary_size))


def steps(trained: Trained) -> dict[str, list[float]]:
    (run,) = trained.runs
    return pq.read_table(run.folder / "rows" / "steps.parquet").to_pydict()


@pytest.fixture
def second_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], subprocess.Popen[str]]:
    """Start `dreamer run` of the study on node 1, in a process of its own; this process is node 0."""
    monkeypatch.setenv("NODE_RANK", "0")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")

    def start(root: Path) -> subprocess.Popen[str]:
        path = tmp_path / "small.yaml"
        path.write_text(yaml.dump({**SMALL, "training": {**SMALL["training"], "nodes": 2, "ranks": 2}}))
        command = [sys.executable, "-m", "flows.commands.cli", "run", str(path), "--root", str(root)]
        environment = {**os.environ, "NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    return start


@pytest.mark.slow
def test_two_nodes_train_together_what_one_process_does(
    tmp_path: Path, second_node: Callable[[Path], subprocess.Popen[str]]
) -> None:
    """Node 1 starts before there are data; seven rows are shared by the two ranks of each node."""
    other = second_node(tmp_path / "two")
    together = steps(train(study(tmp_path / "two", nodes=2, ranks=2)))
    _, said = other.communicate(timeout=PATIENCE_SECONDS)
    assert other.returncode == 0, said
    assert said.splitlines()[-1].endswith("have ended; node 0 evaluates the models.")
    assert not list((tmp_path / "two" / "nodes").glob("*.json"))
    alone = steps(train(study(tmp_path / "one")))
    assert together["tokens"] == alone["tokens"]
    assert together["run_id"] == alone["run_id"]
    assert together["loss"] == pytest.approx(alone["loss"], rel=1e-3)


@pytest.mark.slow
def test_a_lost_node_ends_the_training_and_the_same_commands_go_on(
    tmp_path: Path, second_node: Callable[[Path], subprocess.Popen[str]]
) -> None:
    chosen, root = study(tmp_path / "two", nodes=2, ranks=2, save_every_seconds=0), tmp_path / "two"
    other = second_node(root)

    def kill_after_a_state() -> None:
        until(lambda: list(root.glob("store/training/*/seed0/state/[0-9]*[0-9]")))
        other.kill()

    killer = threading.Thread(target=kill_after_a_state, daemon=True)
    killer.start()
    assert [run.status for run in train(chosen).runs] == ["failed"]
    killer.join()
    again = second_node(root)
    trained = train(chosen)
    assert again.wait(PATIENCE_SECONDS) == 0
    assert [run.status for run in trained.runs] == ["complete"]
