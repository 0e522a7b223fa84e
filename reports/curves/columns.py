"""Find variant, seed, tokens, task and values in the columns of a table, whatever their names.

A user names them by `--column NAME='SQL'`; usual names are guessed, and said. A table without a
column of tasks has them as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import duckdb
import pandas as pd

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.kinds import LOSS, SCORE, is_of_training, kind_of
from dreamer_study.reports.curves.patterns import (
    IN_STEPS,
    counted,
    fields_of_run,
    listed,
    tasks_left_out,
)
from dreamer_study.reports.curves.rows import FILE, ROW, Rows
from dreamer_study.sql.connection import one_line

KEYS = ("variant", "seed", "tokens", "task")
VALUES = (SCORE, LOSS)
OPTIONAL = ("items", "chance", "stderr")
NAMES = (*KEYS, "item", *VALUES, *OPTIONAL, "step")
# In small letters; of a name with slashes the last part counts too. The first that is there.
ALIASES = {
    "variant": ("model", "model_name", "arch", "architecture", "run", "run_name", "run name"),
    "seed": ("random_seed", "rng_seed"),
    "tokens": (
        *("tokens_seen", "num_input_tokens_seen", "total_tokens", "train_tokens", "num_tokens"),
        *("n_tokens", "tokens_trained", "consumed_tokens", "training_tokens"),
    ),
    "step": (
        *("global_step", "step", "steps", "iteration", "iter", "training_step", "train_step"),
        "_step",
    ),
    "task": ("benchmark", "task_name", "eval_name"),
    "item": ("item_id", "doc_id"),
    "items": ("n_items", "num_items", "num_samples"),
    "chance": ("random_baseline",),
    "stderr": ("standard_error", "std_err", "acc_stderr"),
}
RUNS = ("run", "run_name", "run name")  # which may have a seed in the name
# Of values whose name is no task.
NO_VALUES = ("wall time", "timestamp", "series_key", "epoch", "value", "metric", "id", "run_id")
VALUE = "value"
PREFERRED = ("accuracy", "acc", "val_loss", "eval_loss")


def name_columns(rows: Rows, asked: Asked, keys: Sequence[str], *, run_pattern: str | None) -> Rows:
    """Return rows with the columns of the product: `keys`, and score or loss or both.

    `run_pattern` is of the names of runs. Raises InputError where a key or the values are not
    found, and where a name may be either of two columns.
    """
    named, values = _asked_columns(rows, asked)
    guesses: dict[str, str] = {}
    for key in (*keys, *OPTIONAL):
        if key in named or (key == "items" and "item" in keys):
            continue
        column = _column_of(rows, key)
        if column is not None:
            named[key] = rows.frame[column]
            guesses[key] = column
    rows = _with_tokens(rows, asked, named, guesses)
    missing = [key for key in keys if key not in named and key not in ("seed", "task")]
    if missing:
        raise _no_column(rows, missing[0])
    said = {name: column for name, column in guesses.items() if name != column}
    used = {*guesses.values(), *_names_in(asked, rows)}
    said |= _with_runs(rows, named, guesses.get("variant", ""), run_pattern)
    named.setdefault("seed", pd.Series(0, index=rows.frame.index))
    base = rows.frame[[FILE, ROW]].assign(**named)
    frame, notes, taken = _with_values(rows, base, values, used, asked)
    ignored = [
        name for name in rows.names if name not in used | taken and not _is_bound(rows, name)
    ]
    told = said | _kinds_told(taken, frame)
    guessed = [", ".join(f"{name}: {column}" for name, column in told.items())] if told else []
    notes = [*(f"read as {text}" for text in guessed), *notes]
    return rows.having(frame, *notes, ignored=[*rows.ignored, *ignored])


def _kinds_told(taken: set[str], frame: pd.DataFrame) -> dict[str, str]:
    """Say which columns are scores and which losses, but for those of that name."""
    told = {}
    for kind in VALUES:
        columns = sorted(name for name in taken if name != kind and kind_of(name) == kind)
        if kind in frame and columns:
            told["scores" if kind == SCORE else "losses"] = listed(columns)
    return told


def _is_bound(rows: Rows, name: str) -> bool:
    """Tell whether a column is empty, which is no news."""
    return bool(rows.frame[name].isna().all())


def _names_in(asked: Asked, rows: Rows) -> set[str]:
    """Return the columns that the options name."""
    texts = [text.partition("=")[2].strip() for text in asked.columns]
    return {name for name in rows.names for text in texts if name in text}


def _asked_columns(
    rows: Rows, asked: Asked
) -> tuple[dict[str, pd.Series], list[tuple[str, str, pd.Series]]]:
    """Compute the columns that `--column` names: keys by name, and values with their tasks."""
    named: dict[str, pd.Series] = {}
    values: list[tuple[str, str, pd.Series]] = []
    for text in asked.columns:
        name, equals, expression = (part.strip() for part in text.partition("="))
        if not equals or not expression or name not in NAMES:
            raise InputError(
                f"--column {text}: NAME='SQL' is wanted, such as tokens='step*524288', with a NAME"
                f" of {', '.join(NAMES)}"
            )
        column = _evaluated(rows, text, expression)
        if name in VALUES:
            values.append((name, expression, column))
        elif name in named:
            raise InputError(f"--column {text}: a second {name}")
        else:
            named[name] = column
    return named, values


def _evaluated(rows: Rows, text: str, expression: str) -> pd.Series:
    """Evaluate SQL over the columns of a table; a column's bare name needs no quotes."""
    if expression in rows.frame:
        return rows.frame[expression]
    table = _with_numbers(rows.frame[rows.names])
    try:
        with closing(duckdb.connect()) as connection:
            connection.register("table_of_rows", table)
            found = connection.execute(f"select {expression} as found from table_of_rows").df()
    except duckdb.Error as error:
        near = nearest(expression, rows.names)
        raise InputError(
            f"--column {text}: {one_line(error)[:200]}{near or '; ' + _columns_said(rows)}"
        ) from None
    if len(found) != len(table):
        raise InputError(f"--column {text}: gives {len(found)} rows of {len(table)}")
    return found["found"].set_axis(rows.frame.index)


