"""Read `trainer_state.json`, which the Trainer of transformers writes into each checkpoint.

{"log_history": [{"step": 125, "eval_loss": 5.83, "eval_accuracy": 0.07,
                  "num_input_tokens_seen": 32768000}, ...], "global_step": 2000}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.columns import name_columns
from dreamer_study.reports.curves.patterns import fields_of_files, lacking
from dreamer_study.reports.curves.rows import Found, Rows

NAME = "trainer_state.json"
TOKENS = "num_input_tokens_seen"


def rows_of_trainer_states(folder: Path, files: Iterable[Path], asked: Asked) -> Rows:
    """Read the evaluations of every run; of the checkpoints of one run the last counts."""
    if asked.pattern is None or "{variant}" not in asked.pattern:
        raise lacking(folder, asked.pattern, ["variant"])
    fitting, notes = fields_of_files(folder, files, asked.pattern)
    histories = []
    for file, fields in fitting:
        try:
            state = json.loads(file.read_text())
            histories.append((state.get("global_step") or 0, file, fields, state["log_history"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{file}: not a trainer_state.json: {error!r}") from error
    histories.sort(key=lambda history: history[0])  # a later checkpoint has the earlier rows too
    found = Found([file for _, file, _, _ in histories])
    for number, (_, _, fields, history) in enumerate(histories):
        for row, values in enumerate(history):
            if any(name.startswith(("eval_", "test_")) for name in values):
                found.add(number, row, _plain(values) | fields)
    if not found.records:
        raise InputError(f"{folder}: no {NAME} has an evaluation (eval_loss)")
    rows = found.rows(*notes)
    frame = rows.frame
    # Without --include_num_input_tokens_seen the tokens are absent, or 0 at every step.
    if TOKENS in frame and not (frame[TOKENS].notna() & (frame[TOKENS] > 0)).all():
        rows = rows.having(frame.drop(columns=TOKENS))
    return name_columns(rows, asked, ("variant", "seed", "tokens", "task"), run_pattern=None)


def _plain(values: dict[str, object]) -> dict[str, object]:
    """Return the numbers of an evaluation, without its times."""
    times = ("_runtime", "_per_second")
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not name.endswith(times)
    }
