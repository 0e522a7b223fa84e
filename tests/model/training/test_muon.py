"""Muon: equal to torch's on matrices, and each matrix of a bank or of a fused one by itself."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from dreamer_study.model.contract import Network
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.model.training.muon import orthogonal
from dreamer_study.model.training.optimizer import make_optimizer
from dreamer_study.model.training.parameter_groups import muon_share, trained_parameters
from dreamer_study.pipeline.errors import InputError
from tests.model.tiny_network import VARIANTS, build

VOCABULARY = 11
RECIPE = TrainingConfig(
    tokens=1,
    batch_tokens=1,
    optimizer="muon",
    momentum=0.9,
    beta1=0.8,
    beta2=0.9,
    weight_decay=0.3,
    clip=None,
)


class Several(Network):
    """Parameters of all kinds, alone."""

    def __init__(self):
        super().__init__()
        sizes = {"vocabulary_size": VOCABULARY, "sequence_length": 8}
        self.config = ModuleConfig(module="own.py:Several", **sizes)
        torch.manual_seed(0)
        self.tokens = nn.Embedding(VOCABULARY, 6)
        self.wide = nn.Linear(6, 9)  # its weight is [9, 6]
        self.tall = nn.Parameter(torch.randn(6, 9))  # of [in, out], as Dreamer's
        self.square = nn.Parameter(torch.randn(6, 6))
        self.bank = nn.Parameter(torch.randn(3, 6, 4))
        self.convolution = nn.Conv1d(6, 6, 3, groups=6)
        self.head = nn.Linear(6, VOCABULARY, bias=False)
        self.gain = nn.Parameter(torch.ones(6))


def gradients(model, seed):
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def steps(model, optimizer, count=4):
    for step in range(count):
        gradients(model, step)
        optimizer.step(0.1 / (step + 1), torch.tensor(2.0))


def test_matrices_are_updated_as_torch_does_of_either_orientation():
    ours, theirs = Several(), Several()
    matrices = [theirs.wide.weight, theirs.tall, theirs.square]
    reference = torch.optim.Muon(
        matrices, momentum=0.9, weight_decay=0.3, adjust_lr_fn="match_rms_adamw"
    )
    steps(ours, make_optimizer(ours, RECIPE))
    for step in range(4):
        gradients(theirs, step)
        reference.param_groups[0]["lr"] = 0.1 / (step + 1)
        reference.step()
    for mine, other in zip((ours.wide.weight, ours.tall, ours.square), matrices, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
        assert not torch.equal(mine, Several().wide.weight)


def test_each_expert_of_a_bank_is_a_matrix_and_the_others_are_trained_by_adamw():
    bank, apart = Several(), Several()
    experts = apart.bank.detach().clone()
    del apart.bank
    apart.bank = nn.ParameterList(nn.Parameter(expert) for expert in experts)
    steps(bank, make_optimizer(bank, RECIPE))
    optimizer = make_optimizer(apart, RECIPE)
    for step in range(4):
        gradients(bank, step)
        for name, parameter in apart.named_parameters():
            whole, _, number = name.partition(".")
            if whole == "bank":
                parameter.grad = bank.bank.grad[int(number)].clone()
            else:
                parameter.grad = bank.get_parameter(name).grad.clone()
        optimizer.step(0.1 / (step + 1), torch.tensor(2.0))
    for number, expert in enumerate(apart.bank):
        torch.testing.assert_close(bank.bank[number], expert)
    plain = Several()
    by_adamw = make_optimizer(plain, TrainingConfig(**{**vars(RECIPE), "optimizer": "adamw"}))
    steps(plain, by_adamw)
    for name, parameter in plain.named_parameters():
        is_vector_or_word = name.split(".")[0] in ("tokens", "head", "gain", "convolution")
        same = torch.equal(parameter, bank.get_parameter(name))
        assert same == (is_vector_or_word or name == "wide.bias"), name


def test_fused_matrices_are_made_orthogonal_apart():
    class Fused(Several):
        def parameter_groups(self):
            others = [each for each in self.parameters() if each is not self.tall]
            return [{"params": self.tall, "parts": [4, 3, 2], "axis": -1}, {"params": others}]

    fused, apart = Fused(), Several()
    before = fused.tall.detach().clone()
    gradients(fused, 0)
    parts = fused.tall.grad.split([4, 3, 2], dim=1)
    scales = [0.2 * max(part.shape) ** 0.5 for part in parts]
    made = [scale * orthogonal(part[None])[0] for scale, part in zip(scales, parts, strict=True)]
    make_optimizer(fused, RECIPE).step(0.1, torch.tensor(1.0))
    expected = before * (1 - 0.1 * 0.3) - 0.1 * torch.cat(made, dim=1)
    torch.testing.assert_close(fused.tall.detach(), expected, rtol=1e-2, atol=1e-3)
    gradients(apart, 0)
    make_optimizer(apart, RECIPE).step(0.1, torch.tensor(1.0))
    assert (apart.tall - fused.tall).abs().max() > 0.01, "as one matrix the update is another"


def test_singular_values_come_near_to_one_and_updates_have_the_size_of_adamws():
    torch.manual_seed(0)
    made = orthogonal(torch.randn(5, 40, 16)).float()
    values = torch.linalg.svdvals(made)
    assert values.min() > 0.5
    assert values.max() < 1.5
    size = (0.2 * 40**0.5 * made).square().mean().sqrt()
    assert size == pytest.approx(0.2, rel=0.2)


def test_an_expert_without_a_gradient_is_left_by_a_gradient_of_zero_or_none():
    model = Several()
    optimizer = make_optimizer(model, RECIPE)
    before = model.square.detach().clone()
    gradients(model, 0)
    model.square.grad = None
    model.bank.grad[1] = 0.0
    optimizer.step(0.1, torch.tensor(1.0))
    assert torch.equal(model.square, before)
    assert model.bank.isfinite().all()


def test_a_clip_divides_the_gradient_of_both_rules():
    """Of the first of two steps: alone, its size would change nothing."""
    clipped, small = Several(), Several()
    config = TrainingConfig(**{**vars(RECIPE), "clip": 0.5, "epsilon": 1e-3})
    for model, factor, norm in ((clipped, 4.0, 2.0), (small, 1.0, 0.1)):
        optimizer = make_optimizer(model, config)
        gradients(model, 0)
        for parameter in model.parameters():
            parameter.grad *= factor
        optimizer.step(0.1, torch.tensor(norm))
        gradients(model, 1)
        optimizer.step(0.1, torch.tensor(0.1))
    for name, parameter in clipped.named_parameters():
        torch.testing.assert_close(parameter, small.get_parameter(name), msg=name)


def test_state_continues_to_the_bit():
    through, halfway = Several(), Several()
    optimizer, first = make_optimizer(through, RECIPE), make_optimizer(halfway, RECIPE)
    for step in range(6):
        if step == 3:
            saved = {name: tensor.clone() for name, tensor in first.tensors().items()}
            first = make_optimizer(halfway, RECIPE)
            first.load(saved)
        for model, used in ((through, optimizer), (halfway, first)):
            gradients(model, step)
            used.step(0.1, torch.tensor(2.0))
    for name, parameter in through.named_parameters():
        assert torch.equal(parameter, halfway.get_parameter(name)), name
    assert {name.partition(".")[0] for name in saved} == {"momentum", "first", "second", "steps"}


@pytest.mark.parametrize("config", VARIANTS)
def test_of_dreamer_all_but_words_vectors_and_routing_keys_are_matrices(config):
    model = build(config)
    trained = {each.name: each for each in trained_parameters(model, RECIPE)}
    by_adamw = {name for name, each in trained.items() if each.rule == "adamw"}
    for name, parameter in model.named_parameters():
        is_vector = parameter.ndim < 2 or name.endswith(("keys", "embedding", "head"))
        assert (name in by_adamw) == is_vector, name
    fused = {name: each.parts for name, each in trained.items() if each.parts}
    for name, parts in fused.items():
        assert trained[name].axis == -1
        assert sum(parts) == trained[name].parameter.shape[-1]
        heads = "attentions.sequence" in name or "attentions.depth" in name
        assert len(parts) == (3 if heads else 2), name
    of_experts = "pool.inward" if config.expert_pool else "experts.inward"
    assert any(of_experts in name for name in fused)
    assert muon_share(trained.values()) > 0.7
    decayed = {each.name for each in trained.values() if each.weight_decay}
    assert decayed == {name for name, each in model.named_parameters() if each.ndim >= 2}


def test_a_class_without_matrices_is_refused():
    class Words(Several):
        def __init__(self):
            super().__init__()
            for name in ("wide", "tall", "square", "bank"):
                delattr(self, name)

    with pytest.raises(InputError, match=r"own\.py:Several: optimizer is muon, but .* no matrix"):
        make_optimizer(Words(), RECIPE)


@pytest.mark.slow
def test_the_trainer_does_not_import_the_compiler():
    code = (
        "import sys, dreamer_study.model.train, dreamer_study.model.training.muon;"
        "print([name for name in sys.modules if name.startswith('torch._dynamo')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
