"""What a started process inherits, and what is said of ranks that fail."""

import pytest

from model.training.ranks import launch
from model.training.ranks.launch import TORCHRUN, ProcessGroup
from tests.waiting import until


def test_a_process_is_no_rank_of_a_surrounding_job(tmp_path, monkeypatch):
    """As where a study is started inside of a job of torchrun: no rank may wait for those of this job."""
    (tmp_path / "tells.py").write_text("import os; print(*sorted(os.environ))")
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


@pytest.mark.parametrize("others", ["end", "hang"])
def test_the_rank_that_failed_first_says_how_a_group_ends(tmp_path, monkeypatch, others):
    """Those that only notice have another status, as have those that notice nothing and are killed."""
    hangs = "time.sleep(900)" if others == "hang" else "sys.exit(1)"
    first = "sys.exit(3)" if others == "hang" else "os.kill(os.getpid(), 9)"
    program = f"import os, sys, time\nif os.environ['RANK'] == '0': {first}\nelse: {hangs}"
    (tmp_path / "fails.py").write_text(program)
    monkeypatch.setattr(launch, "GRACE_SECONDS", 0.1)
    group = ProcessGroup("fails", log=tmp_path / "log", environment={"PYTHONPATH": str(tmp_path)}, ranks=2)
    until(lambda: group.poll() is not None)
    assert group.poll() == (3 if others == "hang" else -9)
