"""lm-eval's tasks on our models, and our models in lm-eval.

`build_task` makes a task object of lm-eval from a specification: the task as lm-eval or the user defines it, 0-shot,
with only the place of its data changed. `HarnessTask` separates it into requests, which do not depend on the model
and are made once, and scoring, so that many checkpoints can be evaluated with one set of tasks.

`DreamerLM` is the other direction, a saved model in lm-eval's own command:

    lm_eval --model dreamer --model_args path=<checkpoint folder> --tasks gsm8k

`dreamer_lm_eval.py` tells lm-eval of it where this project is installed; where its files merely lie in a folder,
`python -m model.evaluation.harness` is the same command.
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
import lm_eval.utils
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import model_registry
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.tasks._yaml_loader import load_yaml

from model.evaluation.language_model import MAX_NEW_TOKENS, Generation, LanguageModel, load_language_model
from model.evaluation.metrics import MetricValues, TaskScores, digest_of_items, token_perplexity
from model.evaluation.scoring import log_likelihoods
from model.evaluation.tokenizer import find_tokenizer
from pipeline.errors import InputError

# Aggregations of a corpus that also mean something for one document.
_SINGLE = ("perplexity", "weighted_perplexity", "bits_per_byte")
_TASK_LINE = re.compile(rb"^[\"']?task[\"']?:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)
_FEWSHOT_SEED = 1234  # lm-eval's own default


def tune_libraries() -> None:
    """Keep the libraries' own warnings and bars out of our output, and lm-eval from compiling templates per item.

    It compiles a task's template anew for every item, which is half of the time that prompts and scores take.
    """
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    datasets.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    templates = lm_eval.utils.env
    if not hasattr(templates.from_string, "cache_info"):
        templates.from_string = functools.cache(templates.from_string)


@contextlib.contextmanager
def fresh_cache(folder: Path | str) -> Iterator[str]:
    """A new folder inside `folder` for the datasets library's copies, removed at the end.

    The library takes files of an old date for the ones it has seen, so it must never find an earlier copy.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".datasets-", dir=folder) as cache:
        yield cache


