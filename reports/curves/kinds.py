"""Tell by its name whether a metric is a share of right answers or a loss."""

from __future__ import annotations

import re

SCORE = "score"
LOSS = "loss"
SCORE_WORDS = {
    *("acc", "accuracy", "em", "f1", "score", "match", "auc", "correct"),
    *("qem", "pem", "pqem", "norm", "bacc"),
}
LOSS_WORDS = {"loss", "nll", "bpb", "bpc", "ce", "xent", "losses"}
LOSS_PHRASES = ("bits_per_", "cross_entropy", "crossentropy", "negative_log_likelihood")
# Better where lower, but no loss in which curves are compared, or without a common scale.
NEITHER = ("perplexity", "ppl", "brier", "gradnorm", "grad_norm")


def kind_of(name: str) -> str | None:
    """Return `score`, `loss`, or None where the name does not say.

    Example: `eval/downstream/arc_easy_acc` is a score, `eval_loss` a loss, `learning_rate` neither.
    """
    spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    words = set(re.split(r"[^a-z0-9@]+", spaced))
    if any(part in spaced for part in NEITHER):
        return None
    if words & LOSS_WORDS or any(part in spaced for part in LOSS_PHRASES):
        return LOSS
    is_pass = any(word.startswith("pass@") for word in words)
    return SCORE if words & SCORE_WORDS or is_pass else None


def is_of_training(name: str) -> bool:
    """Tell whether a metric is measured on the data that a model is trained on."""
    return bool({"train", "training"} & set(re.split(r"[^a-z]+", name.lower())))
