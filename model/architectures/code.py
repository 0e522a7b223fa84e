"""Load a user's class, if code is trusted.

Its files must have the digests with which its model was planned.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import re
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from dreamer_study.model.module_config import TRANSFORMERS, ModuleConfig
from dreamer_study.pipeline.errors import InputError

TRUSTED = "trusted_"  # begins the names of modules that are loaded from files
FOLDER = "code"  # of a run, and of a checkpoint: the files of its model's class

KNOWN = frozenset({"torch", "dreamer-study", "dreamer_study"})
LINE = re.compile(r"\.py:\d+")

_folders: set[Path] = set()  # from which files were loaded: what lies there is the user's


class ModelFailed(InputError):
    """A model's own code has failed, or its numbers are none.

    Before anything is trained that is bad input; in a job it is the failure of this job alone.
    """


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Hash files of code.

    Raises InputError for a file that is not there, or lies outside the folder.
    """
    by_name = {}
    for name in dict.fromkeys(names):
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts or not path.is_file():
            raise InputError(
                f"{name}: there is no such file in {folder}; files of code lie there or below"
            )
        by_name[name] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return by_name


def versions(config: Any, folder: Path) -> dict[str, str]:
    """Return the versions of the packages that a model's files import, by the packages' names.

    Example: {"einops": "0.8.1"}; torch and this package are not among them, whose code is known.
    """
    if not isinstance(config, ModuleConfig):
        return {}
    imported = set()
    if config.module.startswith(f"{TRANSFORMERS}:"):
        imported.add("transformers")
    for name in config.files:
        if name.endswith(".py"):
            imported |= _imported(folder / name)
    by_module = metadata.packages_distributions() if imported else {}
    packages = {package for name in imported for package in by_module.get(name, ())}
    return {package: metadata.version(package) for package in sorted(packages - KNOWN)}


def _imported(path: Path) -> set[str]:
    """Name the packages that a file imports, also within functions; none where it is no Python."""
    names: set[str] = set()
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def copy_code(config: Any, source: Path, target: Path) -> None:
    """Copy the files of code that a model needs, if any, beside the model.

    Raises InputError if the files are no longer what the model was planned with.
    """
    copy_files(getattr(config, "files", {}), source, target)


def copy_files(files: dict[str, str], source: Path, target: Path) -> None:
    """Copy files of code, by name with their digests.

    Raises InputError if one is no longer what was planned with.
    """
    if not files:
        return
    _check(files, source)
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def check_code(files: Mapping[str, str], folder: Path) -> None:
    """Check that a folder `code`, of a run or a checkpoint, holds these files of code alone.

    It may have come from somebody else, and imports of a model's file would take what lies beside.
    Raises InputError for another file, and for one with another digest.
    """
    if not folder.exists():
        return
    for cache in folder.rglob("__pycache__"):
        shutil.rmtree(cache, ignore_errors=True)  # Python would run that in place of the source
    for path in sorted(folder.rglob("*")):
        is_known = path.is_dir() and not path.is_symlink()
        if not is_known and path.relative_to(folder).as_posix() not in files:
            raise InputError(f"{path} is no file of the model as planned; look at it, or remove it")
    _check(dict(files), folder)


def load_class(config: ModuleConfig, folder: Path | None, *, trust_code: bool) -> type:
    """Load the class of a model.

    Raises InputError where code is not trusted, has changed or has no such class.
    """
    file, _, name = config.module.rpartition(":")
    if file == TRANSFORMERS:
        from dreamer_study.model.architectures.transformers_model import TransformersModel

        return TransformersModel.of_type(name)
    return load_from_file(config.module, config.files, folder, trust_code=trust_code)


def load_from_file(
    named: str, files: dict[str, str], folder: Path | None, *, trust_code: bool
) -> type:
    """Load the class `named`, <file>:<class>, whose `files` have these digests.

    Raises InputError where code is not trusted, has changed or has no such class.
    """
    if not trust_code:
        raise InputError(
            f"{named} is Python that this would run: look at the file, then give --trust-code, or"
            " trust_code=True"
        )
    assert folder is not None, "a class of the user's code has a folder of code"
    _check(files, folder)
    file, _, name = named.rpartition(":")
    # by the digests of all files: what the class imports from its folder belongs to it
    digest = "_".join([files[file], *sorted(files.values())])
    loaded = getattr(_load(folder, file, digest), name, None)
    if not isinstance(loaded, type):
        raise InputError(f"{file} has no class {name}")
    return loaded


