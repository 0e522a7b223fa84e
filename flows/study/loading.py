"""Load a study: find the preset or the YAML file, read the text strictly, validate the values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dreamer_study.flows.study.configuration import PRESETS, Study
from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.pipeline.plain_yaml import PlainLoader
from dreamer_study.pipeline.settings import one_line
from dreamer_study.pipeline.storage.files import from_home, write_text_atomically
from dreamer_study.pipeline.storage.links import refuse_links

# files in the study's folder: the mirror of its last run, and the STUDY argument of that run
MIRROR = ".mirror"
NAMED = ".study"
PUBLISHED = "environment.json"  # marks a folder that `dreamer publish` wrote
# Other files of the folder that are written in place. W&B fills its own folder with links.
WRITTEN = (
    ".prefect",
    ".running.lock",
    "evaluating",
    "report",
    "results.duckdb",
    "results.duckdb.wal",
    "store",
    "tensorboard",
)


def presets() -> list[str]:
    """List the names of the studies that come with the package."""
    return sorted(file.stem for file in PRESETS.glob("*.yaml"))


def study_named_by(study: Study, name: str) -> str | Path:
    """Return what a study's `data.like` names: a preset, or a file or folder beside its file."""
    return name if name in presets() else study.place / from_home(Path(name))


def lasting_name(study: Study) -> str:
    """Return a name that is valid in any folder: a preset's name, or an absolute path."""
    name = shlex.split(study.arguments)[0]
    if name in presets() or Path(name).is_absolute():
        return name
    return str(study.place / Path(name).name)


def note_name(study: Study) -> None:
    """Write the study's name into its folder, so that the folder can stand for the study.

    A study that was built from values in Python has no such name.
    """
    if study.named:
        write_text_atomically(study.folder / NAMED, lasting_name(study))


def find_study(name: str, root: Path | str | None = None) -> tuple[str, Path | str | None]:
    """Find the study that STUDY names: a preset, a study file, or the folder of a study.

    Returns the preset's name or the path of the study file, and the folder that the study writes to
    if `root` or STUDY gives it. A preset comes before a folder of the same name. A published folder
    stands for its study file only, since no study writes there. Raises InputError for a folder that
    belongs to no known study.
    """
    folder = Path(name)
    if name in presets() or not folder.is_dir():
        return name, root
    if (folder / PUBLISHED).is_file():
        return str(folder / "study.yaml"), root
    refuse_other_root(folder, root)
    return _study_of_folder(folder), folder


def refuse_other_root(folder: Path, root: Path | str | None) -> None:
    """Raise InputError if a study is named by its folder and `root` is another folder."""
    if root is not None and from_home(Path(root)).resolve() != folder.resolve():
        raise InputError(
            f"{folder} is a study's folder, but --root names {root}; give one of the two"
        )


def _study_of_folder(folder: Path) -> str:
    """Return the preset or the file of the study that a folder belongs to."""
    note = folder / NAMED
    noted = note.read_text(encoding="utf-8").strip() if note.is_file() else ""
    # the study's own file, or the file of a run before runs wrote a note
    files = [folder / "study.yaml", folder / "report" / "study.yaml"]
    if noted in presets() or (noted and Path(noted).is_file()):
        return noted
    for file in files:
        if file.is_file():
            return str(file)
    if noted:
        raise InputError(
            f"{folder} was made from {noted}, which no longer exists; name the study file and add"
            f" --root {shlex.quote(str(folder))}"
        )
    raise InputError(
        f"{folder} is not the folder of a study: no run has written there, and it has no"
        " study.yaml;"
        f" name a preset ({', '.join(presets())}), a study file or a study's folder"
    )


def as_file(study: str | Study, *, root: Path | str | None = None) -> str:
    """Return the name or the path of a study.

    A `Study` is written to `study.yaml` in its folder.
    """
    if not isinstance(study, Study):
        return study
    if root is not None:
        study = study.model_copy(update={"root": from_home(Path(root))})
    return str(_write(study))


def named_by_file(study: Study) -> Study:
    """Return the study with a name or a path by which commands find it.

    A study that was built from values is written to `study.yaml` in its folder. Relative paths in
    the study keep their meaning.
    """
    if study._arguments is not None:
        return study
    named = study.model_copy()
    named._arguments = shlex.join([str(_write(study)), "--root", str(study.folder)])
    return named


