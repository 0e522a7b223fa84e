"""Mirrors: whose folders they are and which files a split has."""

import json
import time
from types import SimpleNamespace

import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.repositories.folders import (
    found_or_fetched,
    resolved_revision,
    source_files,
)
from dreamer_study.pipeline.sources.repositories.splits import (
    card_configurations,
    find_split,
    has_splits,
    select_files,
)
from dreamer_study.pipeline.sources.table import resolve_source
from tests.mirror import MIRROR, needs_mirror


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """What is not on disk is not looked for elsewhere."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"text": "t"}\n')
    return path


def find(mirror, tmp_path, revision=None):
    entry = SimpleNamespace(repository="a/b", configurations=("main",), revision=revision)
    return found_or_fetched(entry, ("train",), mirror=mirror, cache=tmp_path / "cache")


def test_the_hubs_own_cache_is_a_mirror_too(tmp_path):
    snapshots, commit = tmp_path / "hub/datasets--a--b", "c0ffee00" * 5
    (snapshots / "refs").mkdir(parents=True)
    (snapshots / "refs/main").write_text(f"{commit}\n")
    blob = touch(snapshots / "blobs/1")
    (snapshots / "snapshots" / commit / "main").mkdir(parents=True)
    (snapshots / "snapshots" / commit / "main/train-0.jsonl").symlink_to(blob)
    for revision in (None, commit, commit[:7]):
        assert (
            find(tmp_path / "hub", tmp_path, revision=revision) == snapshots / "snapshots" / commit
        )
    with pytest.raises(InputError):
        find(tmp_path / "hub", tmp_path, revision="badcafe")


def test_a_mirror_that_lacks_a_split_does_not_have_the_data_set(tmp_path):
    touch(tmp_path / "mirror/a/b/main/test.jsonl")
    with pytest.raises(
        InputError,
        match=r"nor is it, with main/train, in .*mirror/a/b or .*cache/a/b: .* `dreamer download",
    ):
        find(tmp_path / "mirror", tmp_path)


def test_files_that_nobody_recorded_in_the_cache_are_not_trusted(tmp_path):
    touch(tmp_path / "cache/a/b/main/train.jsonl")
    with pytest.raises(InputError):
        find(None, tmp_path)


def test_a_missing_split_names_what_there_is(tmp_path):
    touch(tmp_path / "a/b/main/train.jsonl")
    with pytest.raises(
        InputError, match=r"has no split 'test' of configuration 'main'; it has main/train\.jsonl"
    ):
        find_split(tmp_path / "a/b", "main", "test")
    with pytest.raises(InputError, match="there is no such folder"):
        find_split(tmp_path / "a/c", "main", "test")
    (tmp_path / "a/b/README.md").write_text(
        "---\nconfigs:\n- config_name: x\n  data_files: [{split: train, path: main/*}]\n---\n"
    )
    with pytest.raises(InputError, match="it has x/train"):
        find_split(tmp_path / "a/b", "main", "test")


def test_a_linked_folder_is_read_and_a_link_to_nothing_is_named(tmp_path):
    file = touch(tmp_path / "elsewhere/train.jsonl")
    (tmp_path / "mirror/a/b").mkdir(parents=True)
    (tmp_path / "mirror/a/b/main").symlink_to(file.parent)
    (tmp_path / "elsewhere/above").symlink_to(tmp_path / "mirror/a/b")
    assert find(tmp_path / "mirror", tmp_path) == tmp_path / "mirror/a/b"
    assert find_split(tmp_path / "mirror/a/b", "main", "train") == [
        tmp_path / "mirror/a/b/main/train.jsonl"
    ]
    file.rename(tmp_path / "blob")
    file.symlink_to("nowhere")
    with pytest.raises(
        InputError, match=r"main/train\.jsonl: a link to nowhere, which is not there; fetch"
    ):
        find(tmp_path / "mirror", tmp_path)


def test_one_split_in_two_formats_is_refused_unless_the_card_names_its_files(tmp_path):
    touch(tmp_path / "main/train.jsonl")
    touch(tmp_path / "main/train.parquet")
    with pytest.raises(
        InputError,
        match=r"several formats, such as main/train\.parquet and main/train\.jsonl; remove",
    ):
        find_split(tmp_path, "main", "train")
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files: [{split: train, path: main/train.jsonl}]\n---\n"
    )
    assert find_split(tmp_path, "main", "train") == [tmp_path / "main/train.jsonl"]


def test_source_files_follow_the_configurations(tmp_path):
    for name in ("x", "y"):
        touch(tmp_path / name / "train.jsonl")
    source = resolve_source(
        {"name": "s", "repository": "a/b", "configurations": ["y", "x"], "text": "text"}
    )
    assert [path.parent.name for path in source_files(source, tmp_path)] == ["y", "x"]
    assert has_splits(tmp_path, [("x", "train")])
    assert not has_splits(tmp_path, [("x", "train"), ("z", "train")])


def test_a_mirror_at_another_commit_does_not_serve_a_pinned_source(tmp_path):
    folder = touch(tmp_path / "mirror/a/b/main/train.jsonl").parents[1]
    part = {"configuration": "main", "split": "train", "files": ["main/train.jsonl"]}
    (folder / ".download.json").write_text(
        json.dumps({"revision": "c0ffee" * 6 + "c0ff", "parts": [part]})
    )
    assert find(tmp_path / "mirror", tmp_path, revision="c0ffeec") == folder
    assert resolved_revision(folder) == "c0ffee" * 6 + "c0ff"
    with pytest.raises(
        InputError, match="holds a/b at c0ffeec0ffee, and badcafe is pinned: fetch that commit into"
    ):
        find(tmp_path / "mirror", tmp_path, revision="badcafe")


@needs_mirror
def test_every_card_of_the_real_mirror_leads_to_its_files():
    for card in MIRROR.glob("*/*/README.md"):
        for file in card.parent.glob("*/*.jsonl.gz"):
            assert find_split(
                card.parent, file.parent.name, file.name.removesuffix(".jsonl.gz")
            ) == [file]


@pytest.mark.parametrize(
    ("names", "configuration", "split", "found"),
    [
        (["main/train.jsonl.gz", "main/test.jsonl.gz"], "main", "train", ["main/train.jsonl.gz"]),
        (
            ["main/train/b.parquet", "main/train/a.parquet"],
            "main",
            "train",
            ["main/train/a.parquet", "main/train/b.parquet"],
        ),
        (["main/train/x/1.csv"], "main", "train", ["main/train/x/1.csv"]),
        (
            ["data/train-1.parquet", "data/train_1M-1.parquet"],
            "default",
            "train",
            ["data/train-1.parquet"],
        ),
        (
            ["default/cot-0.parquet", "default/tir-0.parquet"],
            "default",
            "cot",
            ["default/cot-0.parquet"],
        ),
        (["train.csv", "test.csv"], "default", "test", ["test.csv"]),
        (["train.json", "train.parquet"], "default", "train", ["train.parquet"]),
        (
            ["Set.json", "config.json", ".download.json", ".hub/a.json"],
            "default",
            "train",
            ["Set.json"],
        ),
        (
            ["part_10.parquet", "part_9.parquet"],
            "default",
            "train",
            ["part_9.parquet", "part_10.parquet"],
        ),
        (["all.csv"], "default", "test", []),
        (["my_test.csv", "rest.csv"], "default", "train", []),
        (["contest.csv"], "default", "train", ["contest.csv"]),
        (["other/train.csv"], "main", "train", []),
        (
            ["../train.csv", ".git/train.json", "train.txt", "train.py", "train.bin"],
            "default",
            "train",
            [],
        ),
    ],
)
def test_layouts(names, configuration, split, found):
    assert select_files(names, configuration, split, {}) == found


@pytest.mark.parametrize(
    "files",
    [
        "data_files: [{split: train, path: x/a-*.csv}]",
        "data_files: [{split: train, path: [x/a-1.csv, x/a-2.csv]}]",
        "data_files: [{split: test, path: x/b.csv}, {split: train, path: x/a-*.csv}]",
        "data_files: x/a-*.csv",
        "data_files: ['x/a-?.csv']",
        "data_files: '**/a-*.csv'",
        "data_dir: x\n  data_files: a-*.csv",
    ],
)
def test_all_forms_of_a_cards_header(files):
    card = card_configurations(f"---\nconfigs:\n- config_name: c\n  {files}\n---\n")
    names = ["x/a-1.csv", "x/a-2.csv", "x/b.csv", "x/y/a.csv", "train.csv"]
    assert select_files(names, "c", "train", card) == ["x/a-1.csv", "x/a-2.csv"]


def test_a_card_without_a_header_or_with_a_broken_one():
    assert card_configurations("# Only text\n---\nconfigs: 1\n---\n") == {}
    assert card_configurations("") == {}
    with pytest.raises(InputError, match="its header is not YAML"):
        card_configurations("---\na: [\n---\n")


@pytest.mark.parametrize(
    ("configs", "entry"),
    [
        ("configs: [main]", r" \(entry 1\)"),
        ("configs: {a: 1}", ""),
        ("configs: main", ""),
        ("configs:\n- config_name: m\n- data_files:\n  - {split: train}", r" \(entry 2\)"),
        ("configs:\n- data_files:\n  - {path: a.csv}", r" \(entry 1\)"),
        ("configs:\n- data_files: {train: a.csv}", r" \(entry 1\)"),
        ("configs:\n- data_dir: [a]", r" \(entry 1\)"),
    ],
)
def test_configs_of_another_form_name_their_file(tmp_path, configs, entry):
    (tmp_path / "README.md").write_text(f"---\n{configs}\n---\n")
    with pytest.raises(
        InputError, match=rf"{tmp_path}/README\.md: its `configs:` must be a list .*`path`{entry}$"
    ):
        find_split(tmp_path, "main", "train")


def test_numbers_name_configurations_and_null_names_none():
    assert card_configurations(
        "---\nconfigs:\n- config_name: 2019\n  data_files: a.csv\n---\n"
    ) == {"2019": {"train": ["a.csv"]}}
    assert card_configurations("---\nconfigs:\n---\n") == {}


@pytest.mark.parametrize(
    "path", ["../a.csv", "x/../../a.csv", "/etc/a.csv", "https://example.com/a.csv", "hf://a/a.csv"]
)
def test_a_card_names_files_of_its_own_folder_only(tmp_path, path):
    (tmp_path / "set").mkdir()
    for place in (tmp_path, tmp_path / "set"):
        (place / "a.csv").write_text("text\nt\n")
    for configs in (
        f"data_files: '{path}'",
        f"data_dir: '{path.rpartition('/')[0]}'\n  data_files: a.csv",
    ):
        (tmp_path / "set" / "README.md").write_text(
            f"---\nconfigs:\n- config_name: c\n  {configs}\n---\n"
        )
        with pytest.raises(
            InputError,
            match=r"set/README\.md: its `configs:` name '.*', which is not in the data set's",
        ):
            find_split(tmp_path / "set", "c", "train")


def test_a_glob_of_many_stars_answers_at_once():
    name = f"{'a' * 200}.csv"
    start = time.process_time()
    assert select_files([name], "c", "train", {"c": {"train": ["*a" * 14 + "*b.csv"]}}) == []
    assert select_files([name], "c", "train", {"c": {"train": ["*a" * 14 + "*.csv"]}}) == [name]
    assert time.process_time() - start < 1
