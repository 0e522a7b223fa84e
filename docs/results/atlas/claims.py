"""Judge the five claims of the protocol by the rows of the package.

protocol.md has the claims, their sources, and what confirms each of them. A claim is refuted where
the same rule holds the other way round, and open in all other cases. A claim is open, too, while an
architecture that it is about has no row.

The worlds are those of the study files: `mixture` (six files), `one-layer`, `pairs`, `tracking`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from dreamer_study.flows.atlas.bundled import results_file, worlds
from dreamer_study.flows.atlas.collecting import (
    TOGETHER,
    baseline_first,
    join,
    read_kept,
    write_together,
)
from dreamer_study.flows.atlas.table import read_atlas
from dreamer_study.reports.text.numbers import interval, times
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.results import connect
from dreamer_study.sql.statistics.bootstrap import read_points
from dreamer_study.sql.statistics.compute import compute_statistics
from dreamer_study.sql.statistics.curves import Curves, seed_curves
from dreamer_study.sql.statistics.errors import jackknife, together
from dreamer_study.sql.statistics.token_ratios import log_ratios

CONFIRMED = "confirmed"
REFUTED = "refuted"
OPEN = "open"
ATTENTION = "Llama"  # what claims 2 and 4 compare with
DENSE = (
    "Llama",
    "GPT-2",
    "GPT-NeoX",
    "OLMo-2",
    "Gemma-3",
    "Qwen3",
    "DiffLlama",
    "Bloom",
    "nanochat",
)
MIXTURES = ("Qwen3-MoE", "Mixtral", "DeepSeek-V3", "gpt-oss")
HYBRIDS = ("Qwen3-Next", "LFM2", "RecurrentGemma", "Falcon-H1", "MiniMax", "Jamba")
FIXED_STATES = ("Mamba-2", "Gated-DeltaNet", "LSTM")
LINEAR = ("Mamba-2", "minGRU")
EXPRESSIONS = "world_expressions"
RECALL = "world_recall"
TRACKING = "world_tracking"
LEARNED, NOT_LEARNED = 0.9, 0.5  # accuracies of claim 1
REPLICATES = 1000


@dataclass(frozen=True)
class Verdict:
    """What the rows say about a claim: `confirmed`, `refuted` or `open`, and the numbers."""

    verdict: str
    numbers: str


@dataclass(frozen=True)
class Span:
    """A number with the ends of its 95 % interval; an end that is not known is NaN."""

    value: float
    low: float
    high: float

    def lies_above(self, other: Span | float) -> bool:
        """Tell whether this interval lies above another one, or above a number."""
        return self.low > (other.high if isinstance(other, Span) else other)

    def lies_below(self, other: Span | float) -> bool:
        """Tell whether this interval lies below another one, or below a number."""
        return self.high < (other.low if isinstance(other, Span) else other)


def if_measured(
    rule: Callable[[], Verdict],
    needed: Mapping[str, Sequence[str]],
    *,
    may_be_left_out: Collection[str] = (),
) -> Verdict:
    """Judge by a rule, which needs the rows of some architectures of each world.

    The claim is open while one of them has no row. A rule does without those that
    `may_be_left_out`, once there is a reason why they have none.
    """
    measured = {world: _measured_in(world) for world in needed}
    left_out = {world: _left_out_of(world) for world in needed}
    pairs = [(world, name) for world, names in needed.items() for name in names]
    lacking = [(world, name) for world, name in pairs if name not in measured[world]]
    waiting = [(world, name) for world, name in lacking if name not in left_out[world]]
    if waiting:
        return Verdict(OPEN, f"not measured yet: {_by_world(waiting)}")
    unmeasurable = [(world, name) for world, name in lacking if name not in may_be_left_out]
    if unmeasurable:
        return Verdict(OPEN, f"could not be measured: {_by_world(unmeasurable)}")
    return rule()


def _by_world(pairs: Sequence[tuple[str, str]]) -> str:
    """Name the architectures of each world: `LSTM, minGRU (tracking); Jamba (mixture)`."""
    worlds_of = dict.fromkeys(world for world, _ in pairs)
    names = {world: [name for other, name in pairs if other == world] for world in worlds_of}
    return "; ".join(f"{', '.join(of_world)} ({world})" for world, of_world in names.items())


def _measured_in(world: str) -> set[str]:
    """Return the architectures of a world that have a row."""
    return set(read_atlas(world).architectures["variant"]) if world in worlds() else set()


def _left_out_of(world: str) -> set[str]:
    """Return the architectures of a world that have a reason why they have no row."""
    return set(read_atlas(world).left_out["variant"]) if world in worlds() else set()


def one_layer() -> Verdict:
    """Claim 1: attention ends below 0.5, Mamba above 0.9."""
    attention, mamba = (best_accuracy("one-layer", name, RECALL) for name in ("Llama-1", "Mamba-1"))
    numbers = f"best recall: Llama-1 {percent(attention)}, Mamba-1 {percent(mamba)}"
    if attention.value < NOT_LEARNED and mamba.value > LEARNED:
        return Verdict(CONFIRMED, numbers)
    if attention.value > LEARNED and mamba.value < NOT_LEARNED:
        return Verdict(REFUTED, numbers)
    return Verdict(OPEN, numbers)


def more_pairs() -> Verdict:
    """Claim 2: every fixed state takes more tokens than attention, and more so with 30 pairs."""
    ten = ratios_over("mixture", ATTENTION, RECALL)
    thirty = ratios_over("pairs", ATTENTION, RECALL)
    numbers = "; ".join(
        f"{name} {in_times(ten[name])} with 10 pairs, {in_times(thirty[name])} with 30"
        for name in FIXED_STATES
    )
    behind = all(ten[name].lies_above(1) for name in FIXED_STATES)
    ahead = all(ten[name].lies_below(1) for name in FIXED_STATES)
    if behind and all(thirty[name].lies_above(ten[name]) for name in FIXED_STATES):
        return Verdict(CONFIRMED, numbers)
    if ahead or all(thirty[name].lies_below(ten[name]) for name in FIXED_STATES):
        return Verdict(REFUTED, numbers)
    return Verdict(OPEN, numbers)


def tracking() -> Verdict:
    """Claim 3: an LSTM tracks better than two linear recurrences with positive eigenvalues."""
    bests = {name: best_accuracy("tracking", name, TRACKING) for name in ("LSTM", *LINEAR)}
    numbers = "best: " + ", ".join(f"{name} {percent(best)}" for name, best in bests.items())
    if all(bests["LSTM"].lies_above(bests[name]) for name in LINEAR):
        return Verdict(CONFIRMED, numbers)
    if all(bests["LSTM"].lies_below(bests[name]) for name in LINEAR):
        return Verdict(REFUTED, numbers)
    return Verdict(OPEN, numbers)


def hybrids() -> Verdict:
    """Claim 4: half of the hybrids need fewer tokens on expressions, none needs more on recall."""
    on_expressions = _measured(ratios_over("mixture", ATTENTION, EXPRESSIONS), HYBRIDS)
    on_recall = _measured(ratios_over("mixture", ATTENTION, RECALL), HYBRIDS)
    fewer = sum(span.lies_below(1) for span in on_expressions.values())
    more = sum(span.lies_above(1) for span in on_expressions.values())
    worse = [name for name, span in on_recall.items() if span.lies_above(1)]
    half = len(on_expressions) / 2
    numbers = (
        f"of {len(on_expressions)} hybrids {fewer} took fewer tokens than {ATTENTION} on"
        f" expressions, {more} more; {len(worse)} took more on recall"
    )
    if fewer >= half and not worse:
        return Verdict(CONFIRMED, numbers)
    if more >= half or len(worse) >= half:
        return Verdict(REFUTED, numbers)
    return Verdict(OPEN, numbers)


def experts() -> Verdict:
    """Claim 5: mixtures of experts take fewer tokens than dense networks to equal accuracy."""
    mean, missing = mean_ratio("mixture", MIXTURES, DENSE)
    pairs = len(MIXTURES) * len(DENSE)
    numbers = f"mean ratio of {pairs - len(missing)} pairs {in_times(mean)}"
    if missing:
        baselines = ", ".join(dict.fromkeys(baseline for _, baseline in missing))
        lacking = f"{len(missing)} have no ratio, with {baselines} as the dense network"
        return Verdict(OPEN, f"{numbers}; the rule needs all {pairs}: {lacking}")
    if mean.lies_below(1):
        return Verdict(CONFIRMED, numbers)
    if mean.lies_above(1):
        return Verdict(REFUTED, numbers)
    return Verdict(OPEN, numbers)


def mean_ratio(
    world: str, variants: Sequence[str], baselines: Sequence[str]
) -> tuple[Span, list[tuple[str, str]]]:
    """Compute the geometric mean of the ratios of every variant over every baseline.

    The measure is the average accuracy. The interval is the jackknife's over the seeds: a row of
    the curves is without seed n, of all architectures. A pair has no ratio if its curves, with all
    seeds or without one, have no score in common. The mean leaves such pairs out; they are the
    second value, by the names of both.
    """
    curves = average_curves(world)
    pairs = {
        (variant, baseline): log_ratios(curves[baseline], curves[variant])  # [1 + N]
        for variant in variants
        for baseline in baselines
    }
    missing = [names for names, logs in pairs.items() if not np.isfinite(logs).all()]
    measured = [logs for names, logs in pairs.items() if names not in missing]
    whole, *without_a_seed = np.mean(measured, axis=0)
    variance = jackknife(np.array(without_a_seed)[:, None])
    half = together([variance], [len(without_a_seed)]).half()[0]
    return Span(*np.exp([whole, whole - half, whole + half])), missing


def average_curves(world: str) -> dict[str, Curves]:
    """Return the curves of the average accuracy: the mean, then the means without seed n."""
    with joined_results(world, read_atlas(world).baseline) as connection:
        points = read_points(connection, TOGETHER, "accuracy")
        floors = connection.execute(
            "select variant, noise_floor from measured_curves"
            " where task = ? and metric = 'accuracy'",
            [AVERAGE],
        ).fetchall()
    noise_floors = dict(floors)
    curves = {
        variant: seed_curves(curve, {}, lower_is_better=False, noise_floor=noise_floors[variant])
        for (_, variant, task), curve in points.items()
        if task == AVERAGE
    }
    return {variant: curve.mean_and_without_one_seed for variant, curve in curves.items()}


def ratios_over(world: str, baseline: str, task: str) -> dict[str, Span]:
    """Return the ratios of all architectures of a world over one of them, on a task's accuracy."""
    with joined_results(world, baseline) as connection:
        compute_statistics(connection, TOGETHER, replicates=REPLICATES, baselines=[baseline])
        rows = connection.execute(
            "select variant, ratio, low, high from token_ratios"
            " where task = ? and metric = 'accuracy'",
            [task],
        ).df()
    return {name: Span(*ends) for name, *ends in rows.itertuples(index=False)}


