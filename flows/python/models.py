"""Load a trained model in Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dreamer_study.model.contract import Network


def load_model(
    folder: Path | str,
    *,
    device: str = "cpu",
    weights: str = "averaged",
    tokenizer: Path | str | None = None,
    trust_code: bool = False,
) -> Network:
    """Load the model of a checkpoint, with its tokenizer, to compute with it.

    Args:
        folder: of a checkpoint, as `Results.checkpoints()` and `dreamer checkpoints` list them
        device: of torch: "cpu", "cuda", "cuda:1"
        weights: "averaged" over the last steps where the folder has them, or "raw" as trained
        tokenizer: its folder; by default that of the study, which is looked for near `folder`
        trust_code: let a model of your own class run the Python code of its folder

    Returns a `torch.nn.Module` in evaluation mode: `network(tokens)` takes whole numbers [B, S], B
    rows that are one text each of S tokens, and returns logits [B, S, V] over the V tokens of the
    vocabulary, in float32. `network.tokenizer` has `encode(text)`, which returns a list of numbers
    without special tokens; `decode(numbers)`, which returns the text; `size`, which is V or less;
    and `end_token`, the mark between texts. `network.config` has the sizes.

    Raises InputError where the folder holds no whole model, or no tokenizer is found.
    """
    # imports torch
    from dreamer_study.model.checkpoints.models import load_model as load_network
    from dreamer_study.model.evaluation.tokenizer import find_tokenizer, load_tokenizer

    network = load_network(folder, device, weights, trust_code=trust_code)
    network.tokenizer = load_tokenizer(tokenizer or find_tokenizer(folder))
    return network
