"""Score and generate text with a trained network, by a method for each kind of request.

lm-eval has three kinds of requests: log-likelihoods of continuations, rolling log-likelihoods of
texts, generated answers. `LanguageModel.answer` answers all that is asked by tasks of both kinds
(lm_eval_tasks.py, held_out.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dreamer_study.model.checkpoints.models import load_model, weights_in
from dreamer_study.model.contract import Network
from dreamer_study.model.evaluation.generate import AfterPrompts, generate, nothing
from dreamer_study.model.evaluation.log_likelihoods import Scoring, rolling_windows
from dreamer_study.model.evaluation.tokenizer import Tokenizer, load_tokenizer
from dreamer_study.model.ops.device import choose_device
from dreamer_study.model.ops.gpu import on_gpu, set_up
from dreamer_study.pipeline.errors import InputError

# Tokens generated where neither task nor job sets a number: lm-eval's default.
MAX_NEW_TOKENS = 256
CPU_BATCH_TOKENS = 16_384

_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
# without effect on greedy decoding
_OF_SAMPLING = ("do_sample", "temperature", "top_p", "top_k", "min_p")


@dataclass(frozen=True)
class Generation:
    """Settings of generation, which always takes the likeliest token."""

    until: tuple[str, ...] = ()  # stop strings
    max_new_tokens: int = MAX_NEW_TOKENS

    @classmethod
    def from_arguments(
        cls, arguments: Mapping[str, Any], max_new_tokens: int = MAX_NEW_TOKENS
    ) -> Generation:
        """Build the settings from the generation arguments of an lm-eval task.

        `max_new_tokens` applies where the task sets no length. Raises InputError for a task that
        samples its answers, and for an argument that would change the result (num_beams, ...).
        """
        lengths = [arguments[name] for name in _LENGTHS if arguments.get(name) is not None]
        sampled = arguments.get("do_sample")
        if sampled or (sampled is None and arguments.get("temperature")):
            raise InputError(
                "generation: the task samples its answers, which is not supported; set do_sample:"
                " false in the task"
            )
        for name in arguments.keys() - {"until", *_OF_SAMPLING, *_LENGTHS}:
            raise InputError(
                f"generation: argument {name!r} of the task is not supported; remove it from the"
                " task"
            )
        until = arguments.get("until") or ()
        if isinstance(until, str):
            until = (until,)
        stops = tuple(text for text in until if text)
        return cls(stops, int(lengths[0]) if lengths else max_new_tokens)


class LanguageModel:
    """A network with its tokenizer.

    Setting `depth` runs a recurrent model at another depth than in training. `weights` tells which
    weights of a checkpoint it has, "averaged", "raw" or "branches"; None: of no checkpoint.
    `finished(n)` is called when n more requests, or fractions of requests, are done.
    """

    def __init__(
        self,
        model: Network,
        tokenizer: Tokenizer,
        *,
        weights: str | None = None,
        batch_tokens: int | None = None,
        finished: Callable[[float], None] = nothing,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.weights = weights
        self.batch_tokens = batch_tokens or suitable_batch(model)
        self.finished = finished
        self.depth: int | None = None

    @property
    def sequence_length(self) -> int:
        """Largest number of tokens the model reads at once."""
        return self.model.config.sequence_length

    def answer(self, requests: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Answer requests by kind, under lm-eval's names.

        A prompt that is continued and also scored is read once: generation scores it on the way.
        """
        pairs = self.tokenizer.encode_pairs(requests.get("loglikelihood", ()))
        scoring = Scoring(
            self.model,
            pairs,
            batch_tokens=self.batch_tokens,
            depth=self.depth,
            finished=self.finished,
        )
        return {
            "generate_until": self.generate(
                requests.get("generate_until", ()), scoring.after_prompts
            ),
            "loglikelihood": scoring.finish(),
            "loglikelihood_rolling": self.rolling_log_likelihoods(
                requests.get("loglikelihood_rolling", ())
            ),
        }

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, bool]]:
        """Return each continuation's log-probability, and whether greedy decoding generates it.

        The end mark replaces an empty context; an empty continuation has log-probability 0.
        """
        return self.answer({"loglikelihood": pairs})["loglikelihood"]

    def rolling_log_likelihoods(self, texts: Sequence[str]) -> list[tuple[float, int]]:
        """Return each text's log-probability and number of tokens.

        A text is scored in disjoint windows of the sequence length.
        """
        encoded = [self.tokenizer.encode(text) for text in texts]
        windows: list[tuple[list[int], list[int]]] = []
        owners: list[int] = []  # the text of each window
        for owner, tokens in enumerate(encoded):
            of_text = rolling_windows(tokens, self.tokenizer.end_token, self.sequence_length)
            windows += of_text
            owners += [owner] * len(of_text)
        values = Scoring(
            self.model,
            windows,
            batch_tokens=self.batch_tokens,
            depth=self.depth,
            finished=lambda done: self.finished(done * len(texts) / len(windows)),
        ).finish()
        totals = [0.0] * len(texts)
        for owner, (value, _) in zip(owners, values, strict=True):
            totals[owner] += value
        return [(total, len(tokens)) for total, tokens in zip(totals, encoded, strict=True)]

    def generate(
        self, requests: Sequence[tuple[str, Generation]], after_prompts: AfterPrompts | None = None
    ) -> list[str]:
        """Generate an answer to each prompt, cut before the first stop string."""
        alike: dict[Generation, list[int]] = defaultdict(list)
        for index, (_, generation) in enumerate(requests):
            alike[generation].append(index)
        answers = [""] * len(requests)
        for generation, indices in alike.items():
            prompts = [self.tokenizer.encode(requests[index][0]) for index in indices]
            written = generate(
                self.model,
                [tokens or [self.tokenizer.end_token] for tokens in prompts],
                max_new_tokens=generation.max_new_tokens,
                end_token=self.tokenizer.end_token,
                stop=self._stop(generation.until),
                batch_tokens=self.batch_tokens,
                depth=self.depth,
                finished=self.finished,
                after_prompts=after_prompts,
            )
            for index, tokens in zip(indices, written, strict=True):
                answers[index] = self.tokenizer.decode(tokens)
                for stop in generation.until:
                    answers[index] = answers[index].split(stop, 1)[0]
        return answers

    def _stop(self, until: tuple[str, ...]) -> Callable[[list[int]], bool] | None:
        """Return a test of generated tokens for a complete stop string."""
        if not until:
            return None
        pattern = re.compile("|".join(map(re.escape, until)))
        # Only the newest tokens are decoded: each holds at least one byte, and three more cover a
        # cut character.
        newest = max(len(text.encode()) for text in until) + 3
        return lambda tokens: pattern.search(self.tokenizer.decode(tokens[-newest:])) is not None


