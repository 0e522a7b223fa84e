"""A saved model in lm-eval's own command, `dreamer lm-eval --model dreamer`: the same numbers as in
a study."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.model.evaluation.benchmark_rows import score_tasks
from dreamer_study.model.evaluation.language_model import load_language_model
from dreamer_study.model.evaluation.metrics import tables
from dreamer_study.model.evaluation.tokenizer import find_tokenizer, load_tokenizer
from dreamer_study.pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import small_model, write_data, write_tokenizer
from tests.model.saved_files import save_model

COMMAND = Path(sys.executable).with_name("dreamer"), "lm-eval"
COMMON = """dataset_name: default
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
"""
TASKS = {
    "written": """
output_type: generate_until
generation_kwargs: {until: ["\\n", "a"], max_gen_toks: 5}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
doc_to_target: "{{answer}}"
""",
    "chosen": """
output_type: multiple_choice
doc_to_choice: ["3", "4", "the same as 4"]
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true},
              {metric: acc_norm, aggregation: mean, higher_is_better: true}]
doc_to_target: "{{number % 3}}"
""",
    "read": """
output_type: loglikelihood_rolling
metric_list: [{metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}]
doc_to_target: "{{question}}"
""",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model in a folder below its tokenizer's."""
    study = tmp_path_factory.mktemp("study")
    write_tokenizer(study / "tokenizer")
    raw, averaged = (small_model(seed, sequence_length=192) for seed in (0, 1))
    save_model(study / "runs/run/checkpoints/000000000001000", raw, averaged=averaged.state_dict())
    return study


def test_a_damaged_tokenizer_is_named(study: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(study / "tokenizer", tmp_path / "tokenizer"))
    for content, said in (("{", "not valid JSON"), ("{}", "end_token is missing")):
        (folder / "tokenizer_meta.json").write_text(content)
        with pytest.raises(InputError, match=rf"tokenizer_meta\.json: {said}.*write it again"):
            load_tokenizer(folder)


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "OMP_NUM_THREADS": "1"}


def task_files(folder: Path) -> tuple[Path, list[Path]]:
    """Write the items of all tasks, and a file for each task; return the place of both."""
    rows = [{"question": f"Sides of shape {n}?", "answer": str(n), "number": n} for n in range(12)]
    place = write_data(folder / "data", "default", test=rows)
    files = []
    for name, definition in TASKS.items():
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(f"task: {name}\ndataset_path: {place}\n{COMMON}{definition}")
    return place, files


def command_line(model_arguments: str, files: list[Path], output: Path) -> list[str]:
    """The arguments of lm-eval for a saved model."""
    model = ["--model", "dreamer", "--model_args", model_arguments]
    return [*model, "--tasks", *map(str, files), "--output_path", str(output / "out.json")]


