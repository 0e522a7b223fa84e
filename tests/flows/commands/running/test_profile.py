import pytest

from benchmarks.random_stream import write_random_stream
from flows.commands.running.profile import print_profile
from flows.stages.outputs import Prepared, write_returned
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.store import Store


def demo(tmp_path):
    return load_study("demo", root=tmp_path)


@pytest.mark.slow
def test_a_study_without_data_is_profiled_on_random_tokens(tmp_path, capfd):
    study = demo(tmp_path)
    print_profile(study, "LA-4")
    told = capfd.readouterr().out
    assert told.startswith(f"tokens: random, as {study.folder} has no packed ones of this length yet\n")
    assert "LA of depth 4 on cpu in float32" in told
    assert not study.store_folder.exists()


@pytest.mark.slow
def test_the_packed_tokens_of_the_study_are_used_not_those_of_another(tmp_path, capfd):
    study = demo(tmp_path)

    def work(folder):
        sizes = {"sequence_length": 128, "vocabulary_size": 300, "rows": 16, "document_lengths": (20, 40)}
        for path in write_random_stream(folder / "made", **sizes).iterdir():
            path.rename(folder / path.name)

    store = Store(study.store_folder)
    output, _, shorter = (
        store.build("tokens", 1, {"sequence_length": length, "seed": seed}, [], work)
        for length, seed in ((128, 0), (128, 1), (64, 0))
    )
    write_returned(study, Prepared(study.study_id, store.root, (output.name,)))
    print_profile(study, "LA-4")
    assert capfd.readouterr().out.startswith(f"tokens: {output.path}\n\nLA of depth 4")
    write_returned(study, Prepared(study.study_id, store.root, (shorter.name,)))
    print_profile(study, "LA-4")
    assert capfd.readouterr().out.startswith("tokens: random")


def test_an_unknown_model_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"demo has no model 'DR-5'; it has LA-4, DR-4, DR\+DA-4"):
        print_profile(demo(tmp_path), "DR-5")
