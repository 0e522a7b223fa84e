"""Find and read the files that define tasks, lm-eval's own and others, without lm-eval, whose
import takes seconds."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dreamer_study.model.evaluation.trust import TRUST, RunsCode, check_definition
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import file_digest

TASKS = Path(importlib.util.find_spec("lm_eval").origin).resolve().parent / "tasks"
# Folders of the tasks in `pipeline/benchmarks/table.py` that call Python; a test checks that they
# execute no answer.
OF_THE_TABLE = [TASKS / name for name in ("hendrycks_math", "mathqa", "minerva_math")]
_TASK_LINE = re.compile(rb"^[\"']?task[\"']?:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)


class TaskFiles(NamedTuple):
    """The definition that a task's files give, these files (the task's own first), and the
    functions that they name."""

    definition: dict[str, Any]
    files: list[Path]  # with the modules of functions
    functions: list[str]

    def metrics(self) -> list[str]:
        """List the metrics that the task names; none where lm-eval or the task's code chooses
        them."""
        listed = None if self.functions else self.definition.get("metric_list")
        known = listed if isinstance(listed, list) else []
        return [str(one["metric"]) for one in known if isinstance(one, dict) and "metric" in one]


def find_task(name: str) -> Path:
    """Find the file that defines a task of lm-eval. Raises InputError, naming the nearest, if there
    is none."""
    files = _task_files()
    if name not in files:
        near = difflib.get_close_matches(name, files, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `lm_eval ls tasks` lists them"
        raise InputError(f"lm-eval has no task {name!r}{hint}")
    return files[name]


def read_task(
    path: Path, where: str, *, trust_code: bool = False, imported: bool = False
) -> TaskFiles:
    """Read a task file and the files that it includes; as in lm-eval, a later one overrides, and
    the task file all.

    A function, `!function module.name`, is of a module beside its file; with `imported` the module
    is imported. Raises InputError that begins with `where` and names the file, without `trust_code`
    also for a file that is neither plain nor `OF_THE_TABLE`.
    """
    task = TaskFiles({}, [], [])

    def read(path: Path) -> dict[str, Any]:
        try:
            path = path.resolve()
            if path in task.files:
                raise InputError("it is included twice")
            task.files.append(path)
            trusted = trust_code or path.parent in OF_THE_TABLE

            def function(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
                if not trusted:
                    raise RunsCode(f"{node.tag} in line {node.start_mark.line + 1} runs code")
                module, _, name = str(node.value).rpartition(".")
                file = (path.parent / f"{module.replace('.', '/')}.py").resolve()
                task.functions.append(name)
                if file.is_file() and file not in task.files:
                    task.files.append(file)
                return getattr(_module(file, module), name) if imported else name

            class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                """Load plain values, and functions; another tag is an error."""

            Loader.add_constructor("!function", function)
            content = yaml.load(path.read_bytes(), Loader)
            if not isinstance(content, dict):
                raise InputError("a task is a mapping")
            if not trusted:
                check_definition(content)
        except FileNotFoundError:
            raise InputError(f"{where}: no task file {path}") from None
        except RunsCode as error:
            raise InputError(f"{where}: {path}: {error}; {TRUST}") from None
        # of YAML, and whatever a task's own module may raise when it is imported
        except Exception as error:
            raise InputError(
                f"{where}: {path} cannot be read: {' '.join(str(error).split())[:300]}"
            ) from error
        included, inherited = content.pop("include", []), dict[str, Any]()
        for one in included if isinstance(included, list) else [included]:
            inherited |= read(path.parent / str(one))
        return inherited | content

    task.definition.update(read(path))
    return task


def _module(file: Path, name: str) -> Any:
    """Import the module of a task's functions: the file as it is now, or else an installed module
    of that name."""
    if not file.is_file():
        return importlib.import_module(name)
    name = f"{file.with_suffix('')} {file_digest(file)}"
    if file.is_relative_to(TASKS):  # its modules import each other by their names
        name = ".".join(file.relative_to(TASKS.parents[1]).with_suffix("").parts)
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


@functools.cache
def _task_files() -> dict[str, Path]:
    """Index the files of lm-eval by task, from one line each; parsing all 14,000, as lm-eval does,
    takes 10 seconds."""
    files: dict[str, Path] = {}
    for folder, _, names in sorted(os.walk(TASKS)):
        for name in sorted(names):
            if name.endswith(".yaml"):
                path = Path(folder) / name
                if found := _TASK_LINE.search(path.read_bytes()):
                    files.setdefault(found[1].decode(), path)
    return files
