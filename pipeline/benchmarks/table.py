r"""The paper's benchmarks, one declarative entry for each, and how a study's entry is resolved.

All are evaluated as lm-eval defines them, 0-shot. Which of lm-eval's numbers counts as the accuracy:

* GSM8K: `exact_match` behind `flexible-extract`, the last number of the output; `strict-match` wants "#### 18", a form
  that one in fourteen of the paper's sources has.
* MATH: `exact_match` of `hendrycks_math_*`, which reads the text between the first and the final dollar sign.
  `math_verify` evaluates these items under `minerva_math_*`: Math-Verify parses the whole output, leniently and slowly.
* MMLU (mathematics): `acc`, the likeliest of the four letters, over the five subjects of the paper.
* MathQA: `acc`, the likeliest of five continuations, not normalised by length, as MMLU reports.
* Maths-College: `token_perplexity`, the unit in which the paper's 6 to 7 make sense. It depends on the tokenizer; runs
  with different tokenizers compare by `byte_perplexity`, which is recorded too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.benchmarks.benchmark import PERPLEXITIES, Benchmark
from pipeline.errors import InputError
from pipeline.sources.entries import build, resolve

_SUBJECTS = {  # lm-eval's names of MATH's seven subjects
    "algebra": "algebra",
    "counting_and_probability": "counting_and_prob",
    "geometry": "geometry",
    "intermediate_algebra": "intermediate_algebra",
    "number_theory": "num_theory",
    "prealgebra": "prealgebra",
    "precalculus": "precalc",
}
_MMLU = (
    "abstract_algebra",
    "college_mathematics",
    "elementary_mathematics",
    "high_school_mathematics",
    "high_school_statistics",
)

_TABLE = (
    Benchmark(
        name="gsm8k",
        repository="openai/gsm8k",
        tasks={"main": "gsm8k"},
        revision="740312add88f781978c0658806c59bc2815b9866",
        metric="exact_match",
        filter="flexible-extract",
        chance=0.0,
        question="question",
        answer="after(answer, '####')",
        solution="answer",
        licence="mit",
    ),
    Benchmark(
        name="math",
        repository="EleutherAI/hendrycks_math",
        tasks={subject: f"hendrycks_math_{leaf}" for subject, leaf in _SUBJECTS.items()},
        revision="0bd4da3",
        metric="exact_match",
        chance=0.0,
        question="problem",
        answer="boxed(solution)",
        solution="solution",
        licence="mit",
    ),
    Benchmark(
        name="math_verify",
        repository="EleutherAI/hendrycks_math",
        tasks={subject: f"minerva_math_{leaf}" for subject, leaf in _SUBJECTS.items()},
        revision="0bd4da3",
        metric="math_verify",
        chance=0.0,
        question="problem",
        answer="boxed(solution)",
        solution="solution",
        licence="mit",
    ),
    Benchmark(
        name="mmlu_math",
        repository="cais/mmlu",
        tasks={subject: f"mmlu_{subject}" for subject in _MMLU},
        metric="acc",
        chance=0.25,
        question="question",
        answer="choices[answer::int + 1]",
        options="choices",
        licence="mit",
    ),
    Benchmark(
        name="mathqa",
        repository="regisss/math_qa",  # the same rows as allenai/math_qa, which needs a script that no longer runs
        tasks={"default": "mathqa"},
        metric="acc",
        chance=0.2,
        question="Problem",
        answer="option(options, correct)",
        options="options",
        solution="Rationale",
        also=("validation",),
        licence="apache-2.0",
    ),
    Benchmark(
        name="maths-college",
        repository="ajibawa-2023/Maths-College",
        tasks={"default": "maths-college"},
        revision="9eaa32a",
        split="train",  # its only one; the source of this name never trains
        metric="token_perplexity",
        text="output",
        rows=1000,
        licence="apache-2.0",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _TABLE}

_SHORT_KEYS = ("task", "configuration", "configurations")


def resolve_benchmark(entry: str | Mapping[str, Any] | Benchmark) -> Benchmark:
    """Return the benchmark that a study's entry means: a name of the table, or a mapping of the fields of `Benchmark`.

    In a mapping, `task` with `configuration` (or a list as `configurations`; default "default") is short for `tasks`; a
    `text` needs no task. A mapping without `repository` whose name is in the table changes fields of that benchmark.
    A null stands for a field's default. Raises InputError, in one line, for unknown names and keys (naming the nearest
    valid one) and for values that do not fit.
    """
    if isinstance(entry, Benchmark):
        return entry
    base, values = resolve(Benchmark, BENCHMARKS, entry, _SHORT_KEYS)
    if isinstance(entry, str):
        return build(Benchmark, base, values)
    where = f"benchmark {values['name']!r}"
    if short := {key: entry[key] for key in _SHORT_KEYS if entry.get(key) is not None}:
        if "tasks" in values:
            raise InputError(f"{where}: give either tasks or {' and '.join(short)}")
        chosen = short.get("configurations", short.get("configuration", "default"))
        chosen = [chosen] if isinstance(chosen, str) else chosen
        if not isinstance(chosen, list | tuple) or not all(isinstance(name, str) for name in chosen):
            raise InputError(f"{where}: configuration must be a text or a list of texts, not {chosen!r}")
        named = next(iter(base.tasks.values())) if base else values["name"]
        values["tasks"] = dict.fromkeys(chosen, str(short.get("task", named)))
    elif not base:
        values.setdefault("tasks", {"default": values["name"]})
    if values.get("text"):
        values["metric"] = values.get("metric") or PERPLEXITIES[0]
    benchmark = build(Benchmark, base, values)
    if not (benchmark.text or benchmark.yaml or base or "task" in short or entry.get("tasks")):
        raise InputError(f"{where}: name lm-eval's task (task, or a file as yaml), or a column as text for perplexity")
    return benchmark
