r"""The training sources: one declarative table of the paper's (Table 4), and the form in which users name their own.

A study names a source by its name in `SOURCES`, or gives an inline entry of the same form:

    - {name: svamp, repository: svamp/svamp, question: "{Body} {Question}", response: Answer, answer: Answer}
    - {name: deepmind, repository: deepmind/mathematics, question: question, response: answer, answer: answer}
    - {name: reasoning-gym, repository: reasoning-gym/think, question: question, response: response, answer: answer}
    - {name: openstax, repository: openstax/algebra, split: validation, text: text}
    - {name: gsm8k, remove_response: ["<<[^<>]*>>"]}      # the table's entry with something changed

Columns are written in the language of `pipeline.sources.columns`: paths such as `conversations[1].value`, alternatives
`problem | question`, templates `{Body} {Question}` (the list `[Body, Question]` joins with a space), for short answers
`boxed(solution)` or `after(answer, "####")`. Where the public descriptions of a data set do not agree on a name, the
table gives alternatives, and reading stops with both lists of columns when none is there.

What the paper does not say and is decided here: all correct generations of a question are kept, each as a document of
its own (several solutions per question are what these sets are for); rows marked incorrect are left out; subsets are
not picked by topic; GSM8K keeps its calculator notes and its last line "#### 18", which lm-eval's task has as its
target.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError
from pipeline.sources import columns

CALCULATOR_NOTES = "<<[^<>]*>>"  # GSM8K's "48/2 = <<48/2=24>>24"; give it as `remove_response` for plain prose
OPENTHOUGHTS_PREFIX = r"^Return your final response within \\boxed\{\}\.\s*"
TRACES = ("none", "paired", "thought", "closing", "unmarked")
USES = ("train", "validation")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Source:
    r"""Where documents come from and how a row becomes one. All fields can be written in YAML.

    Either `text` (plain text: the question is empty) or `question` with `response` is given. `responses` instead of
    `response` names several columns, each a response of its own, and so does a path with `[*]`: the row then gives
    several documents. `keep_if` names lists of flags beside such a list; a response is kept when each of them is true
    for it ("a | b": when either is). `where` keeps rows whose column has the value, or one of the values, as text; `*`
    matches anything. `remove_question` and `remove_response` are regular expressions (RE2) of what is cut out.

    `revision` pins a commit and becomes part of every document's id. `use = "validation"` never trains. `limit` reads
    that many rows only. `trace` says how reasoning is marked ("unmarked": there is some, without marks). Marks are
    found whatever it says; with "closing" a response without any mark is dropped, as a trace that was cut off.
    """

    name: str
    repository: str
    question: str | tuple[str, ...] = ""
    response: str | tuple[str, ...] = ""
    responses: tuple[str, ...] = ()
    text: str | tuple[str, ...] = ""
    answer: str | tuple[str, ...] = ""
    configurations: tuple[str, ...] = ("default",)
    split: str = "train"
    revision: str | None = None
    where: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    keep_if: tuple[str, ...] = ()
    remove_question: tuple[str, ...] = ()
    remove_response: tuple[str, ...] = ()
    trace: str = "none"
    use: str = "train"
    licence: str = "not stated"
    non_commercial: bool = False
    gated: bool = False
    limit: int | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        return (self.split,)

    @property
    def prefix(self) -> str:
        """What a document's id starts with: the name, and the pinned revision if there is one."""
        return f"{self.name}@{self.revision[:8]}" if self.revision else self.name


_MATH_SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)

