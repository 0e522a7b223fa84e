"""Mirrors: whose folders they are and which files a split has."""

import json
import time
from types import SimpleNamespace

import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.sources.repositories.folders import (
    found_or_fetched,
    resolved_revision,
    source_files,
)
from dreamer_study.pipeline.sources.repositories.layouts import NoSplit
from dreamer_study.pipeline.sources.repositories.splits import (
    Part,
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
        match=r"in .*mirror/a/b or .*cache/a/b \(.*it has main/test.jsonl\): .* `dreamer download",
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
    with pytest.raises(InputError, match=r"no configuration 'main'; it has x$"):
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


@pytest.mark.slow
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
            ["data/train-00000-of-00001.parquet", "data/train_1M-00000-of-00001.parquet"],
            "default",
            "train",
            ["data/train-00000-of-00001.parquet"],
        ),
        (
            ["default/cot-0.parquet", "default/tir-0.parquet"],
            "default",
            "cot",
            ["default/cot-0.parquet"],
        ),
        (["train.csv", "test.csv"], "default", "test", ["test.csv"]),
        (["main/dev.csv", "main/validation.csv"], "main", "validation", ["main/validation.csv"]),
        (["cot.csv", "tir.csv"], "default", "cot", ["cot.csv"]),
        (["main/en_train.csv", "main/en_test.csv"], "main", "train", ["main/en_train.csv"]),
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
    part = Part(configuration, split)
    if found:
        assert select_files(names, part, "", "a/b") == found
    else:
        with pytest.raises(NoSplit, match=f"a/b has no split '{split}'"):
            select_files(names, part, "", "a/b")


@pytest.mark.parametrize(
    "files",
    [
        "data_files: [{split: train, path: x/a-*.csv}]",
        "data_files: [{split: train, path: [x/a-1.csv, x/a-2.csv]}]",
        "data_files: [{split: test, path: x/b.csv}, {split: train, path: x/a-*.csv}]",
        "data_files: [{split: test, path: x/absent.csv}, {split: train, path: x/a-*.csv}]",
        "data_files: x/a-*.csv",
        "data_files: ['x/a-?.csv']",
        "data_files: x/a-[12].csv",
        "data_files: '**/a-*.csv'",
        "data_dir: x\n  data_files: a-*.csv",
    ],
)
def test_all_forms_of_a_cards_header(files):
    others = "- config_name: gone\n  data_files: gone/*.csv\n"
    card = f"---\nconfigs:\n{others}- config_name: c\n  {files}\n---\n"
    names = ["x/a-1.csv", "x/a-2.csv", "x/b.csv", "x/y/a.csv", "train.csv"]
    found = ["x/a-1.csv", "x/a-2.csv"]
    assert select_files(names, Part("c", "train"), card, "a/b") == found


CARD = (
    "---\nconfigs:\n- config_name: {name}\n  data_files: [{{split: {split}, path: {path}}}]\n---\n"
)


@pytest.mark.parametrize(
    ("name", "split", "path", "asked", "message"),
    [
        ("default", "test", "a.csv", "default", r"no split 'train' .* it has default/test"),
        ("default", "cot", "'*.csv'", "default", r"no split 'train' .* it has default/cot"),
        ("x", "train", "a.csv", "y", "no configuration 'y'; it has x"),
        ("default", "train", "'b*'", "default", "README"),
    ],
)
def test_a_card_that_lacks_a_split_has_none(name, split, path, asked, message):
    card = CARD.format(name=name, split=split, path=path)
    with pytest.raises(NoSplit, match=message) as error:
        select_files(["a.csv", "train.csv"], Part(asked, "train"), card, "a/b")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("main", "test", "a/b has no split 'train' of configuration 'main'; it has main/test"),
        ("other", "train", "it has no configuration 'main'; it has other"),
    ],
)
def test_what_a_card_in_the_mirror_lacks_is_not_sought_on_the_hub(tmp_path, name, split, message):
    folder = tmp_path / "mirror/a/b"
    touch(folder / "a.jsonl")
    card = CARD.format(name=name, split=split, path="a.jsonl")
    (folder / "README.md").write_text(card)
    with pytest.raises(InputError, match=message) as error:
        find(tmp_path / "mirror", tmp_path)
    assert "hub" not in str(error.value)
    assert "\n" not in str(error.value)
    snapshot = tmp_path / "mirror/datasets--a--b/snapshots/c0ffee"
    (snapshot.parents[1] / "refs").mkdir(parents=True)
    (snapshot.parents[1] / "refs/main").write_text("c0ffee")
    touch(snapshot / "main/train.jsonl")
    assert find(tmp_path / "mirror", tmp_path) == snapshot


def test_files_that_a_card_names_and_a_mirror_lacks_are_sought_on_the_hub(tmp_path):
    touch(tmp_path / "mirror/a/b/x.jsonl")
    card = CARD.format(name="main", split="train", path="gone.jsonl")
    (tmp_path / "mirror/a/b/README.md").write_text(card)
    with pytest.raises(InputError, match="nor is it, with main/train, in"):
        find(tmp_path / "mirror", tmp_path)


