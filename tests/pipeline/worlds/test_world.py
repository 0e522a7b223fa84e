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

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.worlds import stories
from dreamer_study.pipeline.worlds.drawing import DIGITS, grams, jaccard, words
from dreamer_study.pipeline.worlds.planting import EDITS, edited
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.stories import GAINS, Story
from dreamer_study.pipeline.worlds.tasks import world_items, world_specifications
from dreamer_study.pipeline.worlds.world import WORLD_SOURCES, world_sources, write_world


def solve(question: str) -> list[int]:
    """Work out the values on the way to the answer, the answer at the end."""
    start, *changes = re.findall(r"(?:\w+ )+?(\w+) (\d)", question)
    values = [int(start[1])]
    for verb, change in changes:
        values.append(values[-1] + (int(change) if verb in GAINS else -int(change)))
    return values


LONG = WorldSettings(longest=12)
seeds = st.integers(0, 10**6)


def draw(seed: int, steps: int) -> Story:
    return stories.draw(Random(seed), steps)


@given(seed=seeds, part=st.sampled_from(("all", "short", "long")))
def test_answers_are_right_and_values_are_possible_answers(seed: int, part: str) -> None:
    for steps in (LONG.steps(part)[0], LONG.steps(part)[-1]):
        story = draw(seed, steps)
        values = solve(story.question)
        assert len(values) == steps + 1
        assert {str(value) for value in values} <= set(DIGITS)
        assert story.answer == str(values[-1])
        assert story.reasoning(Random(seed)).endswith(f" {story.answer}.")
        assert story.numbers == tuple(int(digit) for digit in re.findall(r"\d", story.question))


@pytest.mark.slow
def test_answers_are_near_uniform() -> None:
    random, steps = Random(0), WorldSettings().steps()
    counts = Counter(
        stories.draw(random, steps[number % len(steps)]).answer for number in range(12_000)
    )
    assert set(counts) == set(DIGITS)
    assert all(1020 < count < 1380 for count in counts.values())


@given(seed=seeds)
def test_variants_in_other_numbers_keep_the_words_and_are_right(seed: int) -> None:
    story = draw(seed, 3)
    other = story.with_other_numbers(Random(seed + 1))
    if other is not None:
        assert re.sub(r"\d", "#", other.question) == re.sub(r"\d", "#", story.question)
        assert solve(other.question)[-1] == int(other.answer)
        assert {str(value) for value in solve(other.question)} <= set(DIGITS)


@settings(max_examples=30)
@given(seed=seeds, edit=st.sampled_from(EDITS))
def test_edits_change_no_number_and_no_answer(seed: int, edit: str) -> None:
    story = draw(seed, 4)
    row = edited(Random(seed), story, edit, "near", "item")
    assert re.findall(r"\d", row.question) == re.findall(r"\d", story.question)
    assert row.story.answer == story.answer
    if edit in ("verbatim", "spacing", "case", "punctuation", "latex"):
        assert words(row.question) == words(story.question)
    else:
        assert words(row.question) != words(story.question)


@given(seeds)
def test_sums_of_few_nouns_use_no_others(seed: int) -> None:
    story = stories.draw(Random(seed), 2, nouns=6)
    assert story.name in ("Ann", "Mia", "Eva", "Ben", "Tom", "Sam")
    assert story.thing in stories.THINGS[:6]


SMALL = WorldSettings(seed=3, documents=3000, items=40)
MARK = re.compile(r"(?s)^.*</think>\s*|^.*<\|begin_of_solution\|>\s*|\s*<\|end_of_solution\|>$")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_world(folder, SMALL)
    return folder


@pytest.fixture(scope="module")
def rows(world: Path) -> list[dict]:
    return read(world / "builtin/world/default/train.jsonl.gz")


@pytest.fixture(scope="module")
def truth(world: Path) -> list[dict]:
    return read(world / "truth.jsonl")


def read(path: Path) -> list[dict]:
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as file
    ):
        return [json.loads(line) for line in file]


