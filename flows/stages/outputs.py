"""Hand values from stage to stage: what each stage returned, written to the study's folder and read back.

Preparing returns `Prepared`, training `Trained`, evaluation `Evaluated`. Each stage writes what it returned as plain
JSON, so that the next stage can run in another process, and the commands that look at data need not read the sources.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from flows.stages.usage import RECORDS, register_user
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically
from pipeline.storage.store import Output, Store

CURATION = ("documents", "traces", "clean", "deduplicate", "decontaminate", "tokens")


@dataclass(frozen=True)
class Prepared:
    """What preparing the data returned: the finished outputs in the store, and the tasks to evaluate.

    `outputs` names them `<stage>/<key>` in order; the funnel comes last, so a record without it is unfinished. `tasks`
    are specifications, as in `pipeline.benchmarks.items`.
    """

    study_id: str
    store: Path
    outputs: tuple[str, ...]
    tasks: tuple[dict[str, Any], ...] = ()

    @cached_property
    def found(self) -> list[Output]:
        """The outputs that are in the store, in order."""
        found = (Store(self.store).find(*name.split("/")) for name in self.outputs)
        return [output for output in found if output]

    @property
    def stages(self) -> list[Output]:
        """The outputs of the stages that count documents, in order."""
        return [output for output in self.found if output.stage in CURATION]

    def output(self, stage: str) -> Output | None:
        """Find the output of one stage that has a single one; None while the stage has not finished."""
        return next((output for output in self.found if output.stage == stage), None)

    @property
    def packed(self) -> Output:
        """The packed token stream."""
        return self._finished("tokens")

    @property
    def tokenizer(self) -> Output:
        """The tokenizer of the study."""
        return self._finished("tokenizer")

    @property
    def items(self) -> Output:
        """The benchmark items that training data must not contain."""
        return self._finished("items")

    @property
    def vocabulary_size(self) -> int:
        """The vocabulary size of the tokenizer, and so of the models."""
        return self.tokenizer.results["vocabulary_size"]

    def counts(self) -> Iterator[dict[str, Any]]:
        """List rows {stage, source, reason, documents, characters, tokens}: the whole curation, in order."""
        counted = self._finished("funnel").results["counts"]
        tokens = {(row["stage"], row["source"], row["reason"]): row["tokens"] for row in counted}
        for output in self.stages:
            for row in output.results["counts"]:
                known = tokens.get((output.key, row["source"], row["reason"]), row.get("tokens"))
                yield {**row, "stage": output.stage, "tokens": known}

    def _finished(self, stage: str) -> Output:
        output = self.output(stage)
        if output is None:
            raise InputError(f"{self.store}: the output of {stage!r} is not there; run the study again to make it")
        return output


@dataclass(frozen=True)
class Run:
    """One trained model: `status` is 'complete', 'failed', or 'screened' when another seed went on to the end.

    While models are trained also 'waiting' and 'training', and 'evaluating' when only the evaluation goes on.
    """

    run_id: str
    model_id: str
    seed: int
    status: str
    output: str  # of all seeds of the model: training/<key>
    folder: Path
    failure: str = ""  # why the training failed


@dataclass(frozen=True)
class Trained:
    """The runs of a study, in the order of its models and seeds, and the key of the packed tokens they read."""

    study_id: str
    store: Path
    packed: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Evaluated:
    """The evaluation of each complete run, `evaluation/<key>` by run_id, and why an evaluation failed, by run_id."""

    study_id: str
    store: Path
    outputs: dict[str, str]
    failures: dict[str, str] = dataclasses.field(default_factory=dict)

    def row_folders(self) -> list[Path]:
        """List the folders that hold the rows of one checkpoint each."""
        return [rows for name in self.outputs.values() for rows in result_folders(self.store / name / "results")]


Returned = TypeVar("Returned", Prepared, Trained, Evaluated)
FILES = dict(zip((Prepared, Trained, Evaluated), RECORDS, strict=True))
MISSING = {
    Prepared: "no data yet; `dreamer run {}` prepares them",
    Trained: "no trained models yet; `dreamer run {}` trains them",
    Evaluated: "no evaluations yet; `dreamer run {}` makes them",
}


def write_returned(study: Study, value: Prepared | Trained | Evaluated) -> None:
    """Write what a stage returned to the study's folder, in one step, unless the same is there already."""
    path = study.folder / FILES[type(value)]
    plain = dataclasses.asdict(value, dict_factory=lambda pairs: {k: v for k, v in pairs if not isinstance(v, Path)})
    text = json.dumps(plain, indent=1)
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(path, text)
    register_user(study.store_folder, study.folder)


def read_returned(study: Study, kind: type[Returned]) -> Returned:
    """Read what a stage returned the last time, which may have been for other settings of the study.

    Raises InputError when the stage has not run yet, or its outputs have been removed from the store.
    """
    path, store = study.folder / FILES[kind], study.store_folder
    try:
        values = json.loads(path.read_text())
        if kind is Trained:
            values["runs"] = [Run(**run, folder=store / run["output"] / f"seed{run['seed']}") for run in values["runs"]]
        lists_as_tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        returned = kind(**lists_as_tuples, store=store)
    except FileNotFoundError:
        raise InputError(f"{study.folder}: {MISSING[kind].format(study.arguments)}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}); remove it and run the study again") from None
    if isinstance(returned, Prepared) and not returned.found:
        raise InputError(f"{store}: the data are gone; `dreamer run {study.arguments}` prepares them again")
    return returned


def read_finished(study: Study, kind: type[Returned]) -> Returned:
    """Read what a stage returned for exactly these settings of the study.

    Raises InputError when the stage has not finished, or ran for other settings.
    """
    returned, again = read_returned(study, kind), f"`dreamer run {study.arguments}`"
    if returned.study_id != study.study_id:
        raise InputError(
            f"{study.folder} holds {returned.study_id}, not {study.study_id}: the study has changed; {again} runs it"
        )
    if isinstance(returned, Prepared) and not returned.output("funnel"):
        raise InputError(f"{study.folder}: the data are not complete; {again} goes on")
    return returned


def evaluation_configuration(study: Study, run_id: str) -> dict[str, Any]:
    """Return what decides the evaluation of a run, for the key of its output.

    The benchmarks and digests of their data are in the key of the items, the packed tokens in the key of the run.
    """
    decisive = ("limit", "max_new_tokens", "depths", "weights", "introspect")
    return {"run_id": run_id, **{name: getattr(study.evaluation, name) for name in decisive}}


def result_folders(results: Path) -> list[Path]:
    """List the `rows` folders in an evaluation's `results`, one for each finished checkpoint; others have a suffix."""
    return sorted(results.glob("*/*[0-9]/rows"))


def checkpoint_folders(run: Run) -> dict[int, Path]:
    """List a run's finished checkpoints in order, their folders by tokens."""
    return {int(folder.name): folder for folder in sorted((run.folder / "checkpoints").glob("[0-9]*[0-9]"))}


def report_mark(study: Study) -> Path:
    """Return the file that marks the report as one of an unfinished study."""
    return study.folder / ".report-not-final"