def _with_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn the columns that hold nothing but numbers into numbers, for SQL to compute with."""
    columns = {}
    for name in frame:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        is_text = (numbers.isna() & frame[name].notna()).any()
        columns[name] = frame[name] if is_text else numbers
    return pd.DataFrame(columns, index=frame.index)


def has_key(rows: Rows, key: str, asked: Asked) -> bool:
    """Tell whether a table has a column for a key, or an option says what it is."""
    is_asked = any(text.partition("=")[0].strip() == key for text in asked.columns)
    return is_asked or _column_of(rows, key) is not None


def _column_of(rows: Rows, key: str) -> str | None:
    """Return the column of a key by its name or a usual one."""
    if key in rows.frame:
        return key
    candidates = _candidates(rows, (key, *ALIASES.get(key, ())))
    if len(candidates) > 1 and key != "step":
        raise InputError(
            f"{rows.files[0]}: {key} may be {' or '.join(map(repr, candidates))}; say"
            f" --column {key}={candidates[0]}"
        )
    return candidates[0] if candidates else None


def _candidates(rows: Rows, usual: Sequence[str]) -> list[str]:
    """Return the columns of usual names, in their order."""
    found: list[str] = []
    for wanted in usual:
        found += [name for name in rows.names if name.lower() == wanted and name not in found]
    for wanted in usual:
        of_part = [name for name in rows.names if name.lower().rpartition("/")[2] == wanted]
        found += [name for name in of_part if name not in found and "/" in name]
    return found


def _with_tokens(
    rows: Rows, asked: Asked, named: dict[str, pd.Series], guesses: dict[str, str]
) -> Rows:
    """Compute tokens from steps where the table has no tokens; without their size, in steps."""
    size = asked.step_size()
    if "tokens" in named:
        if size is not None:
            raise InputError(
                f"{rows.files[0]}: --tokens-per-step: the curves have their tokens"
                f" ({guesses.get('tokens', '--column')})"
            )
        return rows
    steps = named.pop("step", None)
    if steps is None:
        column = _column_of(rows, "step")
        if column is None:
            return rows
        steps = rows.frame[column]
        guesses["step"] = column
    numbers = pd.to_numeric(steps, errors="coerce")
    if numbers.isna().any():
        wrong = int(numbers.isna().to_numpy().argmax())
        raise InputError(f"{rows.place(wrong)}: step {steps.iloc[wrong]!r} is no number")
    named["tokens"] = numbers * (size or 1)
    rows = rows.having(rows.frame, is_log=True)  # a run that was resumed has steps twice
    if size is not None:
        return rows
    return rows.having(rows.frame, IN_STEPS, unit="steps")


def _with_runs(
    rows: Rows, named: dict[str, pd.Series], column: str, pattern: str | None
) -> dict[str, str]:
    """Split names of runs into variant and seed, where no column has the seed; say an example."""
    is_run = column.lower().rpartition("/")[2] in RUNS
    if pattern is None and (not is_run or "seed" in named):
        return {}
    names = named["variant"].astype(str).str.strip()
    fields = {name: fields_of_run(name, pattern) for name in names.unique()}
    for field in ("variant", "seed"):
        named[field] = names.map({name: values[field] for name, values in fields.items()})
    example, values = next(iter(fields.items()))
    if pattern is not None or all(of_run["variant"] == run for run, of_run in fields.items()):
        return {}
    return {f"variant {values['variant']}, seed {values['seed']}": f"{column} {example}"}


def _with_values(
    rows: Rows,
    base: pd.DataFrame,
    values: list[tuple[str, str, pd.Series]],
    used: set[str],
    asked: Asked,
) -> tuple[pd.DataFrame, list[str], set[str]]:
    """Add score and loss to the keys: the frame, lines to print, and the columns taken.

    Without a column of tasks, each column of values is a task.
    """
    has_tasks = "task" in base
    if not values:
        values = _guessed_values(rows, used, has_tasks=has_tasks, asked=asked)
    taken = {name for _, name, _ in values}
    if has_tasks:
        doubled = [kind for kind in VALUES if sum(value[0] == kind for value in values) > 1]
        if doubled:
            columns = [name for kind, name, _ in values if kind == doubled[0]]
            raise InputError(
                f"{rows.files[0]}: {doubled[0]} may be {' or '.join(map(repr, columns))}; say"
                f" --column {doubled[0]}={columns[0]}"
            )
        frame = base.assign(**{kind: column for kind, _, column in values})
        return *_with_the_metric(frame, asked.metric), taken
    if len(values) > 1 and "stderr" in base:
        base = base.drop(columns="stderr")  # of which of them?
    parts = []
    notes = []
    for kind, name, column in values:
        is_written = column.notna()
        is_nan = is_written & column.astype(str).str.strip().str.lower().eq("nan")
        if is_nan.any():
            place = rows.place(int(is_nan.to_numpy().argmax()))
            notes.append(
                f"{name}: {counted(int(is_nan.sum()), 'value')} NaN, which is no point ({place})"
            )
        kept = is_written & ~is_nan
        part = base[kept].assign(task=name, **{kind: column[kept]})
        errors = _column_of(rows, f"{name}_stderr")
        if errors is not None:
            part["stderr"] = rows.frame.loc[kept, errors]
            taken.add(errors)
        parts.append(part)
    frame = pd.concat(parts).sort_values([FILE, ROW], kind="stable")
    return frame, notes, taken


def _with_the_metric(frame: pd.DataFrame, metric: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Leave out the rows without a value of `--metric`, and name the tasks that have none."""
    if metric is None:
        return frame, []
    has_value = frame[[name for name in VALUES if name in frame]].notna().any(axis=1)
    kept = frame[has_value]
    tasks: dict[str, tuple[str, ...]] = {str(task): () for task in frame["task"].unique()}
    return kept, tasks_left_out(tasks, set(kept["task"].astype(str)), metric)


