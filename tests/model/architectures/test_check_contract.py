"""What breaks the contract of an architecture is refused before anything is trained; what keeps it
is not."""

from __future__ import annotations

from typing import Any

import pytest

from dreamer_study.model.architectures.check_contract import check_contract
from dreamer_study.pipeline.errors import InputError
from tests.model.test_contract import HERE, OWN, described


@pytest.mark.parametrize(("name", "values"), [*OWN, ("Rare", {}), ("Kernel", {})])
def test_models_that_keep_the_contract_pass(name: str, values: dict[str, Any]) -> None:
    assert check_contract(described(name, values), code=HERE, trust_code=True) == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Ahead", r"own_models\.py:Ahead: its logits at a position depend on later tokens"),
        ("InPlace", "its cache gives other logits"),
        ("NoDepth", r"states of \[1, 16\] tokens failed: .*unexpected keyword argument 'depth'"),
    ],
)
def test_models_that_break_the_contract_are_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_contract(described(name, {}), code=HERE, trust_code=True)


def test_a_model_of_a_gpu_alone_is_said_to_be_unchecked() -> None:
    (remark,) = check_contract(described("Elsewhere", {}), code=HERE, trust_code=True)
    assert "does not run on a CPU" in remark
