"""How a study shares a machine's devices among its runs, and that this decides nothing about them."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import flows.running.machines.devices
from flows.commands.cli import main
from flows.running.machines.devices import Slots, check_devices, share_ranks, shared_slots
from flows.running.processes import Stopped, stop_all, stopped_on_exit
from flows.stages.models import describe_run, plan_models
from flows.study.loading import load_study
from model.training.config import HOW_IT_RUNS, TrainingConfig
from pipeline.errors import InputError

PRESETS = ("demo", "gpu-small", "paper-mini", "paper-16", "paper-32")
BUILTIN = {"data": {"sources": ["builtin"]}, "evaluation": {"benchmarks": ["builtin"]}}


def study(**training: object) -> object:
    recipe = {"tokens": 10**6, "batch_tokens": 2**14, "sequence_length": 1024, **training}
    return load_study({"name": "small", **BUILTIN, "training": recipe})


@pytest.fixture
def eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows.running.machines.devices, "gpus", lambda study: 8)


@pytest.mark.usefixtures("eight_gpus")
@pytest.mark.parametrize(
    ("runs", "ranks"),
    [(1, [8]), (2, [4, 4]), (3, [2, 3, 3]), (5, [1, 1, 2, 2, 2]), (6, [1, 1, 1, 1, 2, 2]), (20, [1] * 20)],
)
def test_no_gpu_is_idle_where_there_are_fewer_runs(runs: int, ranks: list[int]) -> None:
    assert share_ranks(study(), runs) == ranks
    assert share_ranks(study().model_copy(update={"workers": 16}), runs) == ranks
    assert share_ranks(study(ranks=3), runs) == [3] * runs
    assert share_ranks(study(batch_tokens=1024), runs) == [1] * runs  # a batch of one row cannot be shared


@pytest.mark.usefixtures("eight_gpus")
def test_a_run_has_no_more_ranks_than_rows() -> None:
    assert share_ranks(study(batch_tokens=3 * 1024), 2) == [3, 3]


@pytest.mark.usefixtures("eight_gpus")
def test_more_gpus_than_there_are_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"training\.ranks is 9, but this machine has 8 GPUs"):
        share_ranks(study(ranks=9), 1)


def test_a_cpu_trains_by_one_process_unless_told() -> None:
    assert share_ranks(study(device="cpu"), 2) == [1, 1]
    assert share_ranks(study(device="cpu", ranks=4), 2) == [4, 4]


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


@pytest.mark.usefixtures("eight_gpus")
def test_a_run_sees_its_own_devices_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    slots = Slots(study())
    with slots.take(3) as first, slots.take() as second, slots.take(4) as third:
        assert first == {"CUDA_VISIBLE_DEVICES": "0,1,2"}
        assert second == {"CUDA_VISIBLE_DEVICES": "3"}
        assert third == {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    monkeypatch.setattr(flows.running.machines.devices, "gpus", lambda study: 2)
    with Slots(study()).take(2) as both:
        assert both == {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,../../planted")
    with pytest.raises(InputError, match=r"holds '../../planted', which names no device"), Slots(study()).take():
        pass


def test_the_most_urgent_goes_first_and_nobody_overtakes_who_waits_for_several() -> None:
    slots, order = Slots(study(device="cpu").model_copy(update={"workers": 2})), list[str]()
    waiting = [("late", 1, (1, 5)), ("large", 2, (1, 0)), ("evaluation", 1, (0,)), ("soon", 1, (1, 1))]

    def work(job: tuple[str, int, tuple[int, ...]]) -> None:
        name, wanted, urgency = job
        with slots.take(wanted, urgency):
            order.append(name)

    with ThreadPoolExecutor(len(waiting)) as pool, slots.take(1), slots.take(1):
        done = [pool.submit(work, job) for job in waiting]
        while len(slots._waiting) < len(waiting):
            time.sleep(0.01)
        assert order == []
        assert not any(future.done() for future in done)
    assert order[:2] == ["evaluation", "large"]
    assert sorted(order[2:]) == ["late", "soon"]


def test_who_waits_for_a_slot_hears_of_a_stop_at_once() -> None:
    slots = Slots(study(device="cpu").model_copy(update={"workers": 1}))
    with ThreadPoolExecutor(1) as pool, stopped_on_exit(), slots.take():
        waiting = pool.submit(slots.take().__enter__)
        while not slots._waiting:
            time.sleep(0.01)
        stop_all()
        with pytest.raises(Stopped):
            waiting.result(10)


def test_the_stages_of_a_study_share_its_slots(tmp_path: Path) -> None:
    here, there = (study().model_copy(update={"root": tmp_path / name, "workers": 2}) for name in ("a", "b"))
    assert shared_slots(here) is shared_slots(here)
    assert shared_slots(here) is not shared_slots(there)


def test_how_a_run_is_computed_is_no_part_of_what_it_is() -> None:
    plain = study()
    changed = study(ranks=2, micro_batch_tokens=1024, checkpointing=True, compile=True, keep=3, spike_deviations=0)
    other = study(learning_rate=1e-3)
    assert plain.study_id == changed.study_id != other.study_id
    (model, *_), packed = plan_models(plain, 512), SimpleNamespace(key="k")
    names = [describe_run(one, packed, model, 0)["run_id"] for one in (plain, changed, other)]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_describe_runs_that_training_accepts(preset: str) -> None:
    loaded = load_study(preset)
    model = plan_models(loaded, loaded.data.tokenizer.vocabulary_size)[0]
    values = describe_run(loaded, SimpleNamespace(key="k"), model, 0)["training"]
    config = TrainingConfig.from_dict(values)
    assert config.tokens == loaded.training.tokens
    assert set(HOW_IT_RUNS) <= config.to_dict().keys()
    micro = config.micro_batch_tokens or config.batch_tokens
    assert config.batch_tokens % loaded.training.sequence_length == 0
    assert micro % loaded.training.sequence_length == 0
