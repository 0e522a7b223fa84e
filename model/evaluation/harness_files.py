"""Find the files that define lm-eval's own tasks without importing lm-eval, which takes seconds."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import re
from pathlib import Path

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
