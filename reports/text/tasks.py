"""Say in a sentence what each benchmark asks."""

from __future__ import annotations

from dreamer_study.pipeline.worlds.in_words import world_task
from dreamer_study.reports.data import StudyData


def tasks_in_words(data: StudyData) -> dict[str, str]:
    """Return a sentence for each benchmark of which one is known.

    That of a benchmark of lm-eval's stands in the results, from the definition of its tasks; that
    of a built-in one follows from the settings of the world.
    """
    stored = {name: str(text) for name, text in data.config("tasks").items()}
    world = data.config("study", "data", "world")
    names = {*data.accuracy["task"], *data.loss["task"], *data.perplexity["task"]}
    built_in = {name: world_task(name, world) for name in names}
    return {name: text for name, text in (built_in | stored).items() if text}