@contextmanager
def joined_results(world: str, baseline: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a results file that has the rows of all architectures of a world, as one study."""
    families = baseline_first(read_kept(results_file(world)))
    rows = join(families, families[0].baseline)
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "results.duckdb"
        write_together(rows, baseline, database)
        with closing(connect(database)) as connection:
            yield connection


def best_accuracy(world: str, variant: str, task: str) -> Span:
    """Return the accuracy at the checkpoint whose mean over seeds is best.

    The interval is Student's over the seeds.
    """
    with joined_results(world, read_atlas(world).baseline) as connection:
        points = read_points(connection, TOGETHER, "accuracy")
    (curve,) = [points[model] for model in points if model[1:] == (variant, task)]
    scores = np.array([list(seeds.values()) for seeds in curve.values()])  # [C, N]
    best = scores[scores.mean(axis=1).argmax()]
    variance = best.var(ddof=1) / len(best)
    half = float(together([variance], [len(best)]).half())
    return Span(best.mean(), best.mean() - half, best.mean() + half)


def _measured(spans: dict[str, Span], names: Iterable[str]) -> dict[str, Span]:
    return {name: spans[name] for name in names if name in spans}


def percent(span: Span) -> str:
    """Format an accuracy with its interval, whose ends are cut at 0 and 100 %.

    Equal seeds have no interval.
    """
    if span.low == span.high:
        return f"{100 * span.value:.1f} % at every seed"
    low = max(0.0, span.low)
    high = min(1.0, span.high)
    return f"{100 * span.value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def in_times(span: Span) -> str:
    """Format a ratio with its interval, or the bound that stands in its place, if there is one."""
    if np.isnan([span.value, span.low, span.high]).all():
        return "no ratio"
    if np.isnan(span.value):
        return f"≤ {times(span.high)}" if np.isnan(span.low) else f"≥ {times(span.low)}"
    ends = interval({"ratio": span.value, "low": span.low, "high": span.high})
    return f"{times(span.value)} ({ends})" if ends else times(span.value)


@dataclass(frozen=True)
class Claim:
    """A claim of the protocol.

    `papers` are the numbers at arXiv of those that make it. `rule` judges the claim once the
    architectures that it needs have rows, which are `needed` by world. The rule does without those
    that `may_be_left_out`, once there is a reason why they have no row.
    """

    text: str
    papers: tuple[str, ...]
    rule: Callable[[], Verdict]
    needed: Mapping[str, Sequence[str]]
    may_be_left_out: Collection[str] = ()


CLAIMS = (
    Claim(
        "One layer of softmax attention does not learn recall; one layer of Mamba does.",
        ("2508.19029",),
        one_layer,
        {"one-layer": ("Llama-1", "Mamba-1")},
    ),
    Claim(
        "Attention beats fixed states at recall, and more so as pairs grow.",
        ("2312.04927",),
        more_pairs,
        {"mixture": (ATTENTION, *FIXED_STATES), "pairs": (ATTENTION, *FIXED_STATES)},
    ),
    Claim(
        "Linear recurrences with positive eigenvalues do not track a state; an LSTM does.",
        ("2411.12537",),
        tracking,
        {"tracking": ("LSTM", *LINEAR)},
    ),
    Claim(
        "Hybrids have both: recall of attention and expressions of recurrence.",
        ("2402.19427", "2403.19887"),
        hybrids,
        {"mixture": (ATTENTION, *HYBRIDS)},
        may_be_left_out=HYBRIDS,
    ),
    Claim(
        "At equal FLOPs, mixtures of experts beat dense networks.",
        ("2101.03961", "2409.02060"),
        experts,
        {"mixture": (*MIXTURES, *DENSE)},
    ),
)


def judge(claim: Claim) -> Verdict:
    """Judge a claim by its rule; it is open while an architecture that it needs has no row."""
    return if_measured(claim.rule, claim.needed, may_be_left_out=claim.may_be_left_out)