_TABLE = (
    Source(
        name="math",
        repository="EleutherAI/hendrycks_math",
        configurations=_MATH_SUBJECTS,
        question="problem",
        response="solution",
        answer="boxed(solution)",
        licence="mit",
    ),
    Source(
        name="curatedthoughts-openr1",
        repository="bethgelab/CuratedThoughts",
        configurations=("OpenR1-Math-220k-default",),
        question="problem",
        response="generations[*]",
        # 12 % of the traces were judged by a model instead of Math-Verify; the second column is null where none was.
        keep_if=("is_reasoning_complete", "correctness_math_verify | correctness_llama"),
        answer="answer",
        trace="paired",
    ),
    Source(
        name="curatedthoughts-openthoughts",
        repository="bethgelab/CuratedThoughts",
        configurations=("OpenThoughts-114k-math-default",),
        question="problem",
        response="conversations[-1].value",  # `messages` holds the short human solution here
        answer="boxed(solution)",
        where={"correct": "true"},
        remove_question=(OPENTHOUGHTS_PREFIX,),
        trace="thought",
    ),
    Source(
        name="orca-math",
        repository="microsoft/orca-math-word-problems-200k",
        question="question",
        response="answer",
        licence="mit",
    ),
    Source(
        name="mathinstruct",
        repository="TIGER-Lab/MathInstruct",
        question="instruction",
        response="output",
        answer='after(output, "The answer is")',
        licence="mit",
    ),
    Source(
        name="gsm8k",
        repository="openai/gsm8k",
        configurations=("main",),
        revision="740312add88f781978c0658806c59bc2815b9866",
        question="question",
        response="answer",
        answer='after(answer, "####")',
        licence="mit",
    ),
    Source(
        name="amps-khan",
        repository="XinyaoHu/AMPS_khan",
        question="problem | question",
        response="lines(hints/solutions | hints | solutions | solution | answer)",
        answer="last(hints/solutions | hints | solutions | solution | answer)",
        licence="mit",
    ),
    Source(
        name="openthoughts2",
        repository="open-thoughts/OpenThoughts2-1M",
        question="conversations[0].value",
        response="conversations[1].value",
        answer="boxed(conversations[1].value)",
        remove_question=(OPENTHOUGHTS_PREFIX,),
        trace="paired",
        licence="apache-2.0",
    ),
    Source(
        name="numinamath-cot",
        repository="AI-MO/NuminaMath-CoT",
        question="problem",
        response="solution",
        answer="boxed(solution)",
        licence="apache-2.0",
    ),
    Source(
        name="natural-reasoning",
        repository="facebook/natural_reasoning",
        question="question",
        response="responses[0].response",
        answer="reference_answer",
        trace="unmarked",
        licence="cc-by-nc-4.0",
        non_commercial=True,
    ),
    Source(
        name="openmathinstruct-2",
        repository="nvidia/OpenMathInstruct-2",
        question="problem",
        response="generated_solution",
        answer="expected_answer",
        licence="cc-by-4.0",
    ),
    Source(
        name="openmathreasoning",
        repository="nvidia/OpenMathReasoning",
        split="cot",  # a split, not a configuration
        question="problem",
        response="generated_solution",
        answer="expected_answer",
        where={"inference_mode": "cot"},
        trace="paired",
        licence="cc-by-4.0",
    ),
    Source(
        name="deepmath-103k",
        repository="zwhe99/DeepMath-103K",
        question="question",
        responses=("r1_solution_1", "r1_solution_2", "r1_solution_3"),
        answer="final_answer",
        trace="closing",
        licence="mit",
    ),
    Source(
        name="math-instruct",
        repository="ibivibiv/math_instruct",
        revision="dcdebc43ae7cad40d4d76e86d570305d21b90a59",
        question="{instruction}\n{input}",
        response="output",
        answer="output",
        remove_question=("^b['\"]", r"(\\n)+['\"]$"),  # traces of Python byte strings, should there be any
        remove_response=("^b['\"]", r"(\\n)+['\"]$"),
    ),
    Source(
        name="nemotron-sft-math",
        repository="nvidia/Nemotron-Pretraining-SFT-v1",
        configurations=("Nemotron-SFT-MATH",),
        revision="3f1a5b884d0b890f02ead979ce698dc95debd953",
        text="text",  # question and solution in one, without marks between them
        trace="unmarked",
        licence="NVIDIA Data Agreement for Model Training",
        gated=True,
    ),
    Source(
        name="maths-college",
        repository="ajibawa-2023/Maths-College",
        question="instruction",
        response="output",
        use="validation",
        licence="apache-2.0",
    ),
)

SOURCES: dict[str, Source] = {source.name: source for source in _TABLE}

_FIELDS = {f.name: f for f in dataclasses.fields(Source)}
_ALIASES = {"configuration": "configurations"}


