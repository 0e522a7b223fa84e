"""Train or take a tokenizer, and encode the training text of documents.

The training text is the prompt, one space, the response and an end mark. Prompt and response are
encoded apart, as in evaluation, where the prompt is encoded before the response is known. A
document without a question is its response alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import read_documents
from dreamer_study.pipeline.storage.parallel import Progress, quiet
from dreamer_study.pipeline.tokens.pieces import WORDS, encode_texts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PROMPT = "Question: {question}\nAnswer:"
MARK = " ;"  # stands behind each answer within a text, where the loss is on these answers
END = "<|end|>"
END_NAMES = (END, "<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<|eot_id|>", "<eos>")
HUB_SECONDS = 5
# 3,000 for each entry of a vocabulary of 32,768: docs/log.md has the effect of fewer
SAMPLE_CHARACTERS = 10**8
TOKENIZER = "tokenizer.json"  # the file of a tokenizer in its folder


def training_parts(question: str | None, response: str | None) -> tuple[str, str]:
    """Split a document's training text into prompt and response, which are encoded apart.

    Example: ("1+1?", "2") gives ("Question: 1+1?\\nAnswer:", " 2"); without a question, the prompt
    is empty.
    """
    if question:
        return PROMPT.format(question=question), f" {response or ''}"
    return "", response or ""


def encode_documents(codec: Tokenizer, documents: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Encode documents, without end marks.

    Returns tokens uint32 [T], and the lengths int64 [D, 2] of prompts and responses.
    """
    questions = documents["question"].to_pylist()
    parts = map(training_parts, questions, documents["response"].to_pylist())
    tokens, offsets = encode_texts(codec, pa.array(chain.from_iterable(parts), pa.string()))
    return tokens, np.diff(offsets).reshape(-1, 2)


def train_tokenizer(
    source: Path,
    output: Path,
    vocabulary_size: int,
    *,
    sample_characters: int = SAMPLE_CHARACTERS,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Train a byte-level BPE tokenizer on documents.

    Returns {"vocabulary_size", "end_token", "characters"}. Every text decodes to itself; digits are
    never merged. A corpus larger than `sample_characters` is sampled evenly. A small corpus may
    yield a smaller vocabulary. Raises InputError when there are no documents, or no room for the
    256 bytes and the end mark.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    if vocabulary_size < 257:
        raise InputError(
            f"vocabulary_size={vocabulary_size}: 256 bytes and the end mark need at least 257"
        )
    read = partial(read_documents, source, columns=["question", "response"])
    total = 0
    for batch in read():
        for column in batch.columns:
            total += pc.sum(pc.utf8_length(column)).as_py() or 0
    if not total:
        raise InputError(f"no tokenizer can be trained on {source}: it holds no documents")
    fraction = min(1.0, sample_characters / total)
    characters = 0

    def sample() -> Iterator[list[str]]:
        """Yield the training texts of a fraction of the documents, evenly over the corpus."""
        nonlocal characters
        number = 0
        for batch in read():
            texts: list[str] = []
            questions = batch["question"].to_pylist()
            responses = batch["response"].to_pylist()
            for question, response in zip(questions, responses, strict=True):
                if int((number + 1) * fraction) > int(number * fraction):
                    texts += training_parts(question, response)
                number += 1
            characters += sum(map(len, texts))
            progress(min(0.9, characters / (fraction * total)), "reading documents")
            yield texts

    codec = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(WORDS), "isolated")
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    codec.pre_tokenizer = pre_tokenizers.Sequence([split, by_bytes])
    codec.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    codec.train_from_iterator(sample(), trainer)
    progress(1.0, "trained")
    return {**_save(codec, output, END), "characters": characters}


