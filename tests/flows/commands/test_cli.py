"""Commands: what they print, refuse, and say in one line; plans before any work."""

from __future__ import annotations

import dataclasses
import errno
import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.flows.commands import cli
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.parser import GROUPS, parser
from dreamer_study.flows.commands.planning.data_plan import data_lines, source_table
from dreamer_study.flows.estimates.benchmark_sizes import scored_by, unknown_benchmarks
from dreamer_study.flows.estimates.data_needs import data_needs
from dreamer_study.flows.estimates.rates import Rates
from dreamer_study.flows.estimates.times import estimate_times
from dreamer_study.flows.plan.model_plan import plan_models
from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import presets
from dreamer_study.pipeline.sources.sizes import SIZES
from dreamer_study.pipeline.sources.table import SOURCES
from tests.flows.by_hand import Planned, study_file, tiny
from tests.flows.small_study import PROJECT, TINY
from tests.model.saved_files import rewrite
from tests.model.test_contract import FILE, HERE
from tests.sql.empty import empty_file


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return empty_file(tmp_path / "results.duckdb")


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command, which must refuse; its one line."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    (said,) = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: ")
    ]
    return said


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_study_file_that_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    (tmp_path / "study.yaml").write_bytes(b"name: \xff\xfe")
    assert "study.yaml: not valid" in refusal(capsys, command, tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (";", "it has no statements"),
        ("-- nothing", "it has no statements"),
        ("select 1; select 2", "it has 2 statements"),
        ("SELECT nothing_such FROM data_efficiency", "nothing_such"),
    ],
)
def test_a_query_that_is_wrong(
    capsys: pytest.CaptureFixture[str], results: Path, query: str, words: str
) -> None:
    assert words in refusal(capsys, "sql", results, query)


def test_sql_shows_texts_as_they_are(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    assert main(["sql", str(results), "select 'ends [/think], [b]so[/b]' as text"]) == 0
    assert "ends [/think], [b]so[/b]" in capsys.readouterr().out


def test_sql_prints_no_cell_that_a_spreadsheet_runs(
    capsys: pytest.CaptureFixture[str], results: Path
) -> None:
    cells = "select unnest(['=1', '-x', '-1e3', null]) as \"@a\", -1.5 as b"
    assert main(["sql", str(results), cells, "--csv"]) == 0
    assert capsys.readouterr().out.split() == [
        "'@a,b",
        "'=1,-1.5",
        "'-x,-1.5",
        "-1e3,-1.5",
        ",-1.5",
    ]


def test_values_steer_no_terminal_and_stay_as_they_are_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    cells = "select chr(27) || '[2J' || chr(155) || chr(10) || 'next' as \"\x1b]0;a\x07\""
    assert main(["sql", str(results), cells, "--csv"]) == 0
    assert capsys.readouterr().out == '\x1b]0;a\x07\n"\x1b[2J\x9b\nnext"\n'
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["sql", str(results), cells, "--csv"]) == 0
    assert capsys.readouterr().out == '\\x1b]0;a\\x07\n"\\x1b[2J\\x9b\nnext"\n'


def test_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    assert str(results) in refusal(capsys, "export", results, results / "tables")


def test_no_results_yet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (
        ["sql", TINY, "SELECT 1"],
        ["report", TINY],
        ["preview", TINY],
        ["dropped", TINY],
    ):
        said = refusal(capsys, *command, "--root", tmp_path)
        assert " yet; " in said
        assert f"`dreamer run {TINY} --root {tmp_path}`" in said  # which would work as it stands
    assert "no such results file" in refusal(capsys, "sql", tmp_path / "results.duckdb", "SELECT 1")


@pytest.mark.slow
# schema: at the end
@pytest.mark.parametrize(
    "given",
    [
        "sources",
        "schema",
        "factors example --report {}/page.html",
        "new {}/study.yaml --data {}/a.jsonl",
    ],
)
def test_a_reader_that_leaves_early_is_no_failure(given: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "How many?", "answer": "Three it is."}\n')
    given = given.replace("{}", str(tmp_path))
    command = f"set -o pipefail; '{sys.executable}' -m dreamer_study.flows.commands.cli {given} | head -c 0"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    # A slow machine is told what takes long.
    said = [line for line in ran.stderr.splitlines() if not line.startswith("computing")]
    assert (ran.returncode, said) == (0, [])
    assert (tmp_path / "page.html").exists() == ("--report" in given)
    assert (tmp_path / "study.yaml").exists() == given.startswith("new")


