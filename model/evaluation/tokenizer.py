"""Encode and decode text with a study's tokenizer, a folder that `pipeline/tokens` wrote.

Texts are encoded as in training: without a beginning mark; a prompt and its continuation
separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.settings import read_object

# Encodings that are kept, as each checkpoint is asked the same: 60 MB at 100 tokens each.
KEPT_TEXTS = 2**14


class Tokenizer:
    """Encode and decode text; `load_tokenizer` makes one."""

    def __init__(self, codec: Any, end_token: int) -> None:
        self._codec = codec
        self.end_token = end_token
        self._encoded = lru_cache(KEPT_TEXTS)(
            lambda text: tuple(codec.encode(text, add_special_tokens=False).ids)
        )

    @property
    def size(self) -> int:
        """Size of the vocabulary, special tokens included."""
        return self._codec.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """Encode a text, without special tokens, as a list of the caller's own."""
        return list(self._encoded(text))

    def decode(self, tokens: Sequence[int]) -> str:
        """Decode tokens, leaving out special ones."""
        return self._codec.decode(list(tokens), skip_special_tokens=True)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Encode contexts, and the continuations to be scored after them, as in training.

        Each is encoded by itself. Spaces at the end of a context go to its continuation, as in
        lm-eval; the end mark replaces an empty context. lm-eval encodes both together and cuts at
        the context's length, which differs where a token crosses the border. Example: ("2 + 2 = ",
        "4") is encoded as "2 + 2 =" and " 4".
        """
        encoded: list[tuple[list[int], list[int]]] = []
        for context, continuation in pairs:
            bare = context.rstrip()
            spaces = context[len(bare) :]
            context_tokens = self.encode(bare) or [self.end_token]
            encoded.append((context_tokens, self.encode(spaces + continuation)))
        return encoded


def load_tokenizer(folder: Path | str) -> Tokenizer:
    """Load `tokenizer.json` and `tokenizer_meta.json` of a folder.

    Raises InputError if one is missing or damaged.
    """
    from tokenizers import Tokenizer as Codec

    folder = Path(folder)
    try:
        codec = Codec.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        # an end mark written out in a text is text, as in training
        codec.encode_special_tokens = True
        end_token = read_object(folder / "tokenizer_meta.json", "end_token")["end_token"]
    except FileNotFoundError as error:
        raise InputError(
            f"tokenizer: no file {error.filename}; give a folder written by the tokenizer stage"
        ) from None
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged file
        raise InputError(f"tokenizer: {folder} cannot be read ({error}); write it again") from None
    return Tokenizer(codec, end_token)


def find_tokenizer(model: Path | str) -> Path:
    """Find the tokenizer folder of a saved model. Raises InputError if there is none.

    Candidates are the model's folder, up to four folders above, and `tokenizer/` in each of these;
    then, for a checkpoint in a study's store, the tokenizer that encoded the packed tokens of its
    run.
    """
    model = Path(model).resolve()
    above = [model, *model.parents[:4]]
    for parent in above:
        for folder in (parent, parent / "tokenizer"):
            if (folder / "tokenizer.json").is_file():
                return folder
    for folder in above:
        run = folder / "run.json"
        if not run.is_file():
            continue
        packed = (folder / read_object(run, "data")["data"]).resolve()  # store/tokens/<key>
        manifest = packed / "manifest.json"
        if not manifest.is_file():
            continue
        for made_from in read_object(manifest, "inputs")["inputs"]:
            if made_from.startswith("tokenizer/"):  # tokenizer/<key>
                return packed.parents[1] / made_from
    raise InputError(
        f"{model}: there is no tokenizer.json in or beside this folder; give tokenizer=<folder>"
    )
