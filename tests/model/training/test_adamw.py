"""The optimiser and the average of weights."""

import pytest
import torch
from torch import nn

from dreamer_study.model.checkpoints.models import newest_state
from dreamer_study.model.train import train
from dreamer_study.model.training.adamw import AdamW
from dreamer_study.model.training.config import TrainingConfig, read_run
from dreamer_study.model.training.optimizer import Optimizer
from dreamer_study.model.training.parameter_groups import Trained
from dreamer_study.model.training.schedule import scheduled_rate
from dreamer_study.model.training.trainer import Trainer
from dreamer_study.model.training.weight_average import WeightAverage, newest_share
from tests.model.packed_folder import write_run


def parameters():
    torch.manual_seed(0)
    shapes = {"matrix": (4, 3), "gain": (3,), "bank": (2, 3, 5), "unused": (2, 2)}
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}


RECIPE = TrainingConfig(
    tokens=1, batch_tokens=1, beta1=0.8, beta2=0.9, epsilon=1e-6, weight_decay=0.3, clip=0.5
)


def ours_for(named):
    trained = [
        Trained(name, parameter, 1.0, 0.3 if parameter.ndim > 1 else 0.0, "adamw")
        for name, parameter in named.items()
    ]
    return Optimizer(trained, [AdamW(trained, RECIPE)], RECIPE.clip)


def gradients(named, seed, size):
    torch.manual_seed(seed)
    for name, parameter in named.items():
        parameter.grad = None if name == "unused" else size * torch.randn_like(parameter)


@pytest.mark.parametrize("size", [0.01, 10.0], ids=["below the clip", "clipped"])
def test_updates_equal_torch(size):
    named, reference = parameters(), parameters()
    ours = ours_for(named)
    theirs = torch.optim.AdamW(
        [
            {"params": [p for p in reference.values() if p.ndim > 1], "weight_decay": 0.3},
            {"params": [p for p in reference.values() if p.ndim < 2], "weight_decay": 0.0},
        ],
        betas=(0.8, 0.9),
        eps=1e-6,
    )
    for step in range(5):
        gradients(named, step, size)
        gradients(reference, step, size)
        norm = ours.gradient_norm()
        torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(reference.values(), 0.5))
        for group in theirs.param_groups:
            group["lr"] = 0.1 / (step + 1)
        theirs.step()
        ours.step(0.1 / (step + 1), norm)
        for name, parameter in named.items():
            torch.testing.assert_close(parameter, reference[name], msg=name)
    ours.clear()
    assert all(parameter.grad is None for parameter in named.values())


def test_state_by_name_goes_on_to_the_bit():
    through, halfway = parameters(), parameters()
    optimizer, first = ours_for(through), ours_for(halfway)
    for step in range(6):
        if step == 3:
            saved = {name: tensor.clone() for name, tensor in first.tensors().items()}
            reordered = dict(reversed(halfway.items()))
            first = ours_for(reordered)
            first.load(saved)
        for named, used in ((through, optimizer), (halfway, first)):
            gradients(named, step, 1.0)
            used.step(0.1, torch.tensor(2.0))
    assert all(torch.equal(through[name], halfway[name]) for name in through)


def rates(schedule: str, tokens: int = 800, warmup_steps: int = 2) -> list[float]:
    config = TrainingConfig(
        tokens=tokens,
        batch_tokens=100,
        learning_rate=1.0,
        warmup_steps=warmup_steps,
        schedule=schedule,
    )
    return [scheduled_rate(config, step, 100 * (step - 1)) for step in range(1, 9)]


def test_the_learning_rate_warms_up_then_stays_or_decays_to_zero_at_the_end():
    assert rates("constant", warmup_steps=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert rates("constant", warmup_steps=0)[0] == 1.0
    assert rates("linear") == pytest.approx([0.5, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    cosine = rates("cosine")
    assert cosine[:3] == [0.5, 1.0, 1.0]
    assert cosine[5] == pytest.approx(0.5), "half of it in the middle"
    assert cosine[3:] == sorted(cosine[3:], reverse=True)
    assert rates("linear", tokens=600)[6:] == [0, 0], "a batch beyond the end moves nothing"
    assert rates("linear", tokens=100, warmup_steps=9)[0] > 0


def test_narrow_weights_have_an_average_in_float32():
    trained = {"matrix": torch.ones(3, dtype=torch.bfloat16)}
    average = WeightAverage(trained, 18.0)
    for step in range(1, 4001):
        if step == 2001:
            trained["matrix"].fill_(1.0625)
        average.update(step)
    torch.testing.assert_close(
        average.tensors["matrix"], torch.full((3,), 1.0625), rtol=1e-3, atol=0
    )


def test_the_window_is_a_share_of_the_steps():
    """With power p the mean age of what is averaged is 1 / (p + 1) of the steps."""
    for steps in (1000, 10_000):
        age = 0.0
        for step in range(1, steps + 1):
            age = (1 - newest_share(step, 18.0)) * (age + 1)
        assert age / steps == pytest.approx(1 / 19, rel=0.02)


def test_whole_numbers_have_no_average_and_power_0_keeps_none():
    weights = {"matrix": torch.ones(3, 2), "bias": torch.zeros(4), "counts": torch.arange(4)}
    assert WeightAverage(weights, 18.0).tensors.keys() == {"matrix", "bias"}
    none = WeightAverage(weights, 0.0)
    none.update(1)
    assert none.tensors == {}


def test_training_averages_what_every_step_has_left(tmp_path):
    """Parameters and balance biases, after the biases have moved; shown on the weights of every
    single step."""
    trainer = Trainer(read_run(write_run(tmp_path, averaging=3.0)))
    expected = {}
    for step in range(1, 8):
        trainer.train_step()
        for name, tensor in trainer.model.state_dict().items():
            if tensor.is_floating_point():
                new = tensor.double().clone()
                expected[name] = torch.lerp(expected.get(name, new), new, newest_share(step, 3.0))
    assert expected.keys() == trainer.average.tensors.keys()
    assert any(name.endswith("bias") and tensor.any() for name, tensor in expected.items())
    for name, tensor in trainer.average.tensors.items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-5, atol=1e-6, msg=name)
    assert not torch.equal(trainer.average.tensors["head"], trainer.model.head)


@pytest.mark.slow
def test_without_averaging_nothing_is_kept(tmp_path):
    folder = write_run(tmp_path, averaging=0, tokens=200, checkpoints=[])
    train(folder)
    assert not [
        name for name in newest_state(folder / "state").tensors if name.startswith("average.")
    ]
    (checkpoint,) = (folder / "checkpoints").iterdir()
    assert [path.name for path in checkpoint.glob("*.safetensors")] == ["model.safetensors"]
