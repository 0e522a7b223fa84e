"""AdamW with clipping against torch.optim's class and torch's clipping."""

import pytest
import torch
from torch import nn

from model.training.config import TrainingConfig
from model.training.step.optimizer import AdamW, scheduled_rate


def parameters():
    torch.manual_seed(0)
    shapes = {"matrix": (4, 3), "gain": (3,), "bank": (2, 3, 5), "unused": (2, 2)}
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}


RECIPE = {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-6, "weight_decay": 0.3}


def ours_for(named):
    return AdamW(named.items(), [named["bank"], named["matrix"], named["unused"]], **RECIPE)


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
        ours.step(0.1 / (step + 1), norm, 0.5)
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
            used.step(0.1, torch.tensor(2.0), 0.5)
    assert all(torch.equal(through[name], halfway[name]) for name in through)


def rates(schedule: str, tokens: int = 800, warmup_steps: int = 2) -> list[float]:
    config = TrainingConfig(
        tokens=tokens, batch_tokens=100, learning_rate=1.0, warmup_steps=warmup_steps, schedule=schedule
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
