"""Clean documents by rules that mend a text or drop a document.

Each rule has a name, a count and a switch. Mending comes first and must not change mathematics:
Unicode is composed (NFC), never replaced by compatibility forms (x² would become x2), and only
invisible characters are removed. Mended documents are counted by rule. A dropped document's reason
is the first rule that drops it.
"""

from __future__ import annotations

import re
import string
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.storage.documents import DocumentWriter, read_shard
from dreamer_study.pipeline.storage.parallel import Progress, Workers, quiet, serial
from dreamer_study.pipeline.storage.resumable import shard_by_shard

TEXTS = ("question", "response", "answer")

# Control characters except tab and line feed, soft hyphens, zero-width spaces, direction marks,
# byte order marks. Zero-width joiners stay: they spell words of several scripts, and emoji.
CONTROLS = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x{80}-\x{9f}\x{ad}\x{200b}\x{200e}\x{200f}"
    r"\x{202a}-\x{202e}\x{2060}\x{2066}-\x{2069}\x{feff}]"
)
MARKS = r"\p{M}{31,}"  # more than any writing needs: Unicode's stream-safe texts have 30 at most
LINE_ENDS = r"\r\n?|[\x0b\x0c]"  # page breaks end lines, too

# UTF-8 that was decoded as Windows-1252 or Latin-1: "Ã©", "â€™", "Â°", "Ï€", "ðŸ˜€".
MOJIBAKE = (  # a letter for the first byte, then a sign for the next one
    r"[\x{c2}\x{c3}\x{ce}\x{cf}\x{e2}\x{f0}]"
    r"[\x{80}-\x{bf}\x{152}\x{153}\x{160}\x{161}\x{178}\x{17d}\x{17e}\x{192}\x{2c6}\x{2dc}"
    r"\x{2013}\x{2014}\x{2018}-\x{201e}\x{2020}-\x{2022}\x{2026}\x{2030}\x{2039}\x{203a}\x{20ac}"
    r"\x{2122}]"
)
SHORT = 40  # characters; a shorter text may be all symbols
LEAST_LOOP = 1_000  # bytes of the shortest response that may loop
LOOP_END = 2_000  # bytes at the end of a response that are looked at
BATCH_ROWS = 2048

# Bytes of UTF-8 that are of no letter and no digit of any script.
_NO_LETTERS = bytes(set(range(0xC3)).difference((string.ascii_letters + string.digits).encode()))


Length = Annotated[int, Field(ge=0)] | None
Share = Annotated[float, Field(ge=0, le=1)] | None


@dataclass(frozen=True, config=ConfigDict(use_attribute_docstrings=True))
class CleanSettings:
    """The rules of cleaning and their bounds; None or False switches a rule off.

    Lengths are in characters. The bounds on questions do not apply to an empty question: such a
    document is plain text. Raises ValueError for values out of range.
    """

    compose_unicode: bool = True
    """Write letters with accents as one character (Unicode NFC)."""
    remove_controls: bool = True
    """Remove control characters and invisible characters."""
    trim: bool = True
    """Remove white space at both ends of question and response."""
    shortest_question: Length = 3
    """Fewest characters of a question; null: no bound."""
    longest_question: Length = 20_000
    """Most characters of a question; null: no bound."""
    shortest_response: Length = 1
    """Fewest characters of a response; null: no bound."""
    longest_response: Length = 200_000
    """Most characters of a response; null: no bound."""
    broken_characters: Share = 0.001
    """Largest share of characters that are U+FFFD, the sign of lost text; null: no bound."""
    mojibake: Share = 0.01
    """Largest share of characters that begin a wrongly decoded sequence, such as Ã©; null: no
    bound.
    """
    longest_run: Length = 1_000
    """Most ASCII characters without a space: longer runs are data, such as base64; null: no bound.
    """
    letters: Share = 0.25
    """Smallest share of letters and digits, of any script; null: no bound."""
    looping: Share = 0.05
    """Smallest compressed size of a response's end, as a share of its size: a text that repeats
    itself lies far below; null: no bound.
    """


