"""The network: fast against reference, recurrence against a stack, caches against whole forwards, no leaks."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.cache import Cache
from model.config import MIXTURES, DreamerConfig
from model.context import document_positions
from model.dreamer import Dreamer
from model.kernels import rms_norm
from pipeline.errors import InputError

TINY = DreamerConfig(
    depth=3,
    vocabulary_size=50,
    hidden_size=16,
    query_heads=4,
    key_value_heads=2,
    head_size=8,
    depth_heads=2,
    depth_key_value_heads=1,
    depth_head_size=8,
    experts=5,
    active_experts=2,
    expert_size=8,
    routing_size=8,
)
LA, LA_DA, DR, DR_DA = (
    dataclasses.replace(TINY, recurrent=recurrent, depth_attention=depth_attention)
    for recurrent in (False, True)
    for depth_attention in (False, True)
)
VARIANTS = [pytest.param(config, id=config.variant) for config in (LA, LA_DA, DR, DR_DA)]


def build(config: DreamerConfig, dtype: torch.dtype = torch.float64) -> Dreamer:
    """A model that is not at its special starting point: gains differ from 1, biases from 0."""
    torch.manual_seed(1)
    model = Dreamer(config).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("gain"):
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.mul_(3)  # outputs that differ visibly between depths and experts
        for router in model.routers().values():
            router.bias.copy_(0.1 * torch.randn_like(router.bias))
    return model


def twin(model: Dreamer, **options) -> Dreamer:
    """The same weights with other options."""
    other = Dreamer(model.config, **options).to(model.embedding.dtype)
    other.load_state_dict(model.state_dict())
    return other


def random_tokens(batch: int = 2, length: int = 11) -> Tensor:
    return torch.randint(0, TINY.vocabulary_size, (batch, length), generator=torch.Generator().manual_seed(2))


def random_documents() -> Tensor:
    documents = torch.zeros(2, 11, dtype=torch.long)
    documents[0, 4:], documents[0, 9:] = 1, -1
    documents[1, 7:] = 5
    return documents


def gradients(model: Dreamer, tokens: Tensor, **options) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and all gradients of a loss in which every token and every logit takes part."""
    model.zero_grad()
    logits = model(tokens, **options)
    (F.cross_entropy(logits.flatten(0, 1), tokens.flatten()) + logits.square().mean()).backward()
    return logits.detach(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def assert_same_gradients(one: tuple[Tensor, dict[str, Tensor]], other: tuple[Tensor, dict[str, Tensor]], **tolerance):
    torch.testing.assert_close(one[0], other[0], **tolerance)
    assert one[1].keys() == other[1].keys()
    for name in one[1]:
        torch.testing.assert_close(one[1][name], other[1][name], **tolerance, msg=lambda text, n=name: f"{n}: {text}")


# Fast against reference


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("config", VARIANTS)
def test_fast_equals_reference_in_outputs_gradients_and_counts(config, mixture):
    fast = build(dataclasses.replace(config, mixture=mixture))
    slow = twin(fast, reference=True)
    options = {"documents": random_documents()}
    assert_same_gradients(gradients(fast, random_tokens(), **options), gradients(slow, random_tokens(), **options))
    counts, expected = fast.expert_counts(), slow.expert_counts()
    assert all((counts[name] == expected[name]).all() for name in expected)


@pytest.mark.parametrize(
    "change",
    [
        {"depth_window": 2},
        {"depth_heads": 4, "depth_key_value_heads": 4},
        {"depth_heads": 1},
        {"key_value_heads": 4},
        {"key_value_heads": 1},
        {"experts": 40, "active_experts": 1},
        {"depth": 1},
        {"shared_expert": False},
        {"hidden_size": 18, "head_size": 6, "routing_size": 4},  # rows that torch's grouped product does not take
    ],
    ids=str,
)
def test_fast_equals_reference_for_other_sizes(change):
    fast = build(dataclasses.replace(DR_DA, **change))
    slow = twin(fast, reference=True)
    assert_same_gradients(gradients(fast, random_tokens()), gradients(slow, random_tokens()))


@pytest.mark.parametrize("config", VARIANTS)
def test_fast_equals_reference_in_float32(config):
    fast = build(config, torch.float32)
    slow = twin(fast, reference=True)
    tolerance = {"atol": 2e-5, "rtol": 1e-3}
    assert_same_gradients(gradients(fast, random_tokens()), gradients(slow, random_tokens()), **tolerance)


@pytest.mark.parametrize("config", VARIANTS)
def test_bfloat16_products_stay_near(config):
    """Other experts are chosen where two scores are nearly equal, so single tokens may differ; most must not."""
    model = build(config, torch.float32)
    narrow = twin(model, dtype=torch.bfloat16)
    exact, near = gradients(model, random_tokens(4, 64)), gradients(narrow, random_tokens(4, 64))
    assert near[0].dtype == torch.bfloat16
    error = (near[0].float() - exact[0]).abs().amax(dim=-1).flatten() / exact[0].abs().amax(dim=-1).flatten()
    assert error.median() < 0.05
    assert all(gradient.dtype == torch.float32 for gradient in near[1].values())
    similarity = F.cosine_similarity(near[1]["embedding"].flatten(), exact[1]["embedding"].flatten(), dim=0)
    assert similarity > 0.97


# Recurrence


def unrolled(model: Dreamer, tokens: Tensor) -> tuple[Tensor, nn.ModuleList]:
    """The logits of a stack with a copy of the shared block at every depth, and the copies."""
    blocks = nn.ModuleList(copy.deepcopy(model.blocks[0]) for _ in range(model.config.depth))
    context = model._context(tokens, None, None, None, len(blocks), model.embedding.dtype)
    x, histories = model.norm(model.embedding[tokens.flatten()]), {}
    for depth, block in enumerate(blocks):
        prepared = block.prepare(model.embedding.dtype, context.routing_code)[depth]
        x, results = block(x, prepared, context, depth, histories)
        histories = {name: result.history for name, result in results.items()}
        x = model.norm(x)
    return (x @ model.head.T).view(*tokens.shape, -1), blocks


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("config", [DR, DR_DA], ids=["DR", "DR+DA"])
def test_recurrence_is_a_stack_of_equal_layers(config, depth):
    model = build(dataclasses.replace(config, depth=depth))
    tokens = random_tokens()
    logits = model(tokens)
    logits.square().sum().backward()
    stacked, blocks = unrolled(model, tokens)
    torch.testing.assert_close(stacked, logits)
    stacked.square().sum().backward()
    for name, parameter in model.blocks[0].named_parameters():
        together = sum(dict(block.named_parameters())[name].grad for block in blocks)
        torch.testing.assert_close(together, parameter.grad / 2 if name == "gain" else parameter.grad)


def test_layered_and_recurrent_are_the_same_network_at_depth_1():
    """With a bank of one projection, routers that do not look at the depth, and an embedding already normalised."""
    layered = build(dataclasses.replace(LA, depth=1, norm_epsilon=1e-12))
    recurrent = build(dataclasses.replace(DR, depth=1, norm_epsilon=1e-12, shared_expert=False))
    with torch.no_grad():
        for part in ("embedding", "head", "gain"):
            getattr(recurrent, part).copy_(getattr(layered, part))
        recurrent.gain.fill_(1.0)
        layered.gain.fill_(1.0)
        source, target = layered.blocks[0].attentions, recurrent.blocks[0].attentions
        target["experts"].load_state_dict(source["experts"].state_dict())
        for gain in ("gain", "query_gain", "key_gain"):
            getattr(target["sequence"], gain).copy_(getattr(source["sequence"], gain))
        # Values and updates are each scaled by the score of the one expert, so a score of a half is undone beforehand.
        target["sequence"].projections.router.keys.normal_()
        target["sequence"].projections.router.query.zero_()
        target["sequence"].projections.inward[0] = 2 * source["sequence"].projections.inward
        target["sequence"].projections.outward[0] = 2 * source["sequence"].projections.outward
        target["experts"].router.query.zero_()  # without a query no depth code either
        source["experts"].router.query.zero_()
        layered.embedding.copy_(rms_norm(layered.embedding, layered.gain, layered.config.norm_epsilon))
        recurrent.embedding.copy_(layered.embedding)
    torch.testing.assert_close(layered(random_tokens()), recurrent(random_tokens()))


@pytest.mark.parametrize("config", [DR, DR_DA], ids=["DR", "DR+DA"])
def test_other_depths_run_on_the_same_weights(config):
    model = build(config).eval()
    tokens = random_tokens()
    outputs = [model(tokens, depth=depth) for depth in (1, 2, 3, 7)]
    torch.testing.assert_close(outputs[2], model(tokens))
    assert all(output.isfinite().all() for output in outputs)
    assert not torch.allclose(outputs[1], outputs[2])
    reference = twin(model, reference=True).eval()
    torch.testing.assert_close(outputs[3], reference(tokens, depth=7))


def test_a_depth_that_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="exactly 3 layers"):
        build(LA)(random_tokens(), depth=4)
    with pytest.raises(InputError, match="at least 1"):
        build(DR)(random_tokens(), depth=0)