def test_a_split_that_was_not_saved_is_not_sought_on_the_hub(tmp_path):
    folder = tmp_path / "mirror/a/b/main"
    folder.mkdir(parents=True)
    (folder / "dataset_dict.json").write_text('{"splits": ["test", "dev"]}')
    with pytest.raises(InputError, match=r"main has no split 'train'; it has test, dev$"):
        find(tmp_path / "mirror", tmp_path)


def test_patterns_beside_a_repository_are_within_it(tmp_path):
    entry = {"name": "s", "repository": "a/b", "files": "x/[ab].jsonl", "text": "text"}
    for name in ("x/a.jsonl", "x/b.jsonl", "x/c.jsonl", "train.jsonl"):
        touch(tmp_path / "mirror/a/b" / name)
    source = resolve_source(entry)
    folder = found_or_fetched(source, ("train",), mirror=tmp_path / "mirror", cache=tmp_path / "c")
    assert [path.name for path in source_files(source, folder)] == ["a.jsonl", "b.jsonl"]
    for files in ("../b/x/a.jsonl", "/etc/*.csv", "hf://datasets/a/b/x.csv"):
        with pytest.raises(InputError, match="is not in the data set's folder"):
            source_files(resolve_source(entry | {"files": files}), folder)
    with pytest.raises(InputError, match="y/"):
        source_files(resolve_source(entry | {"files": "y/*.jsonl"}), folder)


def test_what_datasets_has_saved_to_disk_is_read(tmp_path):
    import datasets

    rows = datasets.Dataset.from_dict({"q": ["a", "b", "c"]})
    rows.save_to_disk(tmp_path / "alone", num_shards=2)
    both = datasets.DatasetDict({"train": rows, "test": rows.select([1])})
    both.save_to_disk(tmp_path / "m/a/b")
    alone = {"name": "s", "files": "alone", "text": "q"}
    files = source_files(resolve_source(alone), tmp_path)
    assert [path.name for path in files] == [f"data-0000{n}-of-00002.arrow" for n in (0, 1)]
    repository = {"name": "s", "repository": "a/b", "text": "q"}
    for split, count in (("train", 3), ("test", 1)):
        source = resolve_source(repository | {"split": split})
        (path,) = source_files(source, tmp_path / "m/a/b")
        reader = open_rows(path)
        (block,) = reader.blocks(reader.schema)
        assert block.table["q"].to_pylist() == ["a", "b", "c"][:count] if count > 1 else ["b"]
    with pytest.raises(InputError, match="no split 'dev'; it has train, test"):
        find_split(tmp_path / "m/a/b", "default", "dev")
    state = tmp_path / "alone/state.json"
    state.write_text(state.read_text().replace("data-00000", "../data-00000"))
    with pytest.raises(InputError, match="not in the data set's folder"):
        source_files(resolve_source(alone), tmp_path)


def test_a_card_without_a_header_or_with_a_broken_one():
    names, part = ["train.csv"], Part("default", "train")
    for card in ("# Only text\n---\nconfigs: 1\n---\n", "", "---\nconfigs:\n---\n"):
        assert select_files(names, part, card, "a/b") == names
    with pytest.raises(InputError, match="its header is not YAML"):
        select_files(names, part, "---\na: [\n---\n", "a/b")


@pytest.mark.parametrize(
    "configs",
    [
        "configs: [main]",
        "configs: {a: 1}",
        "configs: main",
        "configs:\n- config_name: main\n  data_files:\n  - {split: train}",
        "configs:\n- config_name: main\n  data_files:\n  - {path: a.csv}",
        "configs:\n- config_name: main\n  data_dir: [a]",
    ],
)
def test_configs_of_another_form_name_their_file(tmp_path, configs):
    (tmp_path / "README.md").write_text(f"---\n{configs}\n---\n")
    touch(tmp_path / "train.csv")
    with pytest.raises(InputError, match=rf"{tmp_path}/README\.md: ") as error:
        find_split(tmp_path, "main", "train")
    assert "\n" not in str(error.value)


def test_numbers_name_configurations():
    card = "---\nconfigs:\n- config_name: 2019\n  data_files: a.csv\n---\n"
    assert select_files(["a.csv"], Part("2019", "train"), card, "a/b") == ["a.csv"]


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


def test_a_pattern_of_many_stars_is_refused_at_once():
    name = f"{'a' * 200}.csv"
    for path, refused in (("*a" * 14 + "*b.csv", True), ("*a*a*b.csv", False)):
        card = CARD.format(name="c", split="train", path=f"'{path}'")
        start = time.process_time()
        with pytest.raises(InputError, match="too many stars" if refused else "README"):
            select_files([name], Part("c", "train"), card, "a/b")
        assert time.process_time() - start < 3