# --- the written world ---


@pytest.mark.slow
def test_same_settings_same_content_other_seed_other_content(world: Path, tmp_path: Path) -> None:
    write_world(tmp_path / "again", SMALL)
    files = sorted(path.relative_to(world) for path in world.rglob("*") if path.is_file())
    assert len(files) == 4 + 2 * len(world_specifications(world))
    for file in files:
        assert (tmp_path / "again" / file).read_bytes() == (world / file).read_bytes()
    write_world(tmp_path / "other", replace(SMALL, seed=4))
    questions = [{row["question"] for row in read(folder / "builtin/world/short/test.jsonl.gz")} for folder in
                 (world, tmp_path / "other")]  # fmt: skip
    assert not questions[0] & questions[1]


@pytest.mark.slow
def test_content_is_the_same_on_every_machine(rows: list[dict]) -> None:
    text = json.dumps(rows, ensure_ascii=False, sort_keys=True)
    assert hashlib.blake2b(text.encode(), digest_size=8).hexdigest() == "57e9303eacb06d43"


def test_benchmarks_do_not_depend_on_the_number_of_documents(world: Path, tmp_path: Path) -> None:
    write_world(tmp_path, replace(SMALL, documents=1000))
    assert world_items(tmp_path).equals(world_items(world))


def test_every_row_is_what_the_truth_says(world: Path, rows: list[dict], truth: list[dict]) -> None:
    items = {item["id"]: item for item in world_items(world).to_pylist()}
    assert (
        [entry["row"] for entry in truth] == list(range(len(rows))) == list(range(SMALL.documents))
    )
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
            both = [
                grams(words(f"{one['question']} {one['answer']}"), 5) for one in (row, original)
            ]
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


def test_shares_are_met(world: Path, truth: list[dict]) -> None:
    leaks = 4 * len(world_specifications(world))
    kinds = Counter(entry["kind"] for entry in truth)
    assert kinds == {
        "exact": 120, "near": 120, "numbers": 90, "broken": 30, "unclosed": 60, "leak": leaks, "clean": 2580 - leaks,
    }  # fmt: skip
    assert {entry["edit"] for entry in truth if entry["kind"] == "near"} == set(SMALL.near_edits)
    assert {entry["edit"] for entry in truth if entry["kind"] == "leak"} == set(SMALL.leak_edits)
    traces = Counter(entry["trace"] for entry in truth)
    assert sum(traces[kind] for kind in ("paired", "tokens", "closing")) == pytest.approx(
        1750, abs=120
    )
    repeated = Counter(entry["of"] for entry in truth if entry["of"] is not None)
    assert max(repeated.values()) == 1, "every planted pair stands alone"


@pytest.mark.slow
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
    items = [grams(words(item["question"]), 5) for item in world_items(world).to_pylist()]
    for row in clean:
        found = grams(words(row["question"]), 5)
        assert max(len(item & found) / len(item) for item in items) < 0.5


def test_benchmarks_ask_what_their_names_say(world: Path) -> None:
    items = world_items(world)
    assert items.column_names == ["id", "benchmark", "question", "answer"]
    assert (
        len(set(items["question"].to_pylist()))
        == len(items)
        == 40 * len(world_specifications(world))
    )
    steps = {"world_short": {1, 2, 3}, "world_long": {4, 5, 6}}
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
    assert [each["benchmark"] for each in specifications] == [
        "world_short",
        "world_long",
        "world_choice",
        "world_text",
    ]
    for each in json.loads(json.dumps(specifications)):
        assert Path(each["dataset_path"]).is_dir()
        assert "dataset_path" not in yaml.safe_load(Path(each["yaml"]).read_text())
        assert Path(each["data_file"]).is_file()
    assert (tmp_path / "key" / WORLD_SOURCES["stories"]["repository"] / "default").is_dir()
    with pytest.raises(InputError, match="no built-in world"):
        world_specifications(tmp_path)