@pytest.mark.slow
def test_the_plain_command_gives_the_numbers_of_a_study(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a shell, anywhere, naming nothing but the model's folder: every metric, to all digits.

    Then raw weights at another depth, in this process, which has imported lm-eval already. Without
    `--device` lm-eval asks for `cuda:0`, also where no CUDA device is there.
    """
    from dreamer_study.model.evaluation.lm_eval_definitions import tune_libraries

    model = study / "runs/run/checkpoints/000000000001000"
    place, files = task_files(tmp_path)
    shell, here = tmp_path / "shell", tmp_path / "here"
    shell.mkdir()
    done = subprocess.run(
        [*COMMAND, *command_line(f"path={model}", files, shell)],
        capture_output=True, text=True, env=environment(tmp_path / "home"), cwd=shell, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert_same(shell, scores_here(study, place, files, None, "averaged"))

    tune_libraries()
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", sys.argv)  # which the command replaces
    arguments = command_line(f"path={model},depth=2,weights=raw", files, here)
    assert main(["lm-eval", *arguments]) == 0
    assert_same(here, scores_here(study, place, files, 2, "raw"))


def scores_here(
    study: Path, place: Path, files: list[Path], depth: int | None, weights: str
) -> dict[tuple[str, str], float]:
    """The scores of a model as a study computes them, by task and metric."""
    from dreamer_study.model.evaluation.lm_eval_definitions import tune_libraries
    from dreamer_study.model.evaluation.lm_eval_tasks import LmEvalTask

    tune_libraries()
    model = study / "runs/run/checkpoints/000000000001000"
    text_model = load_language_model(model, study / "tokenizer", "cpu", weights)
    text_model.depth = depth
    specifications = [
        {"benchmark": path.stem, "task": path.stem, "dataset_path": str(place), "yaml": str(path)}
        for path in files
    ]
    cache = place.parent / "own-cache"
    tasks = [LmEvalTask(specification, cache=cache) for specification in specifications]
    found = tables("run", 1000, score_tasks(text_model, tasks))["evaluations"].to_pylist()
    own = ("token_perplexity", "gold_bits_per_byte")  # which lm-eval does not have
    ours = {(row["task"], row["metric"]): row["value"] for row in found if row["metric"] not in own}
    assert set(ours) == {
        ("written", "exact_match"), ("chosen", "acc"), ("chosen", "acc_norm"), ("read", "word_perplexity"),
    }  # fmt: skip
    return ours


def assert_same(folder: Path, ours: dict[tuple[str, str], float]) -> None:
    """Compare what lm-eval has written to a folder with the scores of a study."""
    (written,) = folder.glob("out*.json")
    theirs = json.loads(written.read_text())["results"]
    for (task, metric), value in ours.items():
        assert value == pytest.approx(theirs[task][f"{metric},none"], rel=1e-9)


@pytest.mark.slow
def test_all_arguments_are_lm_evals_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its help, too, and what looks like options of ours."""
    monkeypatch.setattr(sys, "argv", sys.argv)  # which the command replaces
    with pytest.raises(SystemExit) as ended:
        main(["lm-eval", "--help", "--version"])
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("usage: lm-eval")


def test_a_models_tokenizer_is_found(study: Path, tmp_path: Path) -> None:
    model = study / "runs/run/checkpoints/000000000001000"
    assert find_tokenizer(model) == study / "tokenizer"
    # In a store it is the one that made the tokens, whatever else lies there.
    store = tmp_path / "store"
    for key in ("a", "b"):
        shutil.copytree(study / "tokenizer", store / "tokenizer" / key)
    tokens, run = store / "tokens" / "t", store / "training" / "r" / "seed0"
    tokens.mkdir(parents=True)
    (tokens / "manifest.json").write_text(
        json.dumps({"inputs": ["decontaminate/d", "tokenizer/b"]})
    )
    shutil.copytree(model, run / "checkpoints" / "000000000001000")
    (run / "run.json").write_text(json.dumps({"data": "../../../tokens/t"}))
    assert find_tokenizer(run / "checkpoints" / "000000000001000") == store / "tokenizer" / "b"
    for file, content, said in (
        (run / "run.json", "{", "not valid JSON"),
        (run / "run.json", "{}", "data is missing"),
        (tokens / "manifest.json", "{}", "inputs is missing"),
    ):
        good = file.read_text()
        file.write_text(content)
        with pytest.raises(InputError, match=rf"{file.name}: {said}"):
            find_tokenizer(run / "checkpoints" / "000000000001000")
        file.write_text(good)
    # A model given away lies beside its tokenizer, or in one folder with it.
    shutil.copytree(model, tmp_path / "given" / "model")
    with pytest.raises(
        InputError, match=r"given/model: there is no tokenizer.json in or beside this folder"
    ):
        find_tokenizer(tmp_path / "given" / "model")
    shutil.copytree(study / "tokenizer", tmp_path / "given" / "model", dirs_exist_ok=True)
    assert find_tokenizer(tmp_path / "given" / "model") == tmp_path / "given" / "model"