def clean(
    source: Path | str,
    output: Path | str,
    settings: CleanSettings | None = None,
    *,
    run: Workers = serial,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: mend the documents of `source` and drop those that break a rule.

    Returns `counts`, and as `mended` the number of documents that each mending rule changed, by
    source. Finished shards survive an interruption.
    """
    settings = settings or CleanSettings()
    work = partial(_clean_shard, settings)
    counts, mended = shard_by_shard(
        source, output, asdict(settings), work, kind="rule", run=run, progress=progress
    )
    return {"counts": counts, "mended": mended}


def _clean_shard(
    settings: CleanSettings, path: Path, writer: DocumentWriter
) -> Counter[tuple[str, str]]:
    """Clean one shard; return the number of documents that each rule mended, by (source, rule)."""
    mended: Counter[tuple[str, str]] = Counter()
    for original in read_shard(path, batch_rows=BATCH_ROWS):
        names = original["source"]
        batch, changes = _mend(original, settings)
        for rule, changed in changes.items():
            mended.update((name, rule) for name in names.filter(changed).to_pylist())
        reason = pa.nulls(len(batch), pa.string())
        for rule, bad in _faults(batch, original, settings):
            reason = pc.if_else(pc.and_(bad, pc.is_null(reason)), rule, reason)
        writer.keep(batch.filter(pc.is_null(reason)))
        writer.drop(original.filter(pc.is_valid(reason)), reason.filter(pc.is_valid(reason)))
    return mended


def _mend(
    batch: pa.RecordBatch, settings: CleanSettings
) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
    """Apply the mending rules.

    Returns the batch and, for each rule, a mask of the rows that the rule changed.
    """
    changes: dict[str, pa.Array] = {}
    rules: tuple[tuple[str, bool, Callable[[pa.Array], pa.Array]], ...] = (
        ("compose_unicode", settings.compose_unicode, _compose),
        ("remove_controls", settings.remove_controls, _remove_controls),
        ("trim", settings.trim, pc.utf8_trim_whitespace),
    )
    for rule, wanted, mend in rules:
        if not wanted:
            continue
        changes[rule] = pa.array([False] * len(batch))
        for name in TEXTS:
            before = pc.fill_null(batch[name], "")
            after = mend(before)
            changes[rule] = pc.or_(changes[rule], pc.not_equal(before, after))
            batch = batch.set_column(batch.schema.get_field_index(name), name, after)
    return batch, changes


def _compose(texts: pa.Array) -> pa.Array:
    """Compose letters and marks to one character each (NFC), but for texts with endless marks.

    The time of NFC grows with the square of a run of marks: 200,000 would take minutes.
    """
    endless = pc.match_substring_regex(texts, MARKS)
    composed = [
        text if leave else unicodedata.normalize("NFC", text)
        for text, leave in zip(texts.to_pylist(), endless.to_pylist(), strict=True)
    ]
    return pa.array(composed, pa.string())


def _remove_controls(texts: pa.Array) -> pa.Array:
    """Replace line ends by line feeds, and remove invisible characters."""
    mended = pc.replace_substring_regex(texts, pattern=LINE_ENDS, replacement="\n")
    return pc.replace_substring_regex(mended, pattern=CONTROLS, replacement="")


def _faults(
    batch: pa.RecordBatch, original: pa.RecordBatch, settings: CleanSettings
) -> Iterator[tuple[str, pa.Array]]:
    """Yield each dropping rule's name and a mask of its rows, in the order of the rules."""
    question = pc.fill_null(batch["question"], "")
    response = pc.fill_null(batch["response"], "")
    asked = pc.utf8_length(question)
    answered = pc.utf8_length(response)
    # at least 1: shares of a document without a text are 0
    characters = pc.cast(pc.max_element_wise(pc.add(asked, answered), 1), pa.float64())
    pairs = list(zip(question.to_pylist(), response.to_pylist(), strict=True))
    yield from _length_faults(original, asked, answered, settings)
    yield from _encoding_faults(original, question, response, characters, settings)
    yield from _faults_of_no_text(pairs, characters, settings)


def _length_faults(
    original: pa.RecordBatch, asked: pa.Array, answered: pa.Array, settings: CleanSettings
) -> Iterator[tuple[str, pa.Array]]:
    if settings.shortest_question is not None:
        # Of the original: mending may leave nothing of a question that was given.
        given = pc.utf8_trim_whitespace(pc.fill_null(original["question"], ""))
        short = pc.less(asked, settings.shortest_question)
        yield "question too short", pc.and_(pc.not_equal(given, ""), short)
    if settings.longest_question is not None:
        yield "question too long", pc.greater(asked, settings.longest_question)
    if settings.shortest_response is not None:
        yield "response too short", pc.less(answered, settings.shortest_response)
    if settings.longest_response is not None:
        yield "response too long", pc.greater(answered, settings.longest_response)


def _encoding_faults(
    original: pa.RecordBatch,
    question: pa.Array,
    response: pa.Array,
    characters: pa.Array,
    settings: CleanSettings,
) -> Iterator[tuple[str, pa.Array]]:
    marks = [pc.match_substring_regex(text, MARKS) for text in (question, response)]
    yield "endless combining marks", pc.or_(*marks)
    if settings.broken_characters is not None:
        broken = pc.add(
            pc.count_substring(question, "\ufffd"), pc.count_substring(response, "\ufffd")
        )
        yield "broken encoding", pc.greater(_share(broken, characters), settings.broken_characters)
    if settings.mojibake is not None:
        # Of the original: mending removes the control characters of which mojibake is made.
        wrong = pc.add(_count_mojibake(original["question"]), _count_mojibake(original["response"]))
        yield "mojibake", pc.greater(_share(wrong, characters), settings.mojibake)


def _count_mojibake(texts: pa.Array) -> pa.Array:
    return pc.count_substring_regex(pc.fill_null(texts, ""), MOJIBAKE)


def _faults_of_no_text(
    pairs: list[tuple[str, str]], characters: pa.Array, settings: CleanSettings
) -> Iterator[tuple[str, pa.Array]]:
    """Yield the rules for what is data, symbols or a loop instead of text; pairs are of texts."""
    if settings.longest_run is not None:
        word = re.compile(rf"[!-~]{{{settings.longest_run + 1}}}")
        endless = [any(map(word.search, pair)) for pair in pairs]
        yield "not text: endless word", pa.array(endless, pa.bool_())
    if settings.letters is not None:
        letters = [len("".join(pair).encode().translate(None, _NO_LETTERS)) for pair in pairs]
        few = pc.less(_share(pa.array(letters, pa.int64()), characters), settings.letters)
        yield "not text: symbols", pc.and_(few, pc.greater(characters, float(SHORT)))
    if settings.looping is not None:
        looping = [_loops(response, settings.looping) for _, response in pairs]
        yield "looping text", pa.array(looping, pa.bool_())


def _share(count: pa.Array, characters: pa.Array) -> pa.Array:
    return pc.divide(pc.cast(count, pa.float64()), characters)


def _loops(response: str, least: float) -> bool:
    """Tell whether a response repeats itself at its end, as models do until they are cut off.

    Example: of "We add 3 and 4 to get 7." a thousand times, the last 2,000 bytes compress to 0.02
    of their size; of a list of sixty cases that differ in a number, to 0.08; of most solutions and
    textbooks, to 0.14 or more.
    """
    whole = response.encode()
    end = whole[-LOOP_END:]
    return len(whole) >= LEAST_LOOP and len(zlib.compress(end)) < least * len(end)
