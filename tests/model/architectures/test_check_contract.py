"""What breaks the contract of an architecture is refused before anything is trained; what keeps it
is not."""

from __future__ import annotations

from typing import Any

import pytest

from dreamer_study.model.architectures.check_contract import check_contract
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.pipeline.errors import InputError
from tests.model.test_contract import HERE, OWN, described


@pytest.mark.parametrize(("name", "values"), [*OWN, ("Rare", {}), ("NoDepth", {})])
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
        ("WholeChunks", r"forward of \[1, 1\] tokens failed: broken_models\.py:\d+: RuntimeError"),
        ("Names", "decayed_parameters.. must list parameters, and has a str"),
    ],
)
def test_what_no_shape_shows_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"broken_models\.py:{name}: .*{said}"):
        check_contract(broken(name), code=HERE, trust_code=True)


@pytest.mark.parametrize("name", ["Tokens", "Pair", "Output"])
def test_conventions_of_others_pass(name: str) -> None:
    assert check_contract(broken(name), code=HERE, trust_code=True) == ()


def test_a_count_of_calls_in_training_is_a_remark() -> None:
    (remark,) = check_contract(broken("CountsCalls"), code=HERE, trust_code=True)
    assert "counts its calls" in remark


def test_a_model_of_a_gpu_alone_is_said_to_be_unchecked() -> None:
    (remark,) = check_contract(described("Elsewhere", {}), code=HERE, trust_code=True)
    assert "does not run on a CPU" in remark
