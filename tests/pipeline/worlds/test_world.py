"""Built-in problems: their families and their truth."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.worlds import relations, sums, swaps
from pipeline.worlds.planting import EDITS, edited
from pipeline.worlds.problem import DIGITS, Problem, grams, jaccard, words
from pipeline.worlds.settings import WorldSettings
from pipeline.worlds.sums import GAINS
from pipeline.worlds.tasks import world_items, world_specifications
from pipeline.worlds.world import WORLD_SOURCE, write_world


def solve(question: str) -> list[int]:
    """Work out the values on the way to the answer, the answer at the end."""
    if "under cup" in question:
        return _follow_cups(question)
    if " than " in question:
        return _follow_people(question)
    start, *changes = re.findall(r"(?:\w+ )+?(\w+) (\d)", question)
    values = [int(start[1])]
    for verb, change in changes:
        values.append(values[-1] + (int(change) if verb in GAINS else -int(change)))
    return values


def _follow_people(question: str) -> list[int]:
    found = {name: (int(number), "", "") for name, number in re.findall(r"(\w+) (?:has|owns) (\d) \w+\.", question)}
    pattern = r"(\w+) (?:has|owns) (\d) (more|less) than (\w+)\."
    for name, number, direction, other in re.findall(pattern, question):
        found[name] = (int(number), direction, other)
    name = re.findall(r"has (\w+)\?$", question)[0]
    changes = []
    while name:
        number, direction, name = found[name]
        changes.insert(0, -number if direction == "less" else number)
    return [sum(changes[: place + 1]) for place in range(len(changes))]


def _follow_cups(question: str) -> list[int]:
    values = [int(re.findall(r"under cup (\d)", question)[0])]
    for pair in re.findall(r"swaps cups (\d) and (\d)", question):
        first, second = map(int, pair)
        values.append({first: second, second: first}.get(values[-1], values[-1]))
    return values


LONG = WorldSettings(longest=12, hops=4, distractors=2, swaps=6)
ANSWERS = {"sums": DIGITS, "relations": DIGITS, "swaps": tuple(map(str, swaps.CUPS))}
each_family = pytest.mark.parametrize("family", ANSWERS)
seeds = st.integers(0, 10**6)


def draw(family: str, seed: int, steps: int) -> Problem:
    return LONG.family(family).draw(Random(seed), steps)


@each_family
@given(seed=seeds, part=st.sampled_from(("all", "short", "long")))
def test_answers_are_right_and_values_are_possible_answers(family: str, seed: int, part: str) -> None:
    drawn = LONG.family(family, part)
    for steps in (drawn.steps[0], drawn.steps[-1]):
        problem = drawn.draw(Random(seed), steps)
        values = solve(problem.question)
        assert len(values) == steps + 1
        assert {str(value) for value in values} <= set(ANSWERS[family])
        assert problem.answer == str(values[-1])
        assert problem.reasoning(Random(seed)).endswith(f" {problem.answer}.")
        assert problem.numbers == tuple(int(digit) for digit in re.findall(r"\d", problem.question))


@each_family
def test_answers_are_near_uniform(family: str) -> None:
    drawn = WorldSettings().family(family)
    random = Random(0)
    counts = Counter(drawn.draw(random, drawn.steps[number % len(drawn.steps)]).answer for number in range(12_000))
    assert set(counts) == set(ANSWERS[family])
    fair = 12_000 / len(counts)
    assert all(0.85 * fair < count < 1.15 * fair for count in counts.values())


@given(seeds, st.integers(1, 3))
def test_distractors_never_decide_the_answer(seed: int, steps: int) -> None:
    problem = relations.draw(Random(seed), steps, 2)
    *sentences, question = problem.question.split(". ")
    needed = [text for text, place in zip(sentences, problem.order, strict=True) if place <= steps]
    assert solve(". ".join([*needed, question])) == solve(problem.question)
    assert len(sentences) in range(1 + steps, 4 + steps)


@each_family
@given(seed=seeds)
def test_variants_in_other_numbers_keep_the_words_and_are_right(family: str, seed: int) -> None:
    problem = draw(family, seed, 3)
    other = problem.with_other_numbers(Random(seed + 1))
    if other is not None:
        assert re.sub(r"\d", "#", other.question) == re.sub(r"\d", "#", problem.question)
        assert solve(other.question)[-1] == int(other.answer)
        assert {str(value) for value in solve(other.question)} <= set(ANSWERS[family])


@each_family
@settings(max_examples=30)
@given(seed=seeds, edit=st.sampled_from(EDITS))
def test_edits_change_no_number_and_no_answer(family: str, seed: int, edit: str) -> None:
    problem = draw(family, seed, 4)
    row = edited(Random(seed), problem, edit, "near", "item")
    assert re.findall(r"\d", row.question) == re.findall(r"\d", problem.question)
    assert row.problem.answer == problem.answer
    if edit in ("verbatim", "spacing", "case", "punctuation", "latex"):
        assert words(row.question) == words(problem.question)
    else:
        assert words(row.question) != words(problem.question)


@given(seeds)
def test_sums_of_few_nouns_use_no_others(seed: int) -> None:
    story = WorldSettings(nouns=6).family("sums").draw(Random(seed), 2)
    assert story.name in ("Ann", "Mia", "Eva", "Ben", "Tom", "Sam")
    assert story.thing in sums.THINGS[:6]


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
