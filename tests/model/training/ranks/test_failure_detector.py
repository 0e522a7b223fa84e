"""The connections by which ranks notice each other's end; killed processes are in test_distributed.py."""

import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from model.training.ranks import failure_detector
from model.training.ranks.failure_detector import LOST_SECONDS, PROBES, FailureDetector

CUT = """
set -e
ip link set lo up
unshare -n sleep 900 & other=$!
trap 'kill $other' EXIT
sleep 0.3
ip link add here type veth peer name there netns $other
ip addr add 10.9.0.1/24 dev here; ip link set here up
nsenter -t $other -n ip addr add 10.9.0.2/24 dev there; nsenter -t $other -n ip link set there up
export MASTER_ADDR=10.9.0.1 MASTER_PORT=29511 WORLD_SIZE=2 LOCAL_RANK=0 OMP_NUM_THREADS=1
RANK=0 GLOO_SOCKET_IFNAME=here $PYTHON -c "$RANKS" & first=$!
RANK=1 GLOO_SOCKET_IFNAME=there nsenter -t $other -n $PYTHON -c "$RANKS" & second=$!
while ! [ -e joined-0 -a -e joined-1 ]; do sleep 0.1; done
nsenter -t $other -n ip link set there down
wait $first || echo first ended with $?
wait $second || echo second ended with $?
"""
RANKS = """
from pathlib import Path
import torch
from model.training.ranks import failure_detector
from model.training.ranks.distributed import process_group
failure_detector.PROBES.update(TCP_KEEPIDLE=1, TCP_KEEPINTVL=1, TCP_KEEPCNT=2)
with process_group("run") as ranks:
    ranks.all_reduce([torch.ones(1000)])
    Path(f"joined-{ranks.rank}").touch()
    while True:
        ranks.all_reduce([torch.ones(1000)])
"""


def both(meanwhile=lambda port: None):
    """The failure detectors of two ranks in this process; `meanwhile` happens when the first one listens."""
    numbers, made = queue.Queue(), {}

    def spread(said):
        meanwhile(said[0])
        numbers.put(said)
        return said

    first = threading.Thread(target=lambda: made.update({0: FailureDetector("run", 0, 2, spread)}))
    first.start()
    made[1] = FailureDetector("run", 1, 2, lambda _: numbers.get(timeout=60))
    first.join(60)
    return made[0], made[1]


def leave(*lines):
    threads = [threading.Thread(target=line.leave, args=(0,)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")


def test_the_system_probes_every_connection_and_gives_up_in_time():
    lines = both()
    for line in lines:
        for connection in line._connections.values():
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for name, value in PROBES.items():
                if hasattr(socket, name):
                    assert connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
    assert PROBES["TCP_KEEPIDLE"] + PROBES["TCP_KEEPINTVL"] * PROBES["TCP_KEEPCNT"] == LOST_SECONDS < 60
    leave(*lines)


@pytest.mark.parametrize("said", [b"", b"hello", bytes(failure_detector.HELLO.size)])
def test_strangers_are_no_ranks(said):
    def knock(port):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(said)

    leave(*both(knock))


def test_who_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(failure_detector, "JOIN_SECONDS", 0.1)
    with pytest.raises(OSError, match="timed out"):
        FailureDetector("run", 0, 2, lambda numbers: numbers)


def test_a_failed_rank_waits_for_all_others_together(monkeypatch):
    waits = []
    peer = SimpleNamespace(join=lambda seconds: waits.append(min(seconds, 3.0)))  # hears nothing for 3 seconds
    monkeypatch.setattr(failure_detector, "time", SimpleNamespace(monotonic=lambda: sum(waits)))
    failed = FailureDetector.__new__(FailureDetector)
    failed._leaving, failed._lock, failed._connections, failed._threads = False, threading.Lock(), {}, [peer] * 4
    failed.leave(1)
    assert sum(waits) == failure_detector.NOTICE_SECONDS


def may_cut():
    tools = all(shutil.which(tool) for tool in ("ip", "unshare", "nsenter", "bash"))
    return tools and subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not may_cut(), reason="no network of its own can be made here")
def test_a_machine_without_network_is_lost(tmp_path):
    """Two machines as far as the network knows, whose cable is pulled: nobody closes a connection."""
    environment = {**os.environ, "PYTHON": sys.executable, "RANKS": RANKS}
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", CUT], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["first ended with 1", "second ended with 1"], done.stderr
    for lost in range(2):
        assert f"run: rank {lost} of 2 is lost (killed, or its machine); training stopped" in done.stderr
