"""Mirrors at addresses: copied once, only what is needed, and with no credentials written anywhere."""

import sys
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
from pydantic import TypeAdapter, ValidationError

from pipeline.errors import InputError
from pipeline.sources.repositories.addresses import Mirror, copy_repository
from pipeline.sources.repositories.splits import find_split

PARTS = [("main", "train")]
ROW = b'{"text": "t"}\n'


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


def test_what_is_not_there_is_not_copied(address: str, tmp_path: Path) -> None:
    copy_repository(address, "owner/rows", tmp_path / "here", parts=[*PARTS, ("main", "validation")])
    copy_repository(address, "owner/none", tmp_path / "here", parts=PARTS)
    assert not (tmp_path / "here").exists()


def test_the_card_decides_what_a_split_is(tmp_path: Path) -> None:
    address = f"memory://{uuid4()}"
    system, root = fsspec.url_to_fs(address)
    card = "---\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: odd/name.jsonl\n---\n"
    system.pipe({f"{root}/owner/rows/README.md": card.encode(), f"{root}/owner/rows/odd/name.jsonl": ROW})
    copy_repository(address, "owner/rows", tmp_path, parts=PARTS)
    assert find_split(tmp_path, "main", "train") == [tmp_path / "odd/name.jsonl"]


def test_errors_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as where s3fs is not installed
    for address, words in (("s3://bucket/data", "s3fs"), ("nothing://data", "nothing")):
        with pytest.raises(InputError, match=words) as error:
            copy_repository(address, "owner/rows", tmp_path, parts=PARTS)
        assert address in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("secret", ["https://ann:s3cr3t@host/data", "https://host/data?X-Signature=s3cr3t"])
def test_credentials_in_an_address_are_refused_and_not_repeated(secret: str) -> None:
    mirror = TypeAdapter(Mirror)
    with pytest.raises(ValidationError) as error:
        mirror.validate_python(secret)
    assert "s3cr3t" not in error.value.errors()[0]["msg"]
    assert mirror.validate_python("s3://bucket/data") == "s3://bucket/data"
    assert mirror.validate_python("data/here") == Path("data/here")
