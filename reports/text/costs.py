"""Say what a study cost: hours, tokens and FLOPs of its trainings."""

from __future__ import annotations

from dreamer_study.reports.data import StudyData, json_object
from dreamer_study.reports.text.numbers import counted, duration, flops, listed, tokens


def total_cost(data: StudyData) -> str:
    """Say what all trainings of a study took together; empty where nothing is known.

    Seconds are those of the trainings alone, without searches of rates and evaluations.
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
    if len(parts) < 2:
        return ""
    left_out = ""
    if any(json_object(recipe).get("branches") for recipe in runs["recipe"]):
        left_out = ", without the branches from checkpoints before the last one"
    return f"The {counted(len(runs), 'training')} took {listed(parts)} in all{left_out}."
