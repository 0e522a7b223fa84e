"""The C engine computes what torch does, with one gradient for the weights of many passes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from dreamer_study.model import ops
from dreamer_study.model.config import dr_da
from dreamer_study.model.dreamer import (
    Context,
    DepthAttention,
    Dreamer,
    ExpertAttention,
    SequenceAttention,
    depth_code,
    position_code,
)
from dreamer_study.model.ops import Documents, rms_norm
from dreamer_study.model.ops.native import engine as native
from dreamer_study.model.ops.native.functions import NativeAttendSequence, NativeMixedProduct
from dreamer_study.model.ops.native.fused import NativeAttention, NativeExperts
from dreamer_study.model.ops.native.shared_gradient import SharedWeights
from dreamer_study.model.training.compile_and_recompute import compile_parts, recompute_activations
from tests.model.conftest import needs_compiler
from tests.model.tiny_network import DR_DA, build, double, random_tokens

pytestmark = [needs_compiler, pytest.mark.usefixtures("one_thread")]
sizes = st.integers(1, 70)  # below, at and above whole vectors, tiles and blocks
DTYPES = st.sampled_from([torch.float32, torch.float64])


def normal(*shape, dtype):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def chosen(tokens, experts, active):
    """Some experts are left out altogether."""
    usable = torch.randperm(experts)[: max(active, experts // 2)]
    return torch.stack([usable[torch.randperm(len(usable))[:active]] for _ in range(tokens)])


def assert_both_ways_agree(function, *inputs):
    """Values and all gradients of `function`, natively and by torch, within rounding."""
    assert ops._engine(*inputs) is native
    results = []
    for engine in ("native", "torch"):
        with ops.engine(engine):
            outputs = function(*inputs)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        torch.manual_seed(1)
        directions = [torch.randn_like(each) for each in outputs]
        results.append([*outputs, *torch.autograd.grad(outputs, inputs, directions)])
    largest = max(each.abs().max() for each in results[1])
    for one, other in zip(*results, strict=True):
        assert one.isfinite().all()
        tolerance = 1e-12 if one.dtype == torch.float64 else 2e-5
        # what should be zero is the difference of larger numbers
        rounding = 10 * torch.finfo(one.dtype).eps * largest
        assert (one - other).abs().max() <= tolerance * (1 + other.abs().max()) + rounding


def made(kind, dtype, **changes):
    """An attention of random sizes and weights, and what its only depth has prepared."""
    config = dataclasses.replace(dr_da(1, experts=4, expert_size=8, active_experts=1), **changes)
    module = kind(config).to(dtype)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    torch.nn.init.normal_(module.router.bias) if module.router else None
    code = (
        depth_code(1, config.routing_size, 100.0, torch.device("cpu"), dtype)
        if config.recurrent
        else None
    )
    return module, lambda: next(iter(module.prepare(dtype, code, 1)))


def assert_modules_agree(module, function, x, *others):
    """As `assert_both_ways_agree`; `function` gives the chosen ids too. An example of a tie, by
    rounding, is none."""
    chosen = []

    def outputs(*inputs):
        *found, ids = function(*inputs[: len(others) + 1])
        chosen.append(ids)
        return tuple(found)

    with torch.no_grad():
        outputs(x, *others)
        with ops.engine("torch"):
            outputs(x, *others)
    one, other = (None if ids is None else ids.sort().values for ids in chosen)
    assume(x.dtype == torch.float64 or one is None or torch.equal(one, other))
    assert one is None or torch.equal(one, other)
    assert_both_ways_agree(outputs, x, *others, *module.parameters())


def attention_sizes(data, hidden):
    keys = data.draw(st.integers(1, 2))
    heads = {"key_value_heads": keys, "query_heads": keys * data.draw(st.integers(1, 3))}
    heads |= {f"depth_{name.replace('query_', '')}": count for name, count in heads.items()}
    size = data.draw(st.sampled_from([4, 8, 16, 20, 32, 64]))
    return {
        **heads,
        "depth": data.draw(st.integers(1, 9)),  # as many experts
        "shared_expert": data.draw(st.booleans()),
        "hidden_size": hidden,
        "head_size": size,
        "depth_head_size": size,
        "routing_size": data.draw(st.sampled_from([4, 16, 36])),
    }


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data(), st.integers(1, 110), st.integers(4, 70), st.booleans(), DTYPES)
def test_projections_of_an_attention(data, tokens, hidden, recurrent, dtype):
    module, prepare = made(
        SequenceAttention, dtype, **attention_sizes(data, hidden), recurrent=recurrent
    )
    code = position_code(torch.arange(tokens), len(module.query_gain), 100.0, dtype).unsqueeze(1)

    def through(x):
        prepared = prepare()
        query, key, value, routing = module.project_in(x, prepared, code)
        output = module.project_out(query, prepared, routing)
        return query, key, value, output, routing.ids

    assert_modules_agree(module, through, normal(tokens, hidden, dtype=dtype))


def context(documents, size, dtype):
    """Of a batch with documents [B, S], and of one depth."""
    memory = Documents(documents, documents)
    code = position_code(memory.positions, size, 100.0, dtype).flatten(0, 1).unsqueeze(1)
    return Context(0, code, depth_code(1, size, 100.0, torch.device("cpu"), dtype)[0], memory)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.integers(1, 3), st.integers(1, 70), st.integers(4, 70), st.booleans(), DTYPES)
def test_whole_attention(data, rows, length, hidden, recurrent, dtype):
    """Keys and values that later depths see pass a gradient on too."""
    kind = data.draw(st.sampled_from([SequenceAttention, DepthAttention]))
    module, prepare = made(kind, dtype, **attention_sizes(data, hidden), recurrent=recurrent)
    cuts = data.draw(st.lists(st.booleans(), min_size=rows * length, max_size=rows * length))
    # a label that comes back is another document
    documents = torch.tensor(cuts).view(rows, length).cumsum(dim=1) % 2
    K, earlier = (
        len(module.query_gain),
        data.draw(st.integers(0, 4)) if kind is DepthAttention else 0,
    )
    others = [
        normal(rows * length, module.key_value_heads, K, dtype=dtype) for _ in range(2 * earlier)
    ]

    # a later depth sees the key, nobody the output
    key_only = kind is DepthAttention and data.draw(st.booleans())

    def through(x, *others):
        history = tuple(zip(others[::2], others[1::2], strict=True))
        output, ids, seen, scores = module(x, prepare(), context(documents, K, dtype), history)
        if key_only:
            return seen[-1][0] + sum(
                0 * each.sum() for each in (x, *others, *module.parameters())
            ), ids
        entries = [part for entry in seen for part in entry]
        return output, *entries, *([] if scores is None else [scores + 0 * output.sum()]), ids

    assert_modules_agree(module, through, normal(rows * length, hidden, dtype=dtype), *others)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data(), st.integers(1, 110), st.integers(4, 70), st.integers(1, 24), DTYPES)
def test_expert_attention(data, tokens, hidden, experts, dtype):
    module, prepare = made(
        ExpertAttention,
        dtype,
        hidden_size=hidden,
        experts=experts,
        active_experts=data.draw(st.integers(1, experts)),
        expert_size=data.draw(st.sampled_from([8, 16, 72])),
        recurrent=data.draw(st.booleans()),
        routing_size=data.draw(st.sampled_from([4, 16, 36])),
    )
    assert_modules_agree(
        module, lambda x: module(x, prepare(), None, ())[:2], normal(tokens, hidden, dtype=dtype)
    )


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
def test_whichever_parameters_are_frozen(checkpointing):
    """Each parameter alone has the gradient that it has among all."""
    model, tokens = build(DR_DA), random_tokens()
    if checkpointing:
        recompute_activations(model)
    model(tokens).square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    for own in gradients:
        for frozen in (True, False):
            for name, parameter in model.named_parameters():
                parameter.requires_grad_((name == own) != frozen)
                parameter.grad = None
            model(tokens).square().sum().backward()
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    torch.testing.assert_close(
                        parameter.grad, gradients[name], msg=f"{own} {frozen} {name}"
                    )


@pytest.mark.parametrize("kind", [SequenceAttention, DepthAttention, ExpertAttention])
def test_tensors_may_lie_anyhow(kind):
    """Every second number of memory that holds no numbers in between."""
    sizes = {"head_size": 8, "depth_head_size": 8, "query_heads": 2, "key_value_heads": 1}
    module, prepare = made(
        kind, torch.float32, hidden_size=24, routing_size=4, depth=3, recurrent=True, **sizes
    )
    x, around = torch.randn(50, 24), context(torch.zeros(1, 50, dtype=torch.long), 8, torch.float32)
    found = []
    for strided in (False, True):
        for tensor in (x, *module.parameters()):
            if strided:
                tensor.data = torch.stack(
                    (tensor.data, torch.full_like(tensor, float("nan"))), dim=-1
                )[..., 0]
        output = module(x, prepare(), around, ()).output
        found.append([output, *torch.autograd.grad(output.square().sum(), module.parameters())])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_what_would_be_promoted_is_left_to_torch(monkeypatch):
    x, gain = torch.randn(50, 24), torch.randn(24, dtype=torch.float64)
    assert rms_norm(x, gain, 1e-6).dtype == torch.float64
    with pytest.raises((RuntimeError, ValueError)):
        rms_norm(x, torch.ones(23), 1e-6)
    module, prepare = made(ExpertAttention, torch.float32, hidden_size=24, routing_size=4)
    prepared = prepare()
    module.router.bias = module.router.bias.bfloat16()
    for name in ("NativeExperts", "NativeRoute"):
        monkeypatch.setattr(
            getattr(native, name),
            "apply",
            lambda *_: pytest.fail("this is not for the native engine"),
        )
    module(x, prepared, None, ())


@pytest.mark.parametrize(
    ("parameters", "products"), [("float32", "float64"), ("bfloat16", "float32")]
)
def test_a_network_of_several_precisions_is_the_same(parameters, products):
    torch.manual_seed(0)
    model = Dreamer(DR_DA, dtype=getattr(torch, products)).to(getattr(torch, parameters))
    found = model(random_tokens())
    with ops.engine("torch"):
        torch.testing.assert_close(found, model(random_tokens()), rtol=1e-3, atol=1e-4)


def test_what_is_not_finite_stays_visible():
    x = torch.randn(20, 16)
    x[7, 3] = float("nan")
    assert rms_norm(x, torch.ones(16), 1e-6)[7].isnan().all()
    module, prepare = made(
        ExpertAttention, torch.float32, hidden_size=16, routing_size=8, active_experts=2
    )
    output, ids, *_ = module(x, prepare(), None, ())
    assert ((ids >= 0) & (ids < 4)).all()
    assert output[7].isnan().all()
    assert output[torch.arange(20) != 7].isfinite().all()
    query = torch.randn(20, 2, 8)
    query[4] = float("inf")
    attended = NativeAttendSequence.apply(query, query, query, torch.zeros(20, dtype=torch.long))
    assert attended[4:].isnan().all()


def test_attention_far_from_zero_does_not_overflow():
    query = torch.full((9, 1, 4), 300.0)
    value = torch.arange(9.0).view(9, 1, 1).expand(9, 1, 4)
    attended = NativeAttendSequence.apply(query, query, value, torch.zeros(9, dtype=torch.long))
    # equal scores: the mean of all before
    torch.testing.assert_close(attended[:, 0, 0], torch.arange(9.0) / 2)


def test_another_default_device_changes_nothing():
    module, prepare = made(
        DepthAttention, torch.float32, hidden_size=16, routing_size=8, depth_head_size=8
    )
    x, around = torch.randn(20, 16), context(torch.zeros(1, 20, dtype=torch.long), 8, torch.float32)
    expected = module(x, prepare(), around, ()).output
    prepared = prepare()
    with torch.device("meta"):
        assert torch.equal(module(x, prepared, around, ()).output, expected)


@pytest.mark.slow
def test_what_torch_compiles_is_not_computed_here(monkeypatch):
    model, tokens = build(DR_DA, torch.float32), random_tokens()
    expected = model(tokens)
    compile_parts(model, backend="eager")
    for kernel in (NativeAttention, NativeExperts):
        monkeypatch.setattr(kernel, "apply", lambda *_: pytest.fail("this is compiled"))
    torch.testing.assert_close(model(tokens), expected)


PRIVATE = ("_current_graph_task_id", "_will_engine_execute_node")


def product(x: Tensor, weights: Tensor) -> Tensor:
    """Multiply each of 20 rows by one of three matrices; nobody chooses the second."""
    ends, tokens = torch.tensor([7, 7, 20], dtype=torch.int32), torch.arange(19, -1, -1)
    return NativeMixedProduct.apply(
        x, torch.linspace(0, 1, 20).double()[:, None], weights, None, tokens, ends
    )


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return double(20, 8), double(3, 8, 8)


def gradients(shared: bool) -> tuple[Tensor, ...]:
    """Gradients of weights that three products multiply, and of what they multiply, from two of
    three passes."""
    x, weights = inputs()
    multiplied, y = SharedWeights.apply(weights) if shared else weights, x
    for _ in range(3):
        y = torch.tanh(product(y, multiplied))
    loss = y.square().sum()
    # does not come to the weights, and leaves nothing to the next
    torch.autograd.grad(loss, x, retain_graph=True)
    first = torch.autograd.grad(loss, (weights, x), retain_graph=True)
    return *first, *torch.autograd.grad(loss, (weights, x))


@pytest.mark.parametrize("missing", [(), PRIVATE[:1], PRIVATE[1:], PRIVATE])
def test_shared_gradients_are_the_sums_of_the_products_own(missing, monkeypatch):
    expected = gradients(shared=False)
    for name in missing:
        monkeypatch.delattr(torch._C, name)
    for found, own in zip(gradients(shared=True), expected, strict=True):
        torch.testing.assert_close(found, own)


def test_shared_weights_may_meet_torch_too():
    """What comes to them from elsewhere is added; where nothing comes they have no gradient."""
    x, weights = inputs()
    shared = SharedWeights.apply(weights)
    multiplied = product(x, shared)
    (own,) = torch.autograd.grad(multiplied.sum(), weights, retain_graph=True)
    (both,) = torch.autograd.grad(multiplied.sum() + shared.sum(), weights, retain_graph=True)
    torch.testing.assert_close(both, own + 1)
    assert torch.autograd.grad(x.sum() + 0 * shared.detach().sum(), weights, allow_unused=True) == (
        None,
    )
    with pytest.raises(RuntimeError, match="cannot be differentiated"):
        torch.autograd.grad(multiplied.sum(), weights, create_graph=True)


def test_a_pass_within_a_pass_has_a_gradient_of_its_own():
    x, weights = inputs()
    shared = SharedWeights.apply(weights)
    between = torch.tanh(product(x, shared))
    loss = product(between, shared).square().sum()
    (expected,) = torch.autograd.grad(loss, weights, retain_graph=True)
    inner = []

    def within(_):
        if not inner:
            inner.append(None)
            inner[0] = torch.autograd.grad(loss, weights, retain_graph=True)[0]

    between.register_hook(within)
    (outer,) = torch.autograd.grad(loss, weights, retain_graph=True)
    assert torch.equal(outer, expected)
    assert torch.equal(inner[0], expected)
