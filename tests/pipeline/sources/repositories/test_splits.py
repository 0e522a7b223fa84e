"""The files of a split: by file names, and by the header of the card."""

import time

import pytest

from pipeline.errors import InputError
from pipeline.sources.repositories.splits import card_configurations, find_split, select_files


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
        (["data/train-1.parquet", "data/train_1M-1.parquet"], "default", "train", ["data/train-1.parquet"]),
        (["default/cot-0.parquet", "default/tir-0.parquet"], "default", "cot", ["default/cot-0.parquet"]),
        (["train.csv", "test.csv"], "default", "test", ["test.csv"]),
        (["train.json", "train.parquet"], "default", "train", ["train.parquet"]),
        (["Set.json", "config.json", ".download.json", ".hub/a.json"], "default", "train", ["Set.json"]),
        (["part_10.parquet", "part_9.parquet"], "default", "train", ["part_9.parquet", "part_10.parquet"]),
        (["all.csv"], "default", "test", []),
        (["my_test.csv", "rest.csv"], "default", "train", []),
        (["contest.csv"], "default", "train", ["contest.csv"]),
        (["other/train.csv"], "main", "train", []),
        (["../train.csv", ".git/train.json", "train.txt", "train.py", "train.bin"], "default", "train", []),
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
    with pytest.raises(InputError, match=rf"{tmp_path}/README\.md: its `configs:` must be a list .*`path`{entry}$"):
        find_split(tmp_path, "main", "train")


def test_numbers_name_configurations_and_null_names_none():
    assert card_configurations("---\nconfigs:\n- config_name: 2019\n  data_files: a.csv\n---\n") == {
        "2019": {"train": ["a.csv"]}
    }
    assert card_configurations("---\nconfigs:\n---\n") == {}


@pytest.mark.parametrize(
    "path", ["../a.csv", "x/../../a.csv", "/etc/a.csv", "https://example.com/a.csv", "hf://a/a.csv"]
)
def test_a_card_names_files_of_its_own_folder_only(tmp_path, path):
    (tmp_path / "set").mkdir()
    for place in (tmp_path, tmp_path / "set"):
        (place / "a.csv").write_text("text\nt\n")
    for configs in (f"data_files: '{path}'", f"data_dir: '{path.rpartition('/')[0]}'\n  data_files: a.csv"):
        (tmp_path / "set" / "README.md").write_text(f"---\nconfigs:\n- config_name: c\n  {configs}\n---\n")
        with pytest.raises(
            InputError, match=r"set/README\.md: its `configs:` name '.*', which is not in the data set's"
        ):
            find_split(tmp_path / "set", "c", "train")


def test_a_glob_of_many_stars_answers_at_once():
    name = f"{'a' * 200}.csv"
    start = time.process_time()
    assert select_files([name], "c", "train", {"c": {"train": ["*a" * 14 + "*b.csv"]}}) == []
    assert select_files([name], "c", "train", {"c": {"train": ["*a" * 14 + "*.csv"]}}) == [name]
    assert time.process_time() - start < 1
