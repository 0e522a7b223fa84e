"""Trainings as jobs of SLURM, which stand-ins play: its commands in PATH, a job being a process of this machine."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import yaml

from flows.running.machines import evaluators, nodes, slurm
from flows.running.machines.devices import concurrency, gpus, share_ranks, shared_slots
from flows.running.machines.evaluators import EvaluationJobs
from flows.running.machines.nodes import this_node
from flows.running.machines.slurm import run_job
from flows.running.machines.staying import Staying
from flows.running.processes import Failed, Stopped, follow, stop_all
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from sql.results import query
from tests.flows.running.machines.slurm_stand_ins import COMMANDS, HELPER
from tests.flows.small_study import PROJECT, TINY, small_study
from tests.waiting import until


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SLURM's commands in PATH; yields the folder of the queue."""
    for name, text in COMMANDS.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    queue = tmp_path / "queue"
    queue.mkdir()
    (tmp_path / "bin" / "helper_job.py").write_text(HELPER)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'bin'}:{PROJECT}")
    monkeypatch.setenv("QUEUE", str(queue))
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(slurm, "STATUS_SECONDS", 1.0)
    return queue


def study(**training: object) -> Study:
    content = yaml.safe_load(TINY.read_text())
    content["training"] |= training
    return load_study({**content, "compute": {"pool": "slurm"}})


def submitted(queue: Path) -> list[str]:
    return (queue.parent / "submitted").read_text().splitlines()


def group(queue: Path, number: int) -> int:
    return int((queue / str(number)).read_text())


def lives(queue: Path, number: int) -> bool:
    try:
        os.killpg(group(queue, number), 0)
    except ProcessLookupError:
        return False
    return True


def test_jobs_ask_for_what_a_training_needs(cluster: Path, tmp_path: Path) -> None:
    run_job(study(device="auto"), "helper_job", ["end", "-"], log=tmp_path / "log", ranks=1)
    (line,) = submitted(cluster)
    assert "--job-name tiny-helper_job" in line
    assert "--nodes 1" in line
    assert "--gpus-per-node 1" in line
    run_job(study(), "helper_job", ["end", "-"], log=tmp_path / "log")
    assert "--gpus" not in submitted(cluster)[1]
    assert (tmp_path / "log").read_text() == "begins\n" * 2


def test_a_job_keeps_compiled_libraries_in_a_private_folder_of_its_machine(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setenv("TMPDIR", str(there))  # of the job alone: this process has looked already
    run_job(study(), "helper_job", ["compiles", str(tmp_path / "named")], log=tmp_path / "log")
    folder = there / f"dreamer-{os.getuid()}" / "compiled"
    assert (tmp_path / "named").read_text() == str(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_nothing_of_this_machine_counts_for_jobs() -> None:
    chosen = study(device="cuda", ranks=4, nodes=2)
    assert gpus(chosen) == 0
    assert concurrency(chosen) > 100
    assert share_ranks(chosen, 3) == [4, 4, 4]
    assert this_node(chosen, {}).count == 1
    assert chosen.study_id == load_study({**chosen.model_dump(exclude={"compute"})}).study_id


def test_how_a_job_ends_is_told(cluster: Path, tmp_path: Path) -> None:
    run_job(study(), "helper_job", ["end", "-"], log=tmp_path / "log")
    with pytest.raises(InputError, match="begins"):
        run_job(study(), "helper_job", ["bad", "-"], log=tmp_path / "log")
    with pytest.raises(Failed, match=r"ended with status 1; see .*log: begins"):
        run_job(study(), "helper_job", ["fail", "-"], log=tmp_path / "log")
    (cluster.parent / "refuses").touch()
    with pytest.raises(InputError, match=r"SLURM refuses the job 'tiny-helper_job': .*invalid account"):
        run_job(study(), "helper_job", ["end", "-"], log=tmp_path / "log")


def test_a_machine_without_slurm_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="this machine has no command 'sbatch'"):
        run_job(study(), "helper_job", ["end", "-"], log=tmp_path / "log")


def test_nothing_is_looked_at_while_a_job_waits_in_the_queue(cluster: Path, tmp_path: Path) -> None:
    (cluster.parent / "pending").touch()
    job, ticks = partial(run_job, study(), "helper_job", ["sleep", str(tmp_path / "up")]), list[float]()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(job, log=tmp_path / "log", tick=lambda: ticks.append(time.monotonic()))
        wait_for(tmp_path / "up")
        time.sleep(0.5)
        (cluster.parent / "deaf").touch()  # SLURM does not answer for a while: the job waits as before
        time.sleep(0.5)
        assert not ticks
        (cluster.parent / "deaf").unlink()
        (cluster.parent / "pending").unlink()
        deadline = time.monotonic() + 300
        while not ticks:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(group(cluster, 1), signal.SIGKILL)
        assert isinstance(running.exception(60), Failed)


def test_workers_limit_the_jobs_in_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = study(ranks=4).model_copy(update={"workers": 2, "root": tmp_path})
    queued, most = list[str](), list[int]()

    def count(_: Study, module: str, *arguments: object, log: Path, **options: object) -> None:
        queued.append(module)
        most.append(len(queued))
        time.sleep(0.2)
        log.write_text("evaluated")
        queued.remove(module)

    monkeypatch.setattr(evaluators, "run_job", count)
    monkeypatch.setattr(nodes, "run_job", count)
    options = {"urgency": (1,), "tick": lambda: None}
    with closing(EvaluationJobs(chosen, 2, {})) as jobs, ThreadPoolExecutor(2) as trainings:
        run = shared_slots(chosen), Staying("unasked"), tmp_path, [], 4
        train = partial(nodes.train_on_nodes, chosen, this_node(chosen), *run)
        trained = [trainings.submit(train, log=tmp_path / f"{seed}.log", **options) for seed in range(2)]
        evaluated = [jobs.evaluate(tmp_path / "job.json", tokens) for tokens in range(3)]
        assert [one.result(60) for one in evaluated] == ["evaluated"] * 3
        assert [one.result(60) for one in trained] == [None, None]
    assert max(most) == 2


def test_waiting_for_the_end_of_an_older_job_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["RUNNING"] * 3)
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(slurm, "_slurm", lambda *_: subprocess.CompletedProcess([], 0, next(answers, ""), ""))
    (tmp_path / "log.job").write_text('{"job": "7", "command": ["another"]}')
    stop_all()
    with pytest.raises(Stopped):
        slurm.Job("helper_job", [], log=tmp_path / "log", name="job", environment={})