@pytest.mark.parametrize(("command", "status"), [("run", 1), ("clean", 1), ("plan", 0)])
def test_work_that_a_broken_pipe_ends_is_not_done(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, status: int
) -> None:
    fail = Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe"))
    monkeypatch.setattr(cli, "import_module", lambda name: Mock(**{command: fail}))
    monkeypatch.setattr(cli.os, "dup2", lambda *_: None)
    assert main([command, "demo"]) == status
    assert ("Broken pipe" in capfd.readouterr().err) == bool(status)


@pytest.mark.parametrize(
    "command", ["run", "plan", "status", "verify", "clean", "report", "preview"]
)
def test_a_file_as_root_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    file = tmp_path / "LICENSE"
    file.touch()
    for root in (file, file / "below"):
        assert f"{file} is a file, but the study" in refusal(capsys, command, TINY, "--root", root)


@pytest.mark.parametrize("given", [("--price", "-1"), ("--price", "nan"), ("--gpus", "0")])
def test_a_plan_refuses_numbers_without_sense(
    capsys: pytest.CaptureFixture[str], given: tuple[str, str]
) -> None:
    assert f"{given[0]} " in refusal(capsys, "plan", "demo", *given)


@pytest.mark.parametrize("price", ["-1", "nan", "inf"])
def test_a_report_refuses_a_price_without_sense(
    capsys: pytest.CaptureFixture[str], price: str
) -> None:
    assert f"--price is {price}, but" in refusal(capsys, "report", "demo", "--price", price)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("run demo --foo", "unrecognized arguments: --foo; `dreamer run --help` shows how"),
        ("sql demo", "required: QUERY; `dreamer sql --help` shows how"),
        ("--foo", "unrecognized arguments: --foo; `dreamer --help` shows how"),
        ("plan --price x", "argument --price: invalid float value: 'x'; `dreamer plan --help`"),
    ],
)
def test_a_usage_error_is_one_line(
    capsys: pytest.CaptureFixture[str], given: str, said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(given.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dreamer: ")
    assert said in line


def test_every_command_is_in_the_help_and_has_an_example_in_the_documents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = parser().format_help()
    pages = [PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")]
    documents = "\n".join(page.read_text() for page in pages)
    for name in (name for names in GROUPS.values() for name in names):
        assert f"\n  {name} " in words
        assert f"dreamer {name} " in documents or f"dreamer {name}`" in documents, name
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"dreamer {version('dreamer-study')}\n"


def test_sources_shows_licences_and_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources"]) == 0
    said = capsys.readouterr().out
    for word in ("openai/gsm8k", "gated", "mmlu_math"):
        assert word in said


def test_every_source_of_the_table_has_a_size_or_is_said_to_be_unknown() -> None:
    assert set(SIZES) == set(SOURCES)


def plan_lines(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, str]:
    """The lines that `dreamer plan` prints, by their first word; of several the first."""
    capsys.readouterr()
    assert main(["plan", *map(str, arguments)]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    return {line.split()[0]: line for line in reversed(printed) if line}


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


def test_files_at_hand_are_measured(tmp_path: Path) -> None:
    folder = tmp_path / "owner" / "set" / "data"
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"q": ["question"] * 100, "r": ["response"] * 100}), folder / "train-00000.parquet"
    )
    source = {"name": "set", "repository": "owner/set", "question": "q", "response": "r"}
    chosen = tiny(tmp_path, data={"sources": [source], "mirror": str(tmp_path)})
    needs = data_needs(chosen)
    sources = source_table(needs)
    lines = data_lines(chosen, needs)
    assert sources.to_dict("records")[0]["documents"] == "100"
    assert sources.to_dict("records")[0]["to download"] == "at hand"
    assert lines["data"].startswith("100 documents; 0 B to download")
    assert lines["stages"].endswith("of disk; nothing is counted as dropped")


def test_a_mirror_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "demo", "--mirror", str(tmp_path / "nowhere")]) == 2
    assert (
        capsys.readouterr().err
        == f"dreamer: data.mirror: there is no folder {tmp_path / 'nowhere'}\n"
    )


