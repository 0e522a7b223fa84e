"""The results of a study in Python: the answer, ratios, curves, figures, and SQL queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dreamer_study.flows.estimates.price import check_price
from dreamer_study.flows.python.loading import StudyLike, load
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.checkpoints.checksums import BRANCHES, branch_name, list_branches
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import naming, write_text_atomically
from dreamer_study.reports.page.answer import Answer, read_answer

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

WARNING = "! "  # the beginning of a note that weakens the answer
SHOWN = ("Variant", "Benchmark", "Measure", "Tokens over the baseline’s", "95 % CI", "Significant")


@dataclass(frozen=True)
class Results:
    """The results of one study. Every call reads the results file again.

    `path` is the results file, and `study_id` names the study in it. `notes` are lines about curves
    that `factors` read: how they were read, and what their intervals cover. `store` is the folder
    of the study's models, if it is known.

    Every method raises InputError if the file is missing, damaged, or locked by a writing process
    for more than five seconds. A running `dreamer_study.run` waits for its readers.
    """

    path: Path
    study_id: str
    notes: tuple[str, ...] = ()
    store: Path | None = None

    @property
    def answer(self) -> str:
        """The answer, one sentence for each variant: a token ratio and its 95 % interval.

        If there is no answer, the sentence says why.
        """
        return " ".join(self._answer().sentences)

    @property
    def warnings(self) -> list[str]:
        """What makes the answer weak, one sentence each; an empty list if nothing does."""
        return self._warnings(self._answer())

    def factors(self) -> pd.DataFrame:
        """Return the rows of the public view `token_ratios`, which docs/sql.md describes.

        There is one row for each depth, variant (except the baseline), task ("average",
        "validation", or a benchmark) and metric ("accuracy", "loss"). `ratio` divides the variant's
        training tokens by the baseline's, at equal scores: below 1, the variant needs fewer tokens.
        `factor` is 1 / `ratio`. `low` and `high` are the 95 % interval of the ratio over seeds and
        items, and null with one seed. `significant` holds after the correction for several
        comparisons.
        """
        return self._ask("study_ratios")

    def curves(self) -> pd.DataFrame:
        """Return the points of all curves: one row for each run, task, metric and checkpoint.

        `tokens` are training tokens. If `metric` is "accuracy", `value` is between 0 and 1. If
        `metric` is "loss", `value` is in bits per byte, or in the unit of the curves that you
        gave to `factors`.
        """
        return self._ask("curve_points")

    def checkpoints(self) -> pd.DataFrame:
        """Return one row for each checkpoint of the study's models, the latest of each run last.

        `tokens` are training tokens. `loss` is the mean over the last steps, in nats per token.
        `seconds` are seconds of training. `load_model` loads the `folder`, which is null if it is
        not on this machine.
        """
        frame = self._ask("study_checkpoints")
        folders = [
            self._folder(run, tokens)
            for run, tokens in zip(frame["run_id"], frame["tokens"], strict=True)
        ]
        return frame.assign(folder=folders)

    def sql(self, query: str, **parameters: Any) -> pd.DataFrame:
        """Return the rows of a query over the tables and views that docs/sql.md describes.

        `parameters` are the values of the names that the query marks with `$`, as in
        sql("from runs where seed = $seed", seed=0). The query cannot change the results file or
        read any other file. Raises InputError for SQL that DuckDB refuses.
        """
        from dreamer_study.sql.results import query as ask

        return ask(self.path, query, parameters)

    def plot(self, figure: str = "answer") -> alt.TopLevelMixin:
        """Return a figure of the report as an Altair chart, which needs no network in a notebook.

        The figures are "answer", "token-ratios", "ratio-by-value", and others that depend on the
        study, such as "accuracy-depth-4". Raises InputError for an unknown name, with a list of all
        names. As with any Altair chart, `save("answer.png")` writes a file, and `to_dict()` returns
        the data.
        """
        # Altair takes a second
        from dreamer_study.reports.figures.notebook import offline_chart
        from dreamer_study.reports.page.figures import named_figure

        return offline_chart(named_figure(self.path, self.study_id, figure))

    def report(self, path: Path | str, *, price: float | None = None) -> Path:
        """Write the report, and return the path of its page.

        If the path ends in `.html`, the report is that one file. Any other path is a folder, which
        gets `index.html`, `study.yaml` and figures for papers in `figures/`. `price` is that of an
        hour of one GPU (or of one core, without GPUs); the report then says what the study's
        trainings cost. Raises InputError if the folder of the file does not exist.
        """
        # takes a second, so a query does not import it
        from dreamer_study.reports.page.report import page_text, write_report

        check_price(price)
        target = Path(path)
        with naming(target):
            if target.suffix != ".html":
                return write_report(self.path, self.study_id, target, price=price)
            if target.is_dir() or not target.parent.is_dir():
                raise InputError(f"{target}: must be a file in a folder that exists")
            write_text_atomically(target, page_text(self.path, self.study_id, price))
        return target

    def _repr_html_(self) -> str:
        """Return the answer, its warnings and the ratios as HTML, which a notebook shows."""
        answer = self._answer()
        parts = [f"<p>{escape(' '.join(answer.sentences))}</p>"]
        warnings = self._warnings(answer)
        if warnings:
            points = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
            parts.append(f"<ul>{points}</ul>")
        return "\n".join([*parts, _table(self.path, self.study_id)])

    def _answer(self) -> Answer:
        return read_answer(self.path, self.study_id)

    def _warnings(self, answer: Answer) -> list[str]:
        of_curves = [note.removeprefix(WARNING) for note in self.notes if note.startswith(WARNING)]
        return [*answer.warnings, *of_curves]

    def _ask(self, name: str) -> pd.DataFrame:
        from dreamer_study.sql.results import ask

        return ask(self.path, name, study=self.study_id)

    def _folder(self, run: str, tokens: int) -> str | None:
        """Return the folder of a checkpoint, or None if it is not on this machine."""
        store = self.store or self.path.parent / "store"
        folder = store / "runs" / run
        branches = [f"{BRANCHES}/{branch_name(*ends)}" for ends in list_branches(folder)]
        by_tokens = {int(name.rpartition("-")[2]): name for name in branches}
        # of a run with branches, these alone are evaluated
        place = folder / by_tokens.get(tokens, f"checkpoints/{tokens:015d}")
        return str(place) if place.is_dir() else None


def results(
    study: StudyLike, *, root: Path | str | None = None, study_id: str | None = None
) -> Results:
    """Open the results of a study that was run.

    Args:
        study: a preset, a study file, a mapping or a `Study`; or the folder of a study, a folder
            that `dreamer publish` wrote, or a results file (`results.duckdb`)
        root: the folder that the study writes to; replaces the study's own value
        study_id: the study to open in a file that holds several; by default the newest one

    Raises InputError if there are no results, or if the results belong to another study, for
    example because the study file has changed.
    """
    if isinstance(study, Study | Mapping):
        loaded = load(study, root=root)
        chosen = _study_in(loaded.database, study_id or loaded.study_id)
        return Results(loaded.database, chosen, store=loaded.store_folder)
    from dreamer_study.flows.commands.results.query import find_results

    path, wanted = find_results(str(study), None if root is None else Path(root))
    # without the id of a study, the store is beside the file
    store = load(study, root=root).store_folder if wanted else None
    return Results(path, _study_in(path, study_id or wanted), store=store)


def _study_in(path: Path, wanted: str | None) -> str:
    """Return the study that is wanted, or the newest one of a results file."""
    from dreamer_study.sql.results import query

    newest_first = "select study_id from studies order by created_at desc nulls last, study_id"
    studies = list(query(path, newest_first)["study_id"])
    if not studies:
        raise InputError(f"{path}: holds no study yet")
    if wanted is None:
        return studies[0]
    if wanted not in studies:
        raise InputError(
            f"{path}: has no results of {wanted}, only of {', '.join(studies)}; choose one of them"
            " with study_id, or run the study as it is now"
        )
    return wanted


def _table(path: Path, study_id: str) -> str:
    """Return the main ratios of a study as a table in HTML."""
    from dreamer_study.reports.data import read_study
    from dreamer_study.reports.text.names import depth_name, task_name
    from dreamer_study.reports.text.ratios import (
        read_for,
        short_interval,
        short_ratio,
        yes_or_no,
    )

    data = read_study(path, study_id, ("order", "ratios"))
    several = data.ratios["depth"].nunique() > 1
    rows = []
    for row in read_for(data.ratios).to_dict("records"):
        variant = row["variant"]
        if several:
            variant = f"{variant}, {depth_name(row['depth']).lower()}"
        rows.append(
            [
                variant,
                task_name(row["task"]),
                row["metric"],
                short_ratio(row),
                short_interval(row),
                yes_or_no(row["significant"]),
            ]
        )
    lines = [
        f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
        for tag, cells in (("th", SHOWN), *(("td", cells) for cells in rows))
    ]
    return f"<table>{''.join(lines)}</table>"
