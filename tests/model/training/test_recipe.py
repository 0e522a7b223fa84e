"""What a class says of its training, and an optimizer of a user's: used as said, or one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.code import FOLDER, copy_code, copy_files, digests
from dreamer_study.model.checkpoints.models import newest_state
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.train import train
from dreamer_study.model.training.check_recipe import check_recipe
from dreamer_study.model.training.config import TrainingConfig, read_run
from dreamer_study.model.training.parameter_groups import trained_parameters
from dreamer_study.model.training.schedule import scheduled_rate
from dreamer_study.model.training.trainer import Trainer
from dreamer_study.pipeline.errors import InputError
from tests.model.own_process import train_in_own_process
from tests.model.packed_folder import write_run
from tests.model.tiny_network import LA

HERE = Path(__file__).resolve().parents[1] / "architectures"
FILE = "recipe_models.py"


def described(name: str, **values: Any) -> ModuleConfig:
    sizes = {"vocabulary_size": 32, "sequence_length": 16}
    files = digests(HERE, [FILE])
    return ModuleConfig(module=f"{FILE}:{name}", config=values, files=files, **sizes)


def own_optimizer(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "optimizer": f"{FILE}:{name}",
        "optimizer_config": arguments,
        "optimizer_files": digests(HERE, [FILE]),
    }


def run_of(root: Path, name: str, **training: Any) -> Path:
    """A run of a class of recipe_models.py."""
    root.mkdir(exist_ok=True)
    config = described(name)
    write_run(root, **{"tokens": 900, "checkpoints": [400], **training})
    path = root / "run" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": config.to_dict()}))
    copy_code(config, HERE, root / "run" / FOLDER)
    copy_files(training.get("optimizer_files", {}), HERE, root / "run" / FOLDER)
    return root / "run"


def checked(name: str, recipe: dict[str, Any] | None = None, **values: Any) -> tuple[str, ...]:
    config = described(name, **values)
    return check_recipe(config, recipe or {}, code=HERE, trust_code=True).remarks


def gradients(folder: Path) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of the first step, and its gradients."""
    trainer = Trainer(read_run(folder), trust_code=True)
    loss = trainer._backward(trainer._batch(0))
    found = {name: each.grad for name, each in trainer.model.named_parameters()}
    return float(loss), found


# --- losses


@pytest.mark.slow
def test_an_own_loss_is_trained_on_as_the_usual_one(tmp_path: Path) -> None:
    own, usual = (gradients(run_of(tmp_path / name, name)) for name in ("OwnLoss", "Plain"))
    assert own[0] == pytest.approx(usual[0], rel=1e-5)
    for name, gradient in own[1].items():
        torch.testing.assert_close(gradient, usual[1][name], rtol=1e-4, atol=1e-6)
    other = gradients(run_of(tmp_path / "MeanLoss", "MeanLoss"))
    assert other[0] < 0.1 * usual[0], "the class's own loss is what counts"


@pytest.mark.slow
@pytest.mark.parametrize("micro_batch_tokens", [None, 16])
@pytest.mark.parametrize("name", ["Penalty", "OfThePass"])
def test_an_auxiliary_loss_is_trained_on_and_not_reported(
    tmp_path: Path, name: str, micro_batch_tokens: int | None
) -> None:
    training = {"micro_batch_tokens": micro_batch_tokens, "documents": "joined"}
    plain = gradients(run_of(tmp_path / "plain", "Plain", **training))
    with_penalty = gradients(run_of(tmp_path / "penalty", name, **training))
    assert with_penalty[0] == plain[0]
    run = read_run(tmp_path / "penalty" / "run")
    model = Trainer(run, trust_code=True).model
    if name == "Penalty":
        added = model.module.mix.weight.detach()
        difference = with_penalty[1]["module.mix.weight"] - plain[1]["module.mix.weight"]
        torch.testing.assert_close(difference, added, rtol=1e-4, atol=1e-6)
    else:
        difference = with_penalty[1]["module.mix.weight"] - plain[1]["module.mix.weight"]
        assert difference.abs().max() > 1e-5
    head = "module.head.weight"
    torch.testing.assert_close(with_penalty[1][head], plain[1][head])


