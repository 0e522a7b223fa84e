"""A score does not depend on how many rows a batch holds, nor on the padding in the batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.contract import Network
from dreamer_study.model.evaluation.language_model import LanguageModel
from dreamer_study.model.evaluation.lm_eval_definitions import tune_libraries
from dreamer_study.model.evaluation.lm_eval_tasks import LmEvalTask
from dreamer_study.model.module_config import ModuleConfig
from tests.model.evaluation.evaluation_world import small_model, write_data, write_tokenizer

tune_libraries()
LENGTH = 96
OWN = Path(__file__).parents[1] / "architectures" / "own_models.py"
CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{label}}",
    "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
}
WRITTEN = {
    "output_type": "generate_until",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 12},
    "metric_list": [{"metric": "exact_match"}],
}


def network(kind: str) -> Network:
    if kind == "own":
        torch.manual_seed(0)
        config = ModuleConfig(
            module=f"{OWN.name}:Attention",
            files=digests(OWN.parent, [OWN.name]),
            vocabulary_size=320,
            sequence_length=LENGTH,
        )
        return build(config, code=OWN.parent, trust_code=True).eval()
    return small_model(sequence_length=LENGTH, recurrent=kind == "DR", depth_attention=False)


def task_of(folder: Path, name: str, definition: Mapping[str, Any]) -> LmEvalTask:
    rows = [
        {
            "question": f"Ann has {number} coins{' and a cat' * (number % 9)}.",
            "choices": [" 3", " 12 coins", " 4 coins and 5 apples", " none at all"],
            "label": number % 4,
            "answer": str(number),
        }
        for number in range(70)
    ]
    path = folder / f"{name}.yaml"
    common = {"task": name, "test_split": "test", "doc_to_text": "Question: {{question}}\nAnswer:"}
    path.write_text(json.dumps({**common, **definition}))
    place = write_data(folder / name, "default", test=rows)
    given = {"benchmark": name, "task": name, "dataset_path": str(place), "yaml": str(path)}
    return LmEvalTask(given, cache=folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LA", "DR", "own"])
def test_a_score_is_the_same_at_every_batch_size(tmp_path: Path, kind: str) -> None:
    tokenizer = write_tokenizer(tmp_path / "tokenizer")
    model = network(kind)
    tasks = [task_of(tmp_path, "chosen", CHOICE), task_of(tmp_path, "written", WRITTEN)]
    found = []
    for rows in (1, 7, 64):
        text_model = LanguageModel(model, tokenizer, batch_tokens=rows * LENGTH)
        scores = [task.score(text_model.answer(task.requests)) for task in tasks]
        found.append(scores)
    first, *others = found
    assert first[1].answers
    for scores in others:
        assert scores[1].answers == first[1].answers
        differing = {
            item for item, answer in scores[0].answers.items() if answer != first[0].answers[item]
        }
        assert len(differing) <= first[0].ties
        for mine, theirs in zip(scores, first, strict=True):
            for measure, same in zip(mine.measures, theirs.measures, strict=True):
                values = {
                    item: value for item, value in measure.findings.items() if item not in differing
                }
                expected = {item: same.findings[item] for item in values}
                assert values == pytest.approx(expected, abs=1e-5)


def test_ties_are_counted(tmp_path: Path) -> None:
    task = task_of(tmp_path, "chosen", CHOICE)
    values = [-1.0, -2.0, -3.0, -1.0 - 4e-6] + [-1.0, -2.0, -3.0, -4.0] * 69
    assert task.score({"loglikelihood": [(value, False) for value in values]}).ties == 1
