"""What only running a model tells is counted once, and wrong fields are told before that."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan import sizes
from dreamer_study.flows.plan.decisions import size_models
from dreamer_study.flows.plan.model_plan import PlannedModel, Sizing
from dreamer_study.flows.plan.preflight import check_study
from dreamer_study.flows.plan.sizes import COUNTS, sized_models
from dreamer_study.flows.plan.store_users import stored
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import Planned, study_file
from tests.model.test_contract import FILE, HERE

pytestmark = pytest.mark.slow

MIXTURE = {
    "name": "Mixture",
    "module": f"{FILE}:Mixture",
    "config": {"hidden_size": 16, "experts": 4, "expert_size": 64},
    "match": {"flops": "expert_size"},
}
MEAN = {"name": "Mean", "module": f"{FILE}:Mean", "config": {"dropout": 0.0}}
GPT2 = {
    "name": "GPT-2",
    "transformers": "gpt2",
    "config": {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_inner": 32},
    "match": {"flops": "n_inner"},
}


def study_of(folder: Path, *variants: Any) -> Study:
    """A study in a folder with the file of code, of these variants beside LA."""
    shutil.copy(HERE / FILE, folder)
    path = study_file(folder, models={"variants": ["LA", *variants]})
    return load_study(path, root=folder / "run")


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that were run to be sized, as they are."""
    names: list[str] = []
    really_size = sizes.size

    def noting(sizing: Sizing, *arguments: Any, **options: Any) -> Any:
        if not sizing.by_formula:
            names.append(sizing.name)
        return really_size(sizing, *arguments, **options)

    monkeypatch.setattr(sizes, "size", noting)
    return names


def models(study: Study) -> list[PlannedModel]:
    return sized_models(study, 300, trust_code=True)


def test_a_model_is_run_once_and_then_read(tmp_path: Path, sized: list[str]) -> None:
    study = study_of(tmp_path, MIXTURE, MEAN)
    first = models(study)
    assert sized == ["Mixture", "Mean"]
    assert models(study) == first
    assert sized == ["Mixture", "Mean"]
    assert stored(study.store_folder, []) == [], "`dreamer clean` removes no counts"


def _other_code(study: Study) -> Study:
    file = study.place / FILE
    file.write_text(file.read_text() + "\nOTHER = 1\n")
    return study


def _longer(study: Study) -> Study:
    training = study.training.model_copy(update={"sequence_length": 32})
    return study.model_copy(update={"training": training})


def _damaged(study: Study) -> Study:
    for path in (study.store_folder / COUNTS).glob("*.json"):
        path.write_text(path.read_text()[:-9])
    return study


@pytest.mark.parametrize("change", [_other_code, _longer, _damaged])
def test_another_question_is_counted_again(
    tmp_path: Path, sized: list[str], change: Callable[[Study], Study]
) -> None:
    study = study_of(tmp_path, MEAN)
    models(study)
    models(change(study))
    assert sized == ["Mean", "Mean"]


