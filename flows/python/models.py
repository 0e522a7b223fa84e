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
    """Load the model of a checkpoint together with its tokenizer.

    Args:
        folder: the folder of a checkpoint, which `Results.checkpoints()` and `dreamer checkpoints`
            list
        device: a device of torch, such as "cpu", "cuda" or "cuda:1"
        weights: "averaged" for the weights averaged over the last steps, if the folder has them, or
            "raw" for the weights of the last step
        tokenizer: the folder of the tokenizer; by default the study's tokenizer, found near
            `folder`
        trust_code: let a model of your own class run the Python code in its folder

    Returns a `torch.nn.Module` in evaluation mode. `network(tokens)` takes integers of shape
    [B, S]: B rows, each one text of S tokens. It returns float32 logits of shape [B, S, V] over the
    V tokens of the vocabulary. `network.tokenizer` has `encode(text)`, which returns a list of
    numbers without special tokens; `decode(numbers)`, which returns the text; `size`, which is at
    most V; and `end_token`, the number of the token between texts. `network.config` has the sizes
    of the model.

    Raises InputError if the folder holds no complete model, or if no tokenizer is found.
    """
    # imports torch
    from dreamer_study.model.checkpoints.models import load_model as load_network
    from dreamer_study.model.evaluation.tokenizer import find_tokenizer, load_tokenizer

    network = load_network(folder, device, weights, trust_code=trust_code)
    network.tokenizer = load_tokenizer(tokenizer or find_tokenizer(folder))
    return network
