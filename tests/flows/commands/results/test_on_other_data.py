"""`dreamer compare --tokens`: planted worths of data are found, and nothing else may differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

import dreamer_study
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import ingest, query
from tests.flows.small_study import small_study
from tests.sql.by_hand import enter_scores

pytestmark = pytest.mark.slow

ITEMS = 200
LEAKED = 20  # a tenth
TOKENS = [round(100_000 * 2 ** (step / 2)) for step in range(13)]
SEEDS = 3
INPUTS = {
    "training.batch_tokens": "512",
    "evaluation.weights": "averaged",
    "the tokenizer": "t",
    "the benchmark t": "items",
    "the benchmark validation": "held out",
}
RECIPE = {"learning_rate": 1e-3, "clip": 0.5, "batch_tokens": 512, "device": "cpu"}


def a_study(
    path: Path,
    name: str,
    *,
    ratio: float = 1.0,
    leaked: int = 0,
    variants: tuple[str, ...] = ("LA",),
    inputs: Mapping[str, str | None] | None = None,
    recipe: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    searched: bool = False,
) -> Path:
    """A results file of models that take `ratio` times the tokens to any accuracy.

    The first `leaked` items stand in the training data, and are always answered rightly.
    """
    random = np.random.default_rng(len(name))
    # in another order than the items that leak
    difficulty = np.random.default_rng(0).permutation(ITEMS) / ITEMS

    def scores(speed: float) -> dict[int, np.ndarray]:
        rise = {tokens: 0.1 + 0.1 * np.log2(tokens * speed / 1e5) for tokens in TOKENS}
        answered = {tokens: (difficulty < share).astype(float) for tokens, share in rise.items()}
        for right in answered.values():
            right[:leaked] = 1
        return answered

    for seed in range(SEEDS):
        spread = np.exp(random.normal(0, 0.02))
        curves = {variant: {"t": scores(spread / ratio)} for variant in variants}
        enter_scores(path, curves, seed=seed, study=name, chance=0.0)
    runs = [f"{name}-{variant}-{seed}" for variant in variants for seed in range(SEEDS)]
    given = {**INPUTS, "the packed tokens": name, **(inputs or {})}
    tables = {
        "studies": [{"study_id": name, "name": name, "config": "{}"}],
        "models": [
            {"study_id": name, "model_id": variant, "variant": variant, "depth": 4}
            | {"config": json.dumps({"hidden_size": 64, **(config or {})})}
            for variant in variants
        ],
        "run_details": [
            {"run_id": run, "recipe": json.dumps({**RECIPE, **(recipe or {})})} for run in runs
        ],
        "study_inputs": [
            {"study_id": name, "what": what, "value": value}
            for what, value in given.items()
            if value is not None
        ],
        "found_items": [
            {"study_id": name, "task": "t", "item_id": f"t/{item}", "trained": True}
            for item in range(leaked)
        ],
        "tuning_settings": [
            {"study_id": name, "depth": 4, "variant": variant, "seed": 9, "tokens": 1}
            | {"learning_rate": 1e-3, "weight_decay": 0.0, "decay": 0.0}
            for variant in variants
            if searched
        ],
    }
    ingest(path, {table: pa.Table.from_pylist(rows) for table, rows in tables.items() if rows})
    return path


def document(capsys: pytest.CaptureFixture[str], *arguments: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", "--tokens", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    capsys.readouterr()
    assert main(["compare", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, "one line"
    return error


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_study(tmp_path_factory.mktemp("clean") / "clean.duckdb", "clean")


def test_the_planted_worth_of_each_corpus_is_found(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # half of the documents are copies that teach nothing: fresh ones come half as fast
    copies = a_study(tmp_path / "copies.duckdb", "copies", ratio=2)
    better = a_study(tmp_path / "better.duckdb", "better", ratio=0.6)
    found = document(capsys, clean, copies, better)
    rows = {row["study"]: row for row in found["ratios"] if row["task"] == "average"}
    assert {row["over"] for row in found["ratios"]} == {"clean"}
    for name, ratio in (("copies", 2), ("better", 0.6)):
        row = rows[name]
        assert row["ratio"] == pytest.approx(ratio, rel=0.06)
        assert row["low"] < ratio < row["high"]
        assert row["significant"]
        assert row["seeds"] == SEEDS
    assert not found["leaks"]

    turned = document(capsys, copies, clean)
    (row,) = [row for row in turned["ratios"] if row["task"] == "average"]
    assert row["ratio"] == pytest.approx(1 / rows["copies"]["ratio"]), "exchanged, it is inverse"

    measured = dreamer_study.compare_tokens(clean, copies)
    average = measured.ratios[measured.ratios["task"] == "average"]
    assert average["ratio"].item() == pytest.approx(rows["copies"]["ratio"])


def test_leaks_raise_the_leaked_items_and_no_others(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaks = a_study(tmp_path / "leaks.duckdb", "leaks", leaked=LEAKED)
    found = document(capsys, clean, leaks)
    rows = {row["items"]: row for row in found["leaks"] if row["task"] == "all"}
    first = rows["leaked"]["first"]
    assert rows["leaked"]["number"] == LEAKED
    assert rows["leaked"]["second"] == 1
    assert rows["leaked"]["difference"] == pytest.approx(1 - first)
    assert rows["leaked"]["low"] > 0
    assert rows["others"]["number"] == ITEMS - LEAKED
    assert rows["others"]["low"] <= 0 <= rows["others"]["high"]
    expected = (LEAKED * (1 - first) + (ITEMS - LEAKED) * rows["others"]["difference"]) / ITEMS
    assert rows["every"]["difference"] == pytest.approx(expected)

    assert main(["compare", "--tokens", str(clean), str(leaks)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"leaks LA of depth 4 all leaked {LEAKED}" in printed
    # twice the speed lifts every item's accuracy by 0.1, also of items that never leaked
    spill = a_study(tmp_path / "spill.duckdb", "spill", ratio=0.5, leaked=LEAKED)
    rows = {row["items"]: row for row in document(capsys, clean, spill)["leaks"]}
    assert rows["others"]["difference"] == pytest.approx(0.1, abs=0.02)
    assert rows["others"]["low"] > 0
    # an item that both have trained on is neither leaked nor clean
    both = a_study(tmp_path / "both.duckdb", "both", leaked=LEAKED)
    assert not document(capsys, leaks, both)["leaks"]


def test_other_questions_are_refused(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = {"the tokenizer": "o", "the benchmark t": "o", "evaluation.weights": "raw"}
    other = a_study(tmp_path / "other.duckdb", "other", inputs=inputs)
    strange = {"the benchmark t": None, "the benchmark u": "u"}
    none = a_study(tmp_path / "none.duckdb", "none", inputs=strange)
    for flags in ([], ["--despite-differences"]):
        error = refusal(capsys, "--tokens", clean, other, *flags)
        assert "another tokenizer" in error
        assert "other items of the benchmark t" in error
        assert "evaluation.weights raw in place of averaged" in error
        assert "no benchmark in common" in refusal(capsys, "--tokens", clean, none, *flags)


def test_other_models_and_recipes_need_a_word(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = a_study(
        tmp_path / "other.duckdb",
        "other",
        inputs={"training.batch_tokens": "256"},
        recipe={"learning_rate": 2e-3, "optimizer": "muon", "batch_tokens": 256, "device": "cuda"},
        config={"hidden_size": 96},
    )
    words = [
        "training.batch_tokens is 256 in place of 512",
        "LA of depth 4 has learning_rate 0.002 in place of 0.001",
        "LA of depth 4 has optimizer muon in place of None",
        "LA of depth 4 has hidden_size 96 in place of 64",
    ]
    error = refusal(capsys, "--tokens", clean, other)
    assert all(each in error for each in words)
    assert error.count(" in place of ") == len(words), "nothing else differs"
    notes = document(capsys, clean, other, "--despite-differences")["notes"]
    assert {note for note in notes if note.startswith("beware")} == {
        f"beware: other differs from clean beside its data: {each}" for each in words
    }


def test_rates_that_each_study_searched_for_may_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = a_study(tmp_path / "clean.duckdb", "clean", searched=True)
    other = a_study(
        tmp_path / "other.duckdb", "other", searched=True, recipe={"learning_rate": 2e-3}
    )
    notes = document(capsys, clean, other)["notes"]
    assert any("learning_rate 0.001 in clean, 0.002 in other" in note for note in notes)
    clip = a_study(tmp_path / "clip.duckdb", "clip", searched=True, recipe={"clip": 1.0})
    assert "clip 1.0 in place of 0.5" in refusal(capsys, "--tokens", clean, clip)


def test_what_only_one_study_has_is_left_out_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = a_study(tmp_path / "clean.duckdb", "clean", variants=("LA", "DR"))
    other = a_study(tmp_path / "other.duckdb", "other", inputs={"the benchmark u": "u"})
    found = document(capsys, clean, other)
    assert {row["variant"] for row in found["ratios"]} == {"LA"}
    notes = "\n".join(found["notes"])
    assert "left out: DR of depth 4, which clean trains and other does not" in notes
    assert "left out: u, which other asks and clean does not" in notes
    assert "left out: the loss on held-out documents" in notes
    # first and second share t, first and third u, and all three nothing
    both = {"the benchmark u": "u"}
    three = [
        a_study(tmp_path / "three.duckdb", "three", inputs=both),
        a_study(tmp_path / "with-t.duckdb", "with-t"),
        a_study(tmp_path / "with-u.duckdb", "with-u", inputs={**both, "the benchmark t": None}),
    ]
    assert "no scores of one benchmark in all" in refusal(capsys, "--tokens", *three)
    same = a_study(tmp_path / "same.duckdb", "same", inputs={"the packed tokens": "clean"})
    notes = document(capsys, clean, same)["notes"]
    assert any("trained on the same data" in note for note in notes)


def test_what_cannot_be_asked_is_said_in_one_line(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = a_study(tmp_path / "strange.duckdb", "strange", variants=("GPT",))
    old = tmp_path / "old.duckdb"
    enter_scores(old, {"LA": {"t": {1000: [0.0, 1.0]}}}, study="old")
    assert "is named twice" in refusal(capsys, "--tokens", clean, clean)
    assert "no model in common" in refusal(capsys, "--tokens", clean, strange)
    assert "on which data old was made" in refusal(capsys, "--tokens", clean, old)
    assert "give one of them" in refusal(capsys, "--tokens", "--over", "flops", clean, strange)
    assert "--csv belongs to --over or --tokens" in refusal(capsys, "--csv", clean, strange)
    assert "give one of them" in refusal(capsys, "--tokens", "--csv", "--json", clean, strange)
    assert "--despite-differences belongs" in refusal(
        capsys, "--despite-differences", clean, strange
    )


def test_csv_has_every_ratio(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = a_study(tmp_path / "copies.duckdb", "copies")
    capsys.readouterr()
    assert main(["compare", "--tokens", str(clean), str(copies), "--csv"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("depth,variant,study,over,task,metric,")
    assert [row.split(",")[:4] for row in rows] == [["4", "LA", "copies", "clean"]] * 2


# --- real studies, small ones ---


def written(folder: Path, name: str, **data: Any) -> Path:
    path = small_study(folder, tokens=6000, checkpoints=3, seeds=[0, 1])
    content = yaml.safe_load(path.read_text())
    content["name"] = name
    content["root"] = str(folder / name)
    content["data"]["world"] |= {"documents": 1500, "items": 40, "leaked": 0.25}
    if "like" in data:
        for key in ("tokenizer", "validation"):
            content["data"].pop(key, None)
    content["data"] |= data
    content["evaluation"] |= {"limit": 40}
    content["workers"] = 1  # each further process imports torch anew
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_studies_of_raw_and_clean_data_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = written(tmp_path, "clean")
    kept = {"deduplicate": {"remove": False}, "decontaminate": {"remove": []}}
    raw = written(tmp_path, "raw", like="clean.yaml", **kept)
    assert main(["plan", str(raw)]) == 2
    assert "its data have not been made yet" in capsys.readouterr().err
    for path in (clean, raw):
        assert main(["run", str(path), "--plain", "--until", "evaluate"]) == 0
    found = document(capsys, clean, raw)
    tasks = {(row["task"], row["metric"]) for row in found["ratios"]}
    assert {("average", "loss"), ("validation", "loss")} <= tasks
    assert not found["notes"], "tokenizer, held-out documents and benchmarks are the same"
    by_items = {row["items"]: row["number"] for row in found["leaks"] if row["task"] == "all"}
    assert by_items["leaked"] > 0
    assert by_items["leaked"] + by_items["others"] == by_items["every"]

    counts = "select stage, reason, sum(documents)::int as documents from curation group by all"
    rows = query(load_study(str(raw)).database, counts).set_index(["stage", "reason"])["documents"]
    assert set(rows["deduplicate"].index) == {"kept"}
    assert set(rows["decontaminate"].index) == {"kept"}
    kept_out = query(load_study(str(clean)).database, counts).set_index(["stage", "reason"])
    assert rows["tokens", "validation"] >= kept_out.loc[("tokens", "validation"), "documents"]
