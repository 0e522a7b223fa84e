"""Find and read the files that define tasks, lm-eval's own and others.

Without lm-eval, whose import takes seconds.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dreamer_study.model.evaluation.trust import TRUST, RunsCode, check_definition
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.plain_yaml import Bounded
from dreamer_study.pipeline.storage.digests import file_digest

TASKS = Path(importlib.util.find_spec("lm_eval").origin).resolve().parent / "tasks"
# Folders of the tasks in `pipeline/benchmarks/table.py` that call Python; a test checks that they
# execute no answer.
OF_THE_TABLE = [TASKS / name for name in ("hendrycks_math", "mathqa", "minerva_math")]
OUTPUTS = {  # lm-eval's kinds of output, in words
    "generate_until": "a free answer",
    "multiple_choice": "the likeliest of given choices",
    "loglikelihood": "how likely the right answer is",
    "loglikelihood_rolling": "how likely whole texts are",
}
_TASK_LINE = re.compile(rb"^[\"']?task[\"']?:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)


class TaskFiles(NamedTuple):
    """What the files of a task say: its own, and those that it includes."""

    definition: dict[str, Any]
    files: list[Path]  # the task's own first; with the modules of functions
    functions: list[str]  # names of the functions that the files name

    def metrics(self) -> list[str]:
        """List the metrics that the task names; none where code or lm-eval chooses them."""
        listed = self.definition.get("metric_list")
        if self.functions or not isinstance(listed, list):
            return []
        return [
            str(entry["metric"])
            for entry in listed
            if isinstance(entry, dict) and "metric" in entry
        ]


def find_task(name: str) -> Path:
    """Find the file that defines a task of lm-eval.

    Raises InputError, naming the nearest, if there is none.
    """
    files = _task_files()
    if name in files:
        return files[name]
    hint = "`lm_eval ls tasks` lists them"
    near = difflib.get_close_matches(name, files, n=3)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    raise InputError(f"lm-eval has no task {name!r}; {hint}")


def task_in_words(specifications: Sequence[Mapping[str, Any]]) -> str:
    """Say in a sentence how lm-eval asks a benchmark, from the definitions of its tasks alone.

    Example: `lm-eval’s task gsm8k: a free answer, 0-shot.` A task of a file beside the study is
    the file's. Raises what `read_task` raises.
    """
    first = specifications[0]
    path = Path(first["yaml"]) if first.get("yaml") else find_task(first["task"])
    definition = read_task(path, first["benchmark"], trust_code=True).definition
    overrides = first.get("overrides") or {}
    asked = {**definition, **overrides}
    owner = "lm-eval" if path.is_relative_to(TASKS) else path.name
    name = f"task {first['task']}"
    if len(specifications) > 1:
        name = f"{len(specifications)} tasks, {first['task']} and others"
    output = asked.get("output_type", "generate_until")
    kind = OUTPUTS.get(output, output)
    sentence = f"{owner}’s {name}: {kind}, {overrides.get('num_fewshot', 0)}-shot."
    prompt = asked.get("description")
    if isinstance(prompt, str) and prompt.strip() and "{{" not in prompt:
        instruction = " ".join(prompt.split())
        sentence += f" Its prompt begins with “{instruction}”"
    return sentence


def read_task(
    path: Path, where: str, *, trust_code: bool = False, imported: bool = False
) -> TaskFiles:
    """Read a task file and the files that it includes.

    As in lm-eval, a later file overrides an earlier one, and the task file all. A function,
    `!function module.name`, is of a module beside its file; with `imported` the module is imported.
    Raises InputError that begins with `where` and names the file, without `trust_code` also for a
    file that is neither plain nor `OF_THE_TABLE`.
    """
    reader = _TaskReader(where, trust_code=trust_code, imported=imported)
    reader.task.definition.update(reader.read(path))
    return reader.task


class _TaskReader:
    """Read the files of one task; `task` gets the files and the functions in them."""

    def __init__(self, where: str, *, trust_code: bool, imported: bool) -> None:
        self._where = where
        self._trust_code = trust_code
        self._imported = imported
        self.task = TaskFiles({}, [], [])

    def read(self, path: Path) -> dict[str, Any]:
        """Read a file and what it includes. Raises InputError as `read_task`."""
        try:
            path = path.resolve()
            content = self._load(path)
        except FileNotFoundError:
            raise InputError(f"{self._where}: no task file {path}") from None
        except RunsCode as error:
            raise InputError(f"{self._where}: {path}: {error}; {TRUST}") from None
        # of YAML, and whatever a task's own module may raise when it is imported
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"{self._where}: {path} cannot be read: {reason}") from error
        included = content.pop("include", [])
        if not isinstance(included, list):
            included = [included]
        inherited: dict[str, Any] = {}
        for name in included:
            inherited |= self.read(path.parent / str(name))
        return inherited | content

    def _load(self, path: Path) -> dict[str, Any]:
        """Load one file. Raises RunsCode where it is not trusted and may run code."""
        if path in self.task.files:
            raise InputError("it is included twice")
        self.task.files.append(path)
        trusted = self._trust_code or path.parent in OF_THE_TABLE
        content = yaml.load(path.read_bytes(), self._loader(path, trusted=trusted))
        if not isinstance(content, dict):
            raise InputError("a task must be a mapping")
        if not trusted:
            check_definition(content)
        return content

    def _loader(self, path: Path, *, trusted: bool) -> type[yaml.SafeLoader]:
        """Make a loader of plain values, and of functions in a trusted file."""

        def load_function(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
            if not trusted:
                raise RunsCode(f"{node.tag} in line {node.start_mark.line + 1} runs code")
            module, _, name = str(node.value).rpartition(".")
            file = (path.parent / f"{module.replace('.', '/')}.py").resolve()
            self.task.functions.append(name)
            if file.is_file() and file not in self.task.files:
                self.task.files.append(file)
            return getattr(_module(file, module), name) if self._imported else name

        class Loader(Bounded, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            """Load plain values, and functions; another tag is an error."""

        Loader.add_constructor("!function", load_function)
        return Loader


def _module(file: Path, name: str) -> Any:
    """Import the module of a task's functions: the file, else an installed module of that name."""
    if not file.is_file():
        return importlib.import_module(name)
    if file.is_relative_to(TASKS):  # lm-eval's modules import each other by their names
        name = ".".join(file.relative_to(TASKS.parents[1]).with_suffix("").parts)
    else:  # by its content, so that an edited file is imported anew
        name = f"{file.with_suffix('')} {file_digest(file)}"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


@functools.cache
def _task_files() -> dict[str, Path]:
    """Index the files of lm-eval by task, from one line of each.

    Parsing all 14,000, as lm-eval does, takes 10 seconds.
    """
    files: dict[str, Path] = {}
    for folder, _, names in sorted(os.walk(TASKS)):
        for name in sorted(names):
            if not name.endswith(".yaml"):
                continue
            path = Path(folder) / name
            task_line = _TASK_LINE.search(path.read_bytes())
            if task_line:
                files.setdefault(task_line[1].decode(), path)
    return files
