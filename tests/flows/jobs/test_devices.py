"""How a study shares a machine's GPUs among its runs, and that a GPU is held by one process at a time."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.commands.cli import main
from flows.jobs.devices import check_devices, lock_gpus, share_ranks, visible_gpus
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError

BUILTIN = {"data": {"sources": ["builtin"]}, "evaluation": {"benchmarks": ["builtin"]}}


def study(**training: object) -> Study:
    recipe = {"tokens": 10**6, "batch_tokens": 2**14, "sequence_length": 1024, **training}
    return load_study({"name": "small", **BUILTIN, "training": recipe})


@pytest.mark.parametrize(
    ("training", "runs", "machines", "ranks"),
    [
        *(({}, len(ranks), [8], ranks) for ranks in ([8], [4, 4], [2, 3, 3], [1, 1, 2, 2, 2], [1] * 20)),
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
    assert share_ranks(study(**training).model_copy(update={"workers": 16}), runs, machines) == ranks


def test_more_gpus_than_there_are_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"training\.ranks is 9, but no machine of the study has more than 8 GPUs"):
        share_ranks(study(ranks=9), 1, [8])


def test_cuda_where_there_is_none_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    for device in ("auto", "cpu"):
        check_devices(study(device=device))
    path = tmp_path / "study.yaml"
    training = {"tokens": 1000, "device": "cuda", "sequence_length": 64, "batch_tokens": 128}
    path.write_text(yaml.dump({"name": "small", "root": str(tmp_path / "root"), **BUILTIN, "training": training}))
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err == (
        "dreamer: training.device is 'cuda', but torch sees no CUDA device here; say 'cpu' or 'auto'\n"
    )
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


def test_a_device_is_held_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))  # of which the locks of the machine are not
    names = ["test-0", "test-1"]
    with lock_gpus(names, 1, begin_to_wait) as first, lock_gpus(names, 1, begin_to_wait) as second:
        assert [first, second] == [["test-0"], ["test-1"]]
        with pytest.raises(Waited), lock_gpus(names, 1, begin_to_wait):
            pass
