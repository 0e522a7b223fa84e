"""Log a study to an experiment tracker: each training is a run, in the group of its study.

What is logged are rows of the results file, as they come: some two hundred steps of a training, and
every evaluation, over training tokens. No study depends on a tracker: one that fails is named once,
and gets nothing more.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.reports import read_progress
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.sql.results import Busy, ask

FILE = ".tracked.json"  # in the study's folder: the token counts that were logged, by run and task
STEPS = 200  # of a training
PATIENCE = 30  # seconds that a server has to answer


@dataclass(frozen=True)
class Opened:
    """A run of a tracker: `log` takes training tokens and values by name.

    Those that are `kept` are open until the study ends.
    """

    log: Callable[[int, dict[str, float]], object]
    close: Callable[[], object]
    kept: bool = False


class Tracker:
    """Log what is new in the results of a study, if the study names a tracker."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._kind = plan.study.tracking
        self._logged: dict[str, list[int]] = {}
        if self._kind == "wandb":
            reports.write_line(f"tracking: {_wandb_address()} gets the study's curves")
        if self._kind:
            self._logged = read_progress(plan.study.folder / FILE)
        self._opened: dict[str, Opened] = {}

    def update(self, *, last: bool = False) -> None:
        """Log the rows that have not been logged, neither now nor by an earlier start of the study.

        `last` ends all runs. Raises Busy where another program holds the results file.
        """
        try:
            if self._kind:
                self._log_new(OPEN[self._kind])
            for run_id, opened in list(self._opened.items()):
                if last or not opened.kept:
                    opened.close()
                    del self._opened[run_id]
        except Busy:
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            reports.write_line(
                f"{self._kind} has failed and gets nothing more, the study continues: {reason}"
            )
            self._kind = None

    def _log_new(self, open_run: Callable[[Study, Run], Opened]) -> None:
        study = self._plan.study
        runs = {run.run_id: run for run in self._plan.runs}
        steps = study.training.tokens // study.training.batch_tokens
        rows = ask(study.database, "tracked", study=study.study_id, every=max(1, steps // STEPS))
        rows["key"] = rows["run_id"] + "/" + rows["task"]
        is_new = [
            tokens not in self._logged.get(key, ())
            for key, tokens in zip(rows["key"], rows["tokens"], strict=True)
        ]
        for (run_id, tokens), points in rows.loc[is_new].groupby(["run_id", "tokens"]):
            if run_id not in self._opened:
                self._opened[run_id] = open_run(study, runs[run_id])
            values = dict(zip(points["name"], points["value"], strict=True))
            self._opened[run_id].log(int(tokens), values)
            for key in points["key"].unique():
                self._logged.setdefault(key, []).append(int(tokens))
        write_text_atomically(study.folder / FILE, json.dumps(self._logged), durable=False)


def _wandb_address() -> str:
    """Return the address to which W&B sends the user's key and the curves."""
    import wandb

    # W&B takes settings from the current folder, which may be somebody else's: they name the
    # address. It reads them once, here in an empty folder.
    with TemporaryDirectory() as empty, chdir(empty):
        return str(wandb.setup().settings.base_url)


def _described(study: Study, run: Run) -> dict[str, Any]:
    """Describe a run as W&B and Trackio want it."""
    model = run.model
    return {
        "project": study.name,
        "group": study.study_id,
        "name": run.run_id,
        "resume": "allow",
        "config": {
            "variant": model.variant,
            "depth": model.depth,
            "parameters": model.parameters,
            "flops_per_token": model.flops_per_token,
            "seed": run.seed,
            "learning_rate": run.learning_rate,
        },
    }


def _open_wandb(study: Study, run: Run) -> Opened:
    import wandb

    settings = wandb.Settings(
        silent=True, console="off", login_timeout=PATIENCE, init_timeout=PATIENCE
    )
    opened = wandb.init(
        **_described(study, run),
        id=run.run_id,
        reinit="create_new",
        dir=str(study.folder),
        settings=settings,
    )
    opened.define_metric("*", step_metric="tokens")
    return Opened(
        lambda tokens, values: opened.log({"tokens": tokens, **values}), opened.finish, kept=True
    )


def _open_trackio(study: Study, run: Run) -> Opened:
    import trackio

    def silently(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with redirect_stdout(io.StringIO()):
            return call(*arguments, **named)

    opened = silently(
        trackio.init,
        **_described(study, run),
        embed=False,
        auto_log_cpu=False,
        auto_log_gpu=False,
    )
    return Opened(
        lambda tokens, values: opened.log({"tokens": tokens, **values}),
        lambda: silently(opened.finish),
    )


def _open_tensorboard(study: Study, run: Run) -> Opened:
    from tensorboard.summary import Writer

    writer = Writer(str(study.folder / "tensorboard" / run.run_id))

    def log(tokens: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step=tokens)

    return Opened(log, writer.close)


OPEN: dict[str, Callable[[Study, Run], Opened]] = {
    "wandb": _open_wandb,
    "trackio": _open_trackio,
    "tensorboard": _open_tensorboard,
}
