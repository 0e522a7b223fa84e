"""Write and read models and resume states.

Each is a folder, which gets its final name when it is complete. Two kinds: a model, which
evaluation reads and nothing rewrites; and a run's state, everything that training needs to resume
bit for bit, of which the newest stay. A model is `config.json`, `model.safetensors` and, of a
training run, `averaged.safetensors` and `checkpoint.json`. `checksums.json` in each has the CRC-32
of every other file. Nothing is pickled.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dreamer_study.model.accounting import parameters
from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import FOLDER as CODE
from dreamer_study.model.architectures.code import check_code, copy_code
from dreamer_study.model.checkpoints.checksums import (
    check_file,
    list_states,
    read_checked,
    write_checksums,
)
from dreamer_study.model.contract import Network
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.module_config import Architecture, read_architecture
from dreamer_study.pipeline.errors import InputError, placing
from dreamer_study.pipeline.storage.files import PARTIAL, atomic_folder

FILES = {"averaged": "averaged.safetensors", "raw": "model.safetensors"}
"""The file of each kind of weights: their running average, and the weights as trained."""

FAR_MORE = 2
"""Times as many parameters as a file holds, beyond which a model is not built."""


@dataclass(frozen=True)
class TrainingState:
    """Hold everything that a run resumes from: tensors by name, and plain values."""

    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any]


def save_weights(
    folder: Path,
    config: Architecture,
    raw: Mapping[str, Tensor],
    extra: Mapping[str, Any] | None = None,
    averaged: Mapping[str, Tensor] | None = None,
    *,
    keep_raw: bool = True,
    code: Path | None = None,
) -> None:
    """Write a model's tensors, with `extra` as checkpoint.json, to a new folder.

    Raises InputError if the folder exists. `averaged` holds averages of the model's tensors, by
    name; tensors without an average are written as they are. Then the raw tensors are written only
    with `keep_raw`. `code` is the folder of the files that the model needs, if any.
    """
    if folder.exists():
        raise InputError(
            f"{folder} exists already, and checkpoints are never overwritten; remove the folder or"
            " name another one"
        )
    with atomic_folder(folder) as partial:
        if keep_raw:
            _save_tensors(partial / FILES["raw"], raw)
        if averaged:
            _save_tensors(partial / FILES["averaged"], {**raw, **averaged})
        (partial / "config.json").write_text(json.dumps(config.to_dict(), indent=1))
        if extra is not None:
            (partial / "checkpoint.json").write_text(json.dumps(extra, indent=1))
        write_checksums(partial)
        if code:
            copy_code(config, code, partial / CODE)


def load_model(
    folder: Path | str,
    device: str | torch.device = "cpu",
    weights: str = "averaged",
    *,
    trust_code: bool = False,
) -> Network:
    """Load the model of a folder that `save_weights` wrote, in evaluation mode.

    With `weights` "averaged" the average is loaded where the folder holds one, else the only
    weights; with "raw" the weights as trained. Code of the user's is run with `trust_code` only.
    Raises InputError if the folder holds no model, is damaged, or holds tensors that do not fit its
    configuration (naming the tensors).
    """
    folder = Path(folder)
    if weights not in FILES:
        raise InputError(f"weights is {weights!r}, but it must be {' or '.join(map(repr, FILES))}")
    if not (folder / "config.json").is_file():
        raise InputError(f"no model in {folder}: config.json is missing")
    config = _load_config(folder / "config.json")
    file = folder / FILES[weights_in(folder, weights)]
    if weights == "raw" and not file.exists() and (folder / FILES["averaged"]).exists():
        raise InputError(
            f"{folder} has averaged weights only; a study keeps raw weights if it sets"
            " evaluation.weights: both"
        )
    tensors = _load_tensors(file)
    _check_size(config, tensors, folder)
    with torch.device(device):  # as in training: a class's table that is no buffer would not move
        model = build(config, code=folder / CODE, trust_code=trust_code, empty=True)
    load_tensors(model, tensors, folder)
    return model.to(device).eval()


def check_model_code(folder: Path, planned: Mapping[str, str] | None) -> None:
    """Check the code of a model that `save_weights` wrote before that code is trusted.

    Raises InputError where its files are not those of its configuration, or where these have other
    digests than `planned`: who can write to the folder can write its configuration too.
    """
    if not (folder / "config.json").is_file():
        return
    files = getattr(_load_config(folder / "config.json"), "files", {})
    if planned is not None and files != planned:
        raise InputError(
            f"{folder / CODE} is not the code that the study has planned; remove the run, to train"
            " it again"
        )
    check_code(files, folder / CODE)


def _check_size(config: Architecture, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Raise InputError where a configuration wants far more parameters than the file holds.

    To build a model of a million layers takes minutes, only to see that its tensors are not there.
    """
    if not isinstance(config, DreamerConfig):
        return
    wanted = parameters(config)
    held = sum(tensor.numel() for tensor in tensors.values())
    if wanted > FAR_MORE * held:  # else torch names the tensors that do not fit
        raise InputError(
            f"the tensors in {folder} do not fit the model: its config.json wants {wanted:,}"
            f" parameters, and the file holds {held:,} numbers"
        )


