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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import metadata
from importlib.machinery import FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from dreamer_study.model.module_config import TRANSFORMERS, ModuleConfig
from dreamer_study.pipeline.errors import InputError

TRUSTED = "trusted_"  # begins the names of modules that are loaded from files
FOLDER = "code"  # of a run, and of a checkpoint: the files of its model's class

KNOWN = frozenset({"torch", "dreamer-study", "dreamer_study"})
LINE = re.compile(r"\.py:\d+")

_folders: set[Path] = set()  # from which files were loaded: what lies there is the user's
_late: dict[str, LateImports] = {}  # by the digests of a class's files


class LateImports:
    """Let the code of a class import the other files of its folder while it runs.

    Between its calls these files cannot be imported, as another class may have files of the same
    names. What was imported once stays the same module.
    """

    def __init__(self, folder: Path, searched: list[Path], files: Iterable[str]) -> None:
        self._folder = folder
        self._searched = [str(place) for place in searched]
        self._files = {(folder / name).resolve() for name in files}
        self.modules: dict[str, ModuleType] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find one of the files, or a folder with one, as `sys.meta_path` asks."""
        if path is not None:  # within a package, which knows its own folder
            return None
        spec = PathFinder.find_spec(name, self._searched)
        if spec is None:
            return None
        if spec.origin is not None:
            return spec if Path(spec.origin).resolve() in self._files else None
        places = [Path(place).resolve() for place in spec.submodule_search_locations or ()]
        holds_own = any(file.is_relative_to(place) for place in places for file in self._files)
        return spec if holds_own else None

    def take_modules(self, before: Mapping[str, ModuleType]) -> None:
        """Take the modules of the folder that were imported since, out of the others' sight."""
        for name in [name for name in sys.modules if name not in before]:
            if name.startswith(TRUSTED):
                continue
            if _is_below(sys.modules[name], self._folder):
                self.modules[name] = sys.modules.pop(name)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let what runs in the block import the files."""
        if len(self._files) < 2 or self in sys.meta_path:
            yield
            return
        hidden = {name: sys.modules[name] for name in self.modules if name in sys.modules}
        before = {name: module for name, module in sys.modules.items() if name not in hidden}
        sys.modules.update(self.modules)
        sys.meta_path.insert(0, self)
        try:
            with _from_source(self._folder.resolve()):
                yield
        finally:
            sys.meta_path.remove(self)
            self.take_modules(before)
            sys.modules.update(hidden)


def late_imports(config: Any) -> AbstractContextManager[None]:
    """Let the code of a model's class import the other files of the class in the block."""
    late = _late.get(_own_name(config.module, config.files)) if config.files else None
    return late.allowed() if late else nullcontext()


def _is_below(module: ModuleType, folder: Path) -> bool:
    """Tell whether a module is of a file in a folder, or is that folder's package."""
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", ()))
    return any(Path(place).is_relative_to(folder.resolve()) for place in places)


