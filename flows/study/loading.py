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
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.settings import one_line
from dreamer_study.pipeline.storage.files import write_text_atomically

MIRROR = ".mirror"  # in the study's folder: where its last run looked for data sets


def presets() -> list[str]:
    """List the names of the studies that come with the package."""
    return sorted(file.stem for file in PRESETS.glob("*.yaml"))


def lasting_name(study: Study) -> str:
    """Return what the study is called in any folder: a preset's name, or a path from the root."""
    name = shlex.split(study.arguments)[0]
    if name in presets() or Path(name).is_absolute():
        return name
    return str(study.place / Path(name).name)


def as_file(study: str | Study, *, root: Path | str | None = None) -> str:
    """Return the name or path of a study.

    A study that came as values is written to `study.yaml` in its folder.
    """
    if not isinstance(study, Study):
        return study
    if root is not None:
        study = study.model_copy(update={"root": Path(root).expanduser()})
    return str(_write(study))


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
    """Load a study with other values for some of its keys, as {"training.tokens": 200000}.

    A study that was changed is written to `study.yaml` in its folder, by which `dreamer status`
    finds it. Files that the study names are looked for beside the file that was changed.
    """
    loaded = load_study(as_file(study, root=root), mirror=mirror, root=root, changes=changes)
    if changes:
        loaded._arguments = shlex.join([str(_write(loaded)), "--root", str(loaded.folder)])
        # Who changes models or benchmarks of a preset may bring code of somebody else's.
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
    """Load the study of a preset's name, of a YAML file's path, or of a mapping.

    `changes` has other values by dotted keys; `mirror` and `root` override the study's own values.
    A study without a mirror takes that of its last run. Raises InputError, in one line, for a file
    that does not exist, is not YAML, or does not validate, and for a file where the study's folder
    is to be.
    """
    if isinstance(study, Mapping):
        named = None
        content = dict(study)
    else:
        named = str(study)
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
    last_mirror = loaded.folder / MIRROR
    if not loaded.mirror and last_mirror.exists():
        folder = last_mirror.read_text(encoding="utf-8")
        if Path(folder).is_dir():
            return load_study(study, mirror=folder, root=root, changes=changes)
    return loaded


def _check_folder(folder: Path, setting: str) -> None:
    """Raise InputError where a file is in the way of a folder that the study writes to."""
    for path in (folder, *folder.parents):
        if path.is_file():
            raise InputError(
                f"{path} is a file, and the study writes to a folder {folder}; name another by"
                f" {setting}"
            )


def _read_content(study: str) -> dict[str, Any]:
    """Read the mapping in a preset or a YAML file."""
    if study in presets():
        content = read_yaml(study, (PRESETS / f"{study}.yaml").read_text())
    elif Path(study).is_file():  # no device, and no pipe that nobody may ever fill
        content = read_yaml(study, Path(study).read_bytes())
    else:
        raise InputError(
            f"study {study!r} is neither a preset ({', '.join(presets())}) nor a YAML file that"
            " exists"
        )
    if not isinstance(content, dict):
        raise InputError(
            f"{study}: a study is a mapping with the keys {', '.join(Study.model_fields)}"
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
            raise InputError(f"{where}: {key}: {part} has no keys of its own; give it whole")
    section[name] = value


class _StrictLoader(yaml.SafeLoader):
    """Load plain values only; 3e-4 and 1.5e9 are numbers.

    A key that is given twice is an error, where YAML takes the second.
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

    Raises InputError, in one line that begins with `where`, for any other text.
    """
    try:
        return yaml.load(text, _StrictLoader)
    # the last two for a number and for a nesting without an end
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None
