"""FLOPs and parameters of any model equal a count by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from dreamer_study.flows.plan.model_plan import Sizing, size
from dreamer_study.model.accounting import Resources
from dreamer_study.model.architectures import count_flops
from dreamer_study.model.architectures.count_flops import FORMULAS, count
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.pipeline.errors import InputError
from tests.model.architectures.test_check_contract import broken
from tests.model.test_contract import HERE, described

LENGTH = 16
TRUSTED = {"code": HERE, "trust_code": True}


def counted(name: str, values: dict[str, Any]) -> Resources:
    return count(described(name, values), LENGTH, **TRUSTED)


def test_attention_counts_at_its_causal_mean_length() -> None:
    found = counted("Attention", {"hidden_size": 8})
    products = 8 * 3 * 8 + 2 * 8 * (LENGTH + 1) / 2 + 8 * 32
    assert found.flops_per_token == pytest.approx(2 * products, rel=1e-3)
    assert found.parameters == 32 * 8 + 16 * 8 + 8 * 24 + 24 + 8 * 32 + 32
    assert found.remarks == ()


def test_a_mixture_counts_the_experts_that_are_active() -> None:
    found = counted("Mixture", {"hidden_size": 8, "experts": 4, "expert_size": 24})
    assert found.flops_per_token == pytest.approx(2 * (8 * 4 + 2 * 8 * 24 + 8 * 32), rel=1e-3)
    assert (found.remarks, found.reads_documents) == ((), False)


def test_tied_weights_count_once_and_the_dtype_does_not_matter() -> None:
    assert (
        counted("Mean", {}).parameters
        == counted("Mean", {"dtype": "bfloat16"}).parameters
        == 16 * 32
    )


@pytest.mark.slow
def test_an_operation_that_nobody_can_count_is_named_and_stops_a_match() -> None:
    found = counted("Kernel", {})
    assert any("own.product" in remark for remark in found.remarks)
    target = Resources(10_000, 50_000.0, 0)
    with pytest.raises(
        InputError, match=r"models\.variants: Kernel: cannot be matched: .*own\.product"
    ):
        size(
            Sizing(
                "Kernel",
                described("Kernel", {"hidden_size": 16}),
                LENGTH,
                {"flops": "hidden_size"},
                target,
            ),
            **TRUSTED,
        )
    assert counted("Declared", {}).flops_per_token == 100 * LENGTH


def test_a_product_with_a_vector_counts() -> None:
    matrix, vector = torch.randn(3, 8), torch.randn(8)
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        matrix @ vector, torch.addmv(matrix[:, 0], matrix, vector)
    assert counter.get_total_flops() == 2 * 2 * 3 * 8


def test_a_triangular_solve_counts_a_square_for_each_right_hand_side() -> None:
    triangle, right = torch.rand(2, 4, 4).tril() + torch.eye(4), torch.randn(2, 4, 3)
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        torch.linalg.solve_triangular(triangle, right, upper=False)
        torch.linalg.solve_triangular(triangle, right.mT, upper=False, left=False)
    assert counter.get_total_flops() == 2 * (2 * 4 * 4 * 3 * 2)


@pytest.mark.parametrize(
    ("left", "right", "products"),
    [
        ((32, 8), (3, 8, 24), 32 * 8 * 24),
        ((3, 16, 8), (8, 32), 16 * 8 * 32),
        ((16, 32), (32, 24), 16 * 32 * 24),
        ((3, 16, 8), (3, 8, 24), 3 * 16 * 8 * 24),
    ],
)
def test_a_grouped_product_counts_what_each_group_multiplies(
    left: tuple[int, ...], right: tuple[int, ...], products: int
) -> None:
    matrices = (torch.randn(shape, dtype=torch.bfloat16) for shape in (left, right))
    is_batch = len(left) == len(right) == 3
    ends = None if is_batch else torch.tensor([8, 8, 32], dtype=torch.int32)
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        F.grouped_mm(*matrices, offs=ends)
    assert counter.get_total_flops() == 2 * products


@pytest.mark.parametrize(
    ("name", "length", "products"),
    [
        ("Windows", 64, 2 * 16 * 8 + 16 * 32),  # the whole squares of its chunks
        ("Rotations", 64, 4 * 16 * 16 + 16 * 32),
        ("Solves", 64, (64 + 1) / 2 * 16 + 16 * 32),
    ],
)
def test_what_works_in_chunks_is_charged_what_it_does(
    name: str, length: int, products: float
) -> None:
    found = count(broken(name, 64), length, **TRUSTED)
    assert found.flops_per_token == pytest.approx(2 * products, rel=1e-3)
    assert found.remarks == ()


def test_a_cost_that_is_no_line_is_said_and_charged_as_a_whole_row() -> None:
    found = count(broken("LargeChunks", 128), 128, **TRUSTED)
    squares = 3 * 48 * 48 * 2 * 16  # in chunks of 48, of which the last is half empty
    assert found.flops_per_token == pytest.approx(2 * (squares / 128 + 16 * 32), rel=1e-3)
    assert any("whole row" in remark for remark in found.remarks)


@pytest.mark.slow
def test_what_is_one_operator_on_a_cpu_counts_as_its_products() -> None:
    found = counted("Recurrent", {})
    assert found.flops_per_token == 2 * (8 * 16 * 16 + 16 * 32)
    assert found.remarks == ()


@pytest.mark.slow
def test_large_models_are_counted_on_shapes_with_equal_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = [("Attention", {}), ("Mean", {}), ("Whole", {}), ("Recurrent", {})]
    on_numbers = [counted(*model) for model in models]
    monkeypatch.setattr(count_flops, "SMALL", 0)
    assert [counted(*model) for model in models] == on_numbers


def test_a_head_of_its_own_counts() -> None:
    assert counted("Headed", {}).flops_per_token == 2 * 16 * 32


@pytest.mark.slow
def test_sizes_are_searched_in_the_fields_that_are_named() -> None:
    target = Resources(40_000, 40_000.0, 0)
    fields = {"flops": "expert_size", "parameters": "experts"}
    begun = described("Mixture", {"expert_size": 16, "experts": 4})
    config, found = size(Sizing("own", begun, LENGTH, fields, target), **TRUSTED)
    assert found.flops_per_token == pytest.approx(target.flops_per_token, rel=0.01)
    assert found.parameters == pytest.approx(target.parameters, rel=0.02)
    assert isinstance(config, ModuleConfig)
    assert config.config.keys() == set(fields.values())


def test_a_field_that_is_no_size_is_one_line() -> None:
    sizing = Sizing(
        "own",
        described("Mean", {"dtype": "float32"}),
        LENGTH,
        {"flops": "dtype"},
        Resources(1, 1.0, 1),
    )
    with pytest.raises(InputError, match=r"config\.dtype is 'float32'"):
        size(sizing, **TRUSTED)


@pytest.mark.slow
def test_a_llama_of_transformers_counts_as_by_hand() -> None:
    pytest.importorskip("transformers")
    sizes = {
        "hidden_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    }
    values = {**sizes, "intermediate_size": 192}
    config = ModuleConfig(
        module="transformers:llama", config=values, vocabulary_size=300, sequence_length=128
    )
    found = count(config, 128)
    products = 4 * (4 * 96 * 96 + 3 * 96 * 192 + 2 * 96 * 64.5) + 96 * 300
    assert found.flops_per_token == pytest.approx(2 * products, rel=1e-3)
    near = ModuleConfig(module="transformers:lama", vocabulary_size=300, sequence_length=128)
    with pytest.raises(InputError, match="did you mean 'llama'"):
        count(near, 128)


def test_a_model_without_any_product_is_one_line() -> None:
    said = r"broken_models\.py:Bigram: .* no product .*flops_per_token.*broken_models\.py:\d+"
    with pytest.raises(InputError, match=said):
        count(broken("Bigram"), LENGTH, **TRUSTED)


def test_a_model_that_ends_the_process_is_one_line() -> None:
    with pytest.raises(InputError, match=r"broken_models\.py:Ends: .*SystemExit: 2"):
        count(broken("Ends"), LENGTH, **TRUSTED)
