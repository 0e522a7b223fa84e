"""What a started process inherits, and what is said of ranks that fail."""

import pytest

from model.training.ranks import launch
from model.training.ranks.launch import TORCHRUN, ProcessGroup
from tests.waiting import until


def test_a_process_is_no_rank_of_a_surrounding_job(tmp_path, monkeypatch):
    """As where a study is started inside of a job of torchrun: no rank may wait for those of this job."""
    (tmp_path / "tells.py").write_text("import os; os.write(1, (' '.join(os.environ) + '\\n').encode())")
    for name in TORCHRUN:
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("MASTER_PORT", "1")
    log, environment = tmp_path / "log", {"PYTHONPATH": str(tmp_path), "ROLE_NAME": "wanted"}
    for ranks in (1, 2):
        group = ProcessGroup("tells", log=log, environment=environment, ranks=ranks)
        until(lambda group=group: group.poll() is not None)
    alone, *ranks = (set(line.split()) for line in log.read_text().splitlines())
    assert alone & set(TORCHRUN) == {"ROLE_NAME"}  # as it was asked for
    own = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    assert [names & set(TORCHRUN) for names in ranks] == [own | {"ROLE_NAME"}] * 2


FAILS = """
import os, sys, time
from pathlib import Path

mark = Path(__file__).with_suffix(".pid")
if os.environ["RANK"] == "0":
    mark.write_text(str(os.getpid()))
    os.kill(os.getpid(), 9) if len(sys.argv) == 1 else sys.exit(3)
while len(sys.argv) > 1 or not mark.exists() or Path("/proc", mark.read_text()).exists():
    time.sleep(0.01)
sys.exit(1)
"""


@pytest.mark.parametrize(("others", "grace"), [([], 60), (["hang"], 0.1)])
def test_the_rank_that_failed_first_says_how_a_group_ends(tmp_path, monkeypatch, others, grace):
    """Those that only notice have another status, as have those that notice nothing and are killed."""
    (tmp_path / "fails.py").write_text(FAILS)
    monkeypatch.setattr(launch, "GRACE_SECONDS", grace)
    group = ProcessGroup("fails", *others, log=tmp_path / "log", environment={"PYTHONPATH": str(tmp_path)}, ranks=2)
    until(lambda: group.poll() is not None)
    assert group.poll() == (3 if others else -9)