def test_bytes_of_data_grow_with_the_documents_and_their_signatures(tmp_path: Path) -> None:
    def needed(documents: int, **deduplicate: object) -> float:
        data = {"world": {"documents": documents}, "deduplicate": deduplicate}
        return data_needs(tiny(tmp_path, data=data)).written

    assert needed(1000) > 1000 * 100
    assert needed(2000) == pytest.approx(2 * needed(1000))
    # 25 band hashes and a place, 8 bytes each, for every document that is signed
    hashes = 1000 * 26 * 8
    assert needed(1000, guards=[]) - needed(1000, near=False) == pytest.approx(hashes)
    assert needed(1000) - needed(1000, near=False) == pytest.approx(0.24 * hashes)


def study(root: Path, per_gpu: int = 1, **training: object) -> Study:
    recipe = {"tokens": 1000, "checkpoints": 2, "warmup_steps": 1, "seeds": [0, 1], **training}
    return tiny(
        root,
        training=recipe,
        evaluation={"depths": [1, 2, 4]},
        compute={"per_gpu": per_gpu},
        workers=None,  # as many as there are devices
    )


def scored_tokens(chosen: Study) -> float:
    return sum(one.items * one.tokens for one in scored_by(chosen))


def times(on: int = 2, *, shared: bool = False, **changed: object) -> tuple[float, float, float]:
    """Seconds of training, of evaluation and of work where every model trains as fast."""
    chosen = study(Path("run"), **changed)
    planned = plan_models(chosen, 400)
    # 10 tokens are trained in a second, 30 evaluated
    rates = Rates({model.model_id: 10.0 for model in planned}, "by hand", shared=shared)
    found = estimate_times(chosen, planned, rates, on)
    return found.training, pytest.approx(found.evaluation), pytest.approx(found.busy)


def test_runs_in_turn_on_the_devices() -> None:
    # 3 models of 2 seeds take 100 s each; of 2 recurrent ones the last of 2 checkpoints is read at
    # 2 more depths.
    evaluated = (3 * 2 * 2 + 2 * 2 * 2) * scored_tokens(study(Path("run"))) / 30
    assert times() == (300.0, evaluated / 2, 600 + evaluated)
    assert times(seeds=[0])[0] == 200.0  # three runs on two devices
    assert times(on=4)[0] == 200.0  # six runs on four


def test_trainings_that_share_a_gpu_share_its_rate() -> None:
    assert times(per_gpu=3) == times(), (
        "three at a time on each of two devices, each a third as fast"
    )
    # the rates of the store were taken from trainings that shared: six at a time on two devices
    assert times(per_gpu=3, shared=True)[0] == 100.0


def test_screening_trains_all_seeds_first_and_then_one() -> None:
    assert times(screening=0.25, on=6)[0] == 25 + 37.5  # then two devices for each of three runs


def test_evaluations_count_items_of_known_benchmarks(tmp_path: Path) -> None:
    mine = {"name": "mine", "repository": "a/b", "task": "t", "metric": "acc"}
    chosen = tiny(tmp_path, evaluation={"benchmarks": ["gsm8k", mine], "limit": None})
    assert unknown_benchmarks(chosen) == ["mine"]
    assert scored_tokens(chosen) == pytest.approx(1319 * 393, rel=0.01)
    few = chosen.model_copy(
        update={"evaluation": chosen.evaluation.model_copy(update={"limit": 10})}
    )
    assert scored_tokens(few) == pytest.approx(10 * 393, rel=0.01)


@pytest.mark.slow
def test_epochs_are_those_of_the_packed_tokens_and_the_estimate_is_near(tmp_path: Path) -> None:
    chosen = study(tmp_path)
    bigger = dataclasses.replace(chosen.data.world, documents=3000)
    chosen = chosen.model_copy(update={"data": chosen.data.model_copy(update={"world": bigger})})
    estimate = data_needs(chosen).epochs.count
    plan = Plan(chosen)
    prepare_data(plan, Steps())
    packed = plan.data.packed.results["tokens"]
    assert data_lines(chosen, data_needs(chosen))["epochs"].startswith(
        f"{1000 / packed:,.3g} over {packed:,} packed tokens"
    )
    assert estimate == pytest.approx(1000 / packed, rel=0.15)
