"""Text to tokens and back for the models of a study: one tokenizer folder, as `pipeline/tokens.py` leaves it.

Texts are encoded as in training: without a beginning mark, and a prompt and what follows it apart from each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import InputError


class Tokenizer:
    """Encodes and decodes; knows the end mark. Made by `load_tokenizer`."""

    def __init__(self, codec: Any, end_token: int) -> None:
        self._codec = codec
        self.end_token = end_token

    @property
    def size(self) -> int:
        """How many tokens there are, special ones included."""
        return self._codec.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with no special token added."""
        return self._codec.encode(text, add_special_tokens=False).ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The same for many texts; one that occurs several times is encoded once."""
        texts = list(texts)
        distinct = list(dict.fromkeys(texts))
        encodings = self._codec.encode_batch(distinct, add_special_tokens=False)
        tokens = {text: encoding.ids for text, encoding in zip(distinct, encodings, strict=True)}
        return [tokens[text] for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; special tokens are left out."""
        return self._codec.decode(list(tokens), skip_special_tokens=True)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Tokens of contexts and of the continuations to be scored after them.

        Spaces at the end of a context go to its continuation, as in lm-eval. The two are encoded apart, as prompt and
        response were in training; lm-eval encodes them together and cuts at the context's length, which is the same
        unless a token reaches across the border. The end mark stands in for an empty context.
        """
        contexts, continuations = [], []
        for context, continuation in pairs:
            bare = context.rstrip()
            contexts.append(bare)
            continuations.append(context[len(bare) :] + continuation)
        return [
            (context or [self.end_token], continuation)
            for context, continuation in zip(self.encode_all(contexts), self.encode_all(continuations), strict=True)
        ]


def load_tokenizer(folder: Path | str) -> Tokenizer:
    """The tokenizer in `folder` (`tokenizer.json` and `tokenizer_meta.json`). InputError if it is missing or
    damaged."""
    from tokenizers import Tokenizer as Codec

    folder = Path(folder)
    try:
        codec = Codec.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        codec.encode_special_tokens = True  # an end mark written out in a text is text, as in training
        end_token = json.loads((folder / "tokenizer_meta.json").read_text(encoding="utf-8"))["end_token"]
    except FileNotFoundError as error:
        raise InputError(f"tokenizer: no file {error.filename}; give a folder written by the tokenizer stage") from None
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged file
        raise InputError(f"tokenizer: {folder} cannot be read ({error}); write it again") from None
    return Tokenizer(codec, end_token)


def find_tokenizer(model: Path | str) -> Path:
    """The tokenizer folder that belongs to a saved model.

    That is the model's own folder or one above it, or `tokenizer/` in one of them (a carried study); or, for a
    checkpoint in a study's store, the one that the tokens of its run were made with. InputError if there is none.
    """
    model = Path(model).resolve()
    above = [model, *model.parents[:4]]
    for folder in [place for parent in above for place in (parent, parent / "tokenizer")]:
        if (folder / "tokenizer.json").is_file():
            return folder
    for run in (folder / "run.json" for folder in above):
        if run.is_file():
            tokens = (run.parent / json.loads(run.read_text())["data"]).resolve()
            manifest = tokens / "manifest.json"
            made_from = json.loads(manifest.read_text())["inputs"] if manifest.is_file() else []
            for stage in made_from:
                if stage.startswith("tokenizer/"):
                    return tokens.parents[1] / stage
    raise InputError(f"{model}: no tokenizer.json there or beside it; name its folder, as tokenizer=<folder>")
