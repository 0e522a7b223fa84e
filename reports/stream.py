"""What the runs were trained on: how often the stream went over the data, and whether all runs read the same."""

from __future__ import annotations

import pandas as pd

from reports.rows import Rows
from reports.words import counted, listed, missing, tokens

SHOWN = 3  # mismatches said one by one


def corpus_tokens(rows: Rows) -> float:
    """Tokens that the last stage that counts tokens kept; 0 when none does."""
    counted_stages = rows.funnel[rows.funnel["tokens_kept"].notna()]
    return 0 if counted_stages.empty else float(counted_stages["tokens_kept"].iloc[-1])


def seen_twice_from(checkpoints: pd.DataFrame) -> float | None:
    """Tokens at the first checkpoint for which the stream had begun the data anew; None when it never had."""
    beyond = checkpoints[checkpoints["epoch"] > 1]["tokens"]
    return None if beyond.empty else float(beyond.min())


def epochs(rows: Rows) -> str:
    """How many times the longest run went over the packed data; nothing when that is unknown."""
    held, trained, counted_epochs = corpus_tokens(rows), rows.runs["tokens"].max(), rows.checkpoints["epoch"].max()
    if not missing(counted_epochs):
        times = counted_epochs
    elif not missing(trained) and held:
        times = trained / held
    else:
        return ""
    amounts = f" ({tokens(trained)} tokens of training, {tokens(held)} in the data)" if held and trained else ""
    if times <= 1:
        return f"No document was seen twice: the longest run read {100 * times:.0f}% of the packed data{amounts}."
    first = seen_twice_from(rows.checkpoints)
    since = f" From the checkpoint at {tokens(first)} tokens on, models had seen documents before." if first else ""
    return (
        f"The stream went over the data more than once: the longest run ended after {times:.1f} epochs{amounts}, each "
        f"in a fresh order.{since} Later tokens are worth less than new ones would be."
    )


def mismatch(rows: Rows) -> str:
    """Where runs of one seed had not read the same data, from `stream_mismatches`; nothing when they always had."""
    if rows.mismatches.empty:
        return ""
    said = [
        f"seed {row.seed:.0f} at {tokens(row.tokens)} tokens ({row.run_ids})"
        for row in rows.mismatches.head(SHOWN).itertuples()
    ]
    more = f" and at {counted(len(rows.mismatches) - SHOWN, 'further checkpoint')}" * (len(rows.mismatches) > SHOWN)
    return (
        f"The models did not all read the same tokens: the hashes of what they had read differ for {'; '.join(said)}"
        f"{more}. Part of any difference between them may come from the data."
    )


def streams(rows: Rows) -> str:
    """Whether runs of one seed read the same tokens in the same order, and at how many checkpoints that was checked."""
    if not rows.mismatches.empty:
        return mismatch(rows)
    known = rows.checkpoints[rows.checkpoints["stream_hash"].notna() & (rows.checkpoints["tokens"] > 0)]
    together = known.groupby(["seed", "tokens"])["run_id"].nunique()
    checked = int((together > 1).sum())
    if not checked:
        return _last_hashes(rows)
    places = f"checked at {counted(checked, 'checkpoint')}"
    finished = known[known["status"] != "screened"]
    seeds = finished.groupby(["depth", "variant"])["seed"].agg(lambda chosen: tuple(sorted(set(chosen))))
    if known["seed"].nunique() == 1:
        return f"All models read the same tokens in the same order ({places})."
    if seeds.nunique() <= 1:
        return f"All models read the same tokens in the same order, another order for each seed ({places})."
    by_seeds = [f"{variant} {listed([f'{seed:.0f}' for seed in chosen])}" for (_, variant), chosen in seeds.items()]
    return (
        f"Runs of one seed read the same tokens in the same order ({places}). The models that went on are of different "
        f"seeds ({listed(by_seeds)}), so they read the same data in different orders."
    )


def _last_hashes(rows: Rows) -> str:
    """The same by the runs' last hashes, for results that hold no checkpoints."""
    known = rows.runs[rows.runs["stream_hash"].notna() & rows.runs["tokens"].notna()]
    groups = [part for _, part in known.groupby(["seed", "tokens"], dropna=False) if len(part) > 1]
    if not groups:
        return ""
    if all(part["stream_hash"].nunique() == 1 for part in groups):
        return "Runs of one seed read the same tokens in the same order: their stream hashes are equal."
    return (
        "Runs of one seed did not all read the same tokens in the same order: their stream hashes differ, so part of "
        "any difference between variants may come from the data."
    )
