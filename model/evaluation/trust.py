"""Keep task definitions from running code: what a study file and its task files may say without `--trust-code`.

People share study files. The tasks that come with lm-eval are trusted as a part of that package; a task file beside a
study, and a study's `overrides`, are data.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import InputError, nearest_name

# What a definition may say; lm-eval reads nothing of these as code. Its other keys take functions, or files of prompts.
# fmt: off
PLAIN_KEYS = frozenset((
    "task", "task_alias", "tag", "group", "task_list", "include", "metadata", "dataset_path", "dataset_name",
    "dataset_kwargs", "training_split", "validation_split", "test_split", "fewshot_split", "output_type",
    "description", "doc_to_text", "doc_to_target", "doc_to_choice", "gen_prefix", "target_delimiter",
    "fewshot_delimiter", "fewshot_config", "num_fewshot", "generation_kwargs", "max_new_tokens", "repeats",
    "filter_list", "metric_list", "should_decontaminate", "doc_to_decontamination_query",
))
# fmt: on
TRUST = "--trust-code allows code, where you trust the author of the study"


class RunsCode(InputError):
    """A definition that would run code of its author."""


class _PlainLoader(yaml.SafeLoader):
    """Load plain values; a tag such as `!function` is an error."""


def _refuse_tag(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> Any:
    raise RunsCode(f"{node.tag} in line {node.start_mark.line + 1} runs code")


_PlainLoader.add_multi_constructor("!", _refuse_tag)


def check_task_file(path: Path, *, trusted: Path | None = None) -> None:
    """Check that a task file, and all files that it includes, run no code. Raises InputError, naming the file.

    Files below the folder `trusted`, lm-eval's own tasks, may run code.
    """
    waiting, seen = [path.resolve()], set()
    while waiting:
        file = waiting.pop()
        if file in seen or (trusted and file.is_relative_to(trusted)):
            continue
        seen.add(file)
        try:
            content = yaml.load(file.read_bytes(), _PlainLoader)
            if not isinstance(content, Mapping):
                raise InputError("a task is a mapping")
            check_definition(content)
        except FileNotFoundError:
            raise InputError(f"{path}: no task file {file}") from None
        except RunsCode as error:
            raise InputError(f"{file}: {error}; {TRUST}") from None
        except (InputError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {' '.join(str(error).split())}") from None
        included = content.get("include", [])
        waiting += [
            (file.parent / str(one)).resolve() for one in (included if isinstance(included, list) else [included])
        ]


def check_definition(content: Mapping[str, Any]) -> None:
    """Raise RunsCode for a key that may run code, also for a metric that the library `evaluate` would fetch."""
    for key, value in content.items():
        if key not in PLAIN_KEYS and (value is not None or key == "unsafe_code"):  # null takes a function away
            near = nearest_name(key, PLAIN_KEYS)
            raise RunsCode(f"the key {key!r} may run code" + (f" (did you mean {near!r}?)" if near else ""))
    metrics = content.get("metric_list")
    for metric in metrics if isinstance(metrics, list) else ():
        if isinstance(metric, Mapping) and metric.get("hf_evaluate"):
            raise RunsCode("'hf_evaluate' loads a metric's own program")


def check_overrides(overrides: Mapping[str, Any], where: str) -> None:
    """Check that the `overrides` of a study's benchmark run no code. Raises InputError that begins with `where`."""
    try:
        check_definition(overrides)
    except RunsCode as error:
        raise InputError(f"{where}: overrides: {error}; {TRUST}") from None


def check_metrics(metrics: Any, where: str) -> None:
    """Check that lm-eval itself has every named metric: any other is looked for, and run, as a program.

    Raises InputError that begins with `where`.
    """
    import lm_eval.api.metrics  # noqa: F401 - fills the registry
    from lm_eval.api.registry import metric_registry

    for metric in metrics if isinstance(metrics, list) else ():
        name = metric.get("metric") if isinstance(metric, Mapping) else None
        if isinstance(name, str) and name not in metric_registry:
            raise InputError(f"{where}: lm-eval has no metric {name!r}, and would look for a program; {TRUST}")


def sandbox_templates() -> None:
    """Make lm-eval render every template in Jinja's sandbox, and keep compiled templates.

    `lm_eval.utils.apply_template` looks its environment up at every call, and is the only one to render a task's
    templates. Compiling a template for every item would be half of the time of prompts and scores.
    """
    import lm_eval.utils
    from jinja2.sandbox import SandboxedEnvironment

    plain = lm_eval.utils.env
    if isinstance(plain, SandboxedEnvironment):
        return
    safe = SandboxedEnvironment(
        loader=plain.loader, undefined=plain.undefined, keep_trailing_newline=plain.keep_trailing_newline
    )
    safe.filters.update(plain.filters)
    safe.tests.update(plain.tests)
    safe.globals.update(plain.globals)
    safe.from_string = functools.cache(safe.from_string)
    lm_eval.utils.env = safe