def _guessed_values(
    rows: Rows, used: set[str], *, has_tasks: bool, asked: Asked
) -> list[tuple[str, str, pd.Series]]:
    """Find the columns of values by their names."""
    frame = rows.frame
    exact = [name for name in VALUES if name in frame]
    if asked.metric in frame and asked.metric not in used:
        return [(kind_of(asked.metric) or SCORE, asked.metric, frame[asked.metric])]
    if exact and has_tasks and asked.metric is None:
        return [(name, name, frame[name]) for name in exact]
    value = _column_of(rows, VALUE)
    if value is not None and has_tasks and not exact:
        return _of_tasks(rows, value, asked.metric)
    found = [
        name
        for name in rows.names
        if name not in used
        and name.lower() not in NO_VALUES
        and not name.lower().endswith(("_stderr", "__min", "__max"))
        and not frame[name].isna().all()
    ]
    if asked.metric is not None:
        raise InputError(
            f"{rows.files[0]}: --metric {asked.metric}: no such column"
            f"{nearest(asked.metric, found)}; {_columns_said(rows)}"
        )
    measured = [name for name in found if kind_of(name) or name in VALUES]
    tested = [name for name in measured if not is_of_training(name)]
    chosen = tested or measured
    if has_tasks:
        preferred = [name for name in PREFERRED if name in chosen]
        for kind in VALUES:
            best = [name for name in preferred if kind_of(name) == kind][:1]
            if best:
                chosen = [name for name in chosen if kind_of(name) != kind] + best
    if chosen:
        return [(kind_of(name) or name, name, frame[name]) for name in chosen]
    if value is not None:
        raise InputError(
            f"{rows.files[0]}: {value!r} may be a score or a loss; say --column score={value} or"
            f" --column loss={value}"
        )
    raise InputError(
        f"{rows.files[0]}: no column 'score' or loss{nearest(SCORE, rows.names)};"
        f" {_columns_said(rows)}"
    )


