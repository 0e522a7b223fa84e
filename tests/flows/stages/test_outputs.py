"""What a stage returned is written and read back, and what is missing or of another study is said in one line."""

from pathlib import Path

import pytest

from flows.stages.evaluate import evaluate_runs
from flows.stages.outputs import (
    Evaluated,
    Prepared,
    Run,
    Trained,
    read_finished,
    read_returned,
    write_returned,
)
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.store import Output, Store
from tests.flows.small_study import TINY


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load_study(TINY, root=tmp_path)


def build(study: Study, stage: str, **results: object) -> Output:
    return Store(study.store_folder).build(stage, 1, {}, [], lambda folder: results)


def prepared(study: Study) -> Prepared:
    row = {"source": "s", "reason": "kept", "documents": 3, "characters": 30}
    clean = build(study, "clean", counts=[row])
    funnel = build(study, "funnel", counts=[{"stage": clean.key, "source": "s", "reason": "kept", "tokens": 9}])
    packed = build(study, "tokens", counts=[{**row, "tokens": 8}])
    tokenizer = build(study, "tokenizer", vocabulary_size=300)
    outputs = tuple(output.name for output in (clean, tokenizer, packed, funnel))
    return Prepared(study.study_id, study.store_folder, outputs, ({"task": "t"},))


def test_all_values_come_back_as_they_were(study: Study) -> None:
    run = Run("LA-2-s0", "LA-2", 0, "complete", "training/k", study.store_folder / "training/k/seed0")
    values = (
        prepared(study),
        Trained(study.study_id, study.store_folder, "p", (run,)),
        Evaluated(study.study_id, study.store_folder, {"LA-2-s0": "evaluation/e"}),
    )
    for value in values:
        write_returned(study, value)
        assert read_finished(study, type(value)) == value
    assert str(study.store_folder) not in (study.folder / "trained.json").read_text()  # a study may be moved


def test_counts_join_documents_and_tokens(study: Study) -> None:
    rows = list(prepared(study).counts())
    assert [(row["stage"], row["documents"], row["tokens"]) for row in rows] == [("clean", 3, 9), ("tokens", 3, 8)]
    assert prepared(study).vocabulary_size == 300


def test_nothing_there_yet_names_the_command(study: Study) -> None:
    for kind, words in ((Prepared, "no data yet"), (Trained, "no trained models yet"), (Evaluated, "no evaluations")):
        with pytest.raises(InputError, match=rf"{words}.*`dreamer run .*tiny\.yaml --root .*`"):
            read_returned(study, kind)


def test_values_of_other_settings_are_read_but_not_taken_on(study: Study) -> None:
    other = prepared(study)
    write_returned(study, Prepared("tiny-00000000", other.store, other.outputs))
    assert read_returned(study, Prepared).study_id == "tiny-00000000"
    with pytest.raises(InputError, match=r"holds tiny-00000000, not tiny-\w+: the study has changed"):
        read_finished(study, Prepared)


def test_an_unfinished_preparation_is_read_but_not_taken_on(study: Study) -> None:
    whole = prepared(study)
    write_returned(study, Prepared(study.study_id, whole.store, whole.outputs[:1]))
    assert [output.stage for output in read_returned(study, Prepared).stages] == ["clean"]
    with pytest.raises(InputError, match="the data are not complete; `dreamer run"):
        read_finished(study, Prepared)


def test_outputs_removed_from_the_store_are_missed(study: Study) -> None:
    write_returned(study, Prepared(study.study_id, study.store_folder, ("tokens/0123456789abcdef",)))
    with pytest.raises(InputError, match="the data are gone; `dreamer run"):
        read_returned(study, Prepared)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"study_id": "tiny", "outputs": [], "more": 1}'])
def test_a_damaged_record_is_one_line(study: Study, text: str) -> None:
    (study.folder / "prepared.json").write_text(text)
    with pytest.raises(InputError, match=r"prepared\.json is damaged .*; remove it and run the study again"):
        read_returned(study, Prepared)


def test_models_trained_on_other_data_are_not_evaluated(study: Study) -> None:
    trained = Trained(study.study_id, study.store_folder, "0123456789abcdef", ())
    with pytest.raises(InputError, match="trained on other data; `dreamer run"):
        evaluate_runs(study, Store(study.store_folder), prepared(study), trained)