def test_other_versions_of_packages_count_again(
    tmp_path: Path, sized: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(tmp_path, MEAN)
    models(study)
    monkeypatch.setattr(sizes, "versions", lambda *_: {"einops": "99"})
    models(study)
    assert sized == ["Mean", "Mean"]


def test_a_store_that_cannot_be_written_stops_no_plan(tmp_path: Path, sized: list[str]) -> None:
    study = study_of(tmp_path, MEAN)
    study.store_folder.mkdir(parents=True)
    (study.store_folder / COUNTS).write_text("in the way of the folder")
    assert models(study) == models(study)
    assert sized == ["Mean", "Mean"]


def test_wrong_fields_of_all_variants_are_one_line_and_nothing_is_built(
    tmp_path: Path, sized: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [
        {"name": "A", "family": "DR", "overrides": {"hiden_size": 8}},
        {**MIXTURE, "config": {"expert_sizes": 8}},
        {**MEAN, "config": {"sizes": 1, "dropouts": 0.0}},
        {"name": "C", "module": f"{FILE}:Meen"},
        {"name": "D", "module": "nowhere.py:D"},
        {"name": "E", "family": "LA", "match": {"flops": "expert_siz"}},
        {**MIXTURE, "name": "F", "match": {"flops": "expert_siz"}},
        {**MIXTURE, "name": "G", "match": {"flops": "sizes.expert_size"}},
    ]
    study = study_of(tmp_path, *wrong)
    with pytest.raises(InputError) as refused:
        models(study)
    said = str(refused.value)
    assert said.startswith("models.variants: A: model configuration: unknown key 'hiden_size'")
    assert "models.variants" not in said.removeprefix("models.variants")
    for words in (
        "Mixture: own_models.py:Mixture has no field expert_sizes; did you mean 'expert_size'?; it"
        " takes vocabulary_size, ",
        "Mixture: match names expert_size, which config does not give; add expert_size with the whole",
        "Mean: own_models.py:Mean has no field sizes",
        "has no field dropouts; did you mean 'dropout'?",
        "C: own_models.py has no class Meen",
        "D: nowhere.py: there is no such file",
        "E: match: there is no size expert_siz; did you mean 'expert_size'?",
        "F: match: own_models.py:Mixture has no field expert_siz; did you mean 'expert_size'?",
        "G: match: sizes.expert_size: a field inside another one cannot be searched",
    ):
        assert words in said
    assert sized == []
    assert not (study.store_folder / COUNTS).exists()
    study = study_of(tmp_path, *(each for each in wrong if each["name"] != "D"))
    said = re.sub("D: .*; E: ", "E: ", said)
    arguments = [str(tmp_path / "study.yaml"), "--root", str(tmp_path / "run"), "--trust-code"]
    for command in (["plan"], ["run", "--plain"]):
        assert main([*command, *arguments]) == 2
        assert said in capsys.readouterr().err


def test_wrong_fields_of_types_of_transformers_are_one_line_too(
    tmp_path: Path, sized: list[str]
) -> None:
    pytest.importorskip("transformers")
    more = {"n_iner": 8, "bos_token_id": 1}
    wrong = [
        {**GPT2, "config": {**GPT2["config"], **more}},
        {"name": "L", "transformers": "lama"},
        {"name": "O", "transformers": "olmo2", "config": {"hidden_size": "64"}},
    ]
    with pytest.raises(InputError) as refused:
        models(study_of(tmp_path, *wrong))
    said = str(refused.value)
    assert "GPT-2: gpt2 has no field n_iner; did you mean 'n_inner'?; L: transformers has" in said
    assert "no model type lama; did you mean 'llama'?; O: transformers:olmo2: " in said
    assert "Field 'hidden_size' expected int, got str" in said
    assert sized == []


def test_a_plan_that_was_made_loads_no_library_of_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(tmp_path, MIXTURE)
    models(study)
    loading = [name for name in sys.modules if name.startswith("dreamer_study.model.architectures")]
    counting = [name for name in loading if name.endswith(("count_flops", "fields"))]
    for name in counting:
        monkeypatch.delitem(sys.modules, name)  # and put it back: other tests patch that module
    models(study)
    assert not [name for name in counting if name in sys.modules]


def test_a_type_without_a_padding_token_can_be_planned(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    sizes_of_rwkv = {"hidden_size": 16, "num_hidden_layers": 2, "attention_hidden_size": 16}
    rwkv = {"name": "RWKV", "transformers": "rwkv", "config": sizes_of_rwkv}
    _, planned = models(study_of(tmp_path, rwkv))
    assert planned.parameters > 0


def test_the_start_of_a_run_decides_by_what_a_plan_has_counted(
    tmp_path: Path, sized: list[str], prepared: Planned
) -> None:
    pytest.importorskip("transformers")
    path = study_of(tmp_path, MIXTURE, GPT2).place / "study.yaml"
    plan = Plan(prepared().study)  # data in the folder of the study, with a tokenizer of 400 tokens
    study = load_study(path, root=plan.study.folder)
    assert main(["plan", str(path), "--root", str(study.folder), "--trust-code"]) == 0
    check_study(study, trust_code=True)
    assert sized == ["Mixture", "GPT-2"]
    plan = Plan(study)
    assert plan.unsized is not None
    size_models(plan, trust_code=True)
    assert plan.unsized is None
    assert sized == ["Mixture", "GPT-2"]
    _, mixture, gpt2 = plan.models
    assert mixture.searched == ("expert_size",)
    assert gpt2.config.config["bos_token_id"] == plan.data.tokenizer.results["end_token"]
