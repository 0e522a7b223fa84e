"""Build lm-eval's task objects from a study's specifications, such as

    {"benchmark": "math", "task": "hendrycks_math_algebra", "metric": "exact_match",
     "filter": "none", "chance": 0.0, "dataset_path": "/home/ada/data/EleutherAI/hendrycks_math",
     "overrides": {"generation_kwargs": {"max_gen_toks": 512}}, "yaml": null}

The tasks are 0-shot, and nothing but the place of their data is changed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
from lm_eval.api.task import ConfigurableTask, Task

from dreamer_study.model.evaluation.lm_eval_files import find_task, read_task
from dreamer_study.model.evaluation.right_answers import check_right_answers
from dreamer_study.model.evaluation.trust import (
    SAMPLES_LEFT_OUT,
    check_overrides,
    sandbox_templates,
)
from dreamer_study.pipeline.errors import InputError, is_full_disk, is_short_of_memory
from dreamer_study.pipeline.storage.memory import bounded_memory

MOST_OF_PROMPTS = 2 * 2**30  # bytes that a task may take with its data
_FEWSHOT_SEED = 1234  # lm-eval's own default


def tune_libraries() -> None:
    """Silence warnings and progress bars of the libraries, and what they tell their makers."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    datasets.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    # a request for every file, also of one that is here
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False


@contextmanager
def bounded_prompts(specification: Mapping[str, Any]) -> Iterator[None]:
    """Build a task and its prompts within `MOST_OF_PROMPTS`: a template may repeat a text.

    Raises InputError where the block takes more.
    """
    try:
        with bounded_memory(MOST_OF_PROMPTS):
            yield
    except MemoryError as error:
        raise InputError(
            f"benchmark {specification['benchmark']}: task {specification['task']}: its data and"
            f" prompts take more than {MOST_OF_PROMPTS / 2**30:.0f} GB; does a template repeat a"
            " text?"
        ) from error


def build_task(
    specification: Mapping[str, Any], cache: Path | str | None = None, *, trust_code: bool = False
) -> Task:
    """Build lm-eval's task object for a specification of `pipeline/benchmarks/items.py`.

    The definition is the task file `yaml`, else lm-eval's task of that name, with `overrides`
    merged in (in these, `max_new_tokens` is the length of the longest answer). Unless overridden
    the task is 0-shot, and only the evaluated split has to exist. `cache` is an empty folder for
    the datasets library. Templates are rendered in Jinja's sandbox. With `trust_code` the
    definition may be one that is not plain (`model/evaluation/trust.py`).

    Raises InputError when the task, its data, its split or a field does not exist, and for code
    that is not trusted.
    """
    sandbox_templates()
    name = specification["task"]
    path = Path(specification["yaml"]) if specification.get("yaml") else find_task(name)
    overrides = specification.get("overrides") or {}
    what = f"benchmark {specification['benchmark']}: task {name}"
    if not trust_code:
        check_overrides(overrides, what)
    definition = read_task(path, what, trust_code=trust_code, imported=True).definition
    if not isinstance(definition.get("task"), str):
        raise InputError(
            f"{what}: {path} defines no single task; name the tasks of a group one by one"
        )
    of_groups = ("tag", "group", "task_list")
    of_task = {key: value for key, value in definition.items() if key not in of_groups}
    config = _with_longest_answer(_merged(of_task, overrides))
    config["task"] = name
    config["num_fewshot"] = overrides.get("num_fewshot", 0)
    if config["num_fewshot"] == 0:
        config = _zero_shot(config)
    elif SAMPLES_LEFT_OUT in str(config.get("fewshot_config")):
        raise InputError(
            f"{what}: its few-shot samples were left out when the study was published; ask its"
            " authors for them"
        )
    if "dataset_kwargs" in overrides:  # with the files; a definition's own are of the hub's
        config["dataset_kwargs"] = overrides["dataset_kwargs"]
    data = _load_data(config, specification.get("dataset_path"), cache, what)
    config["custom_dataset"] = lambda **_: data
    task_class = config.pop("class", ConfigurableTask)
    task = task_class.__new__(task_class)
    try:
        task.__init__(config=config)
    except MemoryError:
        raise
    except Exception as error:  # lm-eval checks definitions by using them on the first item
        if hasattr(task, "features"):  # as much was done before that
            check_right_answers(task, specification)
        raise InputError(
            f"{what}: lm-eval refuses the definition in {path} ({one_line(error)})"
        ) from error
    if getattr(task, "UNSAFE_CODE", False) or getattr(task, "MULTIMODAL", False):
        raise InputError(
            f"{what}: tasks that run generated code or show pictures are not supported"
        )
    task.set_fewshot_seed(_FEWSHOT_SEED)
    return task


