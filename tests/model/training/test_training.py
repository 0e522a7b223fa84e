"""Training from the outside: exact counts, and the same result however often a run is stopped,
killed or continued."""

import fcntl
import json
import shutil

import numpy as np
import pytest
import torch

from dreamer_study.model.checkpoints.models import load_model, newest_state
from dreamer_study.model.processes import HOPELESS
from dreamer_study.model.train import main, train
from dreamer_study.model.training.config import read_run
from dreamer_study.model.training.provenance import source_digests
from dreamer_study.model.training.step_log import read_record
from dreamer_study.model.training.stream import (
    IGNORED,
    PADDING,
    START_HASH,
    TokenStream,
    extend_hash,
)
from dreamer_study.model.training.trainer import Trainer
from dreamer_study.pipeline.errors import InputError
from tests.full_disk import no_space
from tests.model.packed_folder import write_packed, write_run

WITHOUT_GPU = pytest.mark.skipif(
    torch.cuda.is_available(), reason="asks for a device that is there"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Packed data and one run trained without interruption."""
    root = tmp_path_factory.mktemp("training")
    train(write_run(root))
    return root


@pytest.fixture
def fresh(root, tmp_path):
    """A function that makes a run folder of the same data, not trained yet."""
    shutil.copytree(root / "data", tmp_path / "data")
    return lambda name="run", **training: write_run(tmp_path, name=name, **training)


def change_run(folder, changes):
    """Change values of `run.json`, or the whole text."""
    values = json.loads((folder / "run.json").read_text())
    if isinstance(changes, dict):
        for name, value in changes.items():
            values[name] = {**values[name], **value} if isinstance(value, dict) else value
    (folder / "run.json").write_text(json.dumps(values) if isinstance(changes, dict) else changes)


@pytest.mark.slow
def test_checkpoints_that_another_study_asks_for_meanwhile_are_written(fresh, monkeypatch):
    monkeypatch.setattr("dreamer_study.model.training.recorder.FLUSH_SECONDS", 0.0)
    folder = fresh()

    def asked():
        change_run(folder, {"training": {"checkpoints": [700, 1500, 2000]}})
        return False

    train(folder, stopped=asked)
    assert [int(path.name) // 100 for path in sorted((folder / "checkpoints").iterdir())] == [
        7,
        15,
        20,
        25,
    ]


def steps(folder):
    return read_record(folder)[1].drop_columns(["seconds"])


def row_of(folder):
    return read_record(folder)[0]


def assert_same_run(folder, reference):
    """Same final state, checkpoints and tables, apart from seconds."""
    found, wanted = newest_state(folder / "state"), newest_state(reference / "state")
    assert found.tensors.keys() == wanted.tensors.keys()
    for name, tensor in found.tensors.items():
        if name == "random.python":
            continue  # threads that other tests left in this process (Dask's) draw from it too
        assert torch.equal(tensor, wanted.tensors[name]), name
    for name in ("step", "tokens", "epoch", "stream_hash", "losses"):
        assert found.values[name] == wanted.values[name]
    assert steps(folder).equals(steps(reference))
    names = [
        sorted(path.name for path in (run / "checkpoints").iterdir()) for run in (folder, reference)
    ]
    assert names[0] == names[1]
    for name in names[0]:
        one, other = (run / "checkpoints" / name for run in (folder, reference))
        assert (one / "averaged.safetensors").read_bytes() == (
            other / "averaged.safetensors"
        ).read_bytes()
        described = [json.loads((path / "checkpoint.json").read_text()) for path in (one, other)]
        for description in described:
            del description["seconds"]
        assert described[0] == described[1]


@pytest.mark.slow
def test_tokens_are_counted_exactly(root):
    folder = root / "run"
    stream = TokenStream(root / "data", 3, 4)
    real, stream_hash, expected = 0, START_HASH, []
    for step in range(1000):
        batch = stream.batch(step)
        real += int((batch.documents != PADDING).sum())
        stream_hash = extend_hash(stream_hash, stream.raw_rows(step))
        expected.append(real)
        if real >= 2500:
            break
    table = steps(folder)
    assert table["tokens"].to_pylist() == expected
    assert table["step"].to_pylist() == list(range(1, len(expected) + 1))
    points = [next(count for count in expected if count >= point) for point in (700, 1500, 2500)]
    checkpoints = sorted((folder / "checkpoints").iterdir())
    assert [path.name for path in checkpoints] == [f"{count:015d}" for count in points]
    last = json.loads((checkpoints[-1] / "checkpoint.json").read_text())
    assert (last["run_id"], last["tokens"], last["step"]) == ("small", real, len(expected))
    assert last["stream_hash"] == stream_hash
    assert last["epoch"] == len(expected) * 4 / stream.rows
    assert last["loss"] == pytest.approx(np.mean(table["loss"].to_pylist()[-100:]), rel=1e-12)


@pytest.mark.slow
def test_result_tables_and_progress(root):
    folder = root / "run"
    row, table = row_of(folder), read_record(folder)[1]
    progress = json.loads((folder / "progress.json").read_text())
    assert (row["device"], row["mfu"]) == ("cpu", None)
    first, last = (table.slice(place, 1).to_pylist()[0] for place in (0, len(table) - 1))
    after_first = last["tokens"] - first["tokens"]
    seconds = last["seconds"] - first["seconds"]  # to a millisecond
    rate = row["tokens_per_second"]
    assert rate == pytest.approx(after_first / seconds, rel=0.002 / max(seconds, 0.002))
    assert table.column_names == [
        "run_id",
        "step",
        "tokens",
        "loss",
        "learning_rate",
        "gradient_norm",
        "seconds",
    ]
    assert table["learning_rate"].to_pylist()[:11] == pytest.approx(
        [0.001 * n for n in range(1, 11)] + [0.01]
    )
    losses = table["loss"].to_pylist()
    assert np.mean(losses[-5:]) < losses[0]
    assert [progress[name] for name in ("state", "tokens", "target")] == [
        "complete",
        row["tokens"],
        2500,
    ]
    assert [path.name for path in (folder / "state").iterdir()] == [f"{len(losses):09d}"]


@pytest.mark.slow
def test_a_finished_run_stays_as_it_is(root):
    before = (root / "run" / "steps.csv").read_bytes()
    assert train(root / "run") == "complete"
    assert (root / "run" / "steps.csv").read_bytes() == before


@pytest.mark.slow
def test_the_checkpoint_is_the_average_and_the_model_where_raw_weights_are_kept(root, fresh):
    folder = fresh(raw_checkpoints=True)
    train(folder)
    newest = newest_state(folder / "state").tensors
    checkpoint = max((folder / "checkpoints").iterdir())
    model = load_model(checkpoint, weights="raw")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, newest[f"model.{name}"])
    for name, tensor in load_model(checkpoint).state_dict().items():
        assert torch.equal(
            tensor, newest[f"{'average' if tensor.is_floating_point() else 'model'}.{name}"]
        )
    assert any(router.bias.any() for router in model.routers().values())
    assert_same_run(folder, root / "run")
    kept = {path.name for path in (root / "run" / "checkpoints").glob("*/*.safetensors")}
    assert kept == {"averaged.safetensors"}  # where raw weights are not asked for


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "longer"), [(1250, 2500), (1500, 2250)])
def test_a_run_that_is_extended_is_one_that_was_longer_from_the_start(fresh, tokens, longer):
    folder, reference = (
        fresh(tokens=tokens, checkpoints=[700]),
        fresh("long", tokens=longer, checkpoints=[700, tokens]),
    )
    assert [train(folder), train(reference)] == ["complete"] * 2
    last = newest_state(folder / "state").values["tokens"]
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("checkpoints/*/*")}
    shutil.copy(reference / "run.json", folder / "run.json")
    assert train(folder) == "complete"
    assert_same_run(folder, reference)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert last < newest_state(folder / "state").values["tokens"] == row_of(folder)["tokens"]
    assert json.loads((folder / "progress.json").read_text())["target"] == longer


@pytest.mark.slow
def test_stop_early_then_go_on_from_a_copy(root, fresh):
    folder = fresh()
    assert train(folder, stop_at=800) == "stopped"
    row = row_of(folder)
    counts = steps(root / "run")["tokens"].to_pylist()
    assert row["tokens"] == next(count for count in counts if count >= 800)
    assert json.loads((folder / "progress.json").read_text())["target"] == 800
    assert len(list((folder / "checkpoints").iterdir())) == 1
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    assert train(copy, stop_at=800) == "stopped"
    assert train(copy, stop_at=1600) == "stopped"
    assert train(copy) == "complete"
    assert_same_run(copy, root / "run")
    assert row_of(folder) == row


@pytest.mark.slow
def test_what_a_killed_process_left_is_put_right(root, fresh):
    """Killed between state and checkpoint, with half a state and steps beyond the state in the log.

    Kills at any sync are in tests/faults/test_power_loss.py.
    """
    folder = fresh()
    train(folder, stop_at=700)
    (checkpoint,) = (folder / "checkpoints").iterdir()
    shutil.rmtree(checkpoint)
    (folder / "state" / "000000500.partial").mkdir()
    (folder / "checkpoints" / "000000000009999.partial").mkdir()
    with (folder / "steps.csv").open("a") as log:
        log.write("900,12345,1.0,0.0")
    assert train(folder) == "complete"
    shutil.rmtree(folder / "checkpoints" / "000000000009999.partial")
    assert_same_run(folder, root / "run")


@pytest.mark.slow
def test_a_full_disk_ends_the_run_and_loses_nothing(root, fresh, exit_status):
    folder = fresh()
    train(folder, stop_at=900)
    with no_space(8_000):
        status, lines = exit_status(folder)
    assert (status, len(lines)) == (HOPELESS, 1)
    assert json.loads((folder / "progress.json").read_text())["state"] == "failed"
    assert train(folder) == "complete"
    assert_same_run(folder, root / "run")


@pytest.mark.slow
def test_divergence_stops_with_a_clear_line(fresh, exit_status):
    folder = fresh(learning_rate=1e30, warmup_steps=0, checkpoints=[0, 10])
    status, lines = exit_status(folder)
    assert status == HOPELESS
    (line,) = lines
    assert "gradient norm nan; training stopped; lower learning_rate or clip" in line
    failed = int(line.split("step ")[1].split(":")[0])
    assert steps(folder)["step"].to_pylist() == list(range(1, failed))
    assert json.loads((folder / "progress.json").read_text())["state"] == "failed"
    for checkpoint in (folder / "checkpoints").iterdir():
        load_model(checkpoint)


@pytest.mark.slow
def test_parameters_that_are_not_finite_are_never_saved(fresh, exit_status):
    folder = fresh(learning_rate=1e300, warmup_steps=0, checkpoints=[0], tokens=10)
    status, lines = exit_status(folder)
    assert status == HOPELESS
    assert "step 1: parameters are not finite after this step; training stopped;" in lines[0]
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"{0:015d}"]


@pytest.mark.slow
def test_checkpoints_without_a_state_are_not_taken_for_those_of_this_run(fresh, exit_status):
    folder = fresh()
    assert exit_status(folder)[0] == 0
    shutil.rmtree(folder / "state")
    status, lines = exit_status(folder)
    assert status == 2
    assert lines == [
        f"bad input: {folder} has checkpoints, but no state to continue from; remove the folder to start over"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("training", {"learning_rate": 0.02}, "training.learning_rate was 0.01 and is 0.02"),
        ("model", {"rope_base": 500.0}, r"model.rope_base was 10000.0 and is 500.0"),
        ("run_id", "other", "run_id was 'small' and is 'other'"),
    ],
)
def test_changed_settings_are_refused(fresh, exit_status, field, value, message):
    folder = fresh()
    train(folder, stop_at=100)
    change_run(folder, {field: value})
    status, (line,) = exit_status(folder)
    assert status == 2
    assert f"cannot be continued: since its start, {message}; undo the change" in line


@pytest.mark.slow
def test_changed_data_are_refused_but_not_moved_data(fresh, tmp_path):
    folder = fresh()
    train(folder, stop_at=100)
    (tmp_path / "data").rename(tmp_path / "moved")
    change_run(folder, {"data": str(tmp_path / "moved")})
    assert train(folder, stop_at=200) == "stopped"
    tokens = tmp_path / "moved" / "tokens-00001.bin"
    content = bytearray(tokens.read_bytes())
    content[17] ^= 1
    tokens.write_bytes(content)
    with pytest.raises(InputError, match="since its start, data changed; undo"):
        train(folder)


def test_source_digests_cover_what_training_imports():
    files = source_digests("dreamer_study.model.train")
    assert {
        "model/train.py",
        "model/training/trainer.py",
        "model/dreamer.py",
        "model/dreamer_config.py",
    } <= files.keys()
    assert not {"model/evaluation/lm_eval_model.py", "model/evaluation/generate.py"} & files.keys()


@pytest.mark.slow
def test_two_processes_do_not_train_one_run(fresh):
    folder = fresh()
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="being trained by another process"):
            train(folder)


@pytest.mark.slow
def test_a_step_log_that_was_shortened_or_changed_is_refused(fresh):
    folder = fresh()
    train(folder, stop_at=200)
    log = folder / "steps.csv"
    content = log.read_bytes()
    for changed, said in (
        (b"", "has 0 bytes, but the saved state had written"),
        (content[:-9] + b"8" * 9, "is damaged"),
    ):
        log.write_bytes(changed)
        for read in (train, read_record):
            with pytest.raises(InputError, match=rf"steps\.csv {said}"):
                read(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"micro_batch_tokens": 16}, {"micro_batch_tokens": 32}, {"checkpointing": True}]
)
def test_how_a_batch_is_computed_changes_nothing_but_rounding(fresh, changes):
    plain, other = (
        Trainer(read_run(folder)) for folder in (fresh("plain"), fresh("other", **changes))
    )
    for _ in range(3):
        assert plain.train_step() == pytest.approx(other.train_step(), rel=1e-4)
    for (name, one), two in zip(
        plain.model.named_parameters(), other.model.parameters(), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4, msg=name)
    for name, router in plain.model.routers().items():
        assert torch.equal(router.bias, other.model.routers()[name].bias), name


@pytest.mark.slow
@pytest.mark.parametrize("loss_on", ["all", "responses"])
def test_loss_is_the_mean_over_target_tokens(fresh, loss_on):
    folder = fresh(loss_on=loss_on, micro_batch_tokens=16)
    trainer = Trainer(read_run(folder))
    batch = TokenStream(folder.parent / "data", 3, 4, loss_on).batch(0)
    with torch.no_grad():
        trainer.model.eval()
        logits = trainer.model(batch.tokens, positions=batch.positions, documents=batch.documents)
        trainer.model.train()
    wanted = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED
    )
    assert trainer.train_step()[0] == pytest.approx(wanted.item(), rel=1e-5)


@pytest.mark.slow
def test_a_batch_without_targets_is_survived(tmp_path):
    write_packed(tmp_path / "data", [[[(16, 0)]] * 4], 16)
    folder = write_run(tmp_path, loss_on="responses", tokens=128, checkpoints=[])
    assert train(folder) == "complete"
    assert steps(folder)["loss"].to_pylist() == [0.0, 0.0]


@pytest.mark.slow
def test_bfloat16_follows_float32(fresh):
    narrow, wide = (
        Trainer(read_run(fresh(name, precision=name))) for name in ("bfloat16", "float32")
    )
    for _ in range(5):
        assert narrow.train_step()[0] == pytest.approx(wide.train_step()[0], rel=0.02)
    assert all(parameter.dtype == torch.float32 for parameter in narrow.model.parameters())


@pytest.mark.slow
def test_a_checkpoint_before_the_first_step(fresh):
    folder = fresh(checkpoints=[0, 64])
    train(folder, stop_at=10)
    first = folder / "checkpoints" / "000000000000000"
    assert json.loads((first / "checkpoint.json").read_text())["loss"] is None
    torch.manual_seed(3)
    assert torch.equal(load_model(first).head, type(load_model(first))(read_run(folder).model).head)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeed": 9}, "unknown key 'seeed'; did you mean 'seed'?"),
        (
            {"colour": 9},
            "unknown key 'colour'; valid keys are run_id, model, training, data, variant",
        ),
        ({"run_id": "../up"}, "run_id is '../up'"),
        ({"run_id": None}, "run_id is None"),
        ({"variant": 3}, "variant is 3"),
        ({"data": "nowhere"}, "packed.json is missing"),
        ({"model": {"vocabulary_size": 31}}, "use a vocabulary of 32"),
        ({"model": {"sequence_length": 8}}, "have rows of 16 tokens"),
        ({"model": {"depth": "2"}}, "run.json: model configuration: depth is '2'"),
        ({"training": {"seed": 9}}, "seed is 3, but training.seed is 9"),
        ({"training": {"keep": 0}}, "run.json: training.keep is 0"),
        ({"training": {"keep": 2**63}}, f"run.json: training.keep is {2**63}"),
        (
            {"training": {"learning_rat": 1.0}},
            "training: unknown key 'learning_rat'; did you mean 'learning_rate'",
        ),
        ({"training": {"clip": "much"}}, "clip is 'much'"),
        ({"training": {"beta1": 1.0}}, "beta1 is 1.0"),
        ({"training": {"averaging": float("nan")}}, "averaging is nan"),
        (
            {"training": {"checkpoints": [10, 2501]}},
            "has 2501, but it must be at most tokens (2500)",
        ),
        ({"training": {"loss_on": "questions"}}, "'all', 'responses' or 'answers'"),
        ({"training": {"precision": "half"}}, "'auto', 'bfloat16' or 'float32'"),
        ({"training": {"micro_batch_tokens": 48}}, "must divide batch_tokens"),
        ({"training": {"batch_tokens": 40}}, "must be a multiple of the packed sequence length 16"),
        pytest.param(
            {"training": {"device": "cuda"}}, "torch finds no CUDA device", marks=WITHOUT_GPU
        ),
        ("[]", "must be an object"),
        ("{", "run.json"),
    ],
    ids=str,
)
def test_bad_input_is_one_line_and_status_2(fresh, exit_status, changes, message):
    folder = fresh()
    change_run(folder, changes)
    status, (line,) = exit_status(folder)
    assert status == 2
    assert message in line


@pytest.mark.slow
def test_a_folder_without_a_run_and_a_stop_before_the_first_token(fresh, exit_status, tmp_path):
    assert exit_status(tmp_path) == (2, [f"bad input: no run in {tmp_path}: run.json is missing"])
    assert exit_status(fresh(), "--stop-at", "0") == (
        2,
        ["bad input: --stop-at is 0, but it must be at least 1"],
    )


@pytest.mark.slow
def test_a_trace_of_steps_leaves_the_run_where_it_was(root, fresh, capsys):
    folder = fresh()
    train(folder, stop_at=700)
    before = newest_state(folder / "state").values
    assert main([str(folder), "--profile", "2"]) == 0
    trace = folder / "trace.json"
    assert capsys.readouterr().out == f"{trace}\n"
    names = [event.get("name") for event in json.loads(trace.read_text())["traceEvents"]]
    assert "NativeAttention" in names or "_SwiGLUExperts" in names
    assert newest_state(folder / "state").values == before
    assert train(folder) == "complete"
    assert_same_run(folder, root / "run")
