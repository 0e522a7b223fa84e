"""Say what a study cost: hours, tokens and FLOPs of its trainings, and money where hours have a
price."""

from __future__ import annotations

import pandas as pd

from dreamer_study.reports.data import StudyData, json_object
from dreamer_study.reports.text.numbers import counted, duration, figure, flops, listed, tokens

HOUR = 3600  # seconds
CPU = "cpu"  # the device of trainings without GPUs


def total_cost(data: StudyData, price: float | None = None) -> str:
    """Say what all trainings of a study took together; empty where nothing is known.

    Seconds are those of the trainings alone, without searches of rates and evaluations. `price` is
    that of an hour of one GPU, or of one core without GPUs.
    """
    runs = data.runs[data.runs["tokens"] > 0]
    parts = []
    seconds = float(runs["seconds"].sum())
    if seconds > 0:
        parts.append(duration(seconds))
    if len(runs):
        parts.append(f"{tokens(runs['tokens'].sum())} tokens")
    costs = runs[["depth", "variant", "tokens"]].merge(data.costs, how="left")
    if len(costs) and costs["flops"].notna().all():
        parts.append(f"{flops(float((costs['tokens'] * costs['flops']).sum()))} FLOPs")
    left_out = ""
    if any(json_object(recipe).get("branches") for recipe in runs["recipe"]):
        left_out = ", without the branches from checkpoints before the last one"
    sentences = []
    if len(parts) >= 2:
        took = f"The {counted(len(runs), 'training')} took {listed(parts)} in all{left_out}."
        sentences.append(took)
    if price is not None:
        sentences.append(_money(runs, price))
    return " ".join(sentences)


def _money(runs: pd.DataFrame, price: float) -> str:
    """Say what the hours of trainings cost.

    A training on several devices takes the hours of each of them.
    """
    unknown = int(runs["seconds"].isna().sum())
    if runs.empty or unknown == len(runs):
        return "What the trainings cost is not known: the results hold no times of trainings."
    kinds = runs["device"].map(
        lambda name: "core" if name.startswith(CPU) else "GPU", na_action="ignore"
    )
    kind = kinds.iloc[0] if kinds.nunique(dropna=False) == 1 else "device"
    devices = runs["devices"].fillna(1)
    hours = float((runs["seconds"] * devices).sum()) / HOUR
    sentence = (
        f"At {figure(price)} for a {kind}-hour the {figure(hours)} {kind}-hours cost"
        f" {hours * price:,.2f}, without searches and evaluations."
    )
    if unknown:
        sentence += f" The times of {counted(unknown, 'training')} are not known and not counted."
    return sentence
