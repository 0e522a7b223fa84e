"""The built-in world says the truth about itself: every answer, every planted defect, and what is left clean."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from pipeline.errors import InputError
from pipeline.worlds.problem import grams, jaccard, words
from pipeline.worlds.settings import WorldSettings
from pipeline.worlds.tasks import world_items, world_specifications
from pipeline.worlds.world import WORLD_SOURCE, write_world
from tests.pipeline.worlds.solver import solve

SMALL = WorldSettings(seed=3, documents=3000, items=40)
WORLDS = {"sums": SMALL, "families": replace(SMALL, families=("sums", "relations", "swaps"))}
CONTENT = {"sums": "57e9303eacb06d43", "families": "618771057b5adaf3"}
MARK = re.compile(r"(?s)^.*</think>\s*|^.*<\|begin_of_solution\|>\s*|\s*<\|end_of_solution\|>$")


@pytest.fixture(scope="module", params=WORLDS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def world(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_world(folder, WORLDS[name])
    return folder


@pytest.fixture(scope="module")
def rows(world: Path) -> list[dict]:
    return read(world / "builtin/world/default/train.jsonl.gz")


@pytest.fixture(scope="module")
def truth(world: Path) -> list[dict]:
    return read(world / "truth.jsonl")


def read(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# --- the written world ---


def test_same_settings_same_content_other_seed_other_content(name: str, world: Path, tmp_path: Path) -> None:
    write_world(tmp_path / "again", WORLDS[name])
    files = sorted(path.relative_to(world) for path in world.rglob("*") if path.is_file())
    assert len(files) == 3 + 3 * len(world_specifications(world))
    for file in files:
        assert (tmp_path / "again" / file).read_bytes() == (world / file).read_bytes()
    write_world(tmp_path / "other", replace(WORLDS[name], seed=4))
    questions = [{row["question"] for row in read(folder / "builtin/world/short/test.jsonl.gz")} for folder in
                 (world, tmp_path / "other")]  # fmt: skip
    assert not questions[0] & questions[1]


def test_content_is_the_same_on_every_machine(name: str, rows: list[dict]) -> None:
    text = json.dumps(rows, ensure_ascii=False, sort_keys=True)
    assert hashlib.blake2b(text.encode(), digest_size=8).hexdigest() == CONTENT[name]


def test_benchmarks_do_not_depend_on_the_number_of_documents(name: str, world: Path, tmp_path: Path) -> None:
    write_world(tmp_path, replace(WORLDS[name], documents=1000))
    assert world_items(tmp_path).equals(world_items(world))


def test_every_row_is_what_the_truth_says(world: Path, rows: list[dict], truth: list[dict]) -> None:
    items = {item["id"]: item for item in world_items(world).to_pylist()}
    assert [entry["row"] for entry in truth] == list(range(len(rows))) == list(range(SMALL.documents))
    for entry, row in zip(truth, rows, strict=True):
        question, response = row["question"], row["response"]
        if entry["kind"] == "broken":
            stripped = MARK.sub("", response or "").strip()
            assert not question or not stripped or "\ufffd" in question
        elif entry["kind"] == "unclosed":
            assert response.startswith("<think>")
            assert "</think>" not in response
        else:
            assert MARK.sub("", response) == row["answer"]
            assert len(response) == 1 or entry["trace"] != "none"
        if entry["kind"] == "leak":
            assert words(question) == words(items[entry["of"]]["question"])
            assert row["answer"] == items[entry["of"]]["answer"]
        if entry["kind"] in ("exact", "near", "numbers"):
            original = rows[entry["of"]]
            assert truth[entry["of"]]["kind"] == "clean"
            both = [grams(words(f"{one['question']} {one['answer']}"), 5) for one in (row, original)]
            assert entry["similarity"] == round(jaccard(*both), 3)
        if entry["kind"] == "exact":
            assert question == original["question"]
        if entry["kind"] == "near":
            assert question != original["question"]
            assert row["answer"] == original["answer"]
            assert entry["similarity"] >= 0.72
        if entry["kind"] == "numbers":
            assert question != original["question"]
            assert re.sub(r"\d", "", question) == re.sub(r"\d", "", original["question"])


def test_shares_are_met(name: str, world: Path, rows: list[dict], truth: list[dict]) -> None:
    leaks = 4 * len(world_specifications(world))
    kinds = Counter(entry["kind"] for entry in truth)
    assert kinds == {
        "exact": 120, "near": 120, "numbers": 90, "broken": 30, "unclosed": 60, "leak": leaks, "clean": 2580 - leaks,
    }  # fmt: skip
    assert {entry["edit"] for entry in truth if entry["kind"] == "near"} == set(SMALL.near_edits)
    assert {entry["edit"] for entry in truth if entry["kind"] == "leak"} == set(SMALL.leak_edits)
    traces = Counter(entry["trace"] for entry in truth)
    assert sum(traces[kind] for kind in ("paired", "tokens", "closing")) == pytest.approx(1750, abs=120)
    repeated = Counter(entry["of"] for entry in truth if entry["of"] is not None)
    assert max(repeated.values()) == 1, "every planted pair stands alone"
    swaps = sum(" swaps cups " in row["question"].lower() for row in rows)
    assert swaps / len(rows) == pytest.approx({"sums": 0, "families": 1 / 3}[name], abs=0.03)


def test_what_is_clean_cannot_be_taken_for_a_duplicate_or_a_leak(
    world: Path, rows: list[dict], truth: list[dict]
) -> None:
    clean = [rows[entry["row"]] for entry in truth if entry["kind"] in ("clean", "numbers")]
    by_numbers = defaultdict(list)
    for row in clean:
        by_numbers[tuple(sorted(re.findall(r"\d", row["question"])))].append(
            words(f"{row['question']} {row['answer']}")
        )
    for alike in by_numbers.values():
        for pair in combinations(alike, 2):
            assert jaccard(*(grams(text, 5) for text in pair)) < 0.7
            assert jaccard(*(grams(text, 3) for text in pair)) < 0.8
    items = [
        (re.findall(r"\d", item["question"]), grams(words(item["question"]), 5))
        for item in world_items(world).to_pylist()
    ]
    for row in clean:
        digits, found = re.findall(r"\d", row["question"]), grams(words(row["question"]), 5)
        of_swaps = "swaps cups" in row["question"]  # a language so small that only equal numbers make two alike
        alike = [len(item & found) / len(item) for own, item in items if digits == own or not of_swaps]
        assert max(alike, default=0) < 0.5


def test_benchmarks_ask_what_their_names_say(world: Path) -> None:
    items = world_items(world)
    assert items.column_names == ["id", "benchmark", "question", "answer"]
    assert len(set(items["question"].to_pylist())) == len(items) == 40 * len(world_specifications(world))
    steps = {"world_short": {1, 2, 3}, "world_long": {4, 5, 6}, "world_relations": {1, 2, 3}, "world_swaps": {1, 2, 3}}
    for item in items.to_pylist():
        values = solve(item["question"])
        assert str(values[-1]) == item["answer"]
        assert len(values) - 1 in steps.get(item["benchmark"], range(1, 7))
    choices = read(world / "builtin/world/choice/test.jsonl.gz")
    assert all(len(set(row["choices"])) == 4 for row in choices)
    assert len({row["answer"] for row in choices}) == 4


def test_a_moved_world_is_still_found(tmp_path: Path) -> None:
    write_world(tmp_path / "key.partial", WorldSettings(documents=100, items=10))
    (tmp_path / "key.partial").rename(tmp_path / "key")
    specifications = world_specifications(tmp_path / "key")
    assert [each["benchmark"] for each in specifications] == ["world_short", "world_long", "world_choice", "world_text"]
    for each in json.loads(json.dumps(specifications)):
        assert Path(each["dataset_path"]).is_dir()
        assert "dataset_path" not in yaml.safe_load(Path(each["yaml"]).read_text())
        assert Path(each["plain"]).is_file()
    assert (tmp_path / "key" / WORLD_SOURCE["repository"] / "default").is_dir()
    with pytest.raises(InputError, match="no built-in world"):
        world_specifications(tmp_path)


def test_a_world_has_the_benchmarks_of_its_families(tmp_path: Path) -> None:
    write_world(tmp_path, WorldSettings(documents=100, items=10, families=("relations",)))
    tasks = {each["benchmark"]: each["chance"] for each in world_specifications(tmp_path)}
    assert tasks == {"world_text": None, "world_relations": 0.1}
    assert all(" than " in question for question in world_items(tmp_path)["question"].to_pylist())
    assert "config_name: relations" in (tmp_path / "builtin/world/README.md").read_text()
    assert "config_name: short" not in (tmp_path / "builtin/world/README.md").read_text()


# --- refusals ---


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"shortest": 0}, "shortest"),
        ({"shortest": 4, "longest": 3}, "longest=3"),
        ({"documents": 0}, "documents"),
        ({"leaked": 1.5}, "leaked"),
        ({"near_edits": ("typo",)}, "typo"),
        ({"families": ("sums", "poems")}, "poems"),
        ({"families": ()}, "at least 1 item"),
        ({"families": ("sums", "sums")}, "each family once"),
        ({"hops": 5, "distractors": 2}, "hops=5, distractors=2"),
        ({"swaps": 0}, "swaps"),
        ({"nouns": 3}, "nouns"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        WorldSettings(**values)


def test_worlds_that_cannot_be_filled_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ask for more documents or smaller shares"):
        write_world(tmp_path, WorldSettings(documents=100, exact_duplicates=0.6))
    with pytest.raises(InputError, match="near duplicate \\(word\\)"):
        write_world(tmp_path, WorldSettings(documents=500, longest=2, items=5, near_edits=("word",)))


# --- evaluation ---


def _wrong(item: dict) -> str:
    return next(choice for choice in item.get("choices", ["7 or so"]) if choice != item["target"])


@pytest.mark.slow
def test_lm_eval_asks_and_scores_as_the_plain_items_do(world: Path, tmp_path: Path) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager

    class Oracle(LM):
        """Knows all but every fourth answer."""

        def __init__(self, answers: dict[str, str]) -> None:
            super().__init__()
            self.answers = answers

        def generate_until(self, requests, disable_tqdm=False):
            return [f" {self.answers[request.args[0]]} \n" for request in requests]

        def loglikelihood(self, requests, disable_tqdm=False):
            return [(-float(request.args[1] != f" {self.answers[request.args[0]]}"), True) for request in requests]

        def loglikelihood_rolling(self, requests, disable_tqdm=False):
            return [-float(len(request.args[0].split())) for request in requests]

    for each in world_specifications(world):
        plain = read(Path(each["plain"]))
        config = {**yaml.safe_load(Path(each["yaml"]).read_text()), "dataset_path": each["dataset_path"]}
        task = ConfigurableTask(config={**config, "dataset_kwargs": {"cache_dir": str(tmp_path)}})
        answers = {item["prompt"]: item["target"] if number % 4 else _wrong(item) for number, item in enumerate(plain)}
        results = simple_evaluate(
            Oracle(answers), tasks=[task], task_manager=TaskManager(include_defaults=False), bootstrap_iters=0
        )
        value = results["results"][each["task"]][f"{each['metric']},{each['filter']}"]
        samples = results["samples"][each["task"]]
        if each["task"] == "world_text":
            assert value == pytest.approx(2.718281828)
            assert [sample["arguments"][0][0] for sample in samples] == [item["target"] for item in plain]
        else:
            assert value == 0.75
            assert [sample["arguments"][0][0] for sample in samples] == [item["prompt"] for item in plain]
