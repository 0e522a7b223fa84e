"""What a study has written into run.json is what is trained, or a line says that it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dreamer_study.model.training.config import read_run
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.integrity import sealed
from tests.model.packed_folder import write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run whose run.json a study has sealed."""
    made = write_run(tmp_path)
    values = json.loads((made / "run.json").read_text())
    (made / "run.json").write_text(sealed(values, sort=False))
    return made


def test_a_sealed_run_is_read_and_so_is_one_by_hand(folder: Path) -> None:
    assert read_run(folder).training.seed == 3
    values = json.loads((folder / "run.json").read_text())
    del values["seal"]
    (folder / "run.json").write_text(json.dumps({**values, "seed": 4}))
    assert read_run(folder).training.seed == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 7},
        {"training": {"learning_rate": 0.011}},
        {"training": {"tokens": 10**6}},
        {"model": {"rope_base": 10001.0}},
        {"data": "../other"},
        {"depth": 3},
    ],
)
def test_a_changed_value_is_a_line(folder: Path, changes: dict[str, object]) -> None:
    values = json.loads((folder / "run.json").read_text())
    for name, value in changes.items():
        values[name] = {**values[name], **value} if isinstance(value, dict) else value
    (folder / "run.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match="is not what its study has written") as raised:
        read_run(folder)
    assert str(folder / "run.json") in str(raised.value)


@pytest.mark.slow
def test_no_flipped_bit_is_trained(folder: Path) -> None:
    path = folder / "run.json"
    content = path.read_bytes()
    whole = read_run(folder)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 7
        path.write_bytes(changed)
        try:
            assert read_run(folder) == whole, "white space"
        except InputError:
            continue
