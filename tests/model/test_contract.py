"""Any module is trained, stopped, resumed, saved, loaded, scored and asked to write as Dreamer
is."""

from __future__ import annotations

import json
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import FOLDER, copy_code, digests
from dreamer_study.model.architectures.count_flops import count
from dreamer_study.model.checkpoints.models import load_model, newest_state
from dreamer_study.model.contract import OPTIONAL, Network
from dreamer_study.model.evaluation.generate import generate
from dreamer_study.model.evaluation.log_likelihoods import Scoring
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.train import train
from dreamer_study.pipeline.errors import InputError
from tests.model import tiny_network
from tests.model.own_process import train_in_own_process
from tests.model.packed_folder import write_run

HERE = Path(__file__).parent / "architectures"
FILE = "own_models.py"
OWN = [
    ("Attention", {}),
    ("Mean", {}),
    ("Mean", {"dtype": "bfloat16"}),
    ("Mixture", {}),
    ("Whole", {}),
]


def random_tokens(rows: int, length: int) -> torch.Tensor:
    return tiny_network.random_tokens(rows, length) % 32


def described(name: str, values: dict[str, Any], length: int = 16) -> ModuleConfig:
    files = digests(HERE, [FILE])
    sizes = {"vocabulary_size": 32, "sequence_length": length}
    return ModuleConfig(module=f"{FILE}:{name}", config=values, files=files, **sizes)


def own(name: str, values: dict[str, Any], length: int = 16) -> Network:
    torch.manual_seed(3)
    return build(described(name, values, length), code=HERE, trust_code=True).eval()


def write_own_run(root: Path, name: str, values: dict[str, Any], **training: Any) -> Path:
    return write_run_of(described(name, values), root, **training)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values"), OWN)
def test_a_run_that_is_stopped_ends_with_the_bits_of_one_that_is_not(
    tmp_path: Path, name: str, values: dict[str, Any]
) -> None:
    whole, parts = (write_own_run(tmp_path / place, name, values) for place in ("whole", "parts"))
    train(whole, trust_code=True)
    for stop_at in (300, 500, None):
        train(parts, stop_at=stop_at, trust_code=True)
    models = [
        load_model(sorted((run / "checkpoints").iterdir())[-1], trust_code=True)
        for run in (whole, parts)
    ]
    first, second = (model.state_dict() for model in models)
    assert all(torch.equal(first[tensor], second[tensor]) for tensor in first)
    assert all(torch.isfinite(parameter).all() for parameter in models[0].parameters())
    if name == "Mean":
        assert models[0].module.head.weight is models[0].module.tokens.weight


@pytest.mark.slow
def test_noise_of_random_and_numpy_is_the_same_after_a_stop(tmp_path: Path) -> None:
    whole, parts = (
        write_run_of(described("GlobalNoise", {}), tmp_path / place) for place in ("whole", "parts")
    )
    train_in_own_process(whole, trust_code=True)
    for stop_at in (300, 500, None):
        train_in_own_process(parts, stop_at=stop_at, trust_code=True)
    first, second = (newest_state(run / "state").tensors for run in (whole, parts))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_another_version_of_an_imported_package_is_another_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run_of(described("GlobalNoise", {}), tmp_path / "run")
    train(run, stop_at=300, trust_code=True)
    train(run, stop_at=400, trust_code=True)
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1" if name == "numpy" else real(name))
    with pytest.raises(InputError, match=r"numpy was '.*' and is '0\.1'.*--accept-code-change"):
        train(run, trust_code=True)
    train(run, trust_code=True, accept_code_change=True)


def write_run_of(config: ModuleConfig, root: Path, **training: Any) -> Path:
    """Write a run of a model that is described by a file beside `own_models.py`."""
    root.mkdir(exist_ok=True)
    write_run(root, **{"tokens": 900, "checkpoints": [400], **training})
    path = root / "run" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": config.to_dict()}))
    copy_code(config, HERE, root / "run" / FOLDER)
    return root / "run"


@pytest.mark.parametrize(("name", "values"), OWN)
def test_scores_and_answers_are_those_of_plain_forward_passes(
    name: str, values: dict[str, Any]
) -> None:
    network = own(name, values)
    tokens = random_tokens(4, 9).tolist()
    # Two continuations share a context, so that the context is read once.
    pairs = [
        (tokens[0][:4], tokens[0][4:]),
        (tokens[0][:4], tokens[1][:2]),
        (tokens[2][:7], tokens[2][7:]),
    ]
    for (context, continuation), (value, _) in zip(
        pairs, Scoring(network, pairs).finish(), strict=True
    ):
        logits = (
            network.module(torch.tensor([context + continuation]))
            .detach()
            .float()
            .log_softmax(-1)[0]
        )
        places = range(len(context) - 1, len(context) + len(continuation) - 1)
        expected = sum(
            float(logits[place, token]) for place, token in zip(places, continuation, strict=True)
        )
        assert value == pytest.approx(expected, abs=2e-6 if values == {} else 0.1)

    prompts = [tokens[0][:3], tokens[1][:6], tokens[2][:1]]
    for prompt, written in zip(
        prompts, generate(network, prompts, max_new_tokens=5, end_token=99), strict=True
    ):
        row = list(prompt)
        for _ in range(5):
            row.append(int(network.module(torch.tensor([row]))[0, -1].argmax()))
        assert written == row[len(prompt) :]


