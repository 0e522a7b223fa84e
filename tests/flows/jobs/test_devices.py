"""Which devices jobs get, and what others on the machine may not see or plant."""

from __future__ import annotations

import os
import stat
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.jobs import Failed, private_files
from dreamer_study.flows.jobs.devices import lock_gpus, share_ranks, visible_gpus
from dreamer_study.flows.jobs.local import started
from dreamer_study.flows.jobs.private_files import private_folder
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from tests.flows.jobs.programs import alive, events, job, local, use
from tests.waiting import PATIENCE_SECONDS, until

BUILTIN = {"data": {"sources": ["builtin"]}, "evaluation": {"benchmarks": ["builtin"]}}


def study(**training: object) -> Study:
    recipe = {"tokens": 10**6, "batch_tokens": 2**14, "sequence_length": 1024, **training}
    return load_study({"name": "small", **BUILTIN, "training": recipe})


@pytest.mark.parametrize(
    ("training", "runs", "machines", "ranks"),
    [
        *(
            ({}, len(ranks), [8], ranks)
            for ranks in ([8], [4, 4], [2, 3, 3], [1, 1, 2, 2, 2], [1] * 20)
        ),
        ({"ranks": 3}, 5, [8], [3] * 5),
        ({"batch_tokens": 3 * 1024}, 2, [8], [3, 3]),  # a rank has a row at least
        ({"device": "cpu"}, 2, [], [1, 1]),
        ({"device": "cpu", "ranks": 4}, 2, [0], [4, 4]),
    ],
)
def test_no_gpu_is_idle_where_there_are_fewer_runs(
    training: dict[str, Any], runs: int, machines: list[int], ranks: list[int]
) -> None:
    assert share_ranks(study(**training), runs, machines) == ranks
    assert (
        share_ranks(study(**training).model_copy(update={"workers": 16}), runs, machines) == ranks
    )


def test_more_gpus_than_there_are_is_bad_input() -> None:
    with pytest.raises(
        InputError, match=r"training\.ranks is 9, but no machine of the study has more than 8 GPUs"
    ):
        share_ranks(study(ranks=9), 1, [8])


def test_cuda_where_there_is_none_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    path = tmp_path / "study.yaml"
    training = {"tokens": 1000, "device": "cuda", "sequence_length": 64, "batch_tokens": 128}
    path.write_text(
        yaml.dump(
            {"name": "small", "root": str(tmp_path / "root"), **BUILTIN, "training": training}
        )
    )
    assert main(["run", str(path)]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last == (
        "dreamer: training.device is 'cuda', but torch finds no CUDA device here; say 'cpu' or 'auto'"
    )
    assert not (tmp_path / "root/store").exists()
    assert not (tmp_path / "root" / "store").exists()


def test_the_gpus_that_the_user_names_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus(3) == ["0", "1", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    assert visible_gpus(2) == ["GPU-a", "GPU-b"]


class Waited(Exception):
    """Somebody has begun to wait."""


def begin_to_wait(seconds: float) -> None:
    raise Waited


def test_a_device_is_held_by_one_at_a_time() -> None:
    names = ["test-0", "test-1"]
    with lock_gpus(names, 1, begin_to_wait) as first, lock_gpus(names, 1, begin_to_wait) as second:
        assert [first, second] == [["test-0"], ["test-1"]]
        with pytest.raises(Waited), lock_gpus(names, 1, begin_to_wait):
            pass


def test_who_shares_a_gpu_fills_each_in_turn_and_excludes_who_wants_it_whole() -> None:
    names, wait = ["test-0", "test-1"], begin_to_wait
    with ExitStack() as held:
        found = [held.enter_context(lock_gpus(names, 1, wait, per_gpu=2)) for _ in range(4)]
        assert found == [["test-0"], ["test-1"]] * 2
        for whole in ({"wanted": 1}, {"wanted": 2, "per_gpu": 2}, {"wanted": 1, "per_gpu": 2}):
            with pytest.raises(Waited), lock_gpus(names, wait=wait, **whole):
                pass
    with (
        lock_gpus(names, 2, wait, per_gpu=2) as both,
        pytest.raises(Waited),
        lock_gpus(names, 1, wait, per_gpu=2),
    ):
        pytest.fail(f"{both} are held")


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory that all users share."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_a_folder_is_for_this_user_alone() -> None:
    folder = private_folder("devices")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert stat.S_IMODE(private_folder("devices").stat().st_mode) == 0o700


def test_compiled_libraries_lie_where_the_user_says_else_in_a_private_folder(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "tells.py").write_text("import os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])")
    monkeypatch.setenv("PYTHONPATH", str(shared))
    for wanted in ("", "/mine"):
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", wanted)
        started("tells", [], shared / "log", {}).wait()
    assert (shared / "log").read_text().split() == [str(private_folder("compiled")), "/mine"]


def test_a_planted_link_is_refused(shared: Path) -> None:
    (shared / "theirs").mkdir()
    (shared / f"dreamer-{os.getuid()}").symlink_to(shared / "theirs")
    with pytest.raises(InputError, match="is not a folder of this user"):
        private_folder("devices")
    assert not list((shared / "theirs").iterdir())


def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    private_folder("devices")
    name = os.getuid()
    monkeypatch.setattr(
        private_files.Path,
        "lstat",
        lambda path: os.stat_result((0o40700, 1, 1, 1, name + 1, 0, 0, 0, 0, 0)),
    )
    with pytest.raises(InputError, match="is not a folder of this user"):
        private_folder("devices")


def test_the_lock_of_a_device_truncates_no_file_behind_a_link(shared: Path) -> None:
    victim = shared / "thesis.txt"
    victim.write_text("years of work")
    (private_folder("devices") / "0").symlink_to(victim)
    with pytest.raises(OSError, match="0"), lock_gpus(["0"], 1, time.sleep):
        pass
    assert victim.read_text() == "years of work"


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "error"), [("bad-rank", InputError), ("killed-rank", Failed)])
def test_where_one_rank_fails_the_others_are_ended(
    tmp_path: Path, what: str, error: type[Exception]
) -> None:
    before = time.monotonic()
    with local(tmp_path) as jobs:
        found = events(jobs, job(tmp_path, "a", what, waits=True, devices=2))
    assert type(found["a"][-1].error) is error
    assert time.monotonic() - before < PATIENCE_SECONDS
    assert not alive(int((tmp_path / "a").read_text()))


def test_no_process_takes_modules_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "somebody's"
    here.mkdir()
    (here / "ctypes.py").write_text("open('marker', 'w')")
    (tmp_path / "uses.py").write_text("import ctypes, sys; print(sys.path[0])")
    monkeypatch.chdir(here)
    child = started("uses", [], tmp_path / "log.txt", {})
    until(lambda: child.poll() is not None)
    assert child.poll() == 0, (tmp_path / "log.txt").read_text()
    assert [path.name for path in here.iterdir()] == ["ctypes.py"]