# What must not leak


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("config", VARIANTS)
def test_no_token_sees_a_later_one(config, mixture):
    model = build(dataclasses.replace(config, mixture=mixture))
    tokens = random_tokens()
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % TINY.vocabulary_size
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :6], after[:, :6], atol=1e-12, rtol=0)
    assert not torch.allclose(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("config", VARIANTS)
def test_packed_documents_are_read_as_if_alone(config):
    model, tokens, documents = build(config), random_tokens(), random_documents()
    packed = model(tokens, documents=documents)
    for row, start, end in ((0, 0, 4), (0, 4, 9), (1, 0, 7), (1, 7, 11)):
        torch.testing.assert_close(packed[row, start:end], model(tokens[row : row + 1, start:end])[0])


def test_positions_restart_with_each_document():
    assert document_positions(random_documents()).tolist() == [
        [0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1],
        [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3],
    ]
    model, tokens, documents = build(DR_DA), random_tokens(), random_documents()
    positions = document_positions(documents)
    torch.testing.assert_close(
        model(tokens, documents=documents, positions=positions), model(tokens, documents=documents)
    )
    # Only distances matter to RoPE itself; gains behind it, once learned, let absolute positions through.
    shifted = model(tokens, documents=documents, positions=positions + 100)
    assert not torch.allclose(shifted, model(tokens, documents=documents))
    fresh = Dreamer(DR_DA).double()
    shifted = fresh(tokens, documents=documents, positions=positions + 100)
    torch.testing.assert_close(shifted, fresh(tokens, documents=documents))


def test_no_depth_sees_a_later_one():
    """What depth 2 attends to has no gradient from, and no score for, anything computed at depth 3."""
    model = build(DR_DA)
    results = []
    model(random_tokens(), observer=lambda depth, name, result: results.append(result) if name == "depth" else None)
    assert [result.scores.shape[-1] for result in results] == [1, 2, 3]
    assert [len(result.history) for result in results] == [1, 2, 3]
    key, _ = results[2].history[2]
    earlier, _ = results[0].history[0]
    assert torch.autograd.grad(results[1].update.sum(), key, allow_unused=True, retain_graph=True) == (None,)
    assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(results[2].update.sum(), (key, earlier)))


