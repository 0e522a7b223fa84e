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
from dreamer_study.pipeline.storage.files import write_text_atomically


def presets() -> list[str]:
    """List the names of the studies that come with the package."""
    return sorted(file.stem for file in PRESETS.glob("*.yaml"))


MIRROR = ".mirror"  # in the study's folder: where its last run looked for data sets


def lasting_name(study: Study) -> str:
    """Return the name of the study's preset, or the absolute path of its file: what it is called in
    any folder."""
    name = shlex.split(study.arguments)[0]
    if name in presets() or Path(name).is_absolute():
        return name
    return str(study.place / Path(name).name)


def as_file(study: str | Study, *, root: Path | str | None = None) -> str:
    """Return the name or path of a study; one that came as values is written into its folder."""
    if not isinstance(study, Study):
        return study
    chosen = study if root is None else study.model_copy(update={"root": Path(root).expanduser()})
    return str(_write(chosen))


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
    named = None if isinstance(study, Mapping) else str(study)
    content = dict(study) if isinstance(study, Mapping) else _read_content(str(study))
    for key, value in (changes or {}).items():
        _change(content, key, value, named or "study")
    if mirror is not None and isinstance(content.get("data") or {}, dict):
        content["data"] = {**(content.get("data") or {}), "mirror": str(mirror)}
    if root is not None:
        content["root"] = str(root)
    try:
        loaded = Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{named or 'study'}: {_on_one_line(error)}") from None
    if named is not None:
        loaded._arguments = shlex.join([named, *([] if root is None else ["--root", str(root)])])
        loaded._place = PRESETS if named in presets() else Path(named).parent
    for folder, setting in ((loaded.folder, "`root` or --root"), (loaded.store_folder, "`store`")):
        if file := next((place for place in (folder, *folder.parents) if place.is_file()), None):
            raise InputError(
                f"{file} is a file, and the study writes to a folder {folder}; name another by"
                f" {setting}"
            )
    last = loaded.folder / MIRROR
    if (
        not loaded.mirror
        and last.exists()
        and Path(found := last.read_text(encoding="utf-8")).is_dir()
    ):
        return load_study(study, mirror=found, root=root, changes=changes)
    return loaded


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
    """Load plain values only; 3e-4 and 1.5e9 are numbers. A key given twice is an error: YAML takes
    the second."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [
            key.value
            for key, _ in node.value
            if isinstance(key, yaml.ScalarNode) and key.value != "<<"
        ]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(
                    f"the key {key!r} is given twice, {str(node.start_mark).strip()}"
                )
        return super().construct_mapping(node, deep)


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))


def read_yaml(where: str, text: str | bytes) -> Any:
    """Parse a YAML text. Raises InputError, in one line that begins with `where`, for any other
    text."""
    try:
        return yaml.load(text, _StrictLoader)
    # also a number or a nesting without an end
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None


def _on_one_line(error: ValidationError) -> str:
    """Join all validation errors on one line, the place of each first."""
    parts = []
    for one in error.errors(include_url=False):
        place = ".".join(str(part) for part in one["loc"])
        message = one["msg"].removeprefix("Value error, ")
        parts.append(
            f"{place}: {message}" if place and not message.startswith(f"{place}.") else message
        )
    return "; ".join(parts)
