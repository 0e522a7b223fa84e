"""Say what the runs were trained on.

How often each document was read, and whether all runs read the same tokens.
"""

from __future__ import annotations

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.numbers import counted, listed, tokens

SHOWN = 3  # mismatches that are listed
# Of one corpus, as measured for language models: reading the data up to 4 times is nearly as good
# as new data, and beyond some 40 times worthless (Muennighoff et al. 2023, Scaling Data-Constrained
# Language Models).
MOST_EPOCHS = 40


def corpus_tokens(data: StudyData) -> float:
    """Return the tokens kept by the final stage that counts tokens, each document once.

    0 where no stage does.
    """
    kept = data.funnel["tokens_kept"].dropna()
    return 0 if kept.empty else float(kept.iloc[-1])


def repeated_sources(data: StudyData) -> str:
    """Say which sources the study's configuration packs more than once in an epoch.

    Empty when there are none.
    """
    entries = data.config("study", "data").get("sources")
    if not isinstance(entries, list):
        return ""
    repeated = []
    for source in entries:
        weight = source.get("weight", 1) if isinstance(source, dict) else 1
        if isinstance(weight, int | float) and weight > 1:
            text = f"those of {source.get('name')} {weight:g} times"
            if weight != int(weight):
                text += " on average"
            repeated.append(text)
    if not repeated:
        return ""
    return f"In one epoch documents are packed more than once: {listed(repeated)}."


def second_epoch_from(checkpoints: pd.DataFrame) -> float | None:
    """Return the tokens of the first checkpoint in the stream's second epoch.

    None when there was one epoch.
    """
    beyond = checkpoints[checkpoints["epoch"] > 1]["tokens"]
    return None if beyond.empty else float(beyond.min())


def epochs(data: StudyData) -> str:
    """Say how many epochs of the packed data the longest run read; empty when that is unknown."""
    trained = data.runs["tokens"].max()
    times = data.checkpoints["epoch"].max()
    repeated = repeated_sources(data)
    held = 0 if repeated else corpus_tokens(data)  # packed are more where sources are repeated
    if pd.isna(times):
        if pd.isna(trained) or not held:
            return repeated
        times = trained / held
    amounts = ""
    if held and trained:
        amounts = f" ({tokens(trained)} tokens of training, {tokens(held)} in the data)"
    read = f"longest run read {100 * times:.0f}% of the packed data{amounts}."
    if times <= 1:
        return f"The {read} {repeated}" if repeated else f"No document was seen twice: the {read}"
    first = second_epoch_from(data.checkpoints)
    since = ""
    if first:
        since = (
            f" From the checkpoint at {tokens(first)} tokens on, models had seen all documents"
            " before."
        )
    return (
        f"The stream went over the data more than once: the longest run ended after {times:.1f}"
        f" epochs{amounts}, each in a fresh order.{since} Later tokens are worth less than new ones"
        f" would be. {repeated}"
    ).strip()


def repetition(data: StudyData) -> str:
    """Say in a few words that the data were read too often to teach anything more.

    Empty where they were not.
    """
    times = data.checkpoints["epoch"].max()
    if times > MOST_EPOCHS:
        return f"Few data: the longest run read them {times:,.1f} times over."
    return ""


def mismatch(data: StudyData) -> str:
    """Say where runs of one seed had read different tokens (view `stream_mismatches`).

    Empty when they never had.
    """
    if data.mismatches.empty:
        return ""
    where = [
        f"seed {row.seed:.0f} at {tokens(row.tokens)} tokens ({row.run_ids})"
        for row in data.mismatches.head(SHOWN).itertuples()
    ]
    further = len(data.mismatches) - SHOWN
    more = f" and at {counted(further, 'further checkpoint')}" if further > 0 else ""
    return (
        "The models did not all read the same tokens: the hashes of what they had read differ for"
        f" {'; '.join(where)}{more}. Part of any difference between them may come from the data."
    )


def streams(data: StudyData) -> str:
    """Say that runs of one seed read the same tokens in the same order.

    The number of checkpoints that show so is named; empty where none does.
    """
    with_hash = data.checkpoints[
        data.checkpoints["stream_hash"].notna() & (data.checkpoints["tokens"] > 0)
    ]
    runs = with_hash.groupby(["seed", "tokens"])["run_id"].nunique()
    checked = int((runs > 1).sum())
    if not checked or len(data.mismatches):
        return ""
    order = "the same order"
    if with_hash["seed"].nunique() > 1:
        order += ", another for each seed"
    return (
        f"Runs of one seed read the same tokens in {order} (checked at"
        f" {counted(checked, 'checkpoint')})."
    )
