"""Tabulate the hyperparameters of the models and of their training: the paper's Table 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import json_object
from dreamer_study.reports.style.theme import Style, ordered
from dreamer_study.reports.tables.cells import Cell, Row, Table, left
from dreamer_study.reports.text.names import depth_name
from dreamer_study.reports.text.numbers import NOTHING, tokens

Configuration, Styles = Mapping[str, Any], Mapping[str, Style]

# Where a hyperparameter is read: a field of the configuration; a field and the switch without which
# that field means nothing; or a function of the configuration.
Value = str | tuple[str, str] | Callable[[Configuration], Any]
OF_MODELS: dict[str, Value] = {
    "Class, or type": "module",
    "Layers": lambda c: 1 if c.get("recurrent") else c.get("depth"),
    "Iterations of a layer": lambda c: c.get("depth") if c.get("recurrent", True) else 1,
    "EA: intermediate size of an expert": "expert_size",
    "EA: experts": "experts",
    "EA: active experts": "active_experts",
    "EA: rate of the bias": "expert_bias_rate",
    "EA: query and key size": "routing_size",
    "SA: query heads": "query_heads",
    "SA: key and value heads": "key_value_heads",
    "SA: head size": "head_size",
    "Context length": "sequence_length",
    "SA: RoPE base": "rope_base",
    "DA: query heads": ("depth_heads", "depth_attention"),
    "DA: key and value heads": ("depth_key_value_heads", "depth_attention"),
    "DA: head size": ("depth_head_size", "depth_attention"),
    "DA: context length": lambda c: (
        (c.get("depth_window") or c["depth"]) if c.get("depth_attention") else None
    ),
    "DA: RoPE base": ("depth_rope_base", "depth_attention"),
    "SA and DA: experts of the projections": ("depth", "recurrent"),
    "SA and DA: rate of the bias": ("attention_bias_rate", "recurrent"),
    "Mixture": ("mixture", "recurrent"),
    "Hidden size": "hidden_size",
    "Vocabulary": "vocabulary_size",
}
OF_TRAINING: dict[str, Value] = {
    "Learning rate": "learning_rate",
    "Warm-up steps": "warmup_steps",
    "Learning rate after warm-up": "schedule",
    "Weight decay": "weight_decay",
    "AdamW: first beta": "beta1",
    "AdamW: second beta": "beta2",
    "AdamW: epsilon": "epsilon",
    "Largest gradient norm": "clip",
    "Batch": lambda c: c.get("batch_tokens") and tokens(c["batch_tokens"]),
    "Tokens": lambda c: c.get("tokens") and tokens(c["tokens"]),
    "Precision": "precision",
    "Loss on": "loss_on",
    "Averaging": "averaging",
    "Seeds": "seeds",
}


def hyperparameters(
    models: pd.DataFrame, runs: pd.DataFrame, training: Configuration, styles: Styles
) -> Table:
    """Tabulate a row for each hyperparameter and a column for each model; equal values stand once,
    for all models.

    `models` has variant, depth and configuration (JSON) of every model, `runs` the seeds and
    recipes (JSON) with which each was trained, `training` the section of the study file. Models
    without a configuration have no column.
    """
    trained = {
        model: {
            **json_object(part["recipe"].iloc[0]),
            "seeds": sorted(part["seed"].dropna().astype(int)),
        }
        for model, part in runs.groupby(["variant", "depth"])
    }
    rows = ordered(models, styles).to_dict("records")
    known = [(row, found) for row in rows if (found := _configuration(row["config"]))]
    settings = [
        {**training, **trained.get((row["variant"], row["depth"]), {}), **one} for row, one in known
    ]
    body = []
    # arguments of other architectures
    own = {name: name for _, one in known for name in one.get("config", ())}
    for name, value in {**OF_MODELS, **own, **OF_TRAINING}.items():
        shown = [_shown(_value(one, value)) for one in settings or [training]]
        if set(shown) != {NOTHING}:
            body.append(_row(name, shown[:1] if len(set(shown)) == 1 else shown, len(shown)))
    heads = [
        Cell(
            row["variant"],
            note=depth_name(row["depth"]),
            scope="col",
            mark=styles.get(row["variant"]),
        )
        for row, _ in known
    ]
    return Table(
        name="table-3",
        caption=(
            "Hyperparameters. A value that stands once is that of all models. EA: expert attention,"
            " SA: sequence attention, DA: depth attention; sizes of experts and their numbers come"
            " from matching."
        ),
        head=((left("Hyperparameter"), *(heads or [Cell("All models", scope="col")])),),
        rows=tuple(body),
    )


def _row(name: str, values: list[str], columns: int) -> Row:
    span = columns if len(values) == 1 else 1
    cells = (Cell(value, span=span, kind="left" if span > 1 else "") for value in values)
    return Row((Cell(name, kind="left", scope="row"), *cells))


def _configuration(text: Any) -> Configuration:
    """Read a model's configuration; empty where it is not that of a model of this project."""
    found = json_object(text)
    return {**found, **found.get("config", {})} if "vocabulary_size" in found else {}


def _value(configuration: Configuration, value: Value) -> Any:
    if isinstance(value, tuple):
        field, switch = value
        return configuration.get(field) if configuration.get(switch) else None
    return configuration.get(value) if isinstance(value, str) else value(configuration)


def _shown(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(_shown(one) for one in value)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
