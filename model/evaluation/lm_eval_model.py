"""Run a saved model in lm-eval.

`dreamer lm-eval --model dreamer --model_args path=<folder> --tasks gsm8k`

Importing this module registers the model with lm-eval, for its command and for
`lm_eval.simple_evaluate`.
"""

from __future__ import annotations

import sys

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from dreamer_study.model.evaluation.language_model import (
    MAX_NEW_TOKENS,
    Generation,
    LanguageModel,
    load_language_model,
)
from dreamer_study.model.evaluation.tokenizer import find_tokenizer


@register_model("dreamer")
class DreamerLM(LM):
    """A saved model for lm-eval.

    `path` is a checkpoint folder (or a LanguageModel), `tokenizer` a tokenizer folder; without it
    `find_tokenizer` looks for one. `depth` runs a recurrent model at
    another depth than in training. `weights` is "raw", or "averaged" where the folder holds an
    average. `batch_tokens` bounds a batch; the batch sizes that lm-eval's command passes are
    ignored. With `trust_code` a model may run code of its folder.
    """

    def __init__(
        self,
        path: str | LanguageModel,
        tokenizer: str | None = None,
        device: str | None = "auto",
        batch_tokens: int | None = None,
        max_gen_toks: int = MAX_NEW_TOKENS,
        depth: int | None = None,
        weights: str = "averaged",
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        trust_code: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(path, LanguageModel):
            self.text = path
        else:
            self.text = load_language_model(
                path,
                tokenizer or find_tokenizer(path),
                _device_here(device or "auto"),
                weights,
                trust_code=trust_code,
                batch_tokens=batch_tokens,
            )
        if depth is not None:
            self.text.depth = int(depth)
        self.max_gen_toks = int(max_gen_toks)

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Score continuations by LanguageModel.log_likelihoods."""
        return self.text.log_likelihoods([request.args for request in requests])

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Score whole texts by LanguageModel.rolling_log_likelihoods."""
        texts = [request.args[0] for request in requests]
        return [value for value, _ in self.text.rolling_log_likelihoods(texts)]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Write answers by LanguageModel.generate."""
        asked = []
        for request in requests:
            prompt, arguments = request.args
            asked.append((prompt, Generation.from_arguments(arguments, self.max_gen_toks)))
        return self.text.generate(asked)


def _device_here(wanted: str) -> str:
    """Replace a CUDA device by 'cpu', with a line, where torch sees none.

    lm-eval asks for cuda:0 by default.
    """
    if not wanted.startswith("cuda") or torch.cuda.is_available():
        return wanted
    print(
        f"dreamer: device is {wanted!r}, but torch finds no CUDA device here, so the CPU is used",
        file=sys.stderr,
    )
    return "cpu"
