"""Which sentence stands for a benchmark: the stored one, else that of the built-in world."""

from __future__ import annotations

import json
from dataclasses import asdict

import pandas as pd

from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.tasks import tasks_in_words


def test_a_stored_sentence_goes_before_that_of_the_world_and_others_are_left_out() -> None:
    config = {
        "study": {"data": {"world": asdict(WorldSettings(operations=3, modulus=7))}},
        "tasks": {"gsm8k": "Sums told in words.", "world_recall": "As stored."},
    }
    frames = {
        "accuracy": ["gsm8k", "world_expressions", "world_recall", "average"],
        "loss": ["validation"],
        "perplexity": ["world_text"],
    }
    tables = {name: pd.DataFrame({"task": tasks}) for name, tasks in frames.items()}
    said = tasks_in_words(StudyData({"config": json.dumps(config, default=str)}, tables))
    assert set(said) == {"gsm8k", "world_expressions", "world_recall", "world_text"}
    assert said["gsm8k"] == "Sums told in words."
    assert said["world_recall"] == "As stored."
    assert "up to 3 operations modulo 7" in said["world_expressions"]
