r"""The paper's training sources (Table 4), one declarative entry for each, and how a study's entry is resolved.

Decided here, because the paper does not say: all correct generations of a question are kept, each as a document of its
own; rows marked incorrect are left out; no subset is picked by topic; GSM8K keeps its calculator notes ("<<48/2=24>>")
and its last line "#### 18", the target of lm-eval's task. Where public descriptions disagree on a column's name, the
entry gives alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.sources.entries import build, resolve
from pipeline.sources.source import Source

_OPENTHOUGHTS_PREFIX = r"^Return your final response within \\boxed\{\}\.\s*"

_BYTE_STRING = r"""(?s)^b['"](?P<kept>.*?)(?:\\n)*['"]$"""  # Python's b'...\n', should there be any

_ASSISTANT = "list_filter(conversations, lambda turn: turn.\"from\" = 'assistant')"

_HINTS = 'coalesce("hints/solutions", hints, solutions, solution, answer)'

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
        revision="0bd4da3",
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
        response="unnest(generations)",
        # 12 % of the traces were judged by a model instead of Math-Verify; the second column is null where none was.
        keep_if=(
            "unnest(is_reasoning_complete)",
            "unnest(correctness_math_verify)::bool or unnest(correctness_llama)::bool",
        ),
        answer="answer",
        trace="paired",
    ),
    Source(
        name="curatedthoughts-openthoughts",
        repository="bethgelab/CuratedThoughts",
        configurations=("OpenThoughts-114k-math-default",),
        question="problem",
        # `messages` holds the short human solution here.
        response=f"{_ASSISTANT}[-1].value",
        answer="boxed(solution)",
        where=("correct::bool",),
        remove_question=(_OPENTHOUGHTS_PREFIX,),
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
        revision="b4fdc32",  # the first without a subset that held test prompts
        question="instruction",
        response="output",
        answer="after(output, 'The answer is')",
        where=("source like 'data/CoT/%'",),  # data/PoT holds programs, which are no worked solutions
        licence="mit",
    ),
    Source(
        name="gsm8k",
        repository="openai/gsm8k",
        configurations=("main",),
        revision="740312add88f781978c0658806c59bc2815b9866",
        question="question",
        response="answer",
        answer="after(answer, '####')",
        licence="mit",
    ),
    Source(
        name="amps-khan",
        repository="XinyaoHu/AMPS_khan",
        question="coalesce(problem, question)",
        response=f"lines({_HINTS})",
        answer=f"lines({_HINTS})[-1]",
        licence="mit",
    ),
    Source(
        name="openthoughts2",
        repository="open-thoughts/OpenThoughts2-1M",
        question="list_extract(conversations, 1).value",
        response=f"{_ASSISTANT}[1].value",
        answer=f"boxed({_ASSISTANT}[1].value)",
        remove_question=(_OPENTHOUGHTS_PREFIX,),
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
        response="list_extract(responses, 1).response",
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
        where=("inference_mode = 'cot'",),
        trace="paired",
        licence="cc-by-4.0",
    ),
    Source(
        name="deepmath-103k",
        repository="zwhe99/DeepMath-103K",
        revision="0406dc9",
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
        question="concat(instruction, chr(10), input)",
        response="output",
        answer="output",
        remove_question=(_BYTE_STRING,),
        remove_response=(_BYTE_STRING,),
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
        revision="9eaa32a",
        question="instruction",
        response="output",
        use="validation",
        licence="apache-2.0",
    ),
)

SOURCES: dict[str, Source] = {source.name: source for source in _TABLE}


def resolve_source(entry: str | Mapping[str, Any] | Source) -> Source:
    """Return the source that a study's entry means: a name of the table, or a mapping of the fields of `Source`.

    A mapping without `repository` whose name is in the table changes fields of that source. Raises InputError, in one
    line, for unknown names and keys (naming the nearest valid one) and for values that do not fit.
    """
    if isinstance(entry, Source):
        return entry
    if isinstance(entry, Mapping):
        entry = {"configurations" if key == "configuration" else key: value for key, value in entry.items()}
    base, values = resolve(Source, SOURCES, entry)
    return build(Source, base, values)
