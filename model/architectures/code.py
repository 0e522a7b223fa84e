"""Load a class of the user's: from files that have the digests which its model was planned with, if
code is trusted."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dreamer_study.model.module_config import TRANSFORMERS, ModuleConfig
from dreamer_study.pipeline.errors import InputError

TRUSTED = "trusted_"  # begins the names of modules that are loaded from files
FOLDER = "code"  # of a run, and of a checkpoint: the files of its model's class


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Hash files of code. Raises InputError for a file that is not there, or lies outside the
    folder."""
    found = {}
    for name in dict.fromkeys(names):
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts or not path.is_file():
            raise InputError(
                f"{name}: there is no such file in {folder}; files of code lie there or below"
            )
        found[name] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return found


def copy_code(config: Any, source: Path, target: Path) -> None:
    """Copy the files of code that a model needs, if any, so that the model is whole without the
    folder they came from.

    Raises InputError if they are no longer what the model was planned with.
    """
    if files := getattr(config, "files", {}):
        _check(files, source)
        for name in files:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / name)


def load_class(config: ModuleConfig, folder: Path | None, *, trust_code: bool) -> type:
    """Load the class of a model. Raises InputError where code is not trusted, has changed or has no
    such class."""
    file, _, name = config.module.rpartition(":")
    if file == TRANSFORMERS:
        from dreamer_study.model.architectures.transformers_model import TransformersModel

        return TransformersModel.of_type(name)
    if not trust_code:
        raise InputError(
            f"{config.module} is Python that this would run: look at the file, then give"
            " --trust-code, or trust_code=True"
        )
    assert folder is not None, "a model of the user's code has a folder of code"
    _check(config.files, folder)
    module = _load(folder, file, "_".join([config.files[file], *sorted(config.files.values())]))
    if not isinstance(kind := getattr(module, name, None), type):
        raise InputError(f"{file} has no class {name}")
    return kind


def _check(files: dict[str, str], folder: Path) -> None:
    now = digests(folder, files)
    if changed := [name for name in files if now[name] != files[name]]:
        raise InputError(f"{folder / changed[0]} has changed since its model was planned")


def forget_loaded() -> None:
    """Forget the modules of files that were loaded: the next model imports its file anew."""
    for name in [name for name in sys.modules if name.startswith(TRUSTED)]:
        del sys.modules[name]


def _load(folder: Path, file: str, digest: str) -> Any:
    """Import a file; what it imports from its folder is its own, also where another model has a
    file of that name."""
    own = TRUSTED + digest
    if own in sys.modules:
        return sys.modules[own]
    path = (folder / file).resolve()
    specification = importlib.util.spec_from_file_location(own, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    places = [str(path.parent), str(folder.resolve())]
    sys.path[:0], before = places, set(sys.modules)
    sys.modules[own] = module
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[own]
        raise InputError(f"{file} cannot be imported: {described(error)}") from error
    finally:
        del sys.path[: len(places)]
        for name in set(sys.modules) - before - {own}:
            place = getattr(sys.modules[name], "__file__", None) or ""
            if Path(place).is_relative_to(folder.resolve()):
                del sys.modules[name]
    return module


def described(error: BaseException) -> str:
    """Describe an error of the user's code in a line: the innermost place that is no library's, and
    what went wrong."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
    ]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
    return f"{place}{type(error).__name__}: {' '.join(str(error).split())[:200]}"