def test_a_window_hides_older_depths():
    scores = []
    model = build(dataclasses.replace(DR_DA, depth=4, depth_window=2))
    model(random_tokens(), observer=lambda _, name, result: scores.append(result.scores) if name == "depth" else None)
    assert [score.shape[-1] for score in scores] == [1, 2, 2, 2]


# Caches


@pytest.mark.parametrize("config", VARIANTS)
def test_prefill_and_steps_equal_whole_forwards_for_different_lengths(config):
    model, tokens = build(config).eval(), random_tokens(3, 12)
    prompts = [5, 2, 7]
    cache = Cache(config, 3, 12, dtype=torch.float64)
    padded = torch.zeros(3, 7, dtype=torch.long)
    for row, length in enumerate(prompts):
        padded[row, :length] = tokens[row, :length]
    prefill = model(padded, cache=cache, lengths=torch.tensor(prompts))
    for row, length in enumerate(prompts):
        torch.testing.assert_close(prefill[row, :length], model(tokens[row : row + 1, :length])[0])
    assert cache.lengths.tolist() == prompts
    for step in range(5):
        new = torch.stack([tokens[row, length + step] for row, length in enumerate(prompts)])[:, None]
        stepped = model(new, cache=cache)
        for row, length in enumerate(prompts):
            whole = model(tokens[row : row + 1, : length + step + 1])
            torch.testing.assert_close(stepped[row, 0], whole[0, -1])


