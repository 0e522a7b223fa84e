r"""The benchmarks: one declarative table of the paper's, and the form in which users name their own.

A study names a benchmark by its name in `BENCHMARKS`, or gives an inline entry of the same form: any task of lm-eval,
by name or as a YAML file, with the place of its data; or the perplexity of a column of text:

    - {name: gsm8k_cot, task: gsm8k_cot_zeroshot, repository: openai/gsm8k, configuration: main,
       metric: exact_match, filter: flexible-extract, chance: 0.0, question: question, answer: 'after(answer, "####")'}
    - {name: mine, task: mine, yaml: tasks/mine.yaml, repository: me/mine, split: validation, metric: acc, chance: 0.25}
    - {name: openstax, repository: openstax/algebra, split: validation, text: text}
    - {name: gsm8k, filter: strict-match}                    # the table's entry with something changed

All are evaluated as lm-eval defines them, 0-shot, with only the place of the data changed. One benchmark is one task in
the results, though it may have several leaf tasks in lm-eval, one for each configuration of its data; their items are
pooled, so its accuracy is the mean over items, not over leaves. Which of lm-eval's numbers counts as the accuracy:

* GSM8K: `exact_match` behind `flexible-extract`, the last number of the output. `strict-match` wants "#### 18", a form
  that one in fourteen of the paper's sources has; behind it a model that ends in \boxed{18} scores nothing, so it
  measures the form of the answer more than arithmetic.
* MATH: `exact_match` of `hendrycks_math_*`, the task that the benchmark's name means in lm-eval. It reads what stands
  between the first and the last dollar sign, so outputs with several formulas fail. `math_verify` is the same data
  under `minerva_math_*`, where Math-Verify parses the whole output and finds a \boxed answer: more lenient, and slower.
* MMLU (mathematics): `acc`, the likeliest of the four letters, over the five subjects of the paper.
* MathQA: `acc`, the likeliest of five continuations, not normalised by length: the accuracy that MMLU reports too.
* Maths-College: `token_perplexity`, the unit in which the paper's 6 to 7 make sense; it depends on the tokenizer, so
  runs with another one compare by `byte_perplexity`, which is recorded as well. The sample is 1,000 rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.sources import columns
from pipeline.sources.columns import MissingColumn
from pipeline.sources.download import find_split, has_splits
from pipeline.sources.hub import CARD, card_configurations
from pipeline.sources.readers import open_rows
from pipeline.sources.table import as_tuple, check_place, nearest
from pipeline.storage.files import atomic_file
from pipeline.storage.store import digest

TEXT_TASK = Path(__file__).with_name("tasks") / "text_perplexity.yaml"
PERPLEXITIES = ("word_perplexity", "byte_perplexity", "bits_per_byte", "token_perplexity")
LOADERS = {".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv"}  # builders of `datasets`; all else is "json"
SAMPLED_FROM = 20  # a sample of n texts is drawn from the first 20 n rows
ITEMS = pa.schema([(name, pa.string()) for name in ("id", "benchmark", "question", "answer")])


@dataclass(frozen=True)
class Benchmark:
    """What is evaluated and what must not be trained on. All fields can be written in YAML.

    `tasks` maps each configuration of the repository to lm-eval's task for it; with `yaml` the definition is that
    file's (relative paths: below the mirror or the current folder). `metric` and `filter` are lm-eval's names of the
    number that counts; `chance` is what guessing gives. `question` and `answer` are columns for decontamination, in the
    language of `pipeline.sources.columns`; items of the splits `also` are kept out of training too, where they are there. A
    benchmark with `text` is the perplexity of that column, of all rows or of a fixed sample of `rows`. `plain` is a
    file of plain items for machines without lm-eval. `overrides` go into lm-eval's task configuration.
    """

    name: str
    repository: str
    tasks: Mapping[str, str]
    split: str = "test"
    revision: str | None = None
    metric: str = ""
    filter: str = "none"
    chance: float | None = None
    question: str | tuple[str, ...] = "question | Question | problem | Problem | input | prompt | text"
    answer: str | tuple[str, ...] = ""
    also: tuple[str, ...] = ()
    text: str = ""
    rows: int | None = None
    yaml: str | None = None
    plain: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    licence: str = "not stated"

    @property
    def configurations(self) -> tuple[str, ...]:
        return tuple(self.tasks)

    @property
    def splits(self) -> tuple[str, ...]:
        return (self.split, *self.also)

    @property
    def kind(self) -> str:
        return "perplexity" if self.text else "accuracy"


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
        answer='after(answer, "####")',
        licence="mit",
    ),
    Benchmark(
        name="math",
        repository="EleutherAI/hendrycks_math",
        tasks={subject: f"hendrycks_math_{leaf}" for subject, leaf in _SUBJECTS.items()},
        metric="exact_match",
        chance=0.0,
        question="problem",
        answer="boxed(solution)",
        licence="mit",
    ),
    Benchmark(
        name="math_verify",
        repository="EleutherAI/hendrycks_math",
        tasks={subject: f"minerva_math_{leaf}" for subject, leaf in _SUBJECTS.items()},
        metric="math_verify",
        chance=0.0,
        question="problem",
        answer="boxed(solution)",
        licence="mit",
    ),
    Benchmark(
        name="mmlu_math",
        repository="cais/mmlu",
        tasks={subject: f"mmlu_{subject}" for subject in _MMLU},
        metric="acc",
        chance=0.25,
        question="question",
        answer="choice(choices[*], answer)",
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
        also=("validation",),
        licence="apache-2.0",
    ),
    Benchmark(
        name="maths-college",
        repository="ajibawa-2023/Maths-College",
        tasks={"default": "maths-college"},
        split="train",  # its only one; the source of this name never trains
        metric="token_perplexity",
        text="output",
        rows=1000,
        licence="apache-2.0",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _TABLE}

_FIELDS = {f.name: f for f in dataclasses.fields(Benchmark)}
_OTHER_KEYS = ("task", "configuration", "configurations")


def resolve_benchmark(entry: str | Mapping[str, Any] | Benchmark) -> Benchmark:
    """The benchmark that a name of the table, or an inline entry, means.

    In an entry, `task` with `configuration` (default "default") is short for `tasks`; a `text` needs no task. An entry
    without `repository` whose name is in the table changes fields of that one. Raises InputError for unknown names and
    keys (naming the nearest), and for values that cannot be meant.
    """
    if isinstance(entry, Benchmark):
        return entry
    if isinstance(entry, str):
        if entry in BENCHMARKS:
            return BENCHMARKS[entry]
        raise InputError(
            f"no benchmark {entry!r}{nearest(entry, BENCHMARKS)}; or give an entry with name, repository, task"
        )
    where = f"benchmark {entry.get('name', entry)!r}"
    for key in entry:
        if key not in _FIELDS and key not in _OTHER_KEYS:
            raise InputError(f"{where}: unknown key {key!r}{nearest(str(key), [*_FIELDS, *_OTHER_KEYS])}")
    values = {key: _field(where, key, value) for key, value in entry.items() if key in _FIELDS and value is not None}
    base = BENCHMARKS.get(str(entry.get("name"))) if "repository" not in entry else None
    if not base and (missing := [key for key in ("name", "repository") if not values.get(key)]):
        raise InputError(f"{where}: {' and '.join(missing)} must be given{nearest(str(entry.get('name')), BENCHMARKS)}")
    if short := [key for key in _OTHER_KEYS if key in entry]:
        if "tasks" in values:
            raise InputError(f"{where}: give either tasks or {' and '.join(short)}")
        task = str(entry.get("task") or (next(iter(base.tasks.values())) if base else values["name"]))
        chosen = entry.get("configurations", entry.get("configuration", "default"))
        values["tasks"] = dict.fromkeys(as_tuple(where, "configuration", chosen), task)
    elif not base:
        values.setdefault("tasks", {"default": values["name"]})
    if values.get("text"):
        values.setdefault("metric", PERPLEXITIES[0])
    benchmark = dataclasses.replace(base, **values) if base else Benchmark(**values)
    check_place(where, benchmark.name, benchmark.repository)
    _check(where, benchmark, named=bool(base) or "task" in entry or "tasks" in entry)
    return benchmark


def benchmark_items(benchmark: Benchmark, folder: Path | str) -> pa.Table:
    """What must not be in the training data: id, benchmark, question, answer (strings), of every item.

    Ids are those of the results, "<leaf task>/<number>", for the split that is evaluated; items of other splits have
    the split's name before the number. A text counts as a question. Raises InputError when the folder lacks a split
    that is evaluated, or a column.
    """
    if benchmark.text:
        task = next(iter(benchmark.tasks.values()))
        texts = [text for _, text in _texts(benchmark, folder)]
        ids = [f"{task}/{number}" for number in range(len(texts))]
        return pa.table([ids, [benchmark.name] * len(ids), texts, [""] * len(ids)], schema=ITEMS)
    tables = []
    for configuration, task in benchmark.tasks.items():
        for split in benchmark.splits:
            if split != benchmark.split and not has_splits(folder, [(configuration, split)]):
                continue
            prefix = f"{task}/" if split == benchmark.split else f"{task}/{split}/"
            number = 0
            for found in _columns(benchmark, folder, configuration, split, (benchmark.question, benchmark.answer)):
                ids = [f"{prefix}{number + i}" for i in range(len(found[0]))]
                number += len(ids)
                tables.append(pa.table([ids, [benchmark.name] * len(ids), *found], schema=ITEMS))
    return pa.concat_tables(tables) if tables else ITEMS.empty_table()


def task_specifications(
    benchmark: Benchmark, folder: Path | str, output: Path | str | None = None
) -> list[dict[str, Any]]:
    """What `build_task` (model/evaluation) needs, one JSON-able mapping for each leaf task; paths are absolute.

    `output` is a folder for the texts of a benchmark with `rows`, or whose `text` is more than a column; they are
    written there once. Raises InputError when the data, a task file or a file of plain items is not there.
    """
    folder = Path(folder).resolve()
    specifications = []
    for configuration, task in benchmark.tasks.items():
        place, overrides = _data(benchmark, folder, configuration, output)
        specifications.append(
            {
                "benchmark": benchmark.name,
                "task": task,
                "dataset_path": place,
                "yaml": str(TEXT_TASK) if benchmark.text else _file(benchmark, "yaml", folder),
                "overrides": {**overrides, "num_fewshot": 0, **benchmark.overrides},
                "metric": benchmark.metric,
                "filter": benchmark.filter,
                "chance": benchmark.chance,
                "plain": _file(benchmark, "plain", folder),
            }
        )
    return specifications


def _data(
    benchmark: Benchmark, folder: Path, configuration: str, output: Path | str | None
) -> tuple[str, dict[str, Any]]:
    """Where `datasets` finds the split: in the repository's folder if its card names it, else the split's files."""
    overrides: dict[str, Any] = {"test_split": benchmark.split, "dataset_name": configuration}
    files = find_split(folder, configuration, benchmark.split)
    if benchmark.text and (benchmark.rows is not None or not benchmark.text.isidentifier()):
        files = [_write_texts(benchmark, folder, files, output)]
        overrides["doc_to_target"] = "{{text}}"
    else:
        if benchmark.text:
            overrides["doc_to_target"] = f"{{{{{benchmark.text}}}}}"
        card = folder / CARD
        named = card_configurations(card.read_text(errors="replace")) if card.is_file() else {}
        if benchmark.split in named.get(configuration, {}):
            return str(folder), overrides
    suffix = next((suffix for suffix in LOADERS if files[0].name.endswith(suffix)), "")
    overrides["dataset_name"] = None
    overrides["dataset_kwargs"] = {"data_files": {benchmark.split: [str(path) for path in files]}}
    return LOADERS.get(suffix, "json"), overrides


def _write_texts(benchmark: Benchmark, folder: Path, files: list[Path], output: Path | str | None) -> Path:
    if output is None:
        raise InputError(
            f"benchmark {benchmark.name!r} evaluates a sample or a template of its rows: it needs a folder"
        )
    sizes = [(path.name, path.stat().st_size) for path in files]
    key = digest([benchmark.repository, benchmark.revision, benchmark.text, benchmark.rows, sizes])
    path = Path(output).resolve() / f"{benchmark.name}-{key}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, shared=True) as partial, partial.open("w", encoding="utf-8") as file:
            for row, text in _texts(benchmark, folder):
                file.write(json.dumps({"row": row, "text": text}) + "\n")
    return path


def _texts(benchmark: Benchmark, folder: Path | str) -> list[tuple[int, str]]:
    """The texts of a perplexity benchmark with their row numbers: all, or those whose hashes are the smallest."""
    configuration = next(iter(benchmark.tasks))
    limit = benchmark.rows * SAMPLED_FROM if benchmark.rows else None
    parts = _columns(benchmark, folder, configuration, benchmark.split, (benchmark.text,), limit)
    texts = enumerate(text for (found,) in parts for text in found)
    if benchmark.rows is None:
        return list(texts)
    filled = ((row, text) for row, text in texts if text.strip())
    return sorted(heapq.nsmallest(benchmark.rows, filled, lambda item: (_hash(item[1]), item[0])))


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _columns(
    benchmark: Benchmark,
    folder: Path | str,
    configuration: str,
    split: str,
    wanted: tuple[str | tuple[str, ...], ...],
    limit: int | None = None,
) -> Iterator[list[list[str]]]:
    """The texts of some column expressions over a split, block by block; `limit` is of rows, shared among the files."""
    files = find_split(folder, configuration, split)
    for path in files:
        reader = open_rows(path)
        if not reader.columns:
            continue
        try:
            bound = [columns.parse(text).bind(reader.has) if text else None for text in wanted]
        except MissingColumn as missing:
            raise InputError(
                f"benchmark {benchmark.name!r}: {path} has nothing at {missing.wanted}; its columns are "
                f"{', '.join(reader.columns)}; name the benchmark's question and answer"
            ) from missing
        paths = list(dict.fromkeys(p for expression in bound if expression for p in expression.paths()))
        for block in reader.blocks(paths, None if limit is None else -(-limit // len(files))):
            if block.malformed and not benchmark.text:  # a lost row would shift the numbers of all items after it
                raise InputError(f"benchmark {benchmark.name!r}: {path} has a malformed row {block.malformed[0][0]}")
            rows = len(block.table)
            yield [
                [text or "" for text in expression.evaluate(block.table).to_pylist()] if expression else [""] * rows
                for expression in bound
            ]


def _file(benchmark: Benchmark, key: str, folder: Path) -> str | None:
    """A file that the benchmark names: as it stands, or below the repository, its owner's folder or the mirror."""
    name = getattr(benchmark, key)
    if name is None:
        return None
    places = [place / name for place in (Path.cwd(), folder, *folder.parents[:2])]  # an absolute name stays itself
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InputError(f"benchmark {benchmark.name!r}: no {key} file {' or '.join(map(str, dict.fromkeys(places)))}")
    return str(found.resolve())


