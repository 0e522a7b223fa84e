"""Measure training speed against depth, experts and context: `python -m benchmarks.cost --plot docs/images/cost.svg`.

From the sizes of a preset one is varied at a time; DR and DR+DA are matched to LA at every point. Rounds of a few
steps of all points alternate, so that whatever else the machine does meets all of them alike. A batch holds the same
tokens everywhere, the documents are as long as a row.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import altair as alt
import pandas as pd
import torch
import vl_convert
import yaml

from benchmarks.random_stream import write_random_stream
from model.accounting import training_flops_per_token
from model.config import DreamerConfig, dr, dr_da, la
from model.ops.device import device_name
from model.training.config import read_run
from model.training.trainer import Trainer
from pipeline.errors import InputError
from reports.figures.chart import COUNT_LABEL, colour, records, shape
from reports.figures.rendering import Figure, composed, panel
from reports.style.theme import styles

PRESETS = Path(__file__).parents[1] / "flows" / "study" / "presets"
STEPS = 2  # of each point in a round
AXES = {"depth": "depth", "experts": "experts of LA in a layer", "context": "context: tokens in a row"}


@dataclasses.dataclass
class Point:
    """One model at one size, its trainer, and its tokens per second by round."""

    axis: str
    value: int
    config: DreamerConfig
    trainer: Trainer
    rates: list[float]


def sizes(preset: dict, values: dict[str, list[int]]) -> Iterator[tuple[str, int, DreamerConfig]]:
    """Yield axis, value and LA of every point."""
    base = la(
        preset["models"]["depths"][0],
        **preset["models"]["baseline"],
        vocabulary_size=preset["data"]["tokenizer"]["vocabulary_size"],
        sequence_length=preset["training"]["sequence_length"],
    )
    fields = {"depth": "depth", "experts": "experts", "context": "sequence_length"}
    for axis, chosen in values.items():
        for value in chosen:
            yield axis, value, dataclasses.replace(base, **{fields[axis]: value})


def matched(baseline: DreamerConfig) -> Iterator[DreamerConfig]:
    """Yield LA and the variants that can be matched to LA.

    Very small models leave depth attention no room at great depth.
    """
    yield baseline
    for variant in (dr, dr_da):
        try:
            yield variant(baseline.depth, baseline=baseline)
        except InputError as error:
            print(f"left out: {error}")


def trainer(folder: Path, config: DreamerConfig, batch_tokens: int, device: str) -> Trainer:
    """Build a trainer over random documents as long as a row."""
    length = config.sequence_length
    data = write_random_stream(
        folder / "data",
        sequence_length=length,
        vocabulary_size=config.vocabulary_size,
        rows=max(16, 4 * batch_tokens // length),
        document_lengths=(length, length),
    )
    training = {"tokens": 10**12, "batch_tokens": batch_tokens, "device": device}
    run = {"run_id": "cost", "model": config.to_dict(), "training": training, "data": str(data)}
    (folder / "run.json").write_text(json.dumps(run))
    return Trainer(read_run(folder))


def measure(points: list[Point], rounds: int) -> None:
    """Fill in the rates: tokens per second of CPU time, or of the clock on CUDA."""
    for point in points:
        point.trainer.train_step()
    clock = time.perf_counter if points[0].trainer.device.type == "cuda" else time.process_time
    for _ in range(rounds):
        for point in points:
            before, started = point.trainer.tokens, clock()
            for _ in range(STEPS):
                point.trainer.train_step()  # ends with a number on the host, so the device has finished
            point.rates.append((point.trainer.tokens - before) / (clock() - started))


def table(points: list[Point]) -> pd.DataFrame:
    """Tabulate a row for each point: median rate, quartiles, and the training FLOPs per second of the rate."""
    rows = []
    for point in points:
        low, rate, high = statistics.quantiles(point.rates, n=4)
        flops = training_flops_per_token(point.config)
        rows.append((point.axis, point.value, point.config.variant, rate, low, high, flops, rate * flops))
    return pd.DataFrame(
        rows, columns=["axis", "value", "variant", "rate", "low", "high", "flops_per_token", "flops_per_second"]
    )


def markdown(found: pd.DataFrame) -> str:
    """Format the table as Markdown."""
    lines = [
        "| varied | value | model | tokens/s | quartiles | MFLOP/token | GFLOP/s |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.axis} | {row.value} | {row.variant} | {row.rate:,.0f} | {row.low:,.0f} to {row.high:,.0f} "
        f"| {row.flops_per_token / 1e6:.2f} | {row.flops_per_second / 1e9:.1f} |"
        for row in found.itertuples()
    ]
    return "\n".join(lines)


def figure(found: pd.DataFrame, where: str) -> Figure:
    """Draw a panel for each axis, both axes logarithmic."""
    drawn = styles(found["variant"])
    low, high = found["rate"].min() / 1.2, found["rate"].max() * 1.2
    ticks = [step * 10.0**power for power in range(2, 7) for step in (1, 2, 5) if low <= step * 10.0**power <= high]
    panels = []
    for axis, title in AXES.items():
        rows = found[found["axis"] == axis]
        if rows.empty:
            continue
        values = sorted(rows["value"].unique().tolist())
        base = alt.Chart(records(rows, ["value", "rate", "low", "high", "variant"]), width=220, height=170).encode(
            x=alt.X(
                "value:Q",
                title=title,
                scale=alt.Scale(type="log", domain=[values[0], values[-1]]),
                axis=alt.Axis(values=values, format="d"),
            ),
            color=colour(drawn),
        )
        rate = alt.Y(
            "rate:Q",
            title="tokens/s in training",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(labelExpr=COUNT_LABEL, values=ticks),
        )
        lines = base.mark_line().encode(y=rate)
        spread = base.mark_rule().encode(y=alt.Y("low:Q"), y2="high:Q")
        marks = base.mark_point(filled=True, size=45, opacity=1).encode(y=rate, shape=shape(drawn))
        words = f"Tokens per second of {', '.join(drawn)} against {title}"
        panels.append(panel("", words, alt.layer(lines, spread, marks)))
    return Figure("cost", "Training speed", f"Training speed on {where}", tuple(panels), tuple(drawn.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="demo", help="a file of flows/study/presets, without .yaml")
    parser.add_argument("--depth", type=int, nargs="+", default=[2, 4, 8, 16], metavar="N")
    parser.add_argument("--experts", type=int, nargs="+", default=[4, 8, 16, 32, 64], metavar="N")
    parser.add_argument("--context", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048], metavar="N")
    parser.add_argument("--batch-tokens", type=int, default=2048, metavar="N")
    parser.add_argument("--rounds", type=int, default=5, help="at least 2 (default 5)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the table, as SVG or PNG by the file's ending")
    options = parser.parse_args()
    preset = yaml.safe_load((PRESETS / f"{options.preset}.yaml").read_text())
    with tempfile.TemporaryDirectory() as place:
        points = []
        for axis, value, baseline in sizes(preset, {axis: getattr(options, axis) for axis in AXES}):
            for config in matched(baseline):
                folder = Path(place) / f"{axis}-{value}-{config.variant}"
                folder.mkdir()
                point = Point(axis, value, config, trainer(folder, config, options.batch_tokens, options.device), [])
                points.append(point)
        measure(points, options.rounds)
        where = device_name(points[0].trainer.device)
    found = table(points)
    what = "one CPU thread" if where == "cpu" else where
    print(f"torch {torch.__version__}, {platform.machine()}, {what}; batches of {options.batch_tokens:,} tokens\n")
    print(markdown(found))
    if options.plot:
        drawing = vl_convert.vegalite_to_svg(composed(figure(found, what)))
        is_png = options.plot.suffix == ".png"
        options.plot.write_bytes(vl_convert.svg_to_png(drawing, scale=2) if is_png else drawing.encode())


if __name__ == "__main__":
    main()