def test_several_tokens_at_once_behind_a_filled_cache():
    model, tokens = build(DR_DA).eval(), random_tokens(2, 11)
    cache = Cache(DR_DA, 2, 11, dtype=torch.float64)
    parts = [model(tokens[:, start:end], cache=cache) for start, end in ((0, 4), (4, 9), (9, 11))]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens))


def test_a_cache_for_another_depth():
    model, tokens = build(DR_DA).eval(), random_tokens()
    cache = Cache(DR_DA, 2, 11, dtype=torch.float64, depth=5)
    parts = [model(tokens[:, start:end], cache=cache, depth=5) for start, end in ((0, 10), (10, 11))]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens, depth=5))


def test_a_full_cache_and_mixed_uses_are_refused():
    model, tokens = build(DR), random_tokens()
    cache = Cache(DR, 2, 12, dtype=torch.float64)
    model(tokens, cache=cache)
    with pytest.raises(InputError, match="room for 12 positions: 11 are filled, 2 more"):
        model(tokens[:, :2], cache=cache)
    with pytest.raises(InputError, match="depth 2 cannot use this cache: it is for depth 3"):
        model(tokens[:, :1], cache=cache, depth=2)
    with pytest.raises(InputError, match="the reference has none"):
        twin(model, reference=True)(tokens[:, :1], cache=cache)
    with pytest.raises(InputError, match="neither documents nor positions"):
        model(tokens[:, :1], cache=cache, documents=torch.zeros(2, 1, dtype=torch.long))


# Balance


@pytest.mark.parametrize("config", VARIANTS)
def test_evaluation_moves_nothing(config):
    model = build(config).eval()
    before = copy.deepcopy(model.state_dict())
    model(random_tokens())
    assert all((before[name] == value).all() for name, value in model.state_dict().items())
    assert all((counts == 0).all() for counts in model.expert_counts().values())


@pytest.mark.parametrize("config", VARIANTS)
def test_counts_cover_all_depths_and_leave_out_padding(config):
    model = build(config)
    model(random_tokens(), documents=random_documents())
    real, depths = 20, config.depth if config.recurrent else 1
    for name, counts in model.expert_counts().items():
        active = config.active_experts if ".experts." in name else 1
        assert counts.sum() == real * depths * active


@pytest.mark.parametrize("config", VARIANTS)
def test_micro_batches_count_as_one_batch(config):
    tokens = random_tokens(4)
    whole, parts = build(config), build(config)
    whole(tokens)
    for part in tokens.split(1):
        parts(part)
    whole.update_balance()
    parts.update_balance()
    for name, router in whole.routers().items():
        assert (router.bias == parts.routers()[name].bias).all()
        assert not (router.bias == build(config).routers()[name].bias).all()