def _field(where: str, key: str, value: Any) -> Any:
    """A YAML value as the field's type."""
    if key in ("tasks", "overrides"):
        if not isinstance(value, Mapping) or (key == "tasks" and not value):
            raise InputError(f"{where}: {key} must be a mapping, not {value!r}")
        return {str(k): str(v) for k, v in value.items()} if key == "tasks" else dict(value)
    if key == "also":
        return as_tuple(where, key, value)
    if key in ("question", "answer"):
        return value if isinstance(value, str) else as_tuple(where, key, value)
    if key == "chance":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise InputError(f"{where}: chance must be a number from 0 to below 1, not {value!r}")
        return float(value)
    if key == "rows":
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{where}: rows must be a whole number above 0, not {value!r}")
        return value
    if not isinstance(value, str):
        raise InputError(f"{where}: {key} must be a text, not {value!r}")
    return value


def _check(where: str, benchmark: Benchmark, *, named: bool) -> None:
    if benchmark.text and benchmark.metric not in PERPLEXITIES:
        raise InputError(
            f"{where}: metric of a text must be one of {', '.join(PERPLEXITIES)}, not {benchmark.metric!r}"
        )
    if benchmark.text and len(benchmark.tasks) != 1:
        raise InputError(f"{where}: a text is of one configuration, not of {', '.join(benchmark.tasks)}")
    if not benchmark.text and not (named or benchmark.yaml):
        raise InputError(f"{where}: name lm-eval's task (task, or a file as yaml), or a column as text for perplexity")
    if not benchmark.metric:
        raise InputError(f"{where}: metric must be given, as the task names it (acc, exact_match, ...)")
    if benchmark.rows and not benchmark.text:
        raise InputError(f"{where}: rows is for the perplexity of a text")
    for text in (benchmark.question, benchmark.answer, benchmark.text):
        if text:
            columns.parse(text)