def build_task(specification: Mapping[str, Any], cache: Path | str | None = None) -> Task:
    """lm-eval's task object for one specification of `pipeline/benchmarks.py` (task, dataset_path, yaml, overrides).

    The definition is that of the task file `yaml`, else of lm-eval's task of that name, with `overrides` merged in,
    where `max_new_tokens` is short for the task's longest answer. Unless the overrides say otherwise there are no
    worked examples, and then only the split that is evaluated has to exist. `cache` is where the datasets library
    keeps its copies (`fresh_cache`).

    Raises InputError when the task, its data, its split or a field does not exist.
    """
    name = specification["task"]
    path = Path(specification["yaml"]) if specification.get("yaml") else find_task(name)
    what = f"benchmark {specification['benchmark']}: task {name}"
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
    """The file that defines lm-eval's task of that name. Raises InputError, naming the nearest, if there is none."""
    files = _task_files()
    if name not in files:
        near = difflib.get_close_matches(name, files, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `lm_eval ls tasks` lists them"
        raise InputError(f"lm-eval has no task {name!r}{hint}")
    return files[name]


@functools.cache
def _task_files() -> dict[str, Path]:
    """Files by task. lm-eval's own index parses each of its 14,000 files, which takes ten seconds; one line of each
    is enough."""
    files: dict[str, Path] = {}
    for folder, _, names in sorted(os.walk(Path(lm_eval.tasks.__file__).parent)):
        for name in sorted(names):
            if name.endswith(".yaml"):
                path = Path(folder) / name
                if found := _TASK_LINE.search(path.read_bytes()):
                    files.setdefault(found[1].decode(), path)
    return files


def _merged(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with `overrides` on top, mappings merged key by key."""
    both = {key for key in overrides if isinstance(overrides[key], Mapping) and isinstance(config.get(key), Mapping)}
    return {**config, **overrides, **{key: _merged(config[key], overrides[key]) for key in both}}


def _load_data(config: dict[str, Any], folder: str | None, cache: Path | str | None, what: str) -> datasets.DatasetDict:
    """The splits that the task will look at."""
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
    """One task of lm-eval, taken apart: requests to any model, and scores from its answers."""

    def __init__(
        self,
        specification: Mapping[str, Any],
        *,
        limit: int | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        cache: Path | str | None = None,
    ) -> None:
        """`limit` takes the first items only; `max_new_tokens` holds where the task does not say."""
        self.specification = specification
        self.name: str = specification["task"]
        self._longest = max_new_tokens
        self._task = build_task(specification, cache)
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that cannot be switched off
            self._task.build_all_requests(limit=limit)
        self._asked: dict[str, list[Instance]] = defaultdict(list)
        for instance in self._task.instances:
            self._asked[instance.request_type].extend([instance] * instance.repeats)
        documents = {instance.doc_id: instance.doc for instance in self._task.instances}
        self._data_version = digest_of_items(documents[number] for number in sorted(documents))

    @property
    def items(self) -> int:
        """How many items are evaluated."""
        return len({instance.doc_id for instance in self._task.instances})

    @property
    def requests(self) -> dict[str, list[Any]]:
        """What is asked, by kind: pairs of texts, texts, and prompts with how to go on (see LanguageModel)."""
        ask = {
            "loglikelihood": lambda arguments: arguments,
            "loglikelihood_rolling": lambda arguments: arguments[0],
            "generate_until": lambda arguments: (arguments[0], Generation.from_arguments(arguments[1], self._longest)),
        }
        return {kind: [ask[kind](instance.args) for instance in asked] for kind, asked in self._asked.items()}

    def score(self, answers: Mapping[str, Sequence[Any]]) -> TaskScores:
        """Metrics of every item behind every filter, from the answers in the order of the requests."""
        for instance in self._task.instances:
            instance.resps, instance.filtered_resps = [], {}
        read = []
        for kind, asked in self._asked.items():
            for instance, answer in zip(asked, answers[kind], strict=True):
                if kind == "loglikelihood_rolling":
                    read.append((f"{self.name}/{instance.doc_id}", *answer))
                    answer = answer[0]
                instance.resps.append(answer)
        self._task.apply_filters()
        measures = list(self._measures().values())
        if read:
            measures.append(token_perplexity(read))
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
        of_item: dict[int, list[Instance]] = defaultdict(list)
        for instance in sorted(self._task.instances, key=lambda instance: (instance.doc_id, instance.idx)):
            of_item[instance.doc_id].append(instance)
        measures: dict[tuple[str, str], MetricValues] = {}
        for filter_ in self._task.instances[0].filtered_resps:
            for number, instances in of_item.items():
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


class DreamerLM(TemplateLM):
    """A saved model for lm-eval: `path` is a checkpoint folder (or a LanguageModel), `tokenizer` a tokenizer folder.

    Without `tokenizer` it is found beside the model (`find_tokenizer`). `depth` runs a recurrent model at another depth
    than it was trained at. Batches are made by `batch_tokens`; the batch sizes that the lm_eval command passes on mean
    nothing here.
    """

    def __init__(
        self,
        path: str | LanguageModel,
        tokenizer: str | None = None,
        device: str | None = "auto",
        batch_tokens: int | None = None,
        max_gen_toks: int = MAX_NEW_TOKENS,
        depth: int | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(path, LanguageModel):
            self.text = path
        else:
            tokenizer = tokenizer or find_tokenizer(path)
            self.text = load_language_model(path, tokenizer, device or "auto", batch_tokens=batch_tokens)
        if depth is not None:
            self.text.depth = int(depth)
        self.max_gen_toks = int(max_gen_toks)

    @property
    def eot_token_id(self) -> int:
        """The end mark, which also stands in for an empty context."""
        return self.text.tokenizer.end_token

    @property
    def max_length(self) -> int:
        """The most tokens the model reads at once."""
        return self.text.sequence_length

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Tokens of a text, never with special ones added."""
        return self.text.tokenizer.encode(string)

    def tok_decode(self, tokens: Sequence[int], **_: Any) -> str:
        """Text of tokens."""
        return self.text.tokenizer.decode(tokens)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """See LanguageModel.log_likelihoods."""
        return self.text.log_likelihoods([request.args for request in requests])

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        pairs = [(context, continuation) for _, context, continuation in requests]
        return log_likelihoods(self.text.model, pairs, batch_tokens=self.text.batch_tokens, depth=self.text.depth)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """See LanguageModel.rolling_log_likelihoods."""
        return [value for value, _ in self.text.rolling_log_likelihoods([request.args[0] for request in requests])]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """See LanguageModel.write."""
        return self.text.write(
            [(request.args[0], Generation.from_arguments(request.args[1], self.max_gen_toks)) for request in requests]
        )


if "dreamer" not in model_registry:  # where the project is not installed, importing this module does it
    model_registry.register("dreamer", target="model.evaluation.harness:DreamerLM")


def main() -> None:
    """lm-eval's command, with our model registered."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