def _check(files: dict[str, str], folder: Path) -> None:
    """Raise InputError where a file is no longer what it was."""
    now = digests(folder, files)
    changed = [name for name in files if now[name] != files[name]]
    if changed:
        raise InputError(f"{folder / changed[0]} has changed since its model was planned")


def forget_loaded() -> None:
    """Forget the modules of files that were loaded: the next model imports its file anew."""
    for name in [name for name in sys.modules if name.startswith(TRUSTED)]:
        del sys.modules[name]


class _FromSource(SourceFileLoader):
    """Load a file of code as it is written: compiled code beside it may be of another text."""

    def get_code(self, fullname: str) -> Any:
        """Compile the source."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _load(folder: Path, file: str, digest: str) -> Any:
    """Import a file; what it imports from its folder is its own.

    So another model may have another file of the same name.
    """
    own_name = TRUSTED + digest
    if own_name in sys.modules:
        return sys.modules[own_name]
    path = (folder / file).resolve()
    _folders.add(folder.resolve())
    loader = _FromSource(own_name, str(path))
    specification = importlib.util.spec_from_file_location(own_name, path, loader=loader)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    searched = [str(path.parent), str(folder.resolve())]
    before = set(sys.modules)
    sys.path[:0] = searched
    for place in searched:
        sys.path_importer_cache[place] = FileFinder(place, (_FromSource, [".py"]))
    sys.modules[own_name] = module
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[own_name]
        raise ModelFailed(f"{file} cannot be imported: {described(error)}") from error
    finally:
        del sys.path[: len(searched)]
        for place in searched:
            sys.path_importer_cache.pop(place, None)
        # forget the modules of the folder: the next model may import others of these names
        for name in set(sys.modules) - before - {own_name}:
            imported_from = getattr(sys.modules[name], "__file__", None) or ""
            if Path(imported_from).is_relative_to(folder.resolve()):
                del sys.modules[name]
    return module


def described(error: BaseException, kind: Any = None) -> str:
    """Describe an error of the user's code in a line: where it happened, and what went wrong.

    The place is the innermost line in a file of the user's, or where `kind`, a class, begins. Code
    of transformers stands for the user's where that library is the model.
    """
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{Path(error.filename).name}:{error.lineno}: "
    else:
        where = _innermost(error) or place_of(kind)
    try:
        reason = " ".join(str(error).split())[:200]
    except Exception:  # an exception of the user's that cannot say what it is
        reason = "which cannot be printed"
    return f"{where}{type(error).__name__}: {reason}"


def place_of(kind: Any) -> str:
    """Say where a class of the user's begins; "" for what is none."""
    try:
        file = inspect.getsourcefile(kind)
        _, line = inspect.getsourcelines(kind)
    except (TypeError, OSError):
        return ""
    return f"{Path(file).name}:{line}: " if file and _is_users(file) else ""


@contextmanager
def naming_line(config: ModuleConfig, folder: Path | None, *, trust_code: bool) -> Iterator[None]:
    """Add the line on which the class begins to a ModelFailed of the block that names no line."""
    try:
        yield
    except ModelFailed as error:
        if LINE.search(str(error)):
            raise
        place = place_of(load_class(config, folder, trust_code=trust_code))
        where = f" ({place.removesuffix(': ')})" if place else ""
        raise ModelFailed(f"{error}{where}") from error


def _innermost(error: BaseException) -> str:
    """Find the innermost line of an error that is of a model's code; "" where none is."""
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        is_own = frame.f_globals.get("__name__", "").startswith("dreamer_study.")
        if not is_own and (_is_users(file) or "transformers/models/" in file):
            where = f"{Path(file).name}:{line}: "
    return where


def _is_users(file: str) -> bool:
    """Tell whether a file lies in a folder from which models were loaded, and is no library's."""
    if "site-packages" in file:
        return False
    return any(Path(file).is_relative_to(folder) for folder in _folders)