def _with_longest_answer(config: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `max_new_tokens`, which lm-eval does not know, into its `max_gen_toks`."""
    config = dict(config)
    longest = config.pop("max_new_tokens", None)
    generates = config.get("output_type", "generate_until") == "generate_until"
    if longest is not None and generates:
        generation = config.get("generation_kwargs") or {}
        config["generation_kwargs"] = {**generation, "max_gen_toks": longest}
    return config


def _zero_shot(config: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the splits that only examples in prompts are taken from."""
    unused = {"training_split": None, "fewshot_split": None, "fewshot_config": None}
    if config.get("test_split"):
        unused["validation_split"] = None
    return {**config, **unused}


def _merged(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `overrides` into `config`, mappings key by key."""
    merged = {**config, **overrides}
    for key, value in overrides.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), Mapping):
            merged[key] = _merged(config[key], value)
    return merged


def _load_data(
    config: dict[str, Any], folder: str | None, cache: Path | str | None, what: str
) -> datasets.DatasetDict:
    """Load the splits that the task reads."""
    splits = [config.get(f"{kind}_split") for kind in ("training", "validation", "test", "fewshot")]
    names = list(dict.fromkeys(name for name in splits if name))
    path = folder or config.get("dataset_path")
    configuration = config.get("dataset_name")
    if not names:
        raise InputError(f"{what}: it has no test_split or validation_split; add one")
    if not path:
        raise InputError(f"{what}: it has no dataset_path; add one")
    options = dict(config.get("dataset_kwargs") or {})
    options.pop("trust_remote_code", None)
    try:
        data = datasets.load_dataset(
            str(path),
            configuration,
            cache_dir=None if cache is None else _own_folder(Path(cache), str(path)),
            keep_in_memory=True,
            **options,
        )
    except Exception as error:  # the library and its parsers raise whatever they come across
        where = f"{path}, configuration {configuration}" if configuration else f"{path}"
        advice = "fetch it with `dreamer download`"
        if is_full_disk(error):
            place = cache or datasets.config.HF_DATASETS_CACHE
            advice = f"the disk of {place} is full: free some space, and run again"
        elif is_short_of_memory(error):
            advice = "end other programs, or take a machine with more memory"
        raise InputError(f"{what}: no data in {where} ({one_line(error)}); {advice}") from error
    missing = [name for name in names if name not in data]
    if missing:
        raise InputError(f"{what}: {path} has no split {missing[0]!r}, only {', '.join(data)}")
    return datasets.DatasetDict({name: data[name] for name in names})


def _own_folder(cache: Path, path: str) -> str:
    """Return the folder of a data set in a cache.

    The library names what it keeps after the last part of a path, such as gsm8k, and would take
    the rows of openai/gsm8k for those of mine/gsm8k.
    """
    return str(cache / hashlib.sha256(path.encode()).hexdigest()[:16])


def one_line(error: BaseException) -> str:
    """Return the text of another library's error in one line, or its name where it has no text."""
    return " ".join(str(error).split())[:300] or type(error).__name__