def load_language_model(
    path: Path | str,
    tokenizer: Tokenizer | Path | str,
    device: str = "auto",
    weights: str = "averaged",
    *,
    trust_code: bool = False,
    **options: Any,
) -> LanguageModel:
    """Load a checkpoint folder for inference.

    `device` 'auto' prefers CUDA, where the model computes in bfloat16. `weights` and `trust_code`
    are those of `load_model`. Raises InputError if a folder is missing or damaged, or model and
    tokenizer do not fit each other.
    """
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = load_tokenizer(tokenizer)
    model = load_model(path, choose_device(device), weights, trust_code=trust_code)
    if tokenizer.size > model.config.vocabulary_size:
        raise InputError(
            f"{path}: the model has {model.config.vocabulary_size} tokens, but the tokenizer has"
            f" {tokenizer.size}; use the tokenizer that the model was trained with"
        )
    if on_gpu(model.device):
        set_up(torch.bfloat16)
    model = model.for_inference()
    return LanguageModel(model, tokenizer, weights=weights_in(path, weights), **options)


def suitable_batch(model: Network) -> int:
    """Choose the positions in a batch: on CUDA as many as half of the free memory holds."""
    if not on_gpu(model.device):
        return CPU_BATCH_TOKENS
    free, _ = torch.cuda.mem_get_info(model.device)
    return max(model.config.sequence_length, int(free / 2 / model.position_bytes()))