@pytest.mark.slow
def test_every_method_of_the_contract_may_be_a_class_of_its_own(tmp_path: Path) -> None:
    network = own("Whole", {})
    # wrapped, or with a test of their own (training/test_recipe.py)
    others = ("states", "logits", "loss", "auxiliary_loss", "parameter_groups")
    for name in {*OPTIONAL} - {*others}:
        assert getattr(network, name) == getattr(network.module, name)
    tokens = random_tokens(2, 8)
    states = network.module.states(tokens)
    assert torch.equal(network.states(tokens), states)
    assert torch.equal(network.logits(states), network.module.logits(states))
    assert type(network.new_cache(2, 8)).__name__ == "Sums"
    assert count(network.config, 8, code=HERE, trust_code=True).flops_per_token == 2 * 16 * 32
    run = write_own_run(tmp_path, "Whole", {})
    train(run, trust_code=True)
    steps = newest_state(run / "state").values["step"]
    assert (
        load_model(max((run / "checkpoints").iterdir()), trust_code=True).module.steps == steps > 0
    )


def test_states_and_logits_of_its_own_have_the_precision_of_the_products_and_come_together() -> (
    None
):
    config = described("Whole", {})
    network = build(config, torch.bfloat16, code=HERE, trust_code=True)
    assert network(random_tokens(2, 8)).dtype == torch.bfloat16
    with pytest.raises(InputError, match="has only one of states and logits"):
        own("Half", {})


def test_no_row_is_read_beyond_the_sequence_length() -> None:
    network = own("Attention", {})  # 16 positions
    texts = [[1] * 8, [2], [3]]
    alone = [generate(network, [text], max_new_tokens=12, end_token=99)[0] for text in texts]
    assert generate(network, texts, max_new_tokens=12, end_token=99) == alone
    pairs = [([1] * 14, [1, 2, 3]), ([1] * 14, [2, 2, 3]), ([5] * 9, [1] * 7), ([5] * 9, [2] * 7)]
    single = [Scoring(network, [pair]).finish()[0] for pair in pairs]
    for found, expected in zip(Scoring(network, pairs).finish(), single, strict=True):
        assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_a_table_that_is_no_buffer_is_on_the_device_of_the_model(tmp_path: Path) -> None:
    run = write_own_run(tmp_path, "Table", {})
    train(run, trust_code=True)
    checkpoint = max((run / "checkpoints").iterdir())
    assert load_model(checkpoint, "meta", trust_code=True).module.table.device.type == "meta"


def test_documents_and_positions_reach_a_forward_that_takes_them(tmp_path: Path) -> None:
    seen = {}
    network = own("Attention", {})
    forward = network.module.forward
    network.module.forward = lambda tokens, **given: seen.update(given) or forward(tokens, **given)
    from dreamer_study.model.ops import Documents

    labels = torch.tensor([[0, 0, 1, 1, -1]])
    network.states(random_tokens(1, 5), Documents(labels, labels))
    assert seen["documents"] is labels
    assert seen["positions"].tolist() == [[0, 1, 0, 1, 0]]


def test_code_runs_only_where_it_is_trusted_and_is_what_it_was(tmp_path: Path) -> None:
    config = described("Mean", {})
    with pytest.raises(InputError, match="--trust-code"):
        build(config, code=HERE)
    shutil.copy(HERE / FILE, tmp_path / FILE)
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text() + "# changed\n")
    with pytest.raises(InputError, match="has changed"):
        build(config, code=tmp_path, trust_code=True)
    with pytest.raises(InputError, match="there is no such file"):
        digests(tmp_path, ["../outside.py"])


def test_a_helper_beside_the_file_is_the_one_of_its_own_folder(tmp_path: Path) -> None:
    found = []
    for number in (1, 2):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "helper_of_own.py").write_text(f"VALUE = {number}\n")
        source = "import torch\nfrom helper_of_own import VALUE\nclass A(torch.nn.Linear):\n  value = VALUE\n"
        source += "  def __init__(self, **_):\n    super().__init__(1, 1)\n"
        (place / "a.py").write_text(source)
        files = digests(place, ["a.py", "helper_of_own.py"])
        config = ModuleConfig(module="a.py:A", files=files, vocabulary_size=2, sequence_length=2)
        found.append(build(config, code=place, trust_code=True).module.value)
    assert found == [1, 2]


def test_a_class_may_take_more_than_its_signature_says() -> None:
    assert own("Wrapped", {"width": 8}).module.head.in_features == 8


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        (
            "Mean",
            {"hiden_size": 3},
            "own_models.py:Mean: .* 'hiden_size'; it takes vocabulary_size, sequence_length, ",
        ),
        ("Words", {}, "own_models.py:Words cannot be built: .* no attribute 'forward'"),
        ("Absent", {}, "has no class Absent"),
        (
            "Attention",
            {"longest": 8},
            r"forward of \[1, 16\] tokens failed: own_models.py:[0-9]+: IndexError",
        ),
        ("Short", {}, r"returned \[1, 15, 32\], but must return .* \[1, 16, 32\]"),
    ],
)
def test_what_a_class_does_wrong_is_one_line(name: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        own(name, values).states(random_tokens(1, 16))
    assert "\n" not in str(caught.value)