def in_thread(log: Path, *arguments: str) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run_job(study(), "helper_job", list(arguments), log=log)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, errors


def wait_for(path: Path) -> None:
    until(path.exists)


def test_a_killed_job_fails_and_is_named(cluster: Path, tmp_path: Path) -> None:
    thread, errors = in_thread(tmp_path / "log", "sleep", str(tmp_path / "up"))
    wait_for(tmp_path / "up")
    os.killpg(group(cluster, 1), signal.SIGKILL)
    thread.join(300)
    assert "job 1 ended without an exit status" in str(errors[0])
    assert isinstance(errors[0], Failed)


def test_a_stop_while_a_job_is_submitted_ends_the_job(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = slurm.Job("helper_job", ["sleep", str(tmp_path / "up")], log=tmp_path / "log", name="small", environment={})
    end, sent = job.signal, []
    monkeypatch.setattr(job, "signal", sent.append)
    stop_all(grace=0)
    try:
        with pytest.raises(Stopped):
            follow(job, "helper_job", lambda: None)
        assert sent == [signal.SIGTERM]
    finally:
        end(signal.SIGKILL)


def test_stopping_ends_the_jobs(cluster: Path, tmp_path: Path) -> None:
    thread, errors = in_thread(tmp_path / "log", "sleep", str(tmp_path / "up"))
    wait_for(tmp_path / "up")
    stop_all(grace=10)
    thread.join(300)
    assert isinstance(errors[0], Stopped)
    until(lambda: not lives(cluster, 1))  # a job that was being submitted gets its signal and is not waited for


def study_process(tmp_path: Path, log: Path, mark: Path) -> subprocess.Popen[bytes]:
    """Start a process that submits the job which `in_thread(log, "sleep", mark)` submits."""
    content = tmp_path / "tiny.yaml"
    content.write_text(TINY.read_text() + "compute: {pool: slurm}\n")
    code = (
        "import sys; from pathlib import Path; from flows.running.machines.slurm import run_job;"
        "from flows.study.loading import load_study;"
        "run_job(load_study(sys.argv[1]), 'helper_job', ['sleep', sys.argv[2]], log=Path(sys.argv[3]))"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(content), str(mark), str(log)], cwd=PROJECT)


def test_a_job_that_was_left_in_the_queue_is_followed(cluster: Path, tmp_path: Path) -> None:
    mark, log = tmp_path / "up", tmp_path / "log"
    first = study_process(tmp_path, log, mark)
    wait_for(mark)
    note = log.with_suffix(".job")
    until(lambda: '"job": "1"' in note.read_text())
    first.kill()
    first.wait()
    assert lives(cluster, 1)
    written = note.stat().st_ino
    thread, _ = in_thread(log, "sleep", str(mark))
    until(lambda: note.stat().st_ino != written)  # written anew by the study that follows the job
    os.killpg(group(cluster, 1), signal.SIGKILL)
    thread.join(300)
    assert len(submitted(cluster)) == 1


def test_a_job_of_a_study_that_was_killed_before_it_knew_the_number_is_followed(cluster: Path, tmp_path: Path) -> None:
    mark, log = tmp_path / "up", tmp_path / "log"
    (cluster.parent / "kills").touch()
    assert study_process(tmp_path, log, mark).wait(300) == -signal.SIGKILL
    wait_for(mark)
    thread, errors = in_thread(log, "sleep", str(mark))
    until(lambda: '"job": "1"' in log.with_suffix(".job").read_text() or bool(errors))
    os.killpg(group(cluster, 1), signal.SIGKILL)
    thread.join(300)
    assert "job 1 ended without an exit status" in str(errors[0])
    assert len(submitted(cluster)) == 1


@pytest.mark.slow
def test_a_whole_study_in_jobs_has_the_results_of_one_here(cluster: Path, tmp_path: Path) -> None:
    path = small_study(tmp_path)
    here = [sys.executable, "-m", "flows.commands.cli"]
    subprocess.run([*here, "run", str(path), "--root", str(tmp_path / "here")], cwd=PROJECT, check=True)
    path.write_text(path.read_text() + "compute: {pool: slurm}\n")
    subprocess.run([*here, "run", str(path), "--root", str(tmp_path / "jobs")], cwd=PROJECT, check=True)
    assert len(submitted(cluster)) == 2  # a training and an evaluation
    rows = [
        query(load_study(path, root=tmp_path / root).database, "SELECT * FROM evaluations ORDER BY ALL")
        for root in ("here", "jobs")
    ]
    assert len(rows[0])
    pd.testing.assert_frame_equal(*rows)
