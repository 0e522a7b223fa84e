"""Studies whose mirror lies at an address: what is copied, where, and when the address is asked."""

import json
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from flows.stages.sources import locate_benchmarks, locate_sources
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.benchmarks.items import benchmark_items, task_specifications
from pipeline.errors import InputError

ITEM = b'{"q": "What is 2 + 3?", "a": "5"}\n'
BENCHMARK = {
    "name": "b",
    "repository": "owner/items",
    "task": "b",
    "metric": "acc",
    "question": "q",
    "answer": "a",
    "split": "test",
    "also": ["train", "validation"],
    "plain": "b.items.jsonl",
}


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def mirror(*names: str) -> str:
    address = f"memory://{uuid4()}"
    system, root = fsspec.url_to_fs(address)
    system.pipe({f"{root}/{name}": ITEM for name in names})
    return address


def study_of(root: Path, address: str) -> Study:
    return load_study(
        {
            "name": "far",
            "root": str(root),
            "data": {"sources": ["gsm8k"], "mirror": address},
            "training": {"tokens": 10_000, "sequence_length": 64},
            "evaluation": {"benchmarks": [BENCHMARK]},
        }
    )


def test_a_benchmark_at_an_address_is_what_its_mirror_is_as_a_folder(tmp_path: Path) -> None:
    """Decontamination also reads the further splits that are there, and evaluation the plain items."""
    names = ("owner/items/default/test.jsonl", "owner/items/default/train.jsonl", "b.items.jsonl")
    for name in names:
        (tmp_path / "near" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "near" / name).write_bytes(ITEM)
    address, items = mirror(*names), []
    for place in (address, str(tmp_path / "near")):
        ((benchmark, folder),) = locate_benchmarks(study_of(tmp_path / "study", place))
        items.append(benchmark_items(benchmark, folder))
        (specification,) = task_specifications(benchmark, folder, tmp_path / "texts")
        assert Path(specification["plain"]).read_bytes() == ITEM
    assert items[0] == items[1]
    assert items[0]["id"].to_pylist() == ["b/0", "b/train/0"]
    system, root = fsspec.url_to_fs(address)
    system.rm(root, recursive=True)
    locate_benchmarks(study_of(tmp_path / "study", address))  # the address is not asked again


def test_another_address_has_another_copy(tmp_path: Path) -> None:
    first, second = mirror("owner/items/default/test.jsonl"), mirror("other")
    assert locate_benchmarks(study_of(tmp_path, first))[0][1].is_relative_to(tmp_path / "mirror")
    with pytest.raises(InputError, match="HF_HUB_OFFLINE") as error:  # not in this mirror, so the hub is asked
        locate_benchmarks(study_of(tmp_path, second))
    assert second in str(error.value)


def test_what_the_hub_has_given_is_not_asked_for_at_the_address(tmp_path: Path) -> None:
    fetched = tmp_path / "hub" / "owner" / "items"
    (fetched / "default").mkdir(parents=True)
    (fetched / "default" / "test.jsonl").write_bytes(ITEM)
    parts = [{"configuration": "default", "split": "test", "files": ["default/test.jsonl"]}]
    (fetched / ".download.json").write_text(json.dumps({"revision": "a" * 40, "parts": parts}))
    assert locate_benchmarks(study_of(tmp_path, "nothing://data"))[0][1] == fetched


def test_all_data_sets_that_are_not_here_are_named_with_the_study(tmp_path: Path) -> None:
    """A study of two sources and three benchmarks, one of which is in the mirror."""
    (tmp_path / "mirror/owner/items/default").mkdir(parents=True)
    (tmp_path / "mirror/owner/items/default/test.jsonl").write_bytes(ITEM)
    content = {
        "name": "far",
        "data": {"sources": ["gsm8k", {"name": "mine", "repository": "me/mine", "text": "t"}]},
        "training": {"tokens": 10_000, "sequence_length": 64},
        "evaluation": {"benchmarks": [BENCHMARK, "mathqa", "gsm8k"]},
    }
    path = tmp_path / "far.yaml"
    path.write_text(json.dumps(content))
    study = load_study(path, mirror=tmp_path / "mirror", root=tmp_path / "run")
    with pytest.raises(InputError) as error:
        locate_sources(study, None)
    said = str(error.value)
    assert said.startswith("openai/gsm8k: ")
    assert f"`dreamer download {path} --mirror <folder>`" in said
    assert said.endswith("; also not here: mine, mathqa")