def weights_in(folder: Path | str, wanted: str = "averaged") -> str:
    """Tell which weights `load_model` loads: "raw" also where the folder holds no average."""
    has_average = (Path(folder) / FILES["averaged"]).exists()
    return "averaged" if wanted == "averaged" and has_average else "raw"


def load_tensors(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Replace the tensors of a model, in the model's dtypes.

    A model without memory (on the device "meta") takes these tensors as its own. Raises InputError
    where tensors are missing, unknown or of another shape; the model is then good for nothing.
    """
    own = model.state_dict()
    converted = {
        name: tensor.to(own[name].dtype) if name in own else tensor
        for name, tensor in tensors.items()
    }
    without_memory = any(tensor.is_meta for tensor in own.values())
    try:
        model.load_state_dict(converted, assign=without_memory)
    except RuntimeError as error:  # torch names the tensors that do not fit, a line for each kind
        reason = " ".join(str(error).split())
        raise InputError(f"the tensors in {source} do not fit the model: {reason[:400]}") from None


def save_state(folder: Path, step: int, state: TrainingState, keep: int = 1) -> None:
    """Write `folder/<step>/`, and remove all but the newest `keep` states.

    What unfinished writes have left is removed too.
    """
    path = folder / f"{step:09d}"
    if not path.exists():
        with atomic_folder(path) as partial:
            _save_tensors(partial / "tensors.safetensors", state.tensors)
            (partial / "values.json").write_text(json.dumps(state.values, indent=1))
            write_checksums(partial)
    older = list_states(folder)[:-keep]
    unfinished = folder.glob(f"[0-9]*{PARTIAL}")
    for other in (*older, *unfinished):
        shutil.rmtree(other)


def newest_state(folder: Path, *names: str) -> TrainingState | None:
    """Read the newest complete state in `folder`, or return None.

    Raises InputError if the state cannot be read, or its values lack one of `names`.
    """
    states = list_states(folder)
    if not states:
        return None
    try:
        values = read_checked(states[-1] / "values.json", *names)
        return TrainingState(_load_tensors(states[-1] / "tensors.safetensors"), values)
    except (OSError, InputError) as error:
        if len(states) > 1:
            advice = f"remove {states[-1]} to continue from {states[-2].name}"
        else:
            advice = "remove the run to start over"
        raise InputError(f"{error}; {advice}") from error


def _save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, with the mode of other new files: the library's own shuts others out."""
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
        path.chmod(mode)
    except SafetensorError as error:  # how the library reports a full disk
        raise OSError(f"cannot write {path}: {error}") from error


def _load_config(path: Path) -> Architecture:
    try:
        values = read_checked(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    with placing(str(path)):
        return read_architecture(values)


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        check_file(path)
        return load_file(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing") from error
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} is damaged ({error})") from error