def take_tokenizer(entry: Mapping[str, Any], output: Path) -> dict[str, Any]:
    """Copy a ready tokenizer.

    `entry` is {"hub": id, "revision": name or None} or {"file": path of a tokenizer.json}. The end
    mark is that of tokenizer_config.json, or the first known name in the vocabulary, or one that is
    added. Raises InputError, within seconds also without a network, when the tokenizer cannot be
    fetched or read.
    """
    if "file" in entry:
        path = Path(entry["file"])
        revision = None
    else:
        path, revision = _from_hub(entry["hub"], entry.get("revision"))
    codec = read_tokenizer(path)
    codec.no_truncation()
    codec.no_padding()
    end = _end_mark(codec, path.with_name("tokenizer_config.json"))
    if end is None:
        end = END
        codec.add_special_tokens([END])
    return {**_save(codec, output, end), "revision": revision}


def read_tokenizer(path: Path | str) -> Tokenizer:
    """Read a tokenizer from a file, or from a folder's tokenizer.json.

    Raises InputError where it is missing or damaged. Special tokens that are written out in a text
    are encoded as text: no document can contain an end mark.
    """
    from tokenizers import Tokenizer

    path = Path(path)
    path = path / TOKENIZER if path.is_dir() else path
    try:
        codec = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"tokenizer {path}: {error.strerror}; give a tokenizer.json of the tokenizers library"
        ) from None
    except Exception as error:  # the library raises bare Exception for whatever is wrong inside
        raise InputError(
            f"tokenizer {path} is no tokenizer.json of the tokenizers library: {error}"
        ) from None
    codec.encode_special_tokens = True
    return codec


def read_meta(folder: Path | str) -> dict[str, Any]:
    """Read tokenizer_meta.json of a tokenizer's folder: end_token, end, vocabulary_size.

    Raises InputError where it cannot be read.
    """
    path = Path(folder) / "tokenizer_meta.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): give a folder written by the tokenizer stage"
        ) from None


def _from_hub(repository: str, revision: str | None) -> tuple[Path, str | None]:
    """Fetch tokenizer.json of a model on the hub; return its path and revision."""
    from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache

    cached = None
    try:
        cached = try_to_load_from_cache(repository, "tokenizer.json", revision=revision)
        if revision and isinstance(cached, str):
            return Path(cached), revision
        model = HfApi().model_info(repository, revision=revision, timeout=HUB_SECONDS)
        fetch = partial(hf_hub_download, repository, revision=model.sha, etag_timeout=HUB_SECONDS)
        names = {file.rfilename for file in model.siblings or ()}
        if "tokenizer_config.json" in names:
            fetch("tokenizer_config.json")
        return Path(fetch("tokenizer.json")), model.sha
    except Exception as error:  # the hub's client raises errors of several libraries
        if isinstance(cached, str):
            return Path(cached), Path(cached).parent.name
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        raise InputError(
            f"tokenizer {repository} cannot be had from the hub ({reason}): copy its tokenizer.json"
            " here and name it with `file: <path>`, or train one"
        ) from None


def _end_mark(codec: Tokenizer, config: Path) -> str | None:
    if config.is_file():
        try:
            named = json.loads(config.read_text(encoding="utf-8")).get("eos_token")
        except (ValueError, AttributeError):
            raise InputError(f"tokenizer: {config} is damaged; replace it, or remove it") from None
        named = named.get("content") if isinstance(named, dict) else named
        if named and codec.token_to_id(named) is not None:
            return named
    return next((name for name in END_NAMES if codec.token_to_id(name) is not None), None)


def _save(codec: Tokenizer, output: Path, end: str) -> dict[str, Any]:
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    meta = {
        "end_token": codec.token_to_id(end),
        "end": end,
        "vocabulary_size": max(codec.get_vocab(with_added_tokens=True).values()) + 1,
    }
    codec.save(str(output / TOKENIZER))
    (output / "tokenizer_meta.json").write_text(
        json.dumps(meta, indent=1, ensure_ascii=False), encoding="utf-8"
    )
    return {"vocabulary_size": meta["vocabulary_size"], "end_token": meta["end_token"]}