@pytest.mark.slow
def test_passes_of_documents_that_are_read_apart_count_by_their_tokens(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "PassesOver")
    trainer = Trainer(read_run(folder), trust_code=True)
    trainer._loss(trainer._batch(0), slice(None))
    passes = list(trainer.model._auxiliary)
    assert len(passes) > 1
    expected = sum(float(value.detach()) * tokens for value, tokens in passes)
    expected /= sum(tokens for _, tokens in passes)
    assert trainer.model.auxiliary_loss().item() == pytest.approx(expected)
    assert trainer.model.auxiliary_loss() is None, "taken once"


def test_a_pass_that_failed_leaves_no_auxiliary_loss(tmp_path: Path) -> None:
    trainer = Trainer(read_run(run_of(tmp_path, "Penalty", documents="joined")), trust_code=True)
    batch = trainer._batch(0)
    trainer._loss(batch, slice(None))
    trainer._loss(batch, slice(None))
    assert len(trainer.model._auxiliary) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("EachLoss", r"EachLoss: loss returned a tensor \[32\] of .*, but must return one number"),
        ("FailingLoss", r"loss of \[32, 16\] states failed: recipe_models.py:\d+: AttributeError"),
        ("FloatPenalty", "FloatPenalty: auxiliary_loss returned a float, but must return one numb"),
        ("ListPenalty", "auxiliary_loss returned a list"),
        ("VectorPenalty", r"auxiliary_loss returned a tensor \[16\]"),
        ("InfinitePenalty", "auxiliary_loss returned -?inf, which is not a finite number"),
        ("FailingPenalty", r"auxiliary_loss failed: .*AttributeError: 'FailingPenalty' object has"),
        ("Both", "has both parameter_groups and decayed_parameters; define one"),
    ],
)
def test_a_loss_of_another_kind_is_one_line(name: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"^{FILE}:{name}.*") as error:
        checked(name)
    assert error.match(said)
    assert "\n" not in str(error.value)


def test_remarks_say_what_is_not_trained_on_and_what_cannot_be_compared() -> None:
    assert checked("OwnLoss") == checked("Penalty") == checked("Groups") == ()
    (attribute,) = checked("Attribute")
    assert attribute.startswith("mix.aux_loss is not trained on")
    assert "auxiliary_loss()" in attribute
    (mean,) = checked("MeanLoss")
    assert mean.startswith("its own loss is 0.0312 times the cross entropy")


# --- groups


