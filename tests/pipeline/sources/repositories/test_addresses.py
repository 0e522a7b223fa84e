"""Mirrors at addresses: copied once, only what is needed, and with no credentials written anywhere."""

import json
import sys
import zipfile
from pathlib import Path
from uuid import uuid4

import datasets
import fsspec
import pytest
from pydantic import TypeAdapter, ValidationError

from pipeline.errors import InputError
from pipeline.sources.repositories.addresses import Mirror, copy_file, copy_repository
from pipeline.sources.repositories.folders import repository_folder
from pipeline.sources.repositories.hub import RECORD
from pipeline.sources.repositories.splits import CARD, find_split, has_splits

PARTS = [("main", "train")]
ROW = b'{"text": "t"}\n'
TWO_SPLITS = b"""---
configs:
- config_name: main
  data_files:
  - {split: train, path: odd/first.jsonl}
  - {split: test, path: odd/second.jsonl}
---
"""


@pytest.fixture(params=["memory", "file"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = f"memory://{uuid4()}/data" if request.param == "memory" else (tmp_path / "there").as_uri()
    system, root = fsspec.url_to_fs(found)
    for name in ("main/train-1.jsonl", "main/train-2.jsonl", "main/test.jsonl", "other/train.jsonl"):
        system.pipe_file(f"{root}/owner/rows/{name}", ROW) if request.param == "memory" else _write(root, name)
    return found


def _write(root: str, name: str) -> None:
    path = Path(root, "owner/rows", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(ROW)


def test_the_files_of_a_split_are_copied_once(address: str, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    copy_repository(address, "owner/rows", folder, parts=PARTS)
    assert find_split(folder, "main", "train") == [folder / "main/train-1.jsonl", folder / "main/train-2.jsonl"]
    assert [path.name for path in folder.rglob("*.jsonl") if "train" not in path.name] == []
    system, root = fsspec.url_to_fs(address)
    system.rm(root, recursive=True)
    copy_repository(address, "owner/rows", folder, parts=PARTS)  # known to be here
    assert (folder / "main/train-1.jsonl").read_bytes() == ROW


def test_nothing_is_copied_out_of_the_folder(tmp_path: Path) -> None:
    address = f"memory://{uuid4()}"
    system, root = fsspec.url_to_fs(address)
    outside = "../../first.jsonl"
    entry = {"configuration": "main", "split": "train", "files": [outside]}
    record = {"revision": "0" * 40, "parts": [entry], "bytes": {outside: len(ROW)}}
    system.pipe_file(f"{root}/owner/rows/{RECORD}", json.dumps(record).encode())
    system.pipe_file(f"{root}/owner/rows/{outside}", ROW)
    copy_repository(address, "owner/rows", tmp_path / "a" / "here", parts=PARTS)
    assert not list(tmp_path.rglob("first.jsonl"))


def test_what_is_not_there_is_not_copied(address: str, tmp_path: Path) -> None:
    copy_repository(address, "owner/rows", tmp_path / "here", parts=[*PARTS, ("main", "validation")])
    copy_repository(address, "owner/none", tmp_path / "here", parts=PARTS)
    assert not (tmp_path / "here").exists()


def filled(files: dict[str, bytes]) -> str:
    address = f"memory://{uuid4()}"
    system, root = fsspec.url_to_fs(address)
    system.pipe({f"{root}/{name}": content for name, content in files.items()})
    return address


def test_the_card_decides_what_a_split_is_and_names_in_the_copy_what_is_here(tmp_path: Path) -> None:
    rows = {"owner/rows/odd/first.jsonl": ROW * 2, "owner/rows/odd/second.jsonl": ROW}
    address = filled({"owner/rows/README.md": TWO_SPLITS, **rows})
    copy_repository(address, "owner/rows", tmp_path / "here", parts=[("main", "test")])
    found = datasets.load_dataset(str(tmp_path / "here"), "main", cache_dir=str(tmp_path / "one"))
    assert {split: len(part) for split, part in found.items()} == {"test": 1}
    copy_repository(address, "owner/rows", tmp_path / "here", parts=PARTS)
    found = datasets.load_dataset(str(tmp_path / "here"), "main", cache_dir=str(tmp_path / "two"))
    assert {split: len(part) for split, part in found.items()} == {"train": 2, "test": 1}


def test_a_copy_without_a_card_gets_one_that_names_where_the_copy_is_from(address: str, tmp_path: Path) -> None:
    copy_repository(address, "owner/rows", tmp_path, parts=PARTS)
    assert f"owner/rows at {address}" in (tmp_path / CARD).read_text()
    assert len(datasets.load_dataset(str(tmp_path), "main", cache_dir=str(tmp_path / "cache"))["train"]) == 2


def test_further_splits_are_copied_where_they_are(address: str, tmp_path: Path) -> None:
    folder, also = tmp_path / "here", [("main", "test"), ("main", "validation")]
    copy_repository(address, "owner/rows", folder, parts=PARTS, also=also)
    assert [has_splits(folder, [part]) for part in (*PARTS, *also)] == [True, True, False]
    system, root = fsspec.url_to_fs(address)
    system.rm(root, recursive=True)
    copy_repository(address, "owner/rows", folder, parts=PARTS, also=also)  # known not to be there
    with pytest.raises(InputError, match="nothing at this address"):
        copy_repository(address, "owner/rows", folder, parts=[("main", "validation")])


def test_a_mirror_may_be_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        for name in ("owner/rows/main/train.jsonl", "items.jsonl"):
            archive.writestr(name, ROW)
    address = f"zip://::{(tmp_path / 'data.zip').as_uri()}"
    copy_repository(address, "owner/rows", tmp_path / "here/owner/rows", parts=PARTS)
    copy_file(address, "owner/rows", tmp_path / "here", "items.jsonl")
    assert has_splits(tmp_path / "here/owner/rows", PARTS)
    assert (tmp_path / "here/items.jsonl").read_bytes() == ROW


def test_a_file_of_plain_items_is_copied_from_beside_a_repository(tmp_path: Path) -> None:
    for place in ("owner/rows/items.jsonl", "owner/items.jsonl", "items.jsonl"):
        copy_file(filled({place: ROW}), "owner/rows", tmp_path / place, "items.jsonl")
        assert (tmp_path / place / place).read_bytes() == ROW
        copy_file("nothing://data", "owner/rows", tmp_path / place, "items.jsonl")  # known to be here
    copy_file(filled({"other.jsonl": ROW}), "owner/rows", tmp_path / "none", "items.jsonl")
    assert not (tmp_path / "none").exists()


def test_the_record_of_a_download_gives_its_commit_and_complete_splits(tmp_path: Path) -> None:
    complete = [{"configuration": "main", "split": "test", "files": ["odd/second.jsonl"]}]
    record = {"repository": "owner/rows", "revision": "a" * 40, "parts": complete, "bytes": {"odd/second.jsonl": 14}}

    def mirror(revision: str) -> str:
        written = json.dumps({**record, "revision": revision}).encode()
        rows = {"odd/first.jsonl": ROW, "odd/second.jsonl": ROW, "README.md": TWO_SPLITS, RECORD: written}
        return filled({f"owner/rows/{name}": content for name, content in rows.items()})

    folder = tmp_path / "owner" / "rows"
    copy_repository(mirror("a" * 40), "owner/rows", folder, parts=PARTS)  # only a part of it was downloaded
    assert not folder.exists()
    copy_repository(mirror("a" * 40), "owner/rows", folder, parts=[("main", "test")])
    assert json.loads((folder / RECORD).read_text()) == record
    wanted = {"configurations": ("main",), "splits": ("test",), "revision": "aaaaaaaa"}
    assert repository_folder("owner/rows", mirror=tmp_path, cache=tmp_path / "hub", **wanted) == folder
    with pytest.raises(InputError, match="is at bbbbbbbbbbbb now"):
        copy_repository(mirror("b" * 40), "owner/rows", folder, parts=[], also=PARTS)


def test_an_address_with_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for address in (f"memory://{uuid4()}", (tmp_path / "empty").as_uri()):
        with pytest.raises(InputError, match="there is nothing at this address") as error:
            copy_repository(address, "owner/rows", tmp_path / "here", parts=PARTS)
        assert address in str(error.value)


def test_errors_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as where s3fs is not installed
    for address, words in (("s3://bucket/data", "s3fs"), ("nothing://data", "nothing")):
        with pytest.raises(InputError, match=words) as error:
            copy_repository(address, "owner/rows", tmp_path, parts=PARTS)
        assert address in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "secret",
    [
        "https://ann:s3cr3t@host/data",
        "https://s3cr3t@host/data",
        "https://host/data?X-Signature=s3cr3t",
        "zip://*.csv::ftp://ann:s3cr3t@host/x.zip",
        "abfs://ann:s3cr3t@account.dfs.core.windows.net/data",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(secret: str) -> None:
    mirror = TypeAdapter(Mirror)
    with pytest.raises(ValidationError) as error:
        mirror.validate_python(secret)
    assert "s3cr3t" not in error.value.errors()[0]["msg"]
    for address in ("s3://bucket/data", "abfs://container@account.dfs.core.windows.net/data", "abfss://box@account/a"):
        assert mirror.validate_python(address) == address
    assert mirror.validate_python("data/here") == Path("data/here")
