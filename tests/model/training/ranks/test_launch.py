"""What a started process inherits."""

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
