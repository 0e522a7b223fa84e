"""Keep evaluation from running code of others.

This module lists what a benchmark may say and name without `--trust-code`. People share study files
and data. Tasks that come with lm-eval may call Python on the answers of data sets and models, some
by `eval`; a task file beside a study, and a study's `overrides`, are data. All are held to the same
lists.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dreamer_study.pipeline.errors import InputError, nearest

# What a definition may say; lm-eval reads nothing of these as code. Its other keys take functions,
# or files of prompts.
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
# Of `dataset_kwargs`; the last is ignored. Files are ours to name.
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
# `dreamer publish` writes the remark in place of few-shot samples, which are questions and answers.
SAMPLES = "samples"
SAMPLES_LEFT_OUT = "left out when the study was published"
TRUST = "--trust-code allows it, where you trust the study and its data"


class RunsCode(InputError):
    """A definition that would run code of its author."""


def check_definition(content: Mapping[str, Any]) -> None:
    """Raise RunsCode for anything in a definition that is not known to run no code.

    Known are the lists above: what is on none of them is refused.
    """
    _check_keys(content)
    _check_output_type(content.get("output_type"))
    _check_dataset_options(content.get("dataset_kwargs"))
    _check_metrics(content.get("metric_list"))
    _check_filters(content.get("filter_list"))


def _check_keys(content: Mapping[str, Any]) -> None:
    for key, value in content.items():
        # A null takes away the function that an included file has set; of `unsafe_code` it would
        # take away the mark that an included task runs code.
        takes_away = value is None and key != "unsafe_code"
        if not takes_away:
            _check_listed("key", key, PLAIN_KEYS)


def _check_output_type(output_type: Any) -> None:
    if output_type is not None:
        _check_listed("output type", output_type, OUTPUT_TYPES)


def _check_dataset_options(dataset_options: Any) -> None:
    for options in _mappings(dataset_options, "dataset_kwargs"):
        for key in options:
            _check_listed("key", key, DATASET_KEYS)


def _check_metrics(metrics: Any) -> None:
    for metric in _mappings(metrics, "metric_list"):
        _check_listed("metric", metric.get("metric"), METRICS)
        for key in metric:
            _check_listed("key", key, METRIC_KEYS)


def _check_filters(filters: Any) -> None:
    for named in _mappings(filters, "filter_list"):
        for step in _mappings(named.get("filter"), "filter"):
            function = step.get("function")
            _check_listed("filter", function, FILTERS)
            arguments = FILTERS[function]
            for key in step:
                _check_listed("key", key, ("function", *arguments))


def _mappings(entries: Any, key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of a list, or a single mapping; nothing where there are no entries.

    Raises RunsCode for anything else.
    """
    if entries is None:
        return
    if not isinstance(entries, list):
        entries = [entries]
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise RunsCode(f"{key} is no list of mappings")
        yield entry


def _check_listed(kind: str, name: Any, listed: Collection[str]) -> None:
    """Raise RunsCode for a name that is not on its list, and for anything that is no text."""
    if not isinstance(name, str) or name not in listed:
        raise RunsCode(f"the {kind} {name!r} may run code{nearest(name, listed)}")


def check_overrides(overrides: Mapping[str, Any], where: str) -> None:
    """Check that the `overrides` of a study's benchmark run no code.

    Raises InputError that begins with `where`.
    """
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

    environment = lm_eval.utils.env
    if isinstance(environment, SandboxedEnvironment):
        return  # of an earlier call
    safe = SandboxedEnvironment(
        loader=environment.loader,
        undefined=environment.undefined,
        keep_trailing_newline=environment.keep_trailing_newline,
    )
    safe.filters.update(environment.filters)
    safe.tests.update(environment.tests)
    safe.globals.update(environment.globals)
    safe.from_string = functools.cache(safe.from_string)
    lm_eval.utils.env = safe