class ModelFailed(InputError):
    """A model's own code has failed, or its numbers are none.

    Before anything is trained that is bad input; in a job it is the failure of this job alone.
    """


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Hash files of code, and the files of the folder that they import, wherever they do.

    Raises InputError for a file that is not there, or lies outside the folder.
    """
    by_name: dict[str, str] = {}
    left = list(names)
    searched = list(dict.fromkeys([folder, *((folder / name).parent for name in left)]))
    while left:
        name = left.pop(0)
        if name not in by_name:
            by_name[name] = _digest(folder, name)
            left += _own_imports(folder, name, searched)
    return by_name


def _digest(folder: Path, name: str) -> str:
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts or not path.is_file():
        raise InputError(
            f"{name}: there is no such file in {folder}; files of code lie there or below"
        )
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _own_imports(folder: Path, name: str, searched: Iterable[Path]) -> list[str]:
    """Name the files of a folder that one of them imports; `searched` is where imports look."""
    path = folder / name
    if path.suffix != ".py":
        return []
    found: list[Path] = []
    for module, level in _imports(path):
        parts = module.split(".") if module else []
        if level:
            starts = list(path.parents)[level - 1 : level]
        else:
            starts = [] if parts[0] in sys.stdlib_module_names else list(searched)
        for start in starts:
            packages = range(0 if level else 1, len(parts) + 1)
            found += [start.joinpath(*parts[:end], "__init__.py") for end in packages]
            if parts:
                found.append(start.joinpath(*parts[:-1], f"{parts[-1]}.py"))
    own = [file for file in found if file.is_relative_to(folder) and file.is_file()]
    return [file.relative_to(folder).as_posix() for file in own]


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
    packages = {package for name in imported for package in _packages_of().get(name, ())}
    return {package: metadata.version(package) for package in sorted(packages - KNOWN)}


@cache
def _packages_of() -> Mapping[str, list[str]]:
    """Name the packages that hold each module; looks at every file that is installed."""
    return metadata.packages_distributions()


def _imported(path: Path) -> set[str]:
    """Name the packages that a file imports, also within functions; none where it is no Python."""
    return {module.partition(".")[0] for module, level in _imports(path) if not level}


def _imports(path: Path) -> list[tuple[str, int]]:
    """List the modules that a file imports, also within functions, with their relative levels.

    There are none where the file is no Python. Of `from a import b` both a and a.b are named, as b
    may be a module.
    """
    return _imports_of(path.read_bytes())


@cache
def _imports_of(text: bytes) -> list[tuple[str, int]]:
    modules: list[tuple[str, int]] = []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return modules
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            modules.append((source, node.level))
            modules += [(f"{source}.{alias.name}".lstrip("."), node.level) for alias in node.names]
    return modules


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
    for compiled in folder.rglob("__pycache__"):
        shutil.rmtree(compiled, ignore_errors=True)  # Python would run that in place of the source
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
            f"{named} is Python code, which this would run; read the file, then give --trust-code,"
            " or trust_code=True"
        )
    assert folder is not None, "a class of the user's code has a folder of code"
    _check(files, folder)
    file, _, name = named.rpartition(":")
    loaded = getattr(_load(folder, file, files, _own_name(named, files)), name, None)
    if not isinstance(loaded, type):
        raise InputError(f"{file} has no class {name}")
    return loaded


def _check(files: dict[str, str], folder: Path) -> None:
    """Raise InputError where a file is no longer what it was."""
    now = digests(folder, files)
    changed = [name for name in files if now[name] != files[name]]
    if changed:
        raise InputError(
            f"{folder / changed[0]} has changed since its model was planned; give the command again"
        )


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


@contextmanager
def _from_source(folder: Path) -> Iterator[None]:
    """Import files of a folder, at any depth, from their sources alone in the block."""

    def find_below(place: str) -> FileFinder:
        if not Path(place).is_relative_to(folder):
            raise ImportError  # as a hook says that a place is none of its own
        return FileFinder(place, (_FromSource, [".py"]))

    def forget_finders() -> None:
        for place in list(sys.path_importer_cache):
            if Path(place).is_relative_to(folder):
                del sys.path_importer_cache[place]

    forget_finders()
    sys.path_hooks.insert(0, find_below)
    try:
        yield
    finally:
        sys.path_hooks.remove(find_below)
        forget_finders()


def _own_name(named: str, files: Mapping[str, str]) -> str:
    """Name the module of a class.

    By the digests of all its files: what the class imports from its folder belongs to it.
    """
    file, _, _ = named.rpartition(":")
    return TRUSTED + "_".join([files[file], *sorted(files.values())])


def _load(folder: Path, file: str, files: Iterable[str], own_name: str) -> Any:
    """Import a file; what it imports from its folder is its own.

    So another model may have another file of the same name.
    """
    if own_name in sys.modules:
        return sys.modules[own_name]
    path = (folder / file).resolve()
    _folders.add(folder.resolve())
    loader = _FromSource(own_name, str(path))
    specification = importlib.util.spec_from_file_location(own_name, path, loader=loader)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    searched = [path.parent, folder.resolve()]
    before = dict(sys.modules)
    sys.path[:0] = map(str, searched)
    sys.modules[own_name] = module
    late = LateImports(folder, searched, files)
    try:
        with _from_source(folder.resolve()):
            specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[own_name]
        raise ModelFailed(f"{file} cannot be imported: {described(error)}") from error
    finally:
        del sys.path[: len(searched)]
        late.take_modules(before)
    _late[own_name] = late
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
