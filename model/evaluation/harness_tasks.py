"""Build lm-eval's tasks, and split each into requests and scoring.

`build_task` builds lm-eval's task object from a specification: 0-shot, with only the place of its data changed.
`HarnessTask` splits a task into requests, which are the same for all models and built once, and scoring.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import logging
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks
from jinja2.exceptions import SecurityError
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.tasks._yaml_loader import load_yaml

from model.evaluation.harness_gold import gold_answer, gold_request
from model.evaluation.language_model import MAX_NEW_TOKENS, Generation
from model.evaluation.metrics import MetricValues, TaskScores, digest_of_items, gold_bits_per_byte, token_perplexity
from model.evaluation.trust import check_metrics, check_overrides, check_task_file, sandbox_templates
from pipeline.errors import InputError

# Aggregations over a corpus that are also defined for one document.
_SINGLE = ("perplexity", "weighted_perplexity", "bits_per_byte")
_TASK_LINE = re.compile(rb"^[\"']?task[\"']?:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)
TASKS = Path(lm_eval.tasks.__file__).resolve().parent
_FEWSHOT_SEED = 1234  # lm-eval's own default


def tune_libraries() -> None:
    """Silence warnings and progress bars of the libraries."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    datasets.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()


@contextlib.contextmanager
def fresh_cache(folder: Path | str) -> Iterator[str]:
    """Make a temporary folder inside `folder` for the cache of the datasets library.

    The library recognises files by date, and would take an earlier copy for the present data.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".datasets-", dir=folder) as cache:
        yield cache


def build_task(specification: Mapping[str, Any], cache: Path | str | None = None, *, trust_code: bool = False) -> Task:
    """Build lm-eval's task object for a specification of `pipeline/benchmarks/items.py`.

    The definition is the task file `yaml`, else lm-eval's task of that name, with `overrides` merged in (in these,
    `max_new_tokens` is the length of the longest answer). Unless overridden the task is 0-shot, and only the evaluated
    split has to exist. `cache` is a folder for the datasets library (`fresh_cache`). Templates are rendered in Jinja's
    sandbox. With `trust_code` task file and overrides may run Python.

    Raises InputError when the task, its data, its split or a field does not exist, and for code that is not trusted.
    """
    sandbox_templates()
    name = specification["task"]
    path = Path(specification["yaml"]) if specification.get("yaml") else find_task(name)
    what = f"benchmark {specification['benchmark']}: task {name}"
    if not trust_code:
        check_overrides(specification.get("overrides") or {}, what)
        if specification.get("yaml"):
            check_task_file(path, trusted=TASKS)
    try:
        config = load_yaml(path)
    except FileNotFoundError as error:
        raise InputError(f"{what}: no task file {error.filename}") from None
    except Exception as error:  # YAML's errors, and whatever a task's own Python file may raise when it is imported
        raise InputError(f"{what}: {path} cannot be read ({_one_line(error)})") from error
    if not isinstance(config.get("task"), str):
        raise InputError(f"{what}: {path} defines no single task; name the tasks of a group one by one")
    config = {key: value for key, value in config.items() if key not in ("tag", "group", "task_list")}
    config = _merged(config, specification.get("overrides") or {})
    if not trust_code and (specification.get("yaml") or "metric_list" in (specification.get("overrides") or {})):
        check_metrics(config.get("metric_list"), what)
    longest = config.pop("max_new_tokens", None)
    if longest is not None and config.get("output_type", "generate_until") == "generate_until":
        config["generation_kwargs"] = {**(config.get("generation_kwargs") or {}), "max_gen_toks": longest}
    config["task"] = name
    config["num_fewshot"] = (specification.get("overrides") or {}).get("num_fewshot", 0)
    if config["num_fewshot"] == 0:
        config |= {"training_split": None, "fewshot_split": None, "fewshot_config": None}
        if config.get("test_split"):
            config["validation_split"] = None
    data = _load_data(config, specification.get("dataset_path"), cache, what)
    config["custom_dataset"] = lambda **_: data
    kind = config.pop("class", ConfigurableTask)
    try:
        task = kind(config=config)
    except Exception as error:  # lm-eval checks definitions by using them
        raise InputError(f"{what}: lm-eval refuses the definition in {path} ({_one_line(error)})") from error
    if getattr(task, "UNSAFE_CODE", False) or getattr(task, "MULTIMODAL", False):
        raise InputError(f"{what}: tasks that run generated code or show pictures are not supported")
    task.set_fewshot_seed(_FEWSHOT_SEED)
    return task


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


def _merged(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `overrides` into `config`, mappings key by key."""
    both = {key for key in overrides if isinstance(overrides[key], Mapping) and isinstance(config.get(key), Mapping)}
    return {**config, **overrides, **{key: _merged(config[key], overrides[key]) for key in both}}