def resolve_source(entry: str | Mapping[str, Any] | Source) -> Source:
    """The source that a name of the table, or an inline entry, means.

    An inline entry without `repository` whose name is in the table changes fields of that one. Raises InputError for
    unknown names and keys (naming the nearest), and for values that cannot be meant.
    """
    if isinstance(entry, Source):
        return entry
    if isinstance(entry, str):
        if entry in SOURCES:
            return SOURCES[entry]
        raise InputError(
            f"no source {entry!r}{nearest(entry, SOURCES)}; or give an entry with name, repository, columns"
        )
    where = f"source {entry.get('name', entry)!r}"
    values = {_ALIASES.get(key, key): value for key, value in entry.items()}
    for key in values:
        if key not in _FIELDS:
            raise InputError(f"{where}: unknown key {key!r}{nearest(str(key), [*_FIELDS, *_ALIASES])}")
    values = {key: _field(where, key, value) for key, value in values.items()}
    if "repository" not in values and values.get("name") in SOURCES:
        source = dataclasses.replace(SOURCES[values["name"]], **values)
    else:
        if missing := [key for key in ("name", "repository") if not values.get(key)]:
            raise InputError(
                f"{where}: {' and '.join(missing)} must be given{nearest(str(values.get('name')), SOURCES)}"
            )
        source = Source(**values)
    check_place(where, source.name, source.repository)
    _check(source)
    return source


def notices(source: Source) -> list[str]:
    """What a person should know about the source's licence before it is fetched; most have nothing to say."""
    found = []
    if source.non_commercial:
        found.append(f"{source.name}: {source.licence}, for non-commercial use only")
    if source.gated:
        found.append(f"{source.name}: gated; accept {source.licence} on the hub and set HF_TOKEN")
    if source.licence == "not stated":
        found.append(f"{source.name}: states no licence")
    return found


def nearest(word: str, known: Any) -> str:
    """ "; did you mean 'x'?" for the most similar of the known words, or nothing."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_place(where: str, name: str, repository: str) -> None:
    """Names and repositories become parts of paths and ids, so their characters are limited. Raises InputError."""
    if not NAME.fullmatch(name):
        raise InputError(f"{where}: name {name!r} may hold letters, digits, dots, dashes and underscores only")
    if not REPOSITORY.fullmatch(repository) or ".." in repository:
        raise InputError(f"{where}: repository {repository!r} is not of the form owner/name")


def as_tuple(where: str, key: str, value: Any) -> tuple[str, ...]:
    """A text or a list of texts as a tuple. Raises InputError for anything else."""
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise InputError(f"{where}: {key} must be a text or a list of texts, not {value!r}")
    return tuple(values)


def _field(where: str, key: str, value: Any) -> Any:
    """A YAML value as the field's type."""
    if value is None:
        default = _FIELDS[key].default
        return {} if default is dataclasses.MISSING and key == "where" else default
    if key in ("question", "response", "text", "answer"):
        return value if isinstance(value, str) else as_tuple(where, key, value)
    if key in ("configurations", "responses", "keep_if", "remove_question", "remove_response"):
        return as_tuple(where, key, value)
    if key in ("non_commercial", "gated"):
        if not isinstance(value, bool):
            raise InputError(f"{where}: {key} must be true or false, not {value!r}")
        return value
    if key == "limit":
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{where}: limit must be a whole number of rows above 0, not {value!r}")
        return value
    if key == "where":
        if not isinstance(value, Mapping):
            raise InputError(f"{where}: where must map columns to values, not {value!r}")
        return {
            str(column): tuple(map(_value, wanted)) if isinstance(wanted, list | tuple) else _value(wanted)
            for column, wanted in value.items()
        }
    if not isinstance(value, str):
        raise InputError(f"{where}: {key} must be a text, not {value!r}")
    return value


def _value(value: Any) -> str:
    return columns.as_text(value) or ""


def _check(source: Source) -> None:
    where = f"source {source.name!r}"
    given = [key for key in ("text", "response", "responses") if getattr(source, key)]
    if len(given) != 1 or bool(source.question) == bool(source.text):
        raise InputError(f"{where}: give either text, or question with one of response and responses; it has {given}")
    for key, known in (("use", USES), ("trace", TRACES)):
        if getattr(source, key) not in known:
            raise InputError(f"{where}: {key} is {getattr(source, key)!r}; it must be one of {', '.join(known)}")
    for key in ("question", "response", "text", "answer"):
        if getattr(source, key):
            columns.parse(getattr(source, key))
    for path in (*source.responses, *source.keep_if, *source.where):
        columns.parse(path)
    if source.keep_if and "[*]" not in str(source.response):
        raise InputError(f"{where}: keep_if needs a response with [*], such as generations[*]")
    for pattern in (*source.remove_question, *source.remove_response):
        try:
            pc.replace_substring_regex(pa.scalar(""), pattern=pattern, replacement="")
        except pa.ArrowInvalid as error:
            raise InputError(f"{where}: {pattern!r} is not a regular expression ({error})") from error
