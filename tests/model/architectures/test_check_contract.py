"""What breaks the contract of an architecture is refused before anything is trained; what keeps it
is not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from dreamer_study.model.architectures.build import build
from dreamer_study.model.architectures.check_contract import check_contract, check_trained
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.pipeline.errors import InputError
from tests.model.test_contract import HERE, OWN, described


@pytest.mark.parametrize(("name", "values"), [*OWN, ("Rare", {}), ("NoDepth", {}), ("Grows", {})])
def test_models_that_keep_the_contract_pass(name: str, values: dict[str, Any]) -> None:
    assert check_contract(described(name, values), code=HERE, trust_code=True) == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Ahead", r"own_models\.py:Ahead: its logits at position 0 depend on later tokens"),
        ("InPlace", "its cache gives other logits"),
        ("Kernel", "its backward pass failed: .*no autograd formula was registered"),
    ],
)
def test_models_that_break_the_contract_are_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_contract(described(name, {}), code=HERE, trust_code=True)


def broken(name: str, length: int = 40) -> ModuleConfig:
    """Describe a class of broken_models.py."""
    file = "broken_models.py"
    return ModuleConfig(
        module=f"{file}:{name}",
        config={},
        files=digests(HERE, [file]),
        vocabulary_size=32,
        sequence_length=length,
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NextBehindGate", "position 0 depend on later tokens: .* from position 1 on"),
        ("Chunks", "position 16 depend on later tokens: .* from position 20 on"),
        ("NormOverBatch", "position 0 depend on later tokens, in a training batch of 3 rows"),
        ("OtherRows", "position 0 depend on later tokens, in a training batch of 3 rows"),
        ("RandomInEvaluation", "other logits for the same tokens"),
        ("KeepsState", "other logits for the same tokens"),
        ("NoGradient", "no gradient reaches its parameters"),
        ("NotFinite", "not all finite numbers"),
        ("Ends", r"tokens failed: broken_models\.py:\d+: SystemExit: 2"),
        ("WholeChunks", r"forward of \[1, 1\] tokens failed: broken_models\.py:\d+: RuntimeError"),
        ("ChangesTokens", "changes the tokens that it is given"),
        ("ComplexLogits", "returned logits of torch.complex64"),
        ("SparseGradient", "tokens.weight has a sparse gradient"),
        ("ExtraState", "state_dict has _extra_state, a dict"),
        ("Lazy", "lazy.weight has no shape before a forward pass"),
        ("DoubleForAll", "calls torch.set_default_dtype while it runs"),
        ("OneOfTwo", "other logits for the same tokens"),
        ("FailsToBegin", r"begin_step failed: .*TypeError"),
        ("Names", "decayed_parameters.. must list parameters, but has a str"),
    ],
)
def test_what_no_shape_shows_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"broken_models\.py:{name}: .*{said}") as refused:
        check_contract(broken(name), code=HERE, trust_code=True)
    assert re.search(r"broken_models\.py:\d+", str(refused.value)), "no line of the user's"
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("name", ["Tokens", "Pair", "Output"])
def test_conventions_of_others_pass(name: str) -> None:
    assert check_contract(broken(name), code=HERE, trust_code=True) == ()


def test_a_count_of_calls_in_training_is_a_remark() -> None:
    (remark,) = check_contract(broken("CountsCalls"), code=HERE, trust_code=True)
    assert "counts its calls" in remark


def test_a_module_without_a_hash_is_one_line() -> None:
    with pytest.raises(
        InputError, match=r"Equal cannot be built: broken_models\.py:\d+: TypeError"
    ):
        check_contract(broken("Equal"), code=HERE, trust_code=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Frozen", "computes inner without gradients"),
        ("Remembers", r"keeps values from one call to the next \(newest\)"),
        ("CountsCalls", r"counts its calls \(calls\)"),
        ("GrowsUnseen", "changes share in begin_step, which no state holds"),
    ],
)
def test_what_a_reader_must_know_is_a_remark(name: str, said: str) -> None:
    (remark,) = check_contract(broken(name), code=HERE, trust_code=True)
    assert re.search(said, remark)


def test_a_gate_that_training_has_opened_is_found() -> None:
    config = broken("NextBehindGate")
    model = build(config, code=HERE, trust_code=True)
    check_trained(model)
    with torch.no_grad():
        model.module.gate.fill_(0.01)
    with pytest.raises(
        InputError, match=r"NextBehindGate: its logits at position .* depend on later"
    ):
        check_trained(model)


def test_a_model_of_a_gpu_alone_is_said_to_be_unchecked() -> None:
    (remark,) = check_contract(described("Elsewhere", {}), code=HERE, trust_code=True)
    assert "does not run on a CPU" in remark