def test_groups_have_rates_and_decays_of_their_own(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "Groups", weight_decay=0.1, clip=None, documents="joined")
    trainer = Trainer(read_run(folder), trust_code=True)
    trained = trained_parameters(trainer.model, trainer.config)
    assert {each.name: (each.times, each.weight_decay) for each in trained} == {
        "module.tokens.weight": (0.5, 0.0),
        "module.mix.weight": (1.0, 0.2),
        "module.mix.bias": (2.0, 0.1),
        "module.head.weight": (2.0, 0.1),
    }
    model = build(read_run(folder).model, code=HERE, trust_code=True)
    model.load_state_dict(trainer.model.state_dict())
    config = trainer.config
    reference = torch.optim.AdamW(
        [
            {"params": [model.module.tokens.weight], "weight_decay": 0.0, "times": 0.5},
            {"params": [model.module.mix.weight], "weight_decay": 0.2, "times": 1.0},
            {
                "params": [model.module.mix.bias, model.module.head.weight],
                "weight_decay": 0.1,
                "times": 2.0,
            },
        ],
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
    )
    for step in range(3):
        batch = trainer._batch(step)
        logits = model(batch.tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=-100)
        reference.zero_grad()
        loss.backward()
        for group in reference.param_groups:
            group["lr"] = scheduled_rate(config, step + 1, 0) * group["times"]
        reference.step()
        trainer.train_step()
    for name, parameter in model.named_parameters():
        got = trainer.model.get_parameter(name)
        torch.testing.assert_close(got, parameter, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("none", "must list groups, but returned a int"),
        ("a mapping", "must list groups, but returned a dict"),
        ("no mapping", "must list mappings, but has a list"),
        ("no params", "a group has no params"),
        ("names", "must list parameters, but has a str"),
        ("left out", "leaves out module.tokens.weight, but each parameter must be in one group"),
        ("twice", "has module.tokens.weight twice"),
        ("not ours", r"has a parameter \[3\] that is not one of the model's"),
        ("misspelt", "unknown key 'weight_decy'; did you mean 'weight_decay'"),
        ("negative", "times is -1, but it must be a number of 0 or more"),
        ("a text", "weight_decay is '0.1', but it must be a number"),
        ("no rule", "optimizer is 'moun', but it must be adamw or muon; did you mean 'muon'"),
        ("of a vector", "module.mix.bias has 1 dimensions, but Muon trains matrices"),
        ("parts", r"has 16 entries along axis -2, but its parts \[9, 9\] add up to 18"),
        ("no sizes", r"parts is 2, but it must list sizes, as \[64, 64, 64\]"),
        ("axis", "axis is 2, but it must be -1 or -2"),
    ],
)
def test_groups_that_are_none_are_one_line_that_names_the_class(kind: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        checked("WithGroups", kind=kind)
    assert str(error.value).startswith(f"{FILE}:WithGroups: parameter_groups()")
    assert "\n" not in str(error.value)


def test_muon_needs_a_matrix_and_its_share_is_known() -> None:
    with pytest.raises(InputError, match="OnlyWords: optimizer is muon, but the class has no matr"):
        checked("OnlyWords", {"optimizer": "muon"})
    of_class = check_recipe(described("Plain"), {"optimizer": "muon"}, code=HERE, trust_code=True)
    assert of_class.muon_share == pytest.approx(16 * 16 / (2 * 32 * 16 + 16 * 16 + 16))
    assert check_recipe(LA, {"optimizer": "muon"}).muon_share == pytest.approx(0.85, abs=0.01)
    assert check_recipe(LA, {}).muon_share is None


# --- an optimizer of a user's


def test_an_own_optimizer_trains_at_the_rate_and_decay_of_the_recipe(tmp_path: Path) -> None:
    recipe = own_optimizer("AdamW", betas=[0.9, 0.999], eps=1e-8)
    same = {"weight_decay": 0.1, "clip": 0.1, "warmup_steps": 3}
    folders = [
        run_of(tmp_path / "own", "Groups", **recipe, **same),
        run_of(tmp_path / "adamw", "Groups", **same),
    ]
    trainers = [Trainer(read_run(folder), trust_code=True) for folder in folders]
    for trainer in trainers:
        for _ in range(4):
            trainer.train_step()
    own, usual = (trainer.model.module for trainer in trainers)
    for name, parameter in own.named_parameters():
        expected = usual.get_parameter(name)
        torch.testing.assert_close(parameter, expected, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        own_optimizer("Lion", betas=[0.9, 0.95]),
        own_optimizer("AdamW"),
        {"optimizer": "muon", "clip": None, "schedule": {"decay": 0.5, "to": 0.1}},
        {"schedule": {"decay": 0.4, "shape": "sqrt"}},
    ],
    ids=["Lion", "AdamW", "muon", "WSD"],
)
@pytest.mark.parametrize("name", ["Groups", "Penalty"])
def test_a_run_that_is_stopped_ends_with_the_bits_of_one_that_is_not(
    tmp_path: Path, name: str, recipe: dict[str, Any]
) -> None:
    whole, parts = (run_of(tmp_path / place, name, **recipe) for place in ("whole", "parts"))
    train_in_own_process(whole, trust_code=True)
    for stop_at in (300, 500, None):
        train_in_own_process(parts, stop_at=stop_at, trust_code=True)
    first, second = (newest_state(run / "state").tensors for run in (whole, parts))
    assert first.keys() == second.keys()
    for tensor in first:
        assert torch.equal(first[tensor], second[tensor]), tensor


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("Counting", {}, "its state 'count' is a int, but it must be a tensor"),
        ("InGroups", {}, "its steps change its groups, which are not saved"),
        ("Hidden", {}, "a step after a resume differs from a step without"),
        ("Drawing", {}, "a step after a resume differs from a step without"),
        ("Fails", {}, r"its step failed: recipe_models.py:\d+: RuntimeError: no kernel"),
        ("Lion", {"beta": 0.9}, "unexpected keyword argument 'beta'; it takes params, lr, betas"),
        ("Lyon", {}, "recipe_models.py has no class Lyon"),
        ("NoOptimizer", {}, "NoOptimizer must be a subclass of torch.optim.Optimizer"),
    ],
)
def test_an_optimizer_that_could_not_be_resumed_is_one_line(
    name: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as error:
        checked("Plain", own_optimizer(name, **arguments))
    assert str(error.value).startswith(FILE)
    assert "\n" not in str(error.value)


def test_an_optimizer_is_trusted_and_has_the_digest_it_was_planned_with(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "Plain", **own_optimizer("Lion"))
    assert checked("Plain", own_optimizer("Lion")) == ()
    assert checked("Plain", own_optimizer("NoDecay")) == (
        f"{FILE}:NoDecay knows no weight_decay, so no weight decays",
    )
    with pytest.raises(
        InputError, match=r"recipe_models\.py:Lion is Python code, which this would run"
    ):
        check_recipe(LA, own_optimizer("Lion"), code=HERE)
    assert check_recipe(LA, own_optimizer("Lion"), code=HERE, trust_code=True).remarks == ()
    code = folder / FOLDER / FILE
    code.write_text(code.read_text() + "\n# other\n")
    with pytest.raises(InputError, match="has changed since its model was planned"):
        Trainer(read_run(folder), trust_code=True)


# --- schedules


def rates(schedule: Any, tokens: int = 1000, warmup_steps: int = 2) -> list[float]:
    config = TrainingConfig(
        tokens=tokens,
        batch_tokens=100,
        learning_rate=1.0,
        warmup_steps=warmup_steps,
        schedule=schedule,
    )
    return [scheduled_rate(config, step, 100 * (step - 1)) for step in range(1, 12)]


def test_the_rate_stays_and_falls_at_the_end_to_a_share_of_its_peak() -> None:
    linear = rates({"decay": 0.4, "to": 0.2})
    assert linear[:7] == [0.5, 1, 1, 1, 1, 1, 1]
    assert linear[7:] == pytest.approx([0.8, 0.6, 0.4, 0.2])
    to_zero = rates({"decay": 0.4})
    assert to_zero[6:] == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])
    cosine = rates({"decay": 0.4, "shape": "cosine"})
    assert cosine[8] == pytest.approx(0.5)
    assert cosine[7] > 0.75
    assert rates({"decay": 0.4, "shape": "sqrt"})[7] == pytest.approx(0.5)
    for shape in ("linear", "cosine"):
        assert rates({"decay": 1.0, "shape": shape}) == pytest.approx(rates(shape))
    assert rates({"decay": 0.9}, warmup_steps=5)[4] == 1.0, "nothing falls before the warm-up ends"
    assert min(rates({"decay": 0.1}, tokens=150, warmup_steps=9)[:1]) > 0


@pytest.mark.slow
def test_a_state_of_before_resumes_and_one_of_another_recipe_does_not(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "Plain", schedule={"decay": 0.5})
    train(folder, stop_at=400, trust_code=True)
    later = ("optimizer", "optimizer_config", "optimizer_files", "momentum")
    saved = newest_state(folder / "state", "origin").values["origin"]["training"]
    assert not {*later} & saved.keys()
    assert saved["tokens"] == 900, "by which the rate falls"
    path = folder / "run.json"
    described_run = json.loads(path.read_text())
    changes = {"tokens": 1200}, {"optimizer": "muon"}, {"schedule": {"decay": 0.4}}, {"clip": None}
    for change in changes:
        training = {**described_run["training"], **change}
        path.write_text(json.dumps({**described_run, "training": training}))
        with pytest.raises(InputError, match="cannot be continued"):
            train(folder, trust_code=True)
