"""Leave out of published results what is not for everybody: places of this machine, and answers.

Questions and right answers of a benchmark that stand on the web are in the training data of later
models, and many benchmarks are gated or may not be passed on. The few-shot samples of a task are
questions and answers too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import yaml

from dreamer_study.model.evaluation.trust import SAMPLES, SAMPLES_LEFT_OUT
from dreamer_study.pipeline.plain_yaml import Bounded
from dreamer_study.sql.export import copy_afresh

LEAST_PARTS = 3  # of a path that is not there: "/", a folder of this machine, a name
FEW_SHOT = "fewshot_config"  # of a task, or of `overrides`
EXAMPLES = "examples"  # of `studies.config`: a question and its answer for each benchmark
FUNCTION = "!function"  # a value of a task file that a function beside it gives


class _NodeLoader(Bounded, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Compose a task file, with its functions as they are written."""


def copy_public(
    database: Path, target: Path, built_in: Mapping[str, Any], *, answers: bool
) -> list[str]:
    """Copy a results file without places of this machine; returns the benchmarks left out.

    Without `answers` those of benchmarks that are not `built_in` are left out, and the questions.
    """
    with TemporaryDirectory(prefix=".dreamer-publish-", dir=target.parent) as folder:
        whole = Path(folder) / "results.duckdb"
        copy_afresh(database, whole)
        with closing(duckdb.connect(str(whole))) as connection:
            left_out = _leave_out(connection, set(built_in), answers=answers)
        copy_afresh(whole, target)  # a file holds deleted rows too
    return left_out


def _leave_out(
    connection: duckdb.DuckDBPyConnection, built_in: set[str], *, answers: bool
) -> list[str]:
    left_out: set[str] = set()
    if not answers:
        asked = connection.execute("select distinct task from answers").fetchall()
        left_out = {task for (task,) in asked} - built_in
        connection.execute("delete from answers where list_contains(?, task)", [sorted(left_out)])
    for study, text in connection.execute("select study_id, config from studies").fetchall():
        config = without_places(json.loads(text or "{}"))
        examples = config.get(EXAMPLES, {})
        if not answers and isinstance(examples, dict):
            left_out |= set(examples) - built_in
            config[EXAMPLES] = {name: examples[name] for name in examples if name in built_in}
        if not answers:
            config = without_samples(config)
        changed = json.dumps(config, ensure_ascii=False)
        connection.execute("update studies set config = ? where study_id = ?", [changed, study])
    return sorted(left_out)


def without_places(value: Any) -> Any:
    """Return JSON values with the mere names of files in place of absolute paths."""
    if isinstance(value, dict):
        return {name: without_places(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_places(inner) for inner in value]
    if isinstance(value, str) and _is_place(value):
        return Path(value).name
    return value


def _is_place(text: str) -> bool:
    """Tell whether a text is a path of this machine."""
    if not text.startswith("/") or "\n" in text:
        return False
    parts = Path(text).parts
    return len(parts) >= LEAST_PARTS and Path(*parts[:2]).is_dir()


def without_samples(value: Any) -> Any:
    """Return JSON values with a remark in place of few-shot samples (`fewshot_config.samples`)."""
    if isinstance(value, list):
        return [without_samples(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    changed = {name: without_samples(inner) for name, inner in value.items()}
    few_shot = changed.get(FEW_SHOT)
    if isinstance(few_shot, dict) and SAMPLES in few_shot:
        changed[FEW_SHOT] = {**few_shot, SAMPLES: [SAMPLES_LEFT_OUT]}
    return changed


def copy_task(files: Mapping[Path, Path]) -> bool:
    """Copy the files of a task, each to its new path, without few-shot samples.

    A file with samples is written anew, without its comments. A module of Python that gives samples
    is not copied. Returns whether any samples were left out.
    """
    texts: dict[Path, str] = {}
    modules = set[Path]()
    for file in files:
        if file.suffix == ".py":
            continue
        node = yaml.compose(file.read_text(encoding="utf-8"), _NodeLoader)
        samples = list(_samples(node))
        if samples:
            modules |= {_module(file, value) for value in samples if value.tag == FUNCTION}
            for value in samples:
                _leave_out_value(value)
            texts[file] = yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True)
    for file, target in files.items():
        if file.resolve() in modules:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if file in texts:
            target.write_text(texts[file], encoding="utf-8")
        else:
            shutil.copyfile(file, target)
    return bool(texts)


def _samples(node: yaml.Node | None) -> Iterator[yaml.Node]:
    """Find the values of all keys `samples` in a task file, where lm-eval has one such key."""
    if isinstance(node, yaml.SequenceNode):
        for inner in node.value:
            yield from _samples(inner)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == SAMPLES:
                yield value
            else:
                yield from _samples(value)


def _module(file: Path, function: yaml.Node) -> Path:
    """Return the file of a function that a task file names as `module.name`."""
    module = str(function.value).rpartition(".")[0]
    return (file.parent / f"{module.replace('.', '/')}.py").resolve()


def _leave_out_value(node: yaml.Node) -> None:
    """Write a remark into a value, so that aliases of the value have the remark too."""
    remark = yaml.ScalarNode("tag:yaml.org,2002:str", SAMPLES_LEFT_OUT)
    if isinstance(node, yaml.SequenceNode):
        node.value = [remark]
    elif isinstance(node, yaml.MappingNode):
        node.value = [(remark, remark)]
    else:
        node.tag = remark.tag
        node.value = remark.value
