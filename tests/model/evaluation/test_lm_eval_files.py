"""What the files of lm-eval's tasks say."""

from __future__ import annotations

from pathlib import Path

import pytest

from dreamer_study.model.evaluation.lm_eval_files import task_in_words


def asked(task: str, **specification: object) -> dict[str, object]:
    return {"benchmark": task, "task": task, "yaml": None, "overrides": {}, **specification}


@pytest.mark.slow
def test_a_task_is_said_in_words_from_its_definition() -> None:
    assert task_in_words([asked("gsm8k")]) == "lm-eval’s task gsm8k: a free answer, 0-shot."
    few = asked("arc_easy", overrides={"num_fewshot": 5})
    sentence = "lm-eval’s task arc_easy: the likeliest of given choices, 5-shot."
    assert task_in_words([few]) == sentence


@pytest.mark.slow
def test_the_prompt_that_a_task_begins_with_is_said() -> None:
    sentence = task_in_words([asked("mmlu_abstract_algebra"), asked("mmlu_college_mathematics")])
    assert sentence.startswith("lm-eval’s 2 tasks, mmlu_abstract_algebra and others: the likeliest")
    assert sentence.endswith("(with answers) about abstract algebra.”")


def test_a_task_of_a_file_of_the_users_own_is_the_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("task: mine\noutput_type: loglikelihood_rolling\ndescription: '{{x}}'\n")
    sentence = task_in_words([asked("mine", yaml=str(file))])
    assert sentence == "mine.yaml’s task mine: how likely whole texts are, 0-shot."
