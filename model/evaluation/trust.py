"""Keep evaluation from running code of others: what a benchmark may say and name without
`--trust-code`.

People share study files and data. Tasks that come with lm-eval may call Python on the answers of
data sets and models, some by `eval`; a task file beside a study, and a study's `overrides`, are
data. All are held to the same lists.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dreamer_study.pipeline.errors import InputError, nearest

# What a definition may say; lm-eval reads nothing of these as code. Its other keys take functions,
# or files of prompts. fmt: off
PLAIN_KEYS = frozenset(
    (
        "task",
        "task_alias",
        "tag",
        "group",
        "task_list",
        "include",
        "metadata",
        "dataset_path",
        "dataset_name",
        "dataset_kwargs",
        "training_split",
        "validation_split",
        "test_split",
        "fewshot_split",
        "output_type",
        "description",
        "doc_to_text",
        "doc_to_target",
        "doc_to_choice",
        "gen_prefix",
        "target_delimiter",
        "fewshot_delimiter",
        "fewshot_config",
        "num_fewshot",
        "generation_kwargs",
        "max_new_tokens",
        "repeats",
        "filter_list",
        "metric_list",
        "should_decontaminate",
        "doc_to_decontamination_query",
    )
)
OUTPUT_TYPES = ("generate_until", "loglikelihood", "loglikelihood_rolling", "multiple_choice")
# the last is ignored
DATASET_KEYS = ("data_files", "data_dir", "delimiter", "field", "revision", "trust_remote_code")
METRIC_KEYS = (
    "metric",
    "aggregation",
    "higher_is_better",
    "weight_by_size",
    "ignore_case",
    "ignore_punctuation",
    "ignore_numbers",
    "regexes_to_ignore",
)
METRICS = (  # lm-eval looks for others as programs
    "acc",
    "acc_norm",
    "acc_bytes",
    "acc_mutual_info",
    "brier_score",
    "exact_match",
    "f1",
    "mcc",
    "bleu",
    "chrf",
    "ter",
    "perplexity",
    "word_perplexity",
    "byte_perplexity",
    "bits_per_byte",
)
_REGEX = ("regex_pattern", "group_select")  # a `fallback` would be an answer that the study wrote
FILTERS = {  # with their arguments
    "lowercase": (),
    "uppercase": (),
    "remove_whitespace": (),
    "majority_vote": (),
    "take_first": (),
    "take_first_k": ("k",),
    "regex": _REGEX,
    "multi_choice_regex": (*_REGEX, "ignore_case", "ignore_punctuation", "regexes_to_ignore"),
}
# fmt: on
TRUST = "--trust-code allows it, where you trust the study and its data"


class RunsCode(InputError):
    """A definition that would run code of its author."""


def check_definition(content: Mapping[str, Any]) -> None:
    """Raise RunsCode for a key, output type, metric, filter or argument that is not known to run no
    code."""
    for key, value in content.items():
        if value is not None or key == "unsafe_code":  # null takes a function away
            _check_listed("key", key, PLAIN_KEYS)
    if content.get("output_type") is not None:
        _check_listed("output type", content["output_type"], OUTPUT_TYPES)
    for options in _mappings(content.get("dataset_kwargs"), "dataset_kwargs"):
        for key in options:
            _check_listed("key", key, DATASET_KEYS)
    for metric in _mappings(content.get("metric_list"), "metric_list"):
        _check_listed("metric", metric.get("metric"), METRICS)
        for key in metric:
            _check_listed("key", key, METRIC_KEYS)
    for steps in _mappings(content.get("filter_list"), "filter_list"):
        for step in _mappings(steps.get("filter"), "filter"):
            _check_listed("filter", step.get("function"), FILTERS)
            for key in step:
                _check_listed("key", key, ("function", *FILTERS[step["function"]]))


def _mappings(entries: Any, key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of a list, where there is one. Raises RunsCode for anything else."""
    for entry in entries if isinstance(entries, list) else [entries] if entries is not None else ():
        if not isinstance(entry, Mapping):
            raise RunsCode(f"{key} is no list of mappings")
        yield entry


def _check_listed(kind: str, name: Any, known: Collection[str]) -> None:
    if not isinstance(name, str) or name not in known:
        raise RunsCode(f"the {kind} {name!r} may run code{nearest(name, known)}")


def check_overrides(overrides: Mapping[str, Any], where: str) -> None:
    """Check that the `overrides` of a study's benchmark are plain. Raises InputError that begins
    with `where`."""
    try:
        check_definition(overrides)
    except RunsCode as error:
        raise InputError(f"{where}: overrides: {error}; {TRUST}") from None


def sandbox_templates() -> None:
    """Make lm-eval render every template in Jinja's sandbox, and keep compiled templates.

    `lm_eval.utils.apply_template` looks its environment up at every call, and is the only one to
    render a task's templates. Compiling a template for every item would be half of the time of
    prompts and scores.
    """
    import lm_eval.utils
    from jinja2.sandbox import SandboxedEnvironment

    plain = lm_eval.utils.env
    if isinstance(plain, SandboxedEnvironment):
        return
    safe = SandboxedEnvironment(
        loader=plain.loader,
        undefined=plain.undefined,
        keep_trailing_newline=plain.keep_trailing_newline,
    )
    safe.filters.update(plain.filters)
    safe.tests.update(plain.tests)
    safe.globals.update(plain.globals)
    safe.from_string = functools.cache(safe.from_string)
    lm_eval.utils.env = safe
