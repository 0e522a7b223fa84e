"""Describe the architectures of a study as the atlas does: costs, rate, speed, origin, ratios."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import yaml

from dreamer_study.model.matching import EXPERTS

DESCRIBING = ("studies", "models", "runs", "tuning")  # tables whose rows are read
WITH_BESTS = "ratios_with_bests"  # the query of the ratios and the best scores


def describe(frames: Mapping[str, pd.DataFrame], baseline: str) -> pd.DataFrame:
    """Return a row for each model: its costs, its rate, its speed, and where its rows come from.

    `frames` are the rows of `DESCRIBING`, of one study or of several.
    """
    rows = [_described(frames, model, baseline) for model in frames["models"].to_dict("records")]
    return pd.DataFrame(rows)


def _described(
    frames: Mapping[str, pd.DataFrame], model: Mapping[str, Any], baseline: str
) -> dict[str, Any]:
    variant = model["variant"]
    (study,) = _of(frames["studies"], study_id=model["study_id"]).to_dict("records")
    runs = _of(frames["runs"], study_id=model["study_id"], model_id=model["model_id"])
    tried = _of(frames["tuning"], study_id=model["study_id"], variant=variant, depth=model["depth"])
    rates = sorted(set(tried["learning_rate"]))
    chosen = set(runs["learning_rate"].dropna())
    # a rate that was not searched is at no edge
    is_inside = not rates or all(rates[0] < rate < rates[-1] for rate in chosen)
    speed = runs["tokens_per_second"].median()
    return {
        "variant": variant,
        "baseline": variant == baseline,
        "depth": model["depth"],
        "parameters": model["parameters"],
        "flops_per_token": model["flops_per_token"],
        "learning_rate": max(chosen, default=None),
        "rates_tried": " ".join(f"{rate:g}" for rate in rates),
        "rate_inside": is_inside,
        "seeds": int((runs["status"] == "complete").sum()),
        "tokens_per_second": None if pd.isna(speed) else round(speed),
        "device": ", ".join(sorted(set(runs["device"].dropna()))),
        "study": model["study_id"],
        "version": study["code_version"],
        "made": f"{study['created_at']:%Y-%m-%d}",
        "configuration": configuration(study["config"], variant),
        "searched": _searched(study["config"], variant, model["config"], baseline),
    }


def _of(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows that have these values."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    return frame


def _searched(config: str, variant: str, sizes: str, baseline: str) -> str:
    """Say which sizes were found in the search for equal costs: `intermediate_size 138`."""
    values = json.loads(sizes)
    values = values.get("config", values)
    fields = _searched_fields(_written(config, variant), baseline)
    return ", ".join(f"{field} {values[field]}" for field in fields if field in values)


def _searched_fields(written: Mapping[str, Any], baseline: str) -> list[str]:
    """Return the sizes that were searched: those that the study names, or a Dreamer's experts."""
    match = written["match"]
    if isinstance(match, dict):
        return [field for field in match.values() if field]
    is_dreamer = bool(written["family"])
    is_searched = is_dreamer and match is not False and written["name"] != baseline
    return list(EXPERTS.values()) if is_searched else []


def _written(config: str, variant: str) -> dict[str, Any]:
    """Return a variant as the study file of its study has it, with defaults."""
    variants = json.loads(config)["study"]["models"]["variants"]
    (written,) = [one for one in variants if one["name"] == variant]
    return written


def configuration(config: str, variant: str) -> str:
    """Write a variant as a study file has it, without what is left to the defaults.

    `config` is that of the study, as its row has it.
    """
    written = _written(config, variant)
    own = {name: value for name, value in written.items() if value not in (None, {}, [])}
    in_order = {"name": own.pop("name"), **own}
    text = yaml.safe_dump(in_order, default_flow_style=True, sort_keys=False, width=10_000)
    return text.strip()
