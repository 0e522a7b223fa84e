"""What a started process inherits, and what is said of ranks that fail."""

import psutil
import pytest
from torch.distributed import TCPStore

from dreamer_study.model.processes import TORCHRUN, Child
from tests.waiting import until


@pytest.mark.slow
def test_a_process_is_no_rank_of_a_surrounding_job(tmp_path, monkeypatch):
    """As where a study is started inside of a job of torchrun: no rank may wait for those of this
    job."""
    (tmp_path / "tells.py").write_text(
        "import os; os.write(1, (' '.join(os.environ) + '\\n').encode())"
    )
    for name in TORCHRUN:
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("MASTER_PORT", "1")
    log, environment = tmp_path / "log", {"PYTHONPATH": str(tmp_path), "ROLE_NAME": "wanted"}
    for ranks in (1, 2):
        child = Child("tells", log=log, environment=environment, ranks=ranks)
        until(lambda child=child: child.poll() is not None)
    alone, *ranks = (set(line.split()) for line in log.read_text().splitlines())
    assert alone & set(TORCHRUN) == {"ROLE_NAME"}  # as it was asked for
    own = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    assert all(own <= names for names in ranks)


FAILS = """
import os, signal, sys, time

if os.environ["RANK"] == "1":
    sys.exit(3) if len(sys.argv) > 1 else os.kill(os.getpid(), signal.SIGKILL)
if len(sys.argv) > 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(900)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("others", "status"), [([], -9), (["hang"], 3)])
def test_the_rank_that_failed_first_says_how_a_group_ends(tmp_path, others, status):
    """The others are ended: those that listen at once, those that do not after a grace."""
    (tmp_path / "fails.py").write_text(FAILS)
    child = Child(
        "fails", *others, log=tmp_path / "log", environment={"PYTHONPATH": str(tmp_path)}, ranks=2
    )
    assert child.wait() == status
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.slow
def test_where_ranks_meet_nobody_else_comes(tmp_path):
    """What ranks say of themselves is pickled: who writes it has the program run code."""
    (tmp_path / "waits.py").write_text("import os, time; os.write(1, b'up\\n'); time.sleep(900)")
    child = Child("waits", log=tmp_path / "log", environment={"PYTHONPATH": str(tmp_path)}, ranks=2)
    try:
        until(lambda: (tmp_path / "log").read_text().count("up") == 2)
        open_to = [
            one
            for one in psutil.Process(child._process.pid).net_connections("tcp")
            if one.status == psutil.CONN_LISTEN
        ]
        stores = [
            TCPStore("127.0.0.1", one.laddr.port, is_master=False, wait_for_workers=False)
            for one in open_to
        ]
        assert not [key for store in stores for key in store.list_keys() if "rendezvous" in key]
    finally:
        child.kill()