def _load_data(config: dict[str, Any], folder: str | None, cache: Path | str | None, what: str) -> datasets.DatasetDict:
    """Load the splits that the task reads."""
    names = [config.get(f"{kind}_split") for kind in ("training", "validation", "test", "fewshot")]
    names = list(dict.fromkeys(name for name in names if name))
    place, configuration = folder or config.get("dataset_path"), config.get("dataset_name")
    if not names or not place:
        raise InputError(f"{what}: it names no {'data' if names else 'split to evaluate'}")
    options = {key: value for key, value in (config.get("dataset_kwargs") or {}).items() if key != "trust_remote_code"}
    try:
        found = datasets.load_dataset(
            str(place), configuration, cache_dir=None if cache is None else str(cache), keep_in_memory=True, **options
        )
    except Exception as error:  # the library and its parsers raise whatever they come across
        where = f"{place}" + (f", configuration {configuration}" if configuration else "")
        raise InputError(
            f"{what}: no data in {where} ({_one_line(error)}); fetch it with `dreamer download`"
        ) from error
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{what}: {place} has no split {missing[0]!r}, only {', '.join(found)}")
    return datasets.DatasetDict({name: found[name] for name in names})


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


class HarnessTask:
    """One task of lm-eval as requests to any model, and scores from the answers."""

    def __init__(
        self,
        specification: Mapping[str, Any],
        *,
        limit: int | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        cache: Path | str | None = None,
        trust_code: bool = False,
    ) -> None:
        """`limit` is the number of items to ask; `max_new_tokens` applies where the task sets none.

        Raises what `build_task` raises, and InputError for a template that reaches for more than the item.
        """
        self.specification = specification
        self.name: str = specification["task"]
        self._longest = max_new_tokens
        self._task = build_task(specification, cache, trust_code=trust_code)
        try:
            self._build_requests(limit)
        except SecurityError as error:
            raise InputError(
                f"benchmark {specification['benchmark']}: task {self.name}: a template reaches for more than the item "
                f"({_one_line(error)})"
            ) from error
        self._data_version = digest_of_items(instances[0].doc for instances in self._of_item.values())

    def _build_requests(self, limit: int | None) -> None:
        """Render all prompts and gold answers."""
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that cannot be switched off
            self._task.build_all_requests(limit=limit)
        self._asked: dict[str, list[Instance]] = defaultdict(list)
        for instance in self._task.instances:
            self._asked[instance.request_type].extend([instance] * instance.repeats)
        self._of_item: dict[int, list[Instance]] = defaultdict(list)
        for instance in sorted(self._task.instances, key=lambda instance: (instance.doc_id, instance.idx)):
            self._of_item[instance.doc_id].append(instance)
        self._gold: dict[int, Instance] = {}  # the request for the gold answer of each item that has one
        for number, instances in self._of_item.items():
            if (request := gold_request(self._task, instances)) is not None:
                self._gold[number] = request
                if instances[0].request_type == "generate_until":
                    self._asked["loglikelihood"].append(request)

    @property
    def items(self) -> int:
        """Number of items."""
        return len(self._of_item)

    @property
    def requests(self) -> dict[str, list[Any]]:
        """The requests by kind: pairs of texts, texts, or prompts with generation settings (see LanguageModel)."""
        ask = {
            "loglikelihood": lambda arguments: arguments,
            "loglikelihood_rolling": lambda arguments: arguments[0],
            "generate_until": lambda arguments: (arguments[0], Generation.from_arguments(arguments[1], self._longest)),
        }
        return {kind: [ask[kind](instance.args) for instance in asked] for kind, asked in self._asked.items()}

    def score(self, answers: Mapping[str, Sequence[Any]]) -> TaskScores:
        """Score every item behind every filter, from the answers in the order of the requests."""
        for asked in self._asked.values():
            for instance in asked:
                instance.resps, instance.filtered_resps = [], {}
        documents = []
        for kind, asked in self._asked.items():
            for instance, answer in zip(asked, answers[kind], strict=True):
                if kind == "loglikelihood_rolling":
                    documents.append((f"{self.name}/{instance.doc_id}", *answer))
                    answer = answer[0]
                instance.resps.append(answer)
        gold = [
            (f"{self.name}/{number}", gold_answer(self._task, request), request.resps[0][0])
            for number, request in self._gold.items()
        ]
        self._task.apply_filters()
        measures = list(self._measures().values())
        if documents:
            measures.append(token_perplexity(documents))
        if gold:
            measures.append(gold_bits_per_byte(gold))
        version = self._task.VERSION
        return TaskScores(
            self.specification["benchmark"],
            None if version is None else str(version),
            self.specification.get("chance"),
            measures,
            data_version=self._data_version,
            harness_version=f"lm-eval {lm_eval.__version__}",
        )

    def _measures(self) -> dict[tuple[str, str], MetricValues]:
        measures: dict[tuple[str, str], MetricValues] = {}
        for filter_ in self._task.instances[0].filtered_resps:
            for number, instances in self._of_item.items():
                answers = [instance.filtered_resps[filter_] for instance in instances]
                for metric, finding in self._task.process_results(instances[0].doc, answers).items():
                    measure = measures.get((metric, filter_))
                    if measure is None:
                        measure = measures[metric, filter_] = self._measure(metric, filter_)
                    measure.findings[f"{self.name}/{number}"] = finding
        return measures

    def _measure(self, metric: str, filter_: str) -> MetricValues:
        aggregate = self._task.aggregation().get(metric, mean)
        if aggregate is mean:
            return MetricValues(metric, filter_)
        return MetricValues(metric, filter_, {}, aggregate, single=aggregate.__name__ in _SINGLE)
