"""Models and states on disk: complete or not there."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from dreamer_study.model.checkpoints import checksums, models
from dreamer_study.model.checkpoints.checksums import (
    damaged_files,
    damaged_state,
    newest_values,
    read_checkpoint,
    write_checksums,
)
from dreamer_study.model.checkpoints.models import (
    TrainingState,
    load_model,
    load_tensors,
    newest_state,
    save_state,
    weights_in,
)
from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.dreamer import Dreamer
from dreamer_study.pipeline.errors import InputError
from tests.full_disk import no_space
from tests.model.packed_folder import SMALL
from tests.model.saved_files import rewrite, save_model


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = Dreamer(DreamerConfig(**SMALL))
    model.train()
    model(torch.arange(32).view(2, 16))
    model.update_balance()
    return model.eval()


def test_a_model_comes_back_to_the_bit(model, tmp_path):
    tokens = torch.arange(32).view(2, 16)
    save_model(tmp_path / "one", model, {"tokens": 5})
    again = load_model(tmp_path / "one")
    assert again.config == model.config
    assert not again.training
    assert {name: tensor.tolist() for name, tensor in again.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in model.state_dict().items()
    }
    assert torch.equal(again(tokens), model(tokens))
    assert any(router.bias.any() for router in again.routers().values())
    assert json.loads((tmp_path / "one" / "checkpoint.json").read_text()) == {"tokens": 5}
    with pytest.raises(InputError, match="exists already"):
        save_model(tmp_path / "one", model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]


def averaged(model):
    """Another set of weights for the same model."""
    return {
        name: 0.5 * tensor
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point()
    }


def test_averaged_weights_are_loaded_unless_raw_ones_are_asked_for(model, tmp_path):
    save_model(tmp_path / "both", model, averaged=averaged(model))
    save_model(tmp_path / "one", model)
    assert [weights_in(tmp_path / "both", wanted) for wanted in ("averaged", "raw")] == [
        "averaged",
        "raw",
    ]
    assert weights_in(tmp_path / "one") == "raw"
    half, raw, only = (
        load_model(tmp_path / name, weights=weights)
        for name, weights in (("both", "averaged"), ("both", "raw"), ("one", "averaged"))
    )
    assert torch.equal(half.head, 0.5 * model.head)
    assert torch.equal(raw.head, model.head)
    assert torch.equal(only.head, model.head)
    assert half.state_dict().keys() == model.state_dict().keys()
    save_model(tmp_path / "averages", model, averaged=averaged(model), keep_raw=False)
    assert torch.equal(load_model(tmp_path / "averages").head, half.head)
    with pytest.raises(InputError, match=r"averages has averaged weights only; [^\n]*$"):
        load_model(tmp_path / "averages", weights="raw")
    with pytest.raises(InputError, match="weights is 'mean', but it must be 'averaged' or 'raw'"):
        load_model(tmp_path / "both", weights="mean")


def test_what_does_not_fit_is_named(model, tmp_path):
    save_model(tmp_path / "one", model)
    config = tmp_path / "one" / "config.json"
    rewrite(config, dataclasses.replace(model.config, experts=6).to_dict())
    with pytest.raises(
        InputError, match=r"size mismatch for \S+: copying a param with shape torch\.Size\(\[5"
    ):
        load_model(tmp_path / "one")
    rewrite(config, dataclasses.replace(model.config, depth_attention=False).to_dict())
    with pytest.raises(InputError, match=r"Unexpected key\(s\) in state_dict: .*depth\.gain"):
        load_model(tmp_path / "one")
    save_model(
        tmp_path / "plain", Dreamer(dataclasses.replace(model.config, depth_attention=False))
    )
    rewrite(tmp_path / "plain" / "config.json", model.config.to_dict())
    with pytest.raises(InputError, match=r"Missing key\(s\) in state_dict: .*depth\.gain"):
        load_model(tmp_path / "plain")


def test_a_flipped_bit_in_any_file_is_bad_input(model, tmp_path):
    save_model(tmp_path / "one", model, {"loss": 1.5})
    save_state(tmp_path / "state", 1, TrainingState(model.state_dict(), {"loss": 1.5}))
    one, state = tmp_path / "one", tmp_path / "state" / "000000001"
    read = {
        one / "model.safetensors": lambda: load_model(one),
        one / "config.json": lambda: load_model(one),
        one / "checkpoint.json": lambda: read_checkpoint(one),
        state / "tensors.safetensors": lambda: newest_state(tmp_path / "state"),
        state / "values.json": lambda: newest_values(tmp_path / "state"),
    }
    for path, load in read.items():
        load()
        content = path.read_bytes()
        place = content.rfind(b"1") if path.suffix == ".json" else -100
        path.write_bytes(bytes([*content[:place], content[place] ^ 1, *content[place:][1:]]))
        with pytest.raises(InputError, match=rf"{path.name} is damaged \(its checksum is not"):
            load()
        assert damaged_files(path.parent) == {path.name: "has other content"}
        path.write_bytes(content)


@pytest.mark.parametrize("changes", [{"depth": 10**6}, {"vocabulary_size": 2**31 - 1}])
def test_more_parameters_than_the_file_holds_are_refused_before_they_are_built(
    model, tmp_path, monkeypatch, changes
):
    save_model(tmp_path / "m", model)
    (tmp_path / "m" / "checksums.json").unlink()  # as a stranger's model
    config = {**model.config.to_dict(), "recurrent": False, **changes}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(models, "build", lambda *_, **__: pytest.fail("the model is built"))
    with pytest.raises(InputError, match=r"do not fit the model: its config\.json wants [\d,]{9}"):
        load_model(tmp_path / "m")


def test_damaged_folders_are_bad_input(model, tmp_path):
    with pytest.raises(InputError, match=r"config\.json is missing"):
        load_model(tmp_path)
    save_model(tmp_path / "one", model)
    (tmp_path / "one" / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        load_model(tmp_path / "one")


def test_the_newest_complete_state_is_found_and_older_ones_go(tmp_path):
    folder = tmp_path / "state"
    assert newest_state(folder) is None
    for step in (9, 10, 100):
        save_state(
            folder, step, TrainingState({"x": torch.tensor([float(step)])}, {"loss": 0.1 * step})
        )
        assert [path.name for path in folder.iterdir()] == [f"{step:09d}"]
    (folder / "000000200.partial").mkdir()
    state = newest_state(folder)
    assert state.tensors["x"].item() == 100
    assert state.values == {"loss": 0.1 * 100}
    save_state(folder, 101, TrainingState({}, {}))
    assert [path.name for path in folder.iterdir()] == ["000000101"]


def test_a_state_that_a_trainer_replaces_while_files_are_compared_is_whole(tmp_path, monkeypatch):
    save_state(tmp_path, 3, TrainingState({"x": torch.zeros(2)}, {"step": 3}))
    looks, look = [], checksums._checksum

    def replaced(path):
        looks.append(path)
        if len(looks) == 1:
            save_state(tmp_path, 4, TrainingState({"x": torch.ones(2)}, {"step": 4}))
        return look(path)

    monkeypatch.setattr(checksums, "_checksum", replaced)
    assert damaged_state(tmp_path) == {}
    (tmp_path / "000000003").mkdir()  # of whose removal a kill has left this
    assert damaged_state(tmp_path) == {}
    (tmp_path / "000000004" / "values.json").unlink()
    assert damaged_state(tmp_path) == {"000000004/values.json": "is missing"}


def test_a_damaged_state_is_bad_input_and_other_folders_are_none(tmp_path):
    save_state(tmp_path, 3, TrainingState({"x": torch.zeros(2)}, {"step": 3}))
    (tmp_path / "notes").mkdir()
    (tmp_path / ".nfs0001").touch()
    (tmp_path / "000000009.backup").mkdir()
    save_state(tmp_path, 4, TrainingState({"x": torch.ones(2)}, {"step": 4}), keep=2)
    save_state(tmp_path, 5, TrainingState({"x": torch.ones(2)}, {"step": 5}), keep=2)
    names = {"000000004", "000000005", "notes", ".nfs0001", "000000009.backup"}
    assert {path.name for path in tmp_path.iterdir()} == names
    (tmp_path / "000000005" / "values.json").write_text("[]")
    with pytest.raises(
        InputError,
        match=r"values\.json holds \[\], but it must be .*; remove .*5 to continue from 0+4",
    ):
        newest_state(tmp_path)
    for step in (4, 5):
        shutil.rmtree(tmp_path / f"{step:09d}")
    save_state(tmp_path, 3, TrainingState({"x": torch.zeros(2)}, {"step": 3}))
    assert newest_state(tmp_path).values == {"step": 3}
    values = tmp_path / "000000003" / "values.json"
    values.write_text("{")
    with pytest.raises(
        InputError, match=r"values\.json: not valid JSON .*; remove the run to start over"
    ):
        newest_state(tmp_path)
    rewrite(values, {"step": 3})
    with pytest.raises(
        InputError, match=r"values\.json: loss is missing; remove the run to start over"
    ):
        newest_state(tmp_path, "step", "loss")
    values.unlink()
    with pytest.raises(
        InputError, match=r"No such file.*values\.json'; remove the run to start over"
    ):
        newest_state(tmp_path)


def test_a_full_disk_leaves_the_older_state(tmp_path):
    folder = tmp_path / "state"
    save_state(folder, 1, TrainingState({"x": torch.zeros(10)}, {}))
    with no_space(10_000), pytest.raises(OSError, match=r"tensors\.safetensors"):
        save_state(folder, 2, TrainingState({"x": torch.zeros(10_000)}, {}))
    assert [path.name for path in folder.iterdir()] == ["000000001"]


def test_narrow_numbers_become_the_models_own(model):
    state = model.state_dict()
    narrow = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
    }
    load_tensors(model, narrow, Path("here"))
    assert {name: tensor.dtype for name, tensor in model.state_dict().items()} == {
        n: t.dtype for n, t in state.items()
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", r" holds \[\], but it must be an object"),
        (b"{", ": not valid JSON"),
        (b"\xff", ": not valid JSON"),
        pytest.param(b"[" * 100_000, ": not valid JSON", id="deep"),
        (b'{"deepth": 3}', ": model configuration: unknown key 'deepth'; did you mean 'depth'\\?"),
        (b'{"depth": "3"}', ": model configuration: depth is '3'"),
    ],
)
def test_a_config_that_is_none_is_bad_input(model, tmp_path, content, said):
    save_model(tmp_path / "saved", model, {})
    path = tmp_path / "saved" / "config.json"
    path.write_bytes(content)
    write_checksums(path.parent)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}{said}"):
        load_model(tmp_path / "saved")