SHEETS = WorldSettings(documents=2000, items=50, families=("chain", "recall"))
BOTH = WorldSettings(documents=200, items=10, families=("sums", "chain"))


@pytest.mark.slow
def test_a_world_has_the_sources_and_benchmarks_of_its_families(tmp_path: Path) -> None:
    for wanted, sources, tasks in (
        (SHEETS, ["sheets"], ["world_recall", "world_chain"]),
        (
            BOTH,
            ["world", "sheets"],
            ["world_short", "world_long", "world_choice", "world_text", "world_chain"],
        ),
        (SMALL, ["world"], ["world_short", "world_long", "world_choice", "world_text"]),
    ):
        folder = tmp_path / "-".join(wanted.families)
        found = write_world(folder, wanted)
        assert [source["name"] for source in world_sources(wanted)] == sources
        assert [each["benchmark"] for each in world_specifications(folder)] == tasks
        assert found["rows"] == sum(found["truth"].values()) == wanted.documents
        names = re.findall("config_name: (.*)", (folder / "builtin/world/README.md").read_text())
        assert names == [*(["default"] if "world" in sources else []), *(["sheets"] if "sheets" in sources else []),
                         *(task.removeprefix("world_") for task in tasks)]  # fmt: skip


def test_every_sheet_is_what_the_truth_says(tmp_path: Path) -> None:
    write_world(tmp_path, SHEETS)
    rows = [row["text"] for row in read(tmp_path / "builtin/world/sheets/train.jsonl.gz")]
    truth = read(tmp_path / "sheets.truth.jsonl")
    items = {
        item["id"]: f"{item['question']} {item['answer']} ;"
        for item in world_items(tmp_path).to_pylist()
    }
    assert Counter(entry["kind"] for entry in truth) == {
        "exact": 80,
        "broken": 20,
        "leak": 10,
        "clean": 1890,
    }
    for number, (entry, text) in enumerate(zip(truth, rows, strict=True)):
        assert entry["row"] == number
        repeated = {"exact": rows, "leak": items}.get(entry["kind"], {})
        assert text == (repeated[entry["of"]] if repeated else text)
        assert bool(text) == (entry["kind"] != "broken")
    clean = [text for entry, text in zip(truth, rows, strict=True) if entry["kind"] == "clean"]
    assert len({*clean}) == len(clean)
    assert not {*clean} & {*items.values()}
    families = Counter(text.split()[0] for text in clean)
    assert families == {"chain": 945, "recall": 945}


@pytest.mark.slow
def test_trivial_rules_do_little_on_sheets_and_chance_is_that_of_the_options(
    tmp_path: Path,
) -> None:
    families = ("expressions", "recall", "chain", "tracking")
    write_world(tmp_path, WorldSettings(documents=2000, items=400, families=families))
    for each in world_specifications(tmp_path):
        assert each["chance"] == pytest.approx(0.2, abs=0.03)
        assert each["chance"] - 0.03 < each["trivial"] < 0.32


@pytest.mark.parametrize("family", ["sums", "expressions", "recall", "chain", "tracking"])
def test_one_item_is_enough_for_a_benchmark(tmp_path: Path, family: str) -> None:
    write_world(
        tmp_path, WorldSettings(documents=60, items=1, leaked=0, seed=1, families=(family,))
    )
    assert all(each["trivial"] in (None, 1) for each in world_specifications(tmp_path))


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
        ({"chain_pairs": 11}, "chain_pairs"),
        ({"modulus": 11}, "modulus"),
        ({"nouns": 3}, "nouns"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        WorldSettings(**values)


@pytest.mark.slow
def test_worlds_that_cannot_be_filled_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ask for more documents or smaller shares"):
        write_world(tmp_path, WorldSettings(documents=100, exact_duplicates=0.6))
    with pytest.raises(InputError, match="near duplicate \\(word\\)"):
        write_world(
            tmp_path, WorldSettings(documents=500, longest=2, items=5, near_edits=("word",))
        )
