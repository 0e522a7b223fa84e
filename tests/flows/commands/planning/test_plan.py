"""`dreamer plan` shows models, sizes, rates and prices before any work."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.study_plan import Run
from dreamer_study.flows.study.loading import presets
from tests.flows.by_hand import Planned, study_file
from tests.flows.commands.refusals import refusal
from tests.flows.small_study import TINY
from tests.model.saved_files import rewrite
from tests.model.test_contract import FILE, HERE


@pytest.mark.parametrize("given", [("--price", "-1"), ("--price", "nan"), ("--gpus", "0")])
def test_a_plan_refuses_numbers_without_sense(
    capsys: pytest.CaptureFixture[str], given: tuple[str, str]
) -> None:
    assert f"{given[0]} " in refusal(capsys, "plan", "demo", *given)


def plan_lines(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, str]:
    """The lines that `dreamer plan` prints, by their first word; of several the first."""
    capsys.readouterr()
    assert main(["plan", *map(str, arguments)]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    return {line.split()[0]: line for line in reversed(printed) if line}


@pytest.mark.slow
def test_a_plan_shows_what_was_searched_and_other_sizes_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copy(HERE / FILE, tmp_path)
    mixture = {
        "name": "Mixture",
        "module": f"{FILE}:Mixture",
        "config": {"hidden_size": 16, "experts": 4, "expert_size": 64},
        "match": {"flops": "expert_size"},
    }
    whole = {"name": "Whole", "module": f"{FILE}:Whole"}
    file = study_file(tmp_path, models={"variants": ["LA", "DR", mixture, whole]})
    arguments = ["plan", str(file), "--root", str(tmp_path / "run"), "--trust-code"]
    assert main(arguments) == 0
    models, sizes, *_ = capsys.readouterr().out.partition("\n\n")[2].split("\n\n")
    searched = [re.split(r"  +", line.strip())[-1] for line in models.splitlines()]
    assert searched[:2] == ["searched", "-"]
    assert re.fullmatch(r"expert_size \d+, experts \d+", searched[2])
    assert re.fullmatch(r"expert_size \d+", searched[3])
    assert searched[4] == "-"
    assert [line.split()[0] for line in sizes.splitlines()] == ["model", "LA", "DR"]
    assert sizes.splitlines()[0].split() == [
        "model",
        "expert",
        "size",
        "experts",
        "active",
        "hidden",
        "depth",
    ]


@pytest.mark.slow
def test_a_depth_stands_in_a_name_only_beside_other_depths(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for depths, names in ((["2"], ["LA", "DR"]), (["2", "3"], ["LA-2", "DR-2", "LA-3", "DR-3"])):
        models = {"variants": ["LA", "DR"], "depths": [int(depth) for depth in depths]}
        file = study_file(tmp_path, models=models)
        lines = plan_lines(capsys, file, "--root", tmp_path / "run")
        assert set(names) < set(lines)
        assert f"no run of {', '.join(names)} in the store" in lines["time"]
        assert main(["plan", str(file), "--root", str(tmp_path / "run"), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["models"]
        assert [model["model"] for model in found] == names
        assert {model["model_id"] for model in found} == {
            f"{variant}-{depth}" for variant in ("LA", "DR") for depth in depths
        }


@pytest.mark.slow
def test_the_paper_study_prints_totals_and_what_is_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = plan_lines(capsys, "paper-16", "--gpus", "8", "--price", "2.5", "--tflops", "198")
    assert "at least 135,914,853 documents (2 of 15 sources unknown)" in lines["data"]
    assert "176 GB of disk or more" in lines["stages"]
    assert lines["nemotron-sft-math"].split()[1:] == ["unknown"] * 4
    assert lines["DR"].endswith(" expert_size 504, experts 517"), "of the paper's Table 3"
    assert lines["DR+DA"].endswith(" expert_size 480, experts 537")
    assert "+0.24 %" in lines["DR+DA"]
    assert "your 198 TFLOP/s" in lines["rate"]
    assert "8 x GPU" in lines["time"]
    assert lines["hours"].startswith("hours     2,400 GPU-hours, ")
    hours = float(lines["hours"].split()[1].replace(",", ""))
    assert hours == pytest.approx(2400, rel=0.01), "docs/scale.md says so"
    assert float(lines["price"].split()[1].replace(",", "")) == pytest.approx(2.5 * hours, rel=0.01)
    assert "one seed of each model shows no spread" in lines["detects"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "preset",
    [
        # which counts models by running them
        pytest.param(name, marks=pytest.mark.slow if name == "control" else ())
        for name in presets()
        if name != "paper-16"
    ],
)
def test_plan_of_every_preset(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, preset: str
) -> None:
    assert main(["plan", preset, "--root", str(tmp_path), "--gpus", "1", "--price", "1"]) == 0
    out = capsys.readouterr().out
    assert "FLOPs of training" in out
    assert "\ntime      not known: no run of LA" in out
    assert "--tflops N" in out
    assert "\nprice     not known without a time\n" in out
    detects = "in four of five such studies with" in out and "one more seed can detect" in out
    assert detects == (not preset.startswith("paper"))


@pytest.mark.slow
def test_a_plan_measures_training_steps_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = study_file(
        tmp_path, models={"variants": ["LA", {"name": "twin", "family": "LA", "seeds": [7]}]}
    )
    lines = plan_lines(capsys, file, "--root", tmp_path / "run", "--measure")
    first, second = re.findall(r"(?:LA|twin) (\d[\d,]*\d)", lines["rate"])
    assert first == second, "a twin is measured once"
    assert "tokens/s on one core: 10 steps of each measured now, on cpu" in lines["rate"]
    assert "of training and" in lines["time"]
    assert [path.name for path in (tmp_path / "run").glob("*/*")] == ["counts"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--gpus", "2", "--measure"), "--measure times a GPU of this machine"),
        (("--tflops", "0"), "--tflops is 0, but it must be a number above 0"),
        (("--tflops", "nan"), "--tflops is nan"),
        (("--tflops", "inf"), "--tflops is inf"),
    ],
)
def test_a_rate_that_cannot_be(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert said in refusal(capsys, "plan", TINY, *given)


def test_a_rate_is_measured_or_given_and_not_both(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "demo", "--measure", "--tflops", "1"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "argument --tflops: not allowed with argument --measure" in line


def trained(
    run: Run,
    *,
    tokens: int,
    seconds: float,
    device: str = "cpu",
    step: int = 10,
    ranks: int = 1,
) -> None:
    """Write what a training of a run records."""
    described = {**run.content, "run_id": run.run_id}
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "run.json").write_text(json.dumps(described))
    state = {"step": step, "device": device, "tokens": tokens, "seconds": seconds, "ranks": ranks}
    rewrite(run.folder / "state" / f"{tokens:015d}" / "values.json", state)


@pytest.mark.slow
def test_a_plan_takes_the_rates_of_runs_in_the_store(
    capsys: pytest.CaptureFixture[str], prepared: Planned, tmp_path: Path
) -> None:
    variants = ["LA", "DR"]
    plan = prepared(models={"variants": variants}, training={"seeds": [0, 1]})
    first, second, other, young = plan.runs
    file = study_file(tmp_path, models={"variants": variants}, training={"seeds": [0, 1]})
    arguments = (file, "--root", plan.study.folder)
    trained(first, tokens=1000, seconds=4.0)
    trained(second, tokens=500, seconds=2.0)
    trained(other, tokens=600, seconds=2.0, device="NVIDIA H100")
    trained(young, tokens=600, seconds=2.0, step=9)
    assert "not known: no run of DR in the store" in plan_lines(capsys, *arguments)["time"]

    trained(young, tokens=600, seconds=2.0, ranks=2)
    lines = plan_lines(capsys, *arguments)
    assert "LA 250, DR 150 tokens/s on one core: 3 runs in the store, on cpu" in lines["rate"]
    assert "not known: no run of LA" in plan_lines(capsys, *arguments, "--gpus", "1")["time"]
    trained(first, tokens=1000, seconds=1.0, device="NVIDIA H100")
    lines = plan_lines(capsys, *arguments, "--gpus", "1")
    assert "LA 1,000, DR 300 tokens/s on one GPU: 2 runs in the store" in lines["rate"]
    assert "on NVIDIA H100" in lines["rate"]

    # a damaged run is told by others
    (second.folder / "run.json").write_text("{")
    assert "DR 150" not in plan_lines(capsys, *arguments)["time"]
    # an option decides
    assert "your 2 TFLOP/s" in plan_lines(capsys, *arguments, "--tflops", "2")["rate"]


def test_a_mirror_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "demo", "--mirror", str(tmp_path / "nowhere")]) == 2
    assert (
        capsys.readouterr().err
        == f"dreamer: data.mirror: there is no folder {tmp_path / 'nowhere'}\n"
    )
