"""What `dreamer publish` writes, used as another machine would use it: in an empty home, with an
unchanged program."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import DatasetCard, ModelCard

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import query
from tests.flows.prepared import with_data
from tests.flows.small_study import small_study
from tests.reports.small_results import (
    POINTS,
    RIGHT,
    entered,
    evaluations,
    model_row,
    run_row,
    study,
)

pytestmark = pytest.mark.usefixtures("light_reports")
SCHEMA = json.loads(Path(__file__).with_name("eval.schema.json").read_text())
PLACE = re.compile(r"data/tiny/me/tiny-LA-2-s0-\w+/\w{8}-\w{4}-4\w{3}-[89ab]\w{3}-\w{12}\.json")
MINE = {"name": "mine", "repository": "me/mine", "yaml": "tasks/mine.yaml", "metric": "exact_match"}
MINE |= {"question": "q", "answer": "a", "licence": "MIT"}
FILES = {
    "data/me/mine/default/test.jsonl": '{"q": "How many wheels have three carts and two carriages?", "a": "20"}\n',
    "tasks/mine.yaml": "include: all.yaml\ntask: mine\n",
    "tasks/all.yaml": """
dataset_path: me/mine
test_split: test
output_type: generate_until
doc_to_text: '{{q}}'
doc_to_target: '{{a}}'
generation_kwargs: {max_gen_toks: 4}
metric_list: [{metric: exact_match}]
""",
}
CONTROL = load_study("control")  # whose models are in a file of code


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of two checkpoints and a benchmark of its own, that was run with a
    mirror."""
    folder = tmp_path_factory.mktemp("studies")
    path = str(small_study(folder, checkpoints=2))
    root = str(with_data(folder / "run"))
    content = yaml.safe_load(Path(path).read_text())
    content["evaluation"]["benchmarks"] = ["builtin", MINE]
    Path(path).write_text(yaml.safe_dump(content))
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert main(["run", path, "--root", root, "--plain", "--mirror", str(folder / "data")]) == 0
    assert (
        main(["publish", path, str(folder / "home" / "out"), "--root", root, "--owner", "me"]) == 0
    )
    return folder / "home" / "out"


