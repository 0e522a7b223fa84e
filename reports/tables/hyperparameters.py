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

Configuration = Mapping[str, Any]
Styles = Mapping[str, Style]


def _own_layers(configuration: Configuration) -> int:
    """Count the layers before and after an iterated one."""
    return configuration.get("prelude", 0) + configuration.get("coda", 0)


def _iterations(configuration: Configuration) -> int | None:
    """Count how often the iterated layer is used; None where the depth is not known."""
    depth = configuration.get("depth")
    return None if depth is None else depth - _own_layers(configuration)


# Where a hyperparameter is read: a field of the configuration; a field and the switch without which
# that field means nothing; or a function of the configuration.
Value = str | tuple[str, str] | Callable[[Configuration], Any]
OF_MODELS: dict[str, Value] = {
    "Class, or type": "module",
    "Layers": lambda c: 1 + _own_layers(c) if c.get("recurrent") else c.get("depth"),
    "Iterations of a layer": lambda c: _iterations(c) if c.get("recurrent", True) else 1,
    "Layers before the iterated one": "prelude",
    "Layers after the iterated one": "coda",
    "Iterated after tokens of training": "recurrence_after",
    "EA: one pool of experts for all layers": lambda c: "yes" if c.get("expert_pool") else None,
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
    "SA and DA: experts of the projections": lambda c: (
        _iterations(c) if c.get("recurrent") else None
    ),
    "SA and DA: rate of the bias": ("attention_bias_rate", "recurrent"),
    "Mixture": ("mixture", "recurrent"),
    "Hidden size": "hidden_size",
    "Vocabulary": "vocabulary_size",
}


USUAL = {"optimizer": "adamw", "momentum": 0.95}  # of a recipe that does not name them


def _schedule(configuration: Configuration) -> Any:
    """Say how the rate runs: `falls to 0.1 in the last 0.2 (linear)`, or a word."""
    schedule = configuration.get("schedule")
    if not isinstance(schedule, Mapping):
        return schedule
    to, share = schedule.get("to", 0), schedule["decay"]
    return f"falls to {to:g} in the last {share:g} ({schedule.get('shape', 'linear')})"


def _clip(configuration: Configuration) -> Any:
    """Return the largest norm; a recipe that names none has no largest."""
    return configuration["clip"] or "none" if "clip" in configuration else None


OF_TRAINING: dict[str, Value] = {
    "Optimizer": "optimizer",
    "Muon: momentum": lambda c: c.get("momentum") if c.get("optimizer") == "muon" else None,
    "Learning rate": "learning_rate",
    "Warm-up steps": "warmup_steps",
    "Learning rate after warm-up": _schedule,
    "Weight decay": "weight_decay",
    "AdamW: first beta": "beta1",
    "AdamW: second beta": "beta2",
    "AdamW: epsilon": "epsilon",
    "Largest gradient norm": _clip,
    "Batch": lambda c: c.get("batch_tokens") and tokens(c["batch_tokens"]),
    "Tokens": lambda c: c.get("tokens") and tokens(c["tokens"]),
    "Precision": "precision",
    "Loss on": "loss_on",
    "Averaging": "averaging",
    "Branch from a checkpoint": lambda c: (
        f"{c['branches']:g} of its tokens" if c.get("branches") else None
    ),
    "Seeds": "seeds",
}


def hyperparameters(
    models: pd.DataFrame, runs: pd.DataFrame, training: Configuration, styles: Styles
) -> Table:
    """Tabulate a row for each hyperparameter and a column for each model.

    A value that all models have is given once. `models` has variant, depth and configuration (JSON)
    of every model, `runs` the seeds and recipes (JSON) with which each was trained, `training` the
    section of the study file. Models without a configuration have no column.
    """
    recipes = {}
    for model, part in runs.groupby(["variant", "depth"]):
        seeds = sorted(part["seed"].dropna().astype(int))
        recipe = json_object(part["recipe"].iloc[0])
        recipes[model] = {**(USUAL if recipe else {}), **recipe, "seeds": seeds}
    heads = []
    columns = []  # the settings of each model
    arguments = {}  # of other architectures, by their own names
    for row in ordered(models, styles).to_dict("records"):
        variant, depth = row["variant"], row["depth"]
        configuration = _configuration(row["config"])
        if not configuration:
            continue
        arguments |= {name: name for name in configuration.get("config", ())}
        columns.append({**training, **recipes.get((variant, depth), {}), **configuration})
        heads.append(Cell(variant, note=depth_name(depth), scope="col", mark=styles.get(variant)))
    body = []
    for name, value in {**OF_MODELS, **arguments, **OF_TRAINING}.items():
        texts = [_text(_value(settings, value)) for settings in columns or [training]]
        if set(texts) != {NOTHING}:
            body.append(_row(name, texts))
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


def _row(name: str, texts: list[str]) -> Row:
    """Make a row of a hyperparameter; a text that all columns have is in one cell over all."""
    head = Cell(name, kind="left", scope="row")
    if len(texts) > 1 and len(set(texts)) == 1:
        return Row((head, Cell(texts[0], span=len(texts), kind="left")))
    return Row((head, *(Cell(text) for text in texts)))


def _configuration(text: Any) -> Configuration:
    """Read a model's configuration; empty where it is not that of a model of this project."""
    configuration = json_object(text)
    if "vocabulary_size" not in configuration:
        return {}
    return {**configuration, **configuration.get("config", {})}


def _value(configuration: Configuration, value: Value) -> Any:
    if isinstance(value, tuple):
        field, switch = value
        return configuration.get(field) if configuration.get(switch) else None
    if isinstance(value, str):
        return configuration.get(value)
    return value(configuration)


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
