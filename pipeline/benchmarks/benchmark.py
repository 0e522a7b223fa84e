"""The form of a benchmark: its data, its lm-eval tasks, and its columns for decontamination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.entries import CONFIG, Column, Name, Repository, Revision, Texts

PERPLEXITIES = ("word_perplexity", "byte_perplexity", "bits_per_byte", "token_perplexity")
Text = Annotated[str, Field(coerce_numbers_to_str=True)]


@dataclass(frozen=True, config=CONFIG)
class Benchmark:
    """A set of items that is evaluated and must not be trained on.

    Every field can be written in a study's YAML file:

        - name: gsm8k_cot
          task: gsm8k_cot_zeroshot
          repository: openai/gsm8k
          configuration: main
          chance: 0.0
          metric: exact_match
          filter: flexible-extract
          question: question
          answer: "after(answer, '####')"
        - name: mine
          yaml: tasks/mine.yaml
          repository: me/mine
          split: validation
          metric: acc
          chance: 0.25
        - {name: openstax, repository: openstax/algebra, split: validation, text: text}
        # an entry of the table with one field changed
        - {name: gsm8k, filter: strict-match}

    `tasks` maps each configuration of the repository to a task of lm-eval, or of the file `yaml`
    (below the study file's folder); the items of all are pooled in the results. `metric` and
    `filter` are lm-eval's names of the number that counts; `chance` is what guessing gives.
    `question`, `answer`, `options` (of a multiple choice) and `solution` (worked out) are the
    columns that decontamination compares, also in the splits `also`. With `text`, the benchmark is
    the perplexity of that column, of all rows or of a fixed sample of `rows`. `overrides` go into
    lm-eval's task configuration. With `late: true`, for a benchmark that is added after the
    training, the data stay as they are, and items that stand in them are left out of its score.
    """

    name: Name
    repository: Repository
    tasks: Annotated[Mapping[Text, Text], Field(min_length=1, description="a mapping")]
    split: str = "test"
    revision: Revision = None
    metric: str = ""
    filter: str = "none"
    chance: Annotated[
        float | None, Field(strict=True, ge=0, lt=1, description="a number from 0 to below 1")
    ] = None
    question: Column = "coalesce(question, problem, input, prompt, text)"
    answer: Column = ""
    options: Column = ""
    solution: Column = ""
    also: Texts = ()
    text: Column = ""
    rows: Annotated[int | None, Field(strict=True, ge=1, description="a whole number above 0")] = (
        None
    )
    yaml: str | None = None
    overrides: Annotated[Mapping[str, Any], Field(description="a mapping")] = field(
        default_factory=dict
    )
    licence: str = "not stated"
    late: bool = False

    @model_validator(mode="after")
    def _fields_agree(self) -> Benchmark:
        if self.text and self.metric not in PERPLEXITIES:
            raise InputError(
                f"metric of a text must be one of {', '.join(PERPLEXITIES)}, not {self.metric!r}"
            )
        if self.text and len(self.tasks) != 1:
            raise InputError(f"a text is of one configuration, not of {', '.join(self.tasks)}")
        # The items of two configurations with one task would have the same ids.
        if len(set(self.tasks.values())) < len(self.tasks):
            raise InputError("each configuration needs a task of its own: give `tasks`")
        if not self.metric:
            raise InputError("metric must be given, as the task names it (acc, exact_match, ...)")
        if self.rows and not self.text:
            raise InputError("rows is for the perplexity of a text")
        return self

    @property
    def configurations(self) -> tuple[str, ...]:
        """The configurations of the repository that are evaluated."""
        return tuple(self.tasks)

    @property
    def splits(self) -> tuple[str, ...]:
        """The evaluated split, then those that are kept out of training only."""
        return (self.split, *self.also)
