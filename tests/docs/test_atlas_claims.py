"""The claims of the atlas's protocol are judged by its rules, from the rows of the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dreamer_study.flows.atlas import bundled
from dreamer_study.flows.atlas.table import read_atlas
from tests.docs.scripts import script
from tests.flows.atlas.made_up import made_up_world

CLAIMS = script("atlas/claims.py")
Span = CLAIMS.Span
ABOVE, BELOW, AROUND = Span(1.5, 1.2, 1.9), Span(0.7, 0.6, 0.9), Span(1.1, 0.9, 1.4)
FAR_ABOVE, AT_LEAST = Span(4.0, 3.0, 5.0), Span(np.nan, 2.5, np.nan)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the made-up world, which takes ten seconds."""
    folder = tmp_path_factory.mktemp("atlas")
    made_up_world(folder)
    return folder


@pytest.fixture
def tiny(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The made-up world in the place of the package's."""
    monkeypatch.setattr(bundled, "WORLDS", made_up / "worlds")
    monkeypatch.setenv("XDG_CACHE_HOME", str(made_up / "cache"))
    return "tiny"


@pytest.mark.slow
def test_a_mean_of_ratios_is_their_geometric_mean(tiny: str) -> None:
    ratios = read_atlas(tiny).ratios
    is_average = (ratios["task"] == "average") & (ratios["metric"] == "accuracy")
    own = ratios[is_average].set_index("variant")["ratio"]
    for variant in ("DR", "RWKV"):
        mean, _ = CLAIMS.mean_ratio(tiny, [variant], ["LA"])
        assert mean.value == pytest.approx(own[variant])
        assert mean.low < mean.value < mean.high
    both, missing = CLAIMS.mean_ratio(tiny, ["DR", "RWKV"], ["LA"])
    assert missing == []
    assert both.value == pytest.approx(np.sqrt(own["DR"] * own["RWKV"]))
    inverse, _ = CLAIMS.mean_ratio(tiny, ["LA"], ["DR"])
    assert inverse.value == pytest.approx(1 / own["DR"])


def test_the_interval_of_a_mean_leaves_out_one_seed_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two seeds: the standard error is half of what the two means differ by, t is 12.706."""
    logs = {
        "A": np.log([2.0, 2.2, 1.8]),  # with both seeds, without the first, without the second
        "B": np.log([3.0, 3.0, 2.8]),
        "C": np.array([np.log(4.0), np.nan, 1.0]),  # no common score without the first seed
    }
    monkeypatch.setattr(CLAIMS, "average_curves", lambda _: dict.fromkeys(("LA", *logs)) | logs)
    monkeypatch.setattr(CLAIMS, "log_ratios", lambda _, variant: variant)
    mean, missing = CLAIMS.mean_ratio("world", ["A", "B", "C"], ["LA"])
    assert missing == [("C", "LA")]
    assert mean.value == pytest.approx(np.sqrt(2.0 * 3.0))
    differ = np.log(2.2 * 3.0 / (1.8 * 2.8)) / 2
    assert np.log(mean.high / mean.value) == pytest.approx(12.706 * differ / 2, rel=1e-4)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (Span(2.0, 1.5, 2.5), "2.00x (1.50 to 2.50)"),
        (Span(2.0, np.nan, np.nan), "2.00x"),
        (Span(np.nan, 2.5, np.nan), "≥ 2.50x"),
        (Span(np.nan, np.nan, 0.2), "≤ 0.20x"),
        (Span(np.nan, np.nan, np.nan), "no ratio"),
    ],
)
def test_a_ratio_in_words(span: object, words: str) -> None:
    assert CLAIMS.in_times(span) == words


def test_accuracies_of_equal_seeds_have_no_interval() -> None:
    assert CLAIMS.percent(Span(1.0, 1.0, 1.0)) == "100.0 % at every seed"
    assert CLAIMS.percent(Span(0.96, 0.89, 1.04)) == "96.0 % (89.0 to 100.0)"


@pytest.mark.slow
def test_ratios_over_another_architecture_than_the_baseline(tiny: str) -> None:
    over_llama = CLAIMS.ratios_over(tiny, "Llama", "world_recall")
    ratios = read_atlas(tiny).ratios
    is_recall = (ratios["task"] == "world_recall") & (ratios["metric"] == "accuracy")
    llama = ratios[is_recall].set_index("variant").loc["Llama"]
    assert over_llama["LA"].value == pytest.approx(1 / llama["ratio"])
    assert over_llama["LA"].low == pytest.approx(1 / llama["high"], rel=0.05)  # other replicates
    assert np.isnan(over_llama["LSTM"].value)  # which never learns recall
    assert over_llama["LSTM"].lies_above(1)


@pytest.mark.slow
def test_the_best_accuracy_is_at_one_checkpoint(tiny: str) -> None:
    best = CLAIMS.best_accuracy(tiny, "RWKV", "world_recall")
    ratios = read_atlas(tiny).ratios
    rows = ratios[(ratios["task"] == "world_recall") & (ratios["metric"] == "accuracy")]
    assert best.value == pytest.approx(rows.set_index("variant").loc["RWKV", "best"])
    assert best.low < best.value < best.high


@pytest.mark.slow
def test_a_claim_is_open_while_what_it_needs_has_no_row(tiny: str) -> None:
    seen, judge = CLAIMS.Verdict("confirmed", ""), CLAIMS.if_measured
    assert judge(lambda: seen, {tiny: ["LA", "Llama"]}) is seen
    waiting = judge(lambda: seen, {tiny: ["LA", "Jamba"], "elsewhere": ["LA"]})
    assert waiting == CLAIMS.Verdict("open", "not measured yet: Jamba (tiny); LA (elsewhere)")
    # Mamba is left out of this world, with a reason
    left_out = judge(lambda: seen, {tiny: ["LA", "Mamba"]})
    assert left_out == CLAIMS.Verdict("open", "could not be measured: Mamba (tiny)")
    assert judge(lambda: seen, {tiny: ["LA", "Mamba"]}, may_be_left_out=["Mamba"]) is seen


@pytest.mark.parametrize(
    ("attention", "mamba", "verdict"),
    [(0.4, 0.95, "confirmed"), (0.95, 0.4, "refuted"), (0.6, 0.95, "open"), (0.4, 0.8, "open")],
)
def test_one_layer(
    monkeypatch: pytest.MonkeyPatch, attention: float, mamba: float, verdict: str
) -> None:
    bests = {"Llama-1": attention, "Mamba-1": mamba}
    monkeypatch.setattr(CLAIMS, "best_accuracy", lambda _, name, __: Span(bests[name], 0.0, 1.0))
    assert CLAIMS.one_layer().verdict == verdict


@pytest.mark.parametrize(
    ("ten", "thirty", "verdict"),
    [
        (ABOVE, FAR_ABOVE, "confirmed"),
        (ABOVE, AT_LEAST, "confirmed"),
        (ABOVE, AROUND, "open"),
        (AROUND, FAR_ABOVE, "open"),
        (BELOW, FAR_ABOVE, "refuted"),
        (FAR_ABOVE, ABOVE, "refuted"),
        (FAR_ABOVE, Span(np.nan, np.nan, np.nan), "open"),  # none learned with 30 pairs
    ],
)
def test_more_pairs(
    monkeypatch: pytest.MonkeyPatch, ten: object, thirty: object, verdict: str
) -> None:
    def ratios(world: str, _: str, __: str) -> Mapping[str, object]:
        return dict.fromkeys(CLAIMS.FIXED_STATES, ten if world == "mixture" else thirty)

    monkeypatch.setattr(CLAIMS, "ratios_over", ratios)
    assert CLAIMS.more_pairs().verdict == verdict


@pytest.mark.parametrize(
    ("lstm", "other", "verdict"),
    [(ABOVE, BELOW, "confirmed"), (BELOW, ABOVE, "refuted"), (AROUND, BELOW, "open")],
)
def test_tracking(
    monkeypatch: pytest.MonkeyPatch, lstm: object, other: object, verdict: str
) -> None:
    spans = {"LSTM": lstm, "Mamba-2": other, "minGRU": other}
    monkeypatch.setattr(CLAIMS, "best_accuracy", lambda _, name, __: spans[name])
    assert CLAIMS.tracking().verdict == verdict


@pytest.mark.parametrize(
    ("expressions", "recall", "verdict"),
    [
        ([BELOW, BELOW, AROUND], [AROUND, BELOW, AROUND], "confirmed"),
        ([BELOW, AROUND, AROUND], [AROUND, AROUND, AROUND], "open"),
        ([BELOW, BELOW, AROUND], [AROUND, ABOVE, AROUND], "open"),
        ([BELOW, BELOW, AROUND], [AROUND, ABOVE, AT_LEAST], "refuted"),
        ([ABOVE, AT_LEAST, AROUND], [AROUND, AROUND, AROUND], "refuted"),
    ],
)
def test_hybrids(
    monkeypatch: pytest.MonkeyPatch, expressions: list[object], recall: list[object], verdict: str
) -> None:
    """Three of the hybrids have rows, the others a reason."""

    def ratios(_: str, __: str, task: str) -> Mapping[str, object]:
        spans = expressions if task == CLAIMS.EXPRESSIONS else recall
        return {"LSTM": ABOVE, **dict(zip(CLAIMS.HYBRIDS[:3], spans, strict=True))}

    monkeypatch.setattr(CLAIMS, "ratios_over", ratios)
    assert CLAIMS.hybrids().verdict == verdict


@pytest.mark.parametrize(
    ("mean", "missing", "verdict"),
    [
        (BELOW, [], "confirmed"),
        (ABOVE, [], "refuted"),
        (AROUND, [], "open"),
        (BELOW, [("gpt-oss", "Bloom")], "open"),
    ],
)
def test_experts(
    monkeypatch: pytest.MonkeyPatch, mean: object, missing: list[tuple[str, str]], verdict: str
) -> None:
    monkeypatch.setattr(CLAIMS, "mean_ratio", lambda *_: (mean, missing))
    judged = CLAIMS.experts()
    assert judged.verdict == verdict
    assert all(baseline in judged.numbers for _, baseline in missing)