def at_home(published: Path, *command: str, **more: str) -> str:
    """What a command prints, with nothing in the home but the published folder."""
    environment = {
        "HOME": str(published.parent),
        "PATH": os.defpath,
        "OMP_NUM_THREADS": "1",
        **more,
    }
    done = subprocess.run(
        command, cwd=published.parent, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(published: Path) -> list[Path]:
    return sorted((published / "evaluations").glob("data/*/*/*/*"))


@pytest.mark.slow
def test_evaluations_keep_to_the_schema_of_every_eval_ever(published: Path) -> None:
    results, asked = (
        published / "results.duckdb",
        "from evaluations where metric in ('acc', 'exact_match')",
    )
    accuracies = {(row.tokens, row.task): row.value for row in query(results, asked).itertuples()}
    told, public = {}, []
    for path in records(published):
        record = json.loads(path.read_text())
        jsonschema.Draft7Validator(SCHEMA).validate(record)
        public.append(record["model_info"]["additional_details"]["model_availability"])
        assert PLACE.fullmatch(str(path.relative_to(published / "evaluations")))
        for result in record["evaluation_results"]:
            config, score = result["metric_config"], result["score_details"]["score"]
            assert config["lower_is_better"] == (config["metric_id"] == "bits_per_byte")
            if config["metric_id"] == "accuracy":
                told[
                    int(record["model_info"]["additional_details"]["tokens"]),
                    result["evaluation_name"],
                ] = score
    assert told == accuracies
    assert sorted(public) == ["open_weights", "unknown"], "of two checkpoints the last is published"


@pytest.mark.slow
@pytest.mark.skipif(
    not importlib.util.find_spec("every_eval_ever"), reason="needs the extra `publish`, Python 3.12"
)
def test_every_eval_evers_own_validator_accepts_the_evaluations(published: Path) -> None:
    command = [sys.executable, "-m", "every_eval_ever", "validate", *map(str, records(published))]
    assert "2 passed, 0 warning-only, 0 failed" in subprocess.check_output(command, text=True)


@pytest.mark.slow
def test_report_and_comparison_work_in_an_empty_home(published: Path) -> None:
    dreamer, page = (
        str(Path(sys.executable).with_name("dreamer")),
        published / "report" / "index.html",
    )
    page.unlink()
    assert at_home(published, dreamer, "report", "out") == "out/report/index.html\n"
    assert "<title>" in page.read_text()
    shutil.copy(published / "results.duckdb", published.parent / "again.duckdb")
    assert re.search(
        r"LA +2 .* \+0\.000\n", at_home(published, dreamer, "compare", "out", "again.duckdb")
    )


@pytest.mark.slow
def test_the_ten_lines_of_a_models_card_run(published: Path) -> None:
    (folder,) = (published / "models").glob("*/*")
    card = ModelCard.load(folder / "README.md")
    (lines,) = re.findall(r"```python\n(.*?)```", card.text, re.DOTALL)
    assert len(lines.splitlines()) <= 10
    where = f"import os; os.chdir({str(folder)!r})\n"
    said = at_home(published, sys.executable, "-c", where + lines).splitlines()
    right, wrong = json.loads(said[-1].replace("(", "[").replace(")", "]").lower())
    assert right[0] < 0
    assert wrong[0] < 0


@pytest.mark.slow
def test_study_and_cards_are_whole_and_name_nothing_of_this_machine(published: Path) -> None:
    (study_id,) = query(published / "results.duckdb", "from studies")["study_id"]
    assert load_study(published / "study.yaml").study_id == study_id
    card = DatasetCard.load(published / "README.md")
    assert all((published / one["data_files"]).exists() for one in card.data.to_dict()["configs"])
    assert "| world | data | builtin/world | - | Apache-2.0 |" in card.text
    assert "| mine | benchmark | me/mine | - | MIT |" in card.text
    tasks = {
        str(path.relative_to(published)): path.read_text() for path in published.glob("tasks/*")
    }
    assert tasks == {name: text for name, text in FILES.items() if name in tasks}
    assert len(tasks) == 2, "with the file that the task includes"
    assert yaml.safe_load((published / "CITATION.cff").read_text())["authors"] == [{"name": "me"}]
    assert json.loads((published / "environment.json").read_text())["packages"]["torch"]
    places = str(published.parents[1]).encode()
    assert [
        path for path in published.rglob("*") if path.is_file() and places in path.read_bytes()
    ] == []


def results_of(study_id: str) -> dict[str, list]:
    """The tables of a study of two models."""
    tables: dict[str, list] = {
        "studies": [study() | {"study_id": study_id}],
        "models": [],
        "runs": [],
    }
    for name in ("LA", "DR"):
        tables["models"].append(model_row(f"{name}-2", name, 2) | {"study_id": study_id})
        tables["runs"].append(run_row(name, f"{name}-2") | {"study_id": study_id})
    return tables | evaluations("LA", RIGHT["LA"], ["world_choice"])


@pytest.mark.slow
def test_code_goes_with_its_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entered(tmp_path / "run" / "results.duckdb", results_of(CONTROL.study_id))
    command = [
        "publish",
        "control",
        str(tmp_path / "out"),
        "--root",
        str(tmp_path / "run"),
        "--checkpoints",
    ]
    assert main([*command, "last"]) == 2
    assert "no trained models; --checkpoints none publishes" in capsys.readouterr().err
    assert main([*command, "none"]) == 0
    assert (
        f"hf upload OWNER/control {tmp_path / 'out'} . --repo-type dataset\n"
        in capsys.readouterr().out
    )
    assert load_study(tmp_path / "out" / "study.yaml").study_id == CONTROL.study_id
    assert "dreamer run out/study.yaml --trust-code" in (tmp_path / "out" / "README.md").read_text()
    assert main([*command, "none"]) == 2
    assert "exists already" in capsys.readouterr().err
    (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    assert main([*command, "none"]) == 2
    assert "exists already" in capsys.readouterr().err


def all_text(path: Path) -> str:
    """What a published file says, also in tables that are compressed."""
    if path.suffix == ".parquet":
        return str(pq.read_table(path).to_pylist())
    if path.suffix == ".duckdb":
        tables = [query(path, f"from {name}") for name in ("answers", "studies", "items")]
        return str([table.to_dict("records") for table in tables])
    return path.read_text(errors="replace")


OWN = {
    "own": {"repository": "me/own", "task": "own"},
    "not_for_sale": {"repository": "me/paid", "task": "paid", "licence": "CC-BY-NC-4.0"},
    "gated": {"repository": "them/gated", "task": "asked", "licence": "not stated"},
}


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], pytest.param(["--answers"], marks=pytest.mark.slow)])
def test_only_answers_of_built_in_benchmarks_are_published_and_the_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    path = small_study(tmp_path)
    content = yaml.safe_load(path.read_text())
    own = [
        {"name": name, "metric": "acc", "question": "q", **fields} for name, fields in OWN.items()
    ]
    content["evaluation"]["benchmarks"] = ["builtin", "gsm8k", *own]
    path.write_text(yaml.safe_dump(content))
    planned = load_study(str(path))
    tables = results_of(planned.study_id)
    asked = ["world_choice", "gsm8k", *OWN]
    examples = {task: [f"asked of {task}?", f"right of {task}"] for task in asked}
    tables["studies"] = [study({"examples": examples, "packages": {}})]
    tables["studies"][0]["study_id"] = planned.study_id
    tables["answers"] = [
        {
            **{"run_id": "LA", "tokens": POINTS[-1], "task": task, "item_id": f"{task}/0"},
            **{"question": f"asked of {task}?", "gold": f"right of {task}", "text": "3"},
        }
        for task in asked
    ]
    entered(tmp_path / "run" / "results.duckdb", tables)
    out = tmp_path / "out"
    arguments = ["--root", str(tmp_path / "run"), "--checkpoints", "none", *more]
    assert main(["publish", str(path), str(out), *arguments]) == 0
    said = capsys.readouterr().out
    texts = [all_text(file) for file in out.rglob("*") if file.is_file()]
    found = [
        task
        for task in asked
        if any(f"asked of {task}?" in text or f"right of {task}" in text for text in texts)
    ]
    if more:
        assert found == asked
        assert "without the questions" not in said
    else:
        assert found == ["world_choice"]
        without = "without the questions and answers of gated, gsm8k, not_for_sale, own"
        assert f"{without}, which --answers publishes too" in " ".join(said.split())


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--answers"]])
def test_few_shot_samples_and_the_study_of_data_like(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    other = small_study(tmp_path)
    (tmp_path / "tasks").mkdir()
    shots = "fewshot_config: {samples: [{q: 'Which shot?', a: This one}]}\n"
    (tmp_path / "tasks" / "mine.yaml").write_text(FILES["tasks/all.yaml"] + f"task: mine\n{shots}")
    content = yaml.safe_load(other.read_text())
    overrides = {"num_fewshot": 1, "fewshot_config": {"samples": [{"q": "Which shot in it?"}]}}
    own = {"metric": "acc", "question": "q", "repository": "me/own", "split": "test"}
    content["evaluation"]["benchmarks"] = [
        "builtin",
        {**own, "name": "by_file", "yaml": "tasks/mine.yaml"},
        {**own, "name": "overridden", "task": "own", "overrides": overrides},
    ]
    del content["data"]["tokenizer"]
    content["data"]["like"] = str(other)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    entered(tmp_path / "run" / "results.duckdb", results_of(load_study(str(path)).study_id))
    out = tmp_path / "out"
    arguments = ["--root", str(tmp_path / "run"), "--checkpoints", "none", *more]
    assert main(["publish", str(path), str(out), *arguments]) == 0
    said = " ".join(capsys.readouterr().out.split())
    texts = "".join(all_text(file) for file in out.rglob("*") if file.is_file())
    assert ("Which shot?" in texts) is bool(more)
    assert ("Which shot in it?" in texts) is bool(more)
    without = "without the questions and answers of by_file, overridden, which --answers"
    assert (without in said) is not bool(more)
    published = load_study(str(out / "study.yaml"))
    assert published.data.like == "like/study.yaml"
    assert load_study(str(out / "like" / "study.yaml")).study_id == load_study(str(other)).study_id
    assert str(tmp_path) not in texts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("results", "more", "said"),
    [
        ("", [], "no results yet; `dreamer run"),
        ("control-changed", ["--checkpoints", "none"], f"holds no results of {CONTROL.study_id}"),
        (CONTROL.study_id, ["--owner", "me/mine"], "a name on the hub has letters"),
    ],
)
def test_what_cannot_be_published_is_said_in_a_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], results: str, more: list[str], said: str
) -> None:
    if results:
        entered(tmp_path / "run" / "results.duckdb", results_of(results))
    assert (
        main(["publish", "control", str(tmp_path / "out"), "--root", str(tmp_path / "run"), *more])
        == 2
    )
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not list(tmp_path.glob("out*"))