def _count_on_one_rank(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = build(DR_DA)
    model(random_tokens(4).chunk(2)[rank])
    model.update_balance()
    torch.save({name: router.bias for name, router in model.routers().items()}, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_ranks_count_together(tmp_path):
    torch.multiprocessing.spawn(_count_on_one_rank, (str(tmp_path),), nprocs=2)
    whole = build(DR_DA)
    whole(random_tokens(4))
    whole.update_balance()
    for rank in range(2):
        biases = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert all((biases[name] == router.bias).all() for name, router in whole.routers().items())


@pytest.mark.parametrize("config", VARIANTS)
def test_checkpointing_changes_neither_gradients_nor_counts(config):
    plain = build(config)
    checkpointed = twin(plain, checkpointing=True)
    expected, found = gradients(plain, random_tokens()), gradients(checkpointed, random_tokens())
    assert_same_gradients(found, expected, atol=0, rtol=0)
    counts, wanted = checkpointed.expert_counts(), plain.expert_counts()
    assert all((counts[name] == wanted[name]).all() for name in wanted)


# Weights


@pytest.mark.parametrize("config", VARIANTS)
def test_merged_weights_give_the_same_outputs(config):
    model = build(config)
    merged = model.merged()
    torch.testing.assert_close(merged(random_tokens()), model(random_tokens()))
    assert not any("shared" in name for name in merged.state_dict())
    assert merged.merged().state_dict().keys() == merged.state_dict().keys()
    reloaded = Dreamer(DreamerConfig.from_dict(merged.config.to_dict())).double()
    reloaded.load_state_dict(merged.state_dict())
    torch.testing.assert_close(reloaded(random_tokens()), model(random_tokens()))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("depth_attention", [False, True])
def test_initialisation_is_table_3_and_the_first_loss_ln_v(recurrent, depth_attention):
    torch.manual_seed(0)
    config = DreamerConfig(
        depth=4,
        recurrent=recurrent,
        depth_attention=depth_attention,
        vocabulary_size=512,
        hidden_size=64,
        query_heads=2,
        key_value_heads=2,
        head_size=32,
        depth_head_size=32,
        experts=8,
        active_experts=2,
        expert_size=64,
        routing_size=16,
    )
    model = Dreamer(config)
    dimensions = 3 if depth_attention else 2
    for name, parameter in model.named_parameters():
        if name.endswith("gain"):
            assert (parameter == 1).all()
        elif parameter.numel() > 2000:
            variance = 1 / (2.5 * 64 * 4 * dimensions) if name.endswith("outward") else 1 / (5 * 64)
            assert parameter.var().item() == pytest.approx(variance, rel=0.15), name
    tokens = torch.randint(0, 512, (8, 64))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), torch.randint(0, 512, (8 * 64,)))
    assert loss.item() == pytest.approx(math.log(512), rel=0.02)
    decayed, undecayed = model.decayed_parameters(), model.undecayed_parameters()
    assert len(decayed) + len(undecayed) == len(list(model.parameters()))
    assert all(parameter.ndim == 1 for parameter in undecayed)


@pytest.mark.parametrize("config", VARIANTS)
def test_a_few_steps_of_training_learn(config):
    torch.manual_seed(0)
    model = Dreamer(dataclasses.replace(config, depth=2))
    tokens = random_tokens(4, 16)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        model.update_balance()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("config", VARIANTS)
def test_compiled_once_for_all_depths_and_steps(config):
    """Traced without a compiler behind it: nothing that changes with the depth may ask for a new graph."""
    from torch._dynamo import config as dynamo
    from torch._dynamo import utils as dynamo_utils

    torch._dynamo.reset()
    dynamo_utils.counters.clear()
    model = twin(build(dataclasses.replace(config, depth=6), torch.float32), dtype=torch.bfloat16)
    compiled = twin(model, dtype=torch.bfloat16)
    compiled.compile(backend="aot_eager", dynamic=False)
    expected = gradients(model, random_tokens(), documents=random_documents())
    assert_same_gradients(
        gradients(compiled, random_tokens(), documents=random_documents()), expected, atol=0.05, rtol=0.05
    )
    graphs = dynamo_utils.counters["stats"]["unique_graphs"]
    assert graphs <= (5 if config.depth_attention else 3)
    assert not dynamo_utils.counters["graph_break"]
    with dynamo.patch(error_on_recompile=True):
        gradients(compiled, random_tokens().flip(0), documents=random_documents())
    assert dynamo_utils.counters["stats"]["unique_graphs"] == graphs
