"""A study whose trainings are made by hand, and a stand-in for the evaluating processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from flows.running.processes import Stopped
from flows.stages.evaluate import follow_runs
from flows.stages.models import plan_models
from flows.stages.outputs import Evaluated, Prepared, Run, Trained
from flows.stages.train import lookouts
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.storage.files import PARTIAL
from pipeline.storage.store import Store
from tests.flows.small_study import TINY


def tiny(root: Path, **training: Any) -> Study:
    content = yaml.safe_load(TINY.read_text())
    content["training"] |= {"seeds": [0], "tokens": 3000, "checkpoints": 2, "screening": 0, **training}
    content["models"]["variants"] = ["LA", "DR"]
    content["evaluation"] |= {"limit": 5, "bootstrap_replicates": 0, "introspect": False}
    return load_study({**content, "workers": 1}, root=root)


def never() -> bool:
    return False


class Evaluating:
    """Stands for the evaluating processes: writes rows; a run whose name begins with a key of `failing` fails so."""

    def __init__(self, failing: dict[str, Exception]) -> None:
        self.failing, self.asked, self.closed = failing, list[tuple[str, int]](), False

    def __call__(self, *_: Any) -> Evaluating:
        return self

    def close(self) -> None:
        self.closed = True

    def wait(self, seconds: float) -> None:
        if self.closed:
            raise Stopped("the evaluation has ended")

    def evaluate(self, path: Path, tokens: int) -> Future[str]:
        job, future = json.loads(path.read_text()), Future()
        (checkpoint,) = [one for one in job["checkpoints"] if one["tokens"] == tokens]
        assert json.loads(Path(checkpoint["path"], "checkpoint.json").read_text())["tokens"] == tokens
        self.asked.append((checkpoint["run_id"], tokens))
        for name, error in self.failing.items():
            if checkpoint["run_id"].startswith(name):
                future.set_exception(error)
                return future
        rows = Path(job["output"]) / checkpoint["run_id"] / f"{tokens:015d}" / "rows"
        rows.mkdir(parents=True)
        row = {"run_id": checkpoint["run_id"], "tokens": tokens, "task": "t", "metric": "acc", "filter": "none"}
        pq.write_table(pa.Table.from_pylist([{**row, "value": 0.5, "items": 4}]), rows / "evaluations.parquet")
        future.set_result(f"{checkpoint['run_id']} {tokens:,}")
        return future


class Training:
    """A study whose trainings are made by hand, checkpoint by checkpoint."""

    def __init__(self, study: Study) -> None:
        self.study, self.store = study, Store(study.store_folder)
        outputs = [self.store.build(stage, 1, {}, [], self._results) for stage in ("items", "tokenizer", "tokens")]
        self.prepared = Prepared(study.study_id, self.store.root, tuple(output.name for output in outputs))
        self.planned = plan_models(study, 300)
        self.looks = lookouts(study, self.store, self.prepared.packed, self.planned)
        self.ended: Trained | None = None
        for look in self.looks:  # the folders of all runs are made at once, before the first of them is trained
            look().folder.mkdir(parents=True)

    @staticmethod
    def _results(folder: Path) -> dict[str, Any]:
        return {"vocabulary_size": 300}

    def write_checkpoint(self, run: Run, tokens: int) -> None:
        folder = run.folder / "checkpoints" / f"{tokens:015d}"
        unfinished = folder.with_name(folder.name + PARTIAL)
        unfinished.mkdir(parents=True)
        known = {"run_id": run.run_id, "tokens": tokens, "step": 1, "epoch": 0.1, "loss": 1.0, "seconds": 1.0}
        (unfinished / "checkpoint.json").write_text(json.dumps({**known, "stream_hash": "a"}))
        (run.folder / "rows").mkdir(exist_ok=True)
        row = {"run_id": run.run_id, "seed": 0, "status": "stopped", "tokens": tokens}
        step = {"run_id": run.run_id, "step": 1, "tokens": tokens, "loss": 1.0}
        for table, values in (("runs", row), ("steps", step)):
            pq.write_table(pa.Table.from_pylist([values]), run.folder / "rows" / f"{table}.parquet")
        (run.folder / "progress.json").write_text(json.dumps({"tokens": tokens}))
        unfinished.rename(folder)

    def end(self, *names: str, failed: bool = False) -> None:
        """End the trainings of these models."""
        for look, model in zip(self.looks, self.planned, strict=True):
            run = look()
            if model.variant in names:
                folder = run.folder.parent
                results = {"chosen": [] if failed else [0], "failures": {"0": "no number"} if failed else {}}
                key = run.output.split("/")[1]
                manifest = {"stage": "training", "version": 1, "key": key, "configuration": {}, "inputs": []}
                manifest |= {"results": results, "seconds": 1, "files": {}}
                (folder / "manifest.json").write_text(json.dumps(manifest))
                folder.rename(folder.with_name(key))

    def finish(self) -> None:
        """End all trainings with their last checkpoint."""
        for look in self.looks:
            self.write_checkpoint(look(), 3000)
        self.end("LA", "DR")
        self.close()

    def close(self) -> Trained:
        self.ended = Trained(self.study.study_id, self.store.root, "p", tuple(look() for look in self.looks))
        return self.ended

    def follow(
        self, steps: Iterator[Callable[[], object]], tick_too: Callable[[], object] = never, **options: Any
    ) -> Evaluated:
        """Follow the trainings; `steps` makes them, and yields what has to be true before the next step."""
        until = [next(steps)]

        def tick() -> None:
            tick_too()
            if until[0]():
                until[0] = next(steps)

        return follow_runs(self.study, self.store, self.prepared, self.looks, lambda: self.ended, tick=tick, **options)
