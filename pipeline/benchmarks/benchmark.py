"""The form of a benchmark: its data, its lm-eval tasks, and its columns for decontamination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.entries import (
    CONFIG,
    Column,
    Name,
    Repository,
    Revision,
    Rule,
    Texts,
)

PERPLEXITIES = ("word_perplexity", "byte_perplexity", "bits_per_byte", "token_perplexity")
FILE_KEYS = ("data_files", "data_dir")  # of `dataset_kwargs`
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
    """Name of the benchmark; a name of the table changes that entry."""
    repository: Repository
    """Data set on the hub: owner/name."""
    tasks: Annotated[Mapping[Text, Text], Field(min_length=1), Rule("a mapping")]
    """Task of lm-eval, or of the file `yaml`, for each configuration of the data set."""
    split: str = "test"
    """Split whose items are evaluated."""
    revision: Revision = None
    """Commit of the repository."""
    metric: str = ""
    """Metric of lm-eval that is the accuracy."""
    filter: str = "none"
    """Filter of lm-eval whose metric counts."""
    chance: Annotated[
        float | None, Field(strict=True, ge=0, lt=1), Rule("a number from 0 to below 1")
    ] = None
    """Accuracy of guessing, from 0 to below 1; null: unknown."""
    question: Column = "coalesce(question, problem, input, prompt, text)"
    """Column of the question, or an SQL expression: what decontamination looks for."""
    answer: Column = ""
    """Column of the answer, or an SQL expression, for decontamination."""
    options: Column = ""
    """Column of the options of a multiple choice, or an SQL expression, for decontamination."""
    solution: Column = ""
    """Column of the worked solution, or an SQL expression, for decontamination."""
    also: Texts = ()
    """Further splits whose items decontamination looks for."""
    text: Column = ""
    """Column of a text whose perplexity is the benchmark."""
    rows: Annotated[int | None, Field(strict=True, ge=1), Rule("a whole number above 0")] = None
    """Rows of a fixed sample of `text`; null: all."""
    yaml: str | None = None
    """File of a task of lm-eval's, below the folder of the study file."""
    overrides: Annotated[Mapping[str, Any], Rule("a mapping")] = field(default_factory=dict)
    """Settings that replace those of lm-eval's task."""
    licence: str = "not stated"
    """Licence of the data, which reports and published folders show."""
    late: bool = False
    """The benchmark came after the training: items that stand in the training data are left out of
    its score.
    """

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
        self._check_files()
        return self

    def _check_files(self) -> None:
        """Raise InputError for overrides that name files: all that read them read one list."""
        options = self.overrides.get("dataset_kwargs")
        named = [key for key in FILE_KEYS if isinstance(options, Mapping) and key in options]
        if named:
            raise InputError(
                f"overrides.dataset_kwargs.{named[0]} would evaluate other files than those that"
                " are kept out of the training data; name these as the benchmark's `repository`"
            )

    @property
    def configurations(self) -> tuple[str, ...]:
        """The configurations of the repository that are evaluated."""
        return tuple(self.tasks)

    @property
    def splits(self) -> tuple[str, ...]:
        """The evaluated split, then those that are kept out of training only."""
        return (self.split, *self.also)
