"""The evaluation process: rows as the tables want them, whole or not at all, each once."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
import torch

from dreamer_study.model.evaluate import evaluate, main
from dreamer_study.model.evaluation.held_out import HeldOutTask
from dreamer_study.model.evaluation.job import read_job
from dreamer_study.model.evaluation.language_model import LanguageModel, load_language_model
from dreamer_study.model.evaluation.lm_eval_tasks import LmEvalTask
from dreamer_study.model.evaluation.metrics import (
    MetricValues,
    TaskScores,
    bits_per_unit,
    perplexity,
    tables,
)
from dreamer_study.model.processes import HOPELESS
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.integrity import damage, read_manifest
from dreamer_study.pipeline.tokens.tokenizer import PROMPT
from dreamer_study.pipeline.worlds.tasks import world_items, world_specifications
from tests.model.evaluation.evaluation_world import (
    ITEMS,
    USERS_TASK,
    checkpoint,
    evaluated,
    held_out,
    held_out_specifications,
    plain_log_likelihood,
    rows,
    save_small_model,
    small_model,
    world_rows,
    write_data,
    write_items,
    write_job,
    write_place,
)
from tests.model.packed_folder import write_packed
from tests.model.saved_files import save_model

KEYS = ["run_id", "tokens", "task", "metric", "filter"]
RAW_EVALUATIONS = [*KEYS, "value", "stderr", "items", "chance"]
EVALUATIONS = [*RAW_EVALUATIONS, "task_version"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = write_place(tmp_path_factory.mktemp("place"))
    save_small_model(place / "narrow", vocabulary_size=100)
    return place


@pytest.mark.slow
def test_rows_are_those_of_the_tables(place: Path) -> None:
    folders = evaluated(write_job(place, "rows"))
    assert folders == [place / "rows" / "run" / str(tokens) for tokens in (500, 1000)]
    for folder, tokens in zip(folders, (500, 1000), strict=True):
        assert pq.read_schema(folder / "world_short" / "evaluations.parquet").names == EVALUATIONS
        assert pq.read_schema(folder / "world_short" / "items.parquet").names == [
            *KEYS,
            "item_id",
            "value",
        ]
        evaluations, items = rows(folder, "evaluations"), rows(folder, "items")
        assert {(row["run_id"], row["tokens"]) for row in evaluations + items} == {("run", tokens)}
        assert {(row["task"], row["metric"], row["filter"]) for row in evaluations} == {
            ("world_short", "exact_match", "strip"),
            ("world_long", "exact_match", "strip"),
            ("world_choice", "acc", "none"),
            *(
                (f"world_{kind}", "gold_bits_per_byte", "none")
                for kind in ("short", "long", "choice")
            ),
            *(("world_text", f"{unit}_perplexity", "none") for unit in ("word", "byte", "token")),
            ("world_text", "bits_per_byte", "none"),
        }
        for row in evaluations:
            assert (row["items"], row["task_version"]) == (ITEMS, "1.0")
            chance = {"world_short": 0.1, "world_long": 0.1, "world_choice": 0.25}.get(row["task"])
            assert row["chance"] == (None if row["metric"] == "gold_bits_per_byte" else chance)
            own = [
                i for i in items if all(i[key] == row[key] for key in ("task", "metric", "filter"))
            ]
            assert [item["item_id"] for item in own] == [
                f"{row['task']}/{number}" for number in range(ITEMS)
            ]
            if row["task"] != "world_text":
                assert row["value"] == pytest.approx(sum(item["value"] for item in own) / ITEMS)
    assert not [*(place / "rows").rglob("*.partial"), *(place / "rows").rglob("*.lock")]


@pytest.mark.slow
def test_progress_counts_the_requests_of_the_checkpoint_in_hand(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    def write(_: Path, text: str, **options: bool) -> None:
        values = json.loads(text)
        told.append((values["done"], values["total"]))

    monkeypatch.setattr("dreamer_study.model.evaluate.TELL_SECONDS", 0)
    monkeypatch.setattr("dreamer_study.model.evaluate.write_text_atomically", write)
    tasks = world_specifications(place / "world")
    evaluated(write_job(place, "told", tasks=tasks, depths=[2]))
    # at another depth too
    built = [LmEvalTask(task, cache=place) for task in tasks]
    asked = 2 * sum(len(requests) for task in built for requests in task.requests.values())
    assert max(told) == (asked, asked)
    assert told[-1] == (0, 0)
    assert all(done <= total for done, total in told)


@pytest.mark.slow
def test_whole_texts_are_asked_and_scored_as_by_lm_eval(place: Path, tmp_path: Path) -> None:
    texts = [
        {"id": row["id"], "prompt": "", "target": f"{row['prompt']} {row['response']}"}
        for row in world_rows(place / "world", "world_text")
    ]
    path = write_items(tmp_path / "texts.jsonl", texts)
    (described,) = [
        task for task in world_specifications(place / "world") if task["benchmark"] == "world_text"
    ]
    by_lm_eval = LmEvalTask(described, cache=place)
    held_out_texts = HeldOutTask(held_out(path, "world_text"))
    assert held_out_texts.requests == by_lm_eval.requests
    answers = {"loglikelihood_rolling": [(-1.0 - n, n + 1) for n in range(len(texts))]}
    expected, scored = (
        tables("run", 5, [task.score(answers)]) for task in (by_lm_eval, held_out_texts)
    )
    pd.testing.assert_frame_equal(scored["items"].to_pandas(), expected["items"].to_pandas())
    values, own = (each["evaluations"].to_pandas() for each in (expected, scored))
    pd.testing.assert_frame_equal(
        own.drop(columns="task_version"), values.drop(columns="task_version")
    )


@pytest.mark.slow
def test_answers_are_kept_where_the_job_asks_for_them_and_are_what_was_scored(place: Path) -> None:
    tasks = world_specifications(place / "world")
    checkpoints = [checkpoint(0), checkpoint(1) | {"answers": True}]
    folders = evaluated(write_job(place, "answers", tasks=tasks, checkpoints=checkpoints))
    assert rows(folders[0], "answers") == []
    answers = rows(folders[1], "answers")
    assert {row["task"] for row in answers} == {"world_short", "world_long", "world_choice"}
    names = ("exact_match", "acc")
    scored = {
        row["item_id"]: row["value"] for row in rows(folders[1], "items") if row["metric"] in names
    }
    assert {row["item_id"]: float(row["text"] == row["gold"]) for row in answers} == scored
    assert sum(scored.values()) > 0
    assert all(
        row["question"].startswith("Question: ") and row["run_id"] == "run" for row in answers
    )
    left_out = [{**task, "left_out": [f"{task['benchmark']}/0"]} for task in tasks]
    late = evaluated(
        write_job(
            place, "answers-late", tasks=left_out, checkpoints=[checkpoint(1) | {"answers": True}]
        )
    )
    assert rows(late[0], "answers") == [row for row in answers if not row["item_id"].endswith("/0")]


def test_scores_of_held_out_documents(tmp_path: Path) -> None:
    """Of whole texts the perplexities; bits per byte alone where one is asked after a prompt."""

    def scores(items: list[dict[str, Any]], answers: dict[str, Any]) -> dict[str, Any]:
        task = HeldOutTask(held_out(write_items(tmp_path / "items.jsonl", items)))
        return {measure.metric: measure.findings for measure in task.score(answers).measures}

    whole = {"id": "a", "prompt": "", "target": "one two"}
    of_whole = scores([whole], {"loglikelihood_rolling": [(-3.0, 4)]})
    assert of_whole["word_perplexity"] == {"a": (-3.0, 2)}
    assert of_whole["byte_perplexity"] == of_whole["bits_per_byte"] == {"a": (-3.0, 7)}
    assert of_whole["token_perplexity"] == {"a": (-3.0, 4)}
    asked = {"id": "b", "prompt": "?", "target": "naïve"}
    answers = {"loglikelihood": [(-2.0, False)], "loglikelihood_rolling": [(-3.0, 4)]}
    # two bytes for ï
    assert scores([whole, asked], answers) == {"bits_per_byte": {"a": (-3.0, 7), "b": (-2.0, 6)}}


@pytest.mark.slow
def test_bits_per_byte_are_those_of_a_plain_pass(place: Path, tmp_path: Path) -> None:
    """Of gold answers, of texts after a prompt and of whole texts, each passed through the network
    alone."""
    ann, ben = (
        ("Question: Ann has 3 coins.\nAnswer:", "Ann has naïve coins."),
        ("", "Ben has 4 pens."),
    )
    lines = [{"id": prompt, "prompt": prompt, "target": target} for prompt, target in (ann, ben)]
    texts = held_out(write_items(tmp_path / "texts.jsonl", lines))
    tasks = [*world_specifications(place / "world")[:3], texts]
    (folder, _) = evaluated(write_job(place, "plain-pass", tasks=tasks))
    model = load_language_model(place / "checkpoint-0", place / "tokenizer", "cpu")

    def bits(prompt: str, text: str) -> float:
        context = model.tokenizer.encode(prompt) or [model.tokenizer.end_token]
        continuation = model.tokenizer.encode(f" {text}" if prompt else text)
        return -plain_log_likelihood(model.model, context, continuation)[0] / math.log(2)

    expected = {}
    for item in world_items(place / "world").to_pylist():
        if item["benchmark"] != "world_text":
            prompt = PROMPT.format(question=item["question"])
            expected[item["id"]] = bits(prompt, item["answer"]) / len(item["answer"])
    items, evaluations = rows(folder, "items"), rows(folder, "evaluations")
    found = {row["item_id"]: row["value"] for row in items if row["metric"] == "gold_bits_per_byte"}
    assert found == pytest.approx(expected, rel=1e-4)
    found = {row["item_id"]: row["value"] for row in items if row["task"] == "validation"}
    expected = {ann[0]: bits(*ann) / 21, ben[0]: bits(*ben) / 15}
    assert found == pytest.approx(expected, rel=1e-4)
    (row,) = [row for row in evaluations if row["task"] == "validation"]
    assert row["metric"] == "bits_per_byte"
    assert row["value"] == pytest.approx((bits(*ann) + bits(*ben)) / (21 + 15), rel=1e-4)


@pytest.mark.slow
def test_items_of_all_tasks_of_a_benchmark_are_one_pool() -> None:
    first = TaskScores(
        "math", "1.0", 0.0, [MetricValues("exact_match", "none", {"a/0": 1, "a/1": 0, "a/2": 0})]
    )
    second = TaskScores("math", "2.0", 0.0, [MetricValues("exact_match", "none", {"b/0": True})])
    (row,) = tables("r", 5, [first, second])["evaluations"].to_pylist()
    assert (row["value"], row["items"], row["task_version"]) == (0.5, 4, "1.0, 2.0")
    assert row["stderr"] == pytest.approx(math.sqrt(1 / 3 / 4))  # of 1, 0, 0, 1
    (row,) = tables("r", 5, [second])["evaluations"].to_pylist()
    assert (row["value"], row["stderr"]) == (1.0, None)


def test_items_of_two_tasks_of_a_benchmark_must_not_have_one_id() -> None:
    one, other = (
        TaskScores(
            "math", None, 0.0, [MetricValues("acc", "none", {"1": value})], data_version=version
        )
        for value, version in ((1, "a"), (0, "b"))
    )
    with pytest.raises(InputError, match=r"benchmark math: .*'1'"):
        tables("r", 5, [one, other])
    # one file of items, named by two tasks
    (row,) = tables("r", 5, [one, one])["evaluations"].to_pylist()
    assert row["items"] == 1


def test_measures_of_a_corpus() -> None:
    findings = {"t/0": (-10.0, 5), "t/1": (-2.0, 5), "t/2": (0.0, 0)}
    measures = [
        MetricValues("word_perplexity", "none", findings, perplexity, single=True),
        MetricValues("bits_per_byte", "none", findings, bits_per_unit, single=True),
        MetricValues("f1", "none", {"t/0": (1, 0)}, lambda pairs: 0.25),
        MetricValues("byte_perplexity", "none", {"t/0": (-10000.0, 1)}, perplexity, single=True),
    ]
    found = tables("r", 5, [TaskScores("text", None, None, measures)])
    values = {row["metric"]: row["value"] for row in found["evaluations"].to_pylist()}
    assert values == {
        "word_perplexity": pytest.approx(math.exp(1.2)),
        "bits_per_byte": pytest.approx(1.2 / math.log(2)),
        "f1": 0.25,
        "byte_perplexity": math.inf,
    }
    assert all(row["stderr"] is None for row in found["evaluations"].to_pylist())
    items = {(row["metric"], row["item_id"]): row["value"] for row in found["items"].to_pylist()}
    assert items["word_perplexity", "t/0"] == pytest.approx(math.exp(2))
    assert ("word_perplexity", "t/2") not in items  # an empty document has none of its own
    assert ("f1", "t/0") not in items
    assert found["items"].schema.field("value").type == pa.float64()


@pytest.mark.slow
def test_what_is_there_is_not_evaluated_again(place: Path) -> None:
    path = write_job(place, "again", tasks=world_specifications(place / "world")[:2])
    folders = evaluate(read_job(path))
    assert [folder.name for folder in folders] == ["world_short", "world_long"] * 2
    before = [folder.stat().st_ino for folder in folders]
    kept = rows(folders[3].parent, "items")
    shutil.rmtree(folders[3])
    # What a killed process leaves is neither taken for a result nor in the way.
    (half := folders[3].with_name("world_long.partial")).mkdir()
    (half / "items.parquet").write_text("half")
    folders[3].with_name("world_long.lock").touch()
    assert evaluate(read_job(path)) == folders
    assert [folder.stat().st_ino for folder in folders[:3]] == before[:3]
    assert rows(folders[3].parent, "items") == kept
    assert sorted(found.name for found in folders[3].parent.iterdir()) == [
        "world_long",
        "world_short",
    ]


@pytest.mark.slow
def test_a_task_that_was_edited_is_read_again(place: Path) -> None:
    """Its file, the module of its functions, and its data."""
    seen, task = [], {"benchmark": "edited", "task": "shapes", "yaml": str(place / "task.yaml")}
    for word in ("one", "two"):
        text = USERS_TASK.replace('"{{question}}"', "!function words.prompt").replace(
            "{{answer}}", word
        )
        (place / "task.yaml").write_text(text)
        (place / "words.py").write_text(f"def prompt(item): return '{word} ' + item['question']")
        asked = {
            **task,
            "dataset_path": str(write_data(place / "edited", "default", test=[{"question": word}])),
        }
        one = {**checkpoint(0), "answers": True}
        path = write_job(place, f"edited-{word}", tasks=[asked], checkpoints=[one], trust_code=True)
        seen += [(row["question"], row["gold"]) for row in rows(evaluated(path)[0], "answers")]
    assert seen == [("one one", "one"), ("two two", "two")]


@pytest.mark.slow
def test_a_job_makes_the_outputs_that_it_names(place: Path) -> None:
    output = {"folder": str(place / "kept" / "elsewhere"), "configuration": {"limit": 2}}
    one = {**checkpoint(0), "outputs": {"world_long": output}}
    evaluated(
        write_job(
            place,
            "by-name",
            checkpoints=[one],
            tasks=world_specifications(place / "world"),
            limit=2,
        )
    )
    manifest = read_manifest(place / "kept" / "elsewhere")
    assert manifest["configuration"] == output["configuration"]
    assert manifest["files"].keys() == {
        "evaluations.parquet",
        "evaluation_versions.parquet",
        "items.parquet",
    }
    assert damage(place / "kept" / "elsewhere") == {}
    assert {(row["task"], row["items"]) for row in rows(place / "kept", "evaluations")} == {
        ("world_long", 2)
    }
    assert [path.name for path in (place / "by-name").iterdir()] == ["progress.json"]


@pytest.mark.slow
def test_items_of_a_late_benchmark_that_stand_in_the_data_are_left_out(place: Path) -> None:
    """From the items and from the value; nothing is said of a benchmark that is all there."""
    ids = [f"world_choice/{number}" for number in range(ITEMS)]
    short, _, choices, _ = world_specifications(place / "world")
    for number, left_out in enumerate((ids[1:4], ids)):
        asked = [{**choices, "left_out": left_out}, short]
        (folder,) = evaluated(
            write_job(place, f"late-{number}", tasks=asked, checkpoints=[checkpoint(0)])
        )
        items, found = rows(folder, "items"), rows(folder, "evaluations")
        kept = [row for row in items if (row["task"], row["metric"]) == ("world_choice", "acc")]
        assert [row["item_id"] for row in kept] == [item for item in ids if item not in left_out]
        values = {
            row["metric"]: (row["value"], row["items"])
            for row in found
            if row["task"] == "world_choice"
        }
        assert values.keys() == ({"acc", "gold_bits_per_byte"} if kept else set())
        if kept:
            mean = sum(row["value"] for row in kept) / len(kept)
            assert values["acc"] == (pytest.approx(mean), len(kept))
        assert len([row for row in items if row["task"] == "world_short"]) == 2 * ITEMS


@pytest.mark.slow
def test_what_models_attend_to_is_observed(place: Path) -> None:
    """On rows of the packed tokens; never without being asked to."""
    write_packed(place / "packed", [[[(3, 20), (4, 30)], [(5, 50)]] * 40], 64, vocabulary_size=300)
    tasks = world_specifications(place / "world")[:1]
    folders = evaluated(write_job(place, "seen", tasks=tasks, observe="packed"))
    for folder, tokens in zip(folders, (500, 1000), strict=True):
        attention, usage = rows(folder, "depth_attention"), rows(folder, "expert_usage")
        assert list(attention[0]) == ["run_id", "tokens", "query_depth", "key_depth", "score"]
        assert list(usage[0]) == ["run_id", "tokens", "depth", "expert", "selections"]
        assert {(row["run_id"], row["tokens"]) for row in attention + usage} == {("run", tokens)}
        assert len(attention) == 1 + 2 + 3
        assert len(usage) == 3 * 5  # depths and experts
        for depth in (1, 2, 3):
            assert sum(
                row["score"] for row in attention if row["query_depth"] == depth
            ) == pytest.approx(1)
        # 80 rows with 48 or 50 real tokens each, every one choosing 2 experts at each depth.
        assert sum(row["selections"] for row in usage) == 3 * 2 * 40 * (57 + 55)
    assert not rows(evaluated(write_job(place, "unobserved", tasks=tasks))[0], "expert_usage")


@pytest.mark.slow
def test_other_depths(place: Path) -> None:
    """A recurrent model is also run at other depths; the trained one is there to compare with.
    Layered ones are not."""
    save_small_model(place / "layered", recurrent=False, depth_attention=False, sequence_length=256)
    checkpoints = [checkpoint(1), checkpoint(1, "layered", run_id="layered")]
    tasks = world_specifications(place / "world")
    path = write_job(place, "depths", tasks=tasks, checkpoints=checkpoints, depths=[2, 3, 5])
    recurrent, layered = evaluated(path)
    assert not rows(layered, "depth_evaluations")
    found = rows(recurrent, "depth_evaluations")
    assert list(found[0]) == ["run_id", "tokens", "depth", *RAW_EVALUATIONS[2:]]
    own = [{**row, "depth": 3} for row in rows(recurrent, "evaluations")]
    for row in own:
        del row["task_version"]
    assert [row for row in found if row["depth"] == 3] == own
    assert len(found) == 3 * len(own)
    # Each number is what a plain pass at that depth gives, item by item.
    model = load_language_model(place / "checkpoint-1", place / "tokenizer", "cpu")
    items = world_rows(place / "world", "world_choice")
    values = {row["depth"]: row["value"] for row in found if row["metric"] == "acc"}
    for depth in (2, 3, 5):
        right = 0
        for item in items:
            prompt = model.tokenizer.encode(item["prompt"])
            options = [model.tokenizer.encode(f" {choice}") for choice in item["choices"]]
            likely = [
                plain_log_likelihood(model.model, prompt, option, depth)[0] for option in options
            ]
            right += likely.index(max(likely)) == item["answer"]
        assert values[depth] == pytest.approx(right / len(items))


@pytest.mark.slow
def test_averaged_weights_are_evaluated_and_raw_ones_beside_them(place: Path) -> None:
    """Rows of the averaged weights are those of a model that has nothing else, and so are the raw
    ones."""
    averaged, raw = (small_model(seed, sequence_length=256) for seed in (1, 0))
    save_model(place / "averaging", raw, {}, averaged.state_dict())
    found, tasks = {}, world_specifications(place / "world")
    for name, path, settings in (
        ("both", "averaging", {"weights": "both", "depths": [2]}),
        ("only-averaged", "averaging", {}),
        ("only-raw", "averaging", {"weights": "raw"}),
        ("raw-alone", "checkpoint-0", {"weights": "both"}),
        ("averaged-alone", "checkpoint-1", {}),
    ):
        (folder,) = evaluated(
            write_job(place, name, tasks=tasks, checkpoints=[checkpoint(0, path)], **settings)
        )
        found[name] = {table.stem: rows(folder, table.stem) for table in folder.glob("*/*.parquet")}
    averages = {"both", "only-averaged"}
    for name, written in found.items():
        assert {row["weights"] for row in written["evaluation_versions"]} == {
            "averaged" if name in averages else "raw"
        }
    assert {name for name, written in found.items() if "raw_evaluations" in written} == {"both"}
    for name, alone in (
        ("both", "averaged-alone"),
        ("only-averaged", "averaged-alone"),
        ("only-raw", "raw-alone"),
    ):
        assert found[name]["items"] == found[alone]["items"]
    beside = found["both"]["raw_evaluations"]
    assert list(beside[0]) == RAW_EVALUATIONS
    assert beside == [
        {name: row[name] for name in RAW_EVALUATIONS} for row in found["only-raw"]["evaluations"]
    ]
    own = [row for row in found["both"]["depth_evaluations"] if row["depth"] == 3]
    assert [row["value"] for row in own] == [
        row["value"] for row in found["only-averaged"]["evaluations"]
    ]


@pytest.mark.slow
def test_versions_of_code_data_and_packages(place: Path, tmp_path: Path) -> None:
    def versions(
        name: str, world: Path = place / "world", limit: int = 3, **changes: Any
    ) -> list[dict[str, Any]]:
        changes = {
            "tasks": world_specifications(world),
            "checkpoints": [checkpoint(0)],
            "limit": limit,
            **changes,
        }
        (folder,) = evaluated(write_job(place, name, **changes))
        return rows(folder, "evaluation_versions")

    found = versions("versions")
    assert [row["task"] for row in found] == [
        "world_choice",
        "world_long",
        "world_short",
        "world_text",
    ]
    (texts,) = versions("versions-held-out", tasks=held_out_specifications(place, 1))
    assert texts["harness_version"] == "plain items"
    for row in found:
        assert re.fullmatch(r"\S+ .*sources [0-9a-f]{12}", row["code_version"])
        assert row["harness_version"] == f"lm-eval {metadata.version('lm-eval')}"
        assert json.loads(row["packages"])["torch"] == metadata.version("torch")
        assert re.fullmatch("[0-9a-f]{16}", row["data_version"])
    # The same items elsewhere have the same version, others another.
    shutil.copytree(place / "world", tmp_path / "world")
    moved, fewer = (
        versions("moved", tmp_path / "world"),
        versions("fewer", tmp_path / "world", limit=2),
    )
    first, same, other = ([row["data_version"] for row in each] for each in (found, moved, fewer))
    assert first == same
    assert not {*first} & {*other}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": "nowhere"}, "tokenizer: no file .*nowhere"),
        ({"checkpoints": [checkpoint(0, "nowhere")]}, "no model in .*nowhere"),
        (
            {"checkpoints": [checkpoint(0, "narrow")]},
            r"narrow: the model has 100 tokens, but the tokenizer has \d+",
        ),
        ({"checkpoints": [{"run_id": "r", "path": "x"}]}, r"checkpoints\.0\.tokens is missing"),
        ({"checkpoints": [checkpoint(0, run_id="../r")]}, r"checkpoints\.0\.run_id is '\.\./r'"),
        ({"checkpoints": []}, r"checkpoints is \[\]"),
        ({"limit": 0}, "limit is 0"),
        ({"depths": [0]}, r"depths\.0 is 0"),
        ({"weights": "mean"}, "weights is 'mean', .*'averaged', 'raw', 'both' or 'branches'"),
        ({"observe": "nowhere"}, "no packed data in .*nowhere"),
        ({"limits": 3}, "unknown key 'limits'; did you mean 'limit'"),
        ({"device": "abacus"}, "device is 'abacus'"),
    ],
)
def test_bad_jobs_get_one_line(
    place: Path, changes: dict[str, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    tasks = {"tasks": held_out_specifications(place, 1)}
    assert main([str(write_job(place, f"bad-{'-'.join(changes)}", **{**tasks, **changes}))]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert re.search(message, said), said


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """A function that gives the device a memory of so many tokens; the sizes of batches that are
    tried from then on."""
    sizes: list[int] = []
    enough = LanguageModel.generate

    def of(tokens: int) -> list[int]:
        def scarce(model: LanguageModel, *asked: Any) -> list[str]:
            sizes.append(model.batch_tokens)
            if model.batch_tokens > tokens:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return enough(model, *asked)

        monkeypatch.setattr(LanguageModel, "generate", scarce)
        return sizes

    return of


@pytest.mark.slow
def test_memory_that_is_too_small_is_met_with_smaller_batches(
    place: Path, memory: Callable[[int], list[int]], capfd: pytest.CaptureFixture[str]
) -> None:
    """For all checkpoints, also those of later jobs that ask the same; too small for a sequence is
    one line."""
    tasks, tried = world_specifications(place / "world")[:1], memory(5000)
    for name in ("requests", "more-requests"):
        evaluate(read_job(write_job(place, name, tasks=tasks)), keep=True)
    assert tried == [16_384, 8192, *[4096] * 4]
    memory(0)
    path = write_job(place, "none-left", tasks=tasks)
    assert main([str(path)]) == HOPELESS
    assert tried[-1] == 256
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"{path}: the device has too little free memory")


@pytest.mark.slow
def test_texts_are_encoded_once_for_all_checkpoints_and_depths(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    encode = tokenizers.Tokenizer.encode

    def counted(codec: tokenizers.Tokenizer, text: str, **options: Any) -> Any:
        encoded.append(text)
        return encode(codec, text, **options)

    monkeypatch.setattr(tokenizers.Tokenizer, "encode", counted)
    monkeypatch.setattr("dreamer_study.model.evaluate._kept", {})
    for name in ("encoded", "encoded-too"):
        evaluate(
            read_job(
                write_job(place, name, tasks=world_specifications(place / "world"), depths=[2])
            ),
            keep=True,
        )
    assert len(encoded) == len(set(encoded)) > 0
