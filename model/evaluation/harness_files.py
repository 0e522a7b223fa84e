"""Find the files that define tasks, lm-eval's own and others, without importing lm-eval, which takes seconds."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import InputError

TASKS = Path(importlib.util.find_spec("lm_eval").origin).resolve().parent / "tasks"
_TASK_LINE = re.compile(rb"^[\"']?task[\"']?:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)


def find_task(name: str) -> Path:
    """Find the file that defines a task of lm-eval. Raises InputError, naming the nearest, if there is none."""
    files = _task_files()
    if name not in files:
        near = difflib.get_close_matches(name, files, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `lm_eval ls tasks` lists them"
        raise InputError(f"lm-eval has no task {name!r}{hint}")
    return files[name]


def files_of_task(path: Path) -> list[Path]:
    """List the files that define a task: the task file itself first, all that it includes, and modules of functions.

    A function is `!function module.name`, of a module beside the file. A file that is missing or no YAML is left to
    those who read it.
    """
    found, waiting = list[Path](), [path]
    while waiting:
        file = waiting.pop()
        if not file.is_file() or (file := file.resolve()) in found:
            continue
        found.append(file)
        with suppress(yaml.YAMLError, RecursionError):
            waiting += _named_in(file) if file.suffix != ".py" else []
    return found


def metrics_of_task(files: Sequence[Path]) -> list[str]:
    """List the metrics that a task's files name; none where lm-eval or the task's code chooses them."""
    content: dict[str, Any] = {}
    for file in files:  # the task's own file comes first, and of its includes the last, which lm-eval prefers
        try:
            content = yaml.safe_load(file.read_bytes()) | content
        except (yaml.YAMLError, ValueError, TypeError, RecursionError):  # a function, or what others refuse
            return []
    listed = content.get("metric_list")
    known = listed if isinstance(listed, list) else []
    return [str(one["metric"]) for one in known if isinstance(one, dict) and "metric" in one]


def _named_in(file: Path) -> Iterator[Path]:
    """Yield the files that a task file includes, and the modules of its functions."""
    text = file.read_bytes()
    for tag, name in pairwise(yaml.scan(text)):
        if isinstance(tag, yaml.TagToken) and isinstance(name, yaml.ScalarToken):
            yield file.parent / f"{name.value.rpartition('.')[0].replace('.', '/')}.py"
    content = yaml.compose(text)
    for key, included in content.value if isinstance(content, yaml.MappingNode) else ():
        if key.value == "include":
            for one in included.value if isinstance(included, yaml.SequenceNode) else [included]:
                yield file.parent / str(one.value)


@functools.cache
def _task_files() -> dict[str, Path]:
    """Index the files of lm-eval by task, from one line each; parsing all 14,000, as lm-eval does, takes 10 seconds."""
    files: dict[str, Path] = {}
    for folder, _, names in sorted(os.walk(TASKS)):
        for name in sorted(names):
            if name.endswith(".yaml"):
                path = Path(folder) / name
                if found := _TASK_LINE.search(path.read_bytes()):
                    files.setdefault(found[1].decode(), path)
    return files
