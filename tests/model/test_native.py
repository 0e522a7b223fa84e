"""native.c beside torch's own operations: the same values and gradients for all sizes; and how it is compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from compiler import COMPILER
from hypothesis import given, settings
from hypothesis import strategies as st

from model import native
from model.config import dr_da
from model.context import document_mask, document_starts, position_code
from model.dreamer import Dreamer
from model.kernels import attend_depth, dispatch, mixed_product, rms_norm, route, split_heads, swiglu_experts
from model.native_kernels import NativeAttendSequence

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")
sizes = st.integers(1, 70)  # below, at and above whole vectors, tiles and blocks
DTYPES = st.sampled_from([torch.float32, torch.float64])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def normal(*shape, dtype):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def chosen(tokens, experts, active):
    """Some experts are left out altogether."""
    usable = torch.randperm(experts)[: max(active, experts // 2)]
    return torch.stack([usable[torch.randperm(len(usable))[:active]] for _ in range(tokens)])


def assert_both_ways_agree(function, *inputs):
    """Values and all gradients of `function`, natively and by torch, within rounding."""
    assert native.takes(*inputs)
    results = []
    for runs in (native.runs, lambda device, dtype: False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "runs", runs)
            outputs = function(*inputs)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        torch.manual_seed(1)
        directions = [torch.randn_like(each) for each in outputs]
        results.append([*outputs, *torch.autograd.grad(outputs, inputs, directions)])
    for one, other in zip(*results, strict=True):
        assert one.isfinite().all()
        tolerance = 1e-12 if one.dtype == torch.float64 else 2e-5
        assert (one - other).abs().max() <= tolerance * (1 + other.abs().max())


@needs_compiler
@settings(max_examples=30, deadline=None)
@given(sizes, sizes, DTYPES)
def test_norm(tokens, width, dtype):
    assert_both_ways_agree(
        lambda x, gain: rms_norm(x, gain, 1e-6), normal(tokens, width, dtype=dtype), normal(width, dtype=dtype)
    )


@needs_compiler
@settings(max_examples=30, deadline=None)
@given(sizes, st.integers(1, 4), st.integers(1, 3), st.sampled_from([2, 6, 16, 32]), st.booleans(), DTYPES)
def test_heads(tokens, queries, keys, size, one_code, dtype):
    code = position_code(torch.arange(1 if one_code else tokens), size, 100.0, dtype).unsqueeze(1)
    assert_both_ways_agree(
        lambda projected, *gains: split_heads(projected, *gains, (queries, keys), 1e-6, code),
        normal(tokens, (queries + 2 * keys) * size, dtype=dtype),
        normal(size, dtype=dtype),
        normal(size, dtype=dtype),
    )


@needs_compiler
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 110), sizes, st.integers(1, 40), st.integers(2, 24), st.booleans(), st.data())
def test_routing_chooses_and_weighs_alike(tokens, hidden, size, experts, normalised, data):
    active = data.draw(st.integers(1, experts))
    dtype = torch.float64  # where no two scores are so near that rounding could choose
    bias = torch.randn(experts, dtype=dtype)
    ids = []

    def weights(x, query, keys):
        found, values = route(x, query, keys, bias, active, normalised, 1e-6)
        ordered = found.sort(dim=-1)
        ids.append(ordered.values)
        return values.gather(-1, ordered.indices)

    assert_both_ways_agree(
        weights,
        normal(tokens, hidden, dtype=dtype),
        normal(hidden, size, dtype=dtype),
        normal(experts, size, dtype=dtype),
    )
    assert (ids[0] == ids[1]).all()


@needs_compiler
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 110), st.integers(1, 9), sizes, sizes, st.booleans(), DTYPES)
def test_mixture(tokens, experts, inputs, outputs, shared, dtype):
    to = dispatch(chosen(tokens, experts, 1), experts)
    common = normal(inputs, outputs, dtype=dtype).detach() if shared else None
    assert_both_ways_agree(
        lambda x, scores, merged: mixed_product(x, scores, merged, common, to),
        normal(tokens, inputs, dtype=dtype),
        normal(tokens, 1, dtype=dtype),
        normal(experts, inputs, outputs, dtype=dtype),
    )


@needs_compiler
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 110), st.integers(2, 9), sizes, sizes, DTYPES)
def test_experts(tokens, experts, hidden, size, dtype):
    to = dispatch(chosen(tokens, experts, 2), experts)
    assert_both_ways_agree(
        lambda *tensors: swiglu_experts(*tensors, to),
        normal(tokens, hidden, dtype=dtype),
        normal(tokens, 2, dtype=dtype),
        normal(experts, hidden, 2 * size, dtype=dtype),
        normal(experts, size, hidden, dtype=dtype),
    )


@needs_compiler
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 2), st.integers(1, 40), st.integers(1, 5), DTYPES)
def test_depth_attention(tokens, keys, share, size, depths, dtype):
    assert_both_ways_agree(
        lambda query, *entries: attend_depth(query, list(entries[:depths]), list(entries[depths:]))[0],
        normal(tokens, keys * share, size, dtype=dtype),
        *[normal(tokens, keys, size, dtype=dtype) for _ in range(2 * depths)],
    )


@needs_compiler
@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 70), st.integers(1, 2), st.integers(1, 3), st.integers(1, 40), DTYPES, st.data()
)
def test_sequence_attention_is_attention_within_documents(rows, length, keys, share, size, dtype, data):
    cuts = data.draw(st.lists(st.booleans(), min_size=rows * length, max_size=rows * length))
    documents = torch.tensor(cuts).view(rows, length).cumsum(dim=1) % 2  # a label that comes back is another document
    mask = document_mask(documents, dtype)

    def plain(query, key, value):
        query, key, value = (each.unflatten(0, (rows, length)).transpose(1, 2) for each in (query, key, value))
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)

    def attended(query, key, value):
        if native.runs(query.device, query.dtype):
            return NativeAttendSequence.apply(query, key, value, document_starts(documents))
        return plain(query, key, value).transpose(1, 2).flatten(0, 1)

    shapes = (rows * length, keys * share, size), (rows * length, keys, size), (rows * length, keys, size)
    assert_both_ways_agree(attended, *[normal(*shape, dtype=dtype) for shape in shapes])


def kernels(lay):
    """What all kernels give, the tensors beside x laid out by `lay`."""
    torch.manual_seed(0)
    code = position_code(torch.arange(50), 8, 100.0, torch.float32).unsqueeze(1)
    side = lambda *shape: lay(torch.randn(*shape))  # noqa: E731
    x, ids = torch.randn(50, 24), torch.randint(0, 5, (50, 1))
    one, two = dispatch(ids, 5), dispatch(chosen(50, 5, 2), 5)
    yield "norm", rms_norm(x, side(24), 1)
    for number, part in enumerate(split_heads(x, side(8), side(8), (1, 1), 1, code)):
        yield f"heads {number}", part
    yield "route", route(x, torch.randn(24, 6), torch.randn(5, 6), side(5), 2, True, 1)[1].sum(dim=-1)
    yield "mixture", mixed_product(x, side(50, 1), torch.randn(5, 24, 7), None, one)
    merged, shared = side(5, 24, 7).requires_grad_(), side(24, 7)
    scores = torch.randn(50, 1).requires_grad_()
    output = mixed_product(x, scores, merged, shared, one)
    yield "shared", torch.autograd.grad(output.square().sum(), scores)[0]
    yield "experts", swiglu_experts(x, side(50, 2), torch.randn(5, 24, 14), torch.randn(5, 7, 24), two)
    yield "depth", attend_depth(torch.randn(50, 2, 8), [side(50, 2, 8)], [side(50, 2, 8)])[0]


def strided(x):
    return torch.stack((x, torch.full_like(x, float("nan"))), dim=-1)[..., 0]


@needs_compiler
@pytest.mark.parametrize("lay", [lambda x: x, strided])
def test_tensors_may_lie_anyhow(lay, monkeypatch):
    assert native.takes(lay(torch.randn(3)))
    found = dict(kernels(lay))
    monkeypatch.setattr(native, "runs", lambda device, dtype: False)
    for name, expected in kernels(lay):
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-5, msg=name)


@needs_compiler
def test_what_would_be_promoted_is_left_to_torch(monkeypatch):
    x, gain = torch.randn(50, 24), torch.randn(24, dtype=torch.float64)
    assert rms_norm(x, gain, 1e-6).dtype == torch.float64
    with pytest.raises(RuntimeError):
        rms_norm(x, torch.ones(23), 1e-6)
    monkeypatch.setattr(native, "library", lambda real: pytest.fail("this is not for native.c"))
    bias = torch.randn(5, dtype=torch.bfloat16)
    monkeypatch.setattr(native, "runs", lambda device, dtype: dtype != torch.long)  # `dispatch` stays with torch
    route(x, torch.randn(24, 6), torch.randn(5, 6), bias, 2, True, 1e-6)


@needs_compiler
@pytest.mark.parametrize(("parameters", "products"), [("float32", "float64"), ("bfloat16", "float32")])
def test_a_network_of_several_precisions_is_the_same(parameters, products, monkeypatch):
    torch.manual_seed(0)
    sizes = {"vocabulary_size": 40, "hidden_size": 32, "head_size": 8, "query_heads": 2, "key_value_heads": 1}
    config = dr_da(2, **sizes, sequence_length=16, experts=6, active_experts=2, expert_size=16, routing_size=8)
    model = Dreamer(config, dtype=getattr(torch, products)).to(getattr(torch, parameters))
    tokens = torch.randint(0, 40, (2, 16))
    found = model(tokens)
    monkeypatch.setattr(native, "runs", lambda device, dtype: False)
    torch.testing.assert_close(found, model(tokens), rtol=1e-3, atol=1e-4)


@needs_compiler
def test_what_is_not_finite_stays_visible():
    x = torch.randn(20, 16)
    x[7, 3] = float("nan")
    assert rms_norm(x, torch.ones(16), 1e-6)[7].isnan().all()
    ids, weights = route(x, torch.randn(16, 8), torch.randn(5, 8), torch.zeros(5), 2, True, 1e-6)
    assert ((ids >= 0) & (ids < 5)).all()
    assert weights[7].isnan().all()
    assert weights[:7].isfinite().all()
    output = swiglu_experts(x, weights, torch.randn(5, 16, 32), torch.randn(5, 16, 16), dispatch(ids, 5))
    assert output[7].isnan().all()
    query = torch.randn(20, 2, 8)
    query[4] = float("inf")
    attended = NativeAttendSequence.apply(query, query, query, torch.zeros(20, dtype=torch.long))
    assert attended[4:].isnan().all()


@needs_compiler
def test_attention_far_from_zero_does_not_overflow():
    query = torch.full((9, 1, 4), 300.0)
    value = torch.arange(9.0).view(9, 1, 1).expand(9, 1, 4)
    attended = NativeAttendSequence.apply(query, query, value, torch.zeros(9, dtype=torch.long))
    torch.testing.assert_close(attended[:, 0, 0], torch.arange(9.0) / 2)  # equal scores: the mean of all before


@needs_compiler
def test_several_threads_are_left_to_torch():
    assert native.runs(torch.device("cpu"), torch.float32)
    torch.set_num_threads(2)
    assert not native.runs(torch.device("cpu"), torch.float32)
    torch.set_num_threads(1)
    assert not native.runs(torch.device("cpu"), torch.bfloat16)
    assert not native.runs(torch.device("meta"), torch.float32)


USE = """
import torch
from model import native
torch.set_num_threads(1)
print(native.runs(torch.device("cpu"), torch.float32))
"""


def use(cache, **environment):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "DREAMER_NATIVE": "", **environment}
    command = [sys.executable, "-c", USE]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@needs_compiler
def test_processes_that_compile_at_once_do_not_disturb_each_other(tmp_path):
    processes = [use(tmp_path) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in processes] == ["True"] * 3
    assert len(list((tmp_path / "dreamer").iterdir())) == 1
    made = next((tmp_path / "dreamer").iterdir())
    before = made.stat().st_mtime_ns
    assert use(tmp_path, CC="no-such-compiler").communicate()[0].strip() == "False"  # another compiler, another file
    assert use(tmp_path).communicate()[0].strip() == "True"
    assert made.stat().st_mtime_ns == before  # compiled once


@needs_compiler
def test_a_damaged_library_is_made_again(tmp_path):
    assert use(tmp_path).communicate()[0].strip() == "True"
    made = next((tmp_path / "dreamer").iterdir())
    made.write_bytes(b"")
    assert use(tmp_path).communicate() == ("True\n", "")
    assert made.stat().st_size


@pytest.mark.parametrize("compiler", ["no-such-compiler", '"cc'])
def test_without_a_compiler_torch_computes_and_it_is_said_once(tmp_path, compiler):
    said, warned = use(tmp_path, CC=compiler).communicate()
    assert said.strip() == "False"
    assert warned.count("native.c cannot be used") == 1
    assert use(tmp_path, DREAMER_NATIVE="0").communicate() == ("False\n", "")


def test_a_cache_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "dreamer").write_text("a file in the way")
    assert use(tmp_path).communicate()[0].strip() == "False"