def _of_tasks(rows: Rows, value: str, wanted: str | None) -> list[tuple[str, str, pd.Series]]:
    """Split a column of values into scores and losses, by the names of the tasks or metrics."""
    frame = rows.frame
    task = _column_of(rows, "task")
    metric = _column_of(rows, "metric")
    assert task is not None
    names = frame[metric or task].astype(str)
    if wanted is not None:
        if not names.eq(wanted).any():
            there = sorted(names.unique())
            raise InputError(
                f"{rows.files[0]}: --metric {wanted}: no such metric{nearest(wanted, there)};"
                f" there are {listed(there)}"
            )
        kind = kind_of(wanted) or SCORE
        return [(kind, value, frame[value].where(names.eq(wanted)))]
    if metric is not None and frame[metric].nunique() > 2:
        raise InputError(
            f"{rows.files[0]}: column {metric!r} has the metrics"
            f" {listed(sorted(names.unique()))}; keep one of scores and one of losses, by"
            f" --column score='case when {metric} = ... then {value} end'"
        )
    kinds = names.map({name: kind_of(name) for name in names.unique()})
    if kinds.isna().any():
        wrong = names[kinds.isna()].iloc[0]
        raise InputError(
            f"{rows.files[0]}: {wrong!r}: {value!r} may be a score or a loss; say --column"
            f" score={value} or --column loss={value}"
        )
    return [
        (kind, value, frame[value].where(kinds == kind)) for kind in VALUES if (kinds == kind).any()
    ]


def _no_column(rows: Rows, key: str) -> InputError:
    near = nearest(key, rows.names)
    return InputError(
        f"{rows.files[0]}: no column {key!r}{near}; {_columns_said(rows)}; --column {key}='SQL'"
        " says what it is"
    )


def _columns_said(rows: Rows) -> str:
    """Say the first ten columns of a table."""
    number = len(rows.names)
    said = f"it has {', '.join(rows.names[:10])}"
    return said if number <= 10 else f"{said} and {number - 10} more of {number} columns"


def seeds_by_name(rows: Rows) -> Rows:
    """Number the seeds that are texts, in the order of their names, and say how."""
    seeds = rows.frame["seed"]
    is_text = pd.to_numeric(seeds, errors="coerce").isna() & seeds.notna()
    if not is_text.any():
        return rows
    names = seeds.astype(str).str.strip()
    numbers = {name: number for number, name in enumerate(sorted(names.unique()))}
    told = [f"{number} = {name}" for name, number in numbers.items()]
    frame = rows.frame.assign(seed=names.map(numbers).astype(str))
    return rows.having(frame, f"seeds by name: {listed(told)}")