def _write(study: Study) -> Path:
    """Write the values of a study to `study.yaml` in its folder."""
    path = study.folder / "study.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    values = study.model_dump(mode="json", exclude_unset=True)
    write_text_atomically(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    return path


def load_changed(
    study: str | Study,
    changes: Mapping[str, Any] | None = None,
    *,
    mirror: Path | str | None = None,
    root: Path | str | None = None,
) -> Study:
    """Load a study with other values for some keys, such as {"training.tokens": 200000}.

    A changed study is written to `study.yaml` in its folder, where `dreamer status` finds it.
    Relative paths start at the folder of the original file. Raises InputError as `load_study` does.
    """
    loaded = load_study(as_file(study, root=root), mirror=mirror, root=root, changes=changes)
    if changes:
        loaded._arguments = shlex.join([str(_write(loaded)), "--root", str(loaded.folder)])
        # Changed models or benchmarks of a preset may bring other people's code.
        sections = {key.partition(".")[0] for key in changes}
        loaded._changed = bool(sections & {"models", "evaluation"})
    return loaded


def load_study(
    study: str | Path | Mapping[str, Any],
    *,
    mirror: Path | str | None = None,
    root: Path | str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Study:
    """Load a study from the name of a preset, the path of a file or a folder, or a mapping.

    `changes` maps dotted keys to other values. `mirror` and `root` replace the study's own values.
    A study without a mirror takes the mirror of its last run.

    Raises InputError, with a text of one line, if the file does not exist, is not YAML or does not
    validate; if a file is in the place of the study's folder; and if a link in that folder leads
    out of it.
    """
    if isinstance(study, Mapping):
        named = None
        content = dict(study)
    else:
        named, root = find_study(str(study), root)
        content = _read_content(named)
    for key, value in (changes or {}).items():
        _change(content, key, value, named or "study")
    data = content.get("data") or {}
    if mirror is not None and isinstance(data, dict):  # else validation says what is wrong
        content["data"] = {**data, "mirror": str(mirror)}
    if root is not None:
        content["root"] = str(root)
    try:
        loaded = Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{named or 'study'}: {one_line(error)}") from None
    if named is not None:
        arguments = [named]
        if root is not None:
            arguments += ["--root", str(root)]
        loaded._arguments = shlex.join(arguments)
        loaded._place = PRESETS if named in presets() else Path(named).parent
    _check_folder(loaded.folder, "`root` or --root")
    _check_folder(loaded.store_folder, "`store`")
    refuse_links(loaded.folder, WRITTEN)
    last_mirror = loaded.folder / MIRROR
    if not loaded.mirror and last_mirror.exists():
        folder = last_mirror.read_text(encoding="utf-8")
        if Path(folder).is_dir():
            return load_study(study, mirror=folder, root=root, changes=changes)
    return loaded


def _check_folder(folder: Path, setting: str) -> None:
    """Raise InputError if a file is in the place of a folder that the study writes to."""
    for path in (folder, *folder.parents):
        if path.is_file():
            raise InputError(
                f"{path} is a file, but the study writes to the folder {folder}; name another"
                f" folder with {setting}"
            )


def _read_content(study: str) -> dict[str, Any]:
    """Read the mapping in a preset or a YAML file."""
    if study in presets():
        content = read_yaml(study, (PRESETS / f"{study}.yaml").read_text())
    elif Path(study).is_file():  # a device or a pipe might never end
        content = read_yaml(study, Path(study).read_bytes())
    else:
        raise InputError(
            f"study {study!r} is neither a preset ({', '.join(presets())}) nor a YAML file that"
            f" exists, nor a study's folder{nearest(study, presets())}"
        )
    if not isinstance(content, dict):
        raise InputError(
            f"{study}: a study must be a mapping with the keys {', '.join(Study.model_fields)}"
        )
    return content


def _change(content: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set the value of a dotted key in the content of a study.

    >>> content = {"training": {"tokens": 1000}}
    >>> _change(content, "training.seeds", [0, 1], "demo")
    >>> content
    {'training': {'tokens': 1000, 'seeds': [0, 1]}}
    """
    *sections, name = key.split(".")
    section = content
    for part in sections:
        if section.get(part) is None:
            section[part] = {}
        section = section[part]
        if not isinstance(section, dict):
            raise InputError(f"{where}: {key}: {part} has no keys; give its whole value")
    section[name] = value


class _StrictLoader(PlainLoader):
    """Load plain values only; 3e-4 and 1.5e9 are numbers.

    A key that is given twice is an error. YAML itself would take the second value.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [
            key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"
        ]
        seen = set[str]()
        for key in keys:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(
                    f"the key {key.value!r} is given twice, the second time in line {line}"
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))


def read_yaml(where: str, text: str | bytes) -> Any:
    """Parse a YAML text.

    Raises InputError for invalid YAML, with a text of one line that begins with `where`.
    """
    try:
        return yaml.load(text, _StrictLoader)
    # ValueError: a number that is too long; RecursionError: nesting that is too deep
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None
