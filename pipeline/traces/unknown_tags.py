"""Find tags that stay in a stripped response and may be marks that no table has."""

from __future__ import annotations

import re
from bisect import bisect_left

from dreamer_study.pipeline.traces.code_parts import FENCE, in_backticks

_ANY_TAG = re.compile(r"<(/?)([a-z][\w:.-]{0,60})>", re.IGNORECASE)
# Names of the tags of pages.
_HTML = re.compile(
    r"a|abbr|address|article|aside|audio|b|big|blockquote|body|button|canvas|caption|center|cite"
    r"|code|dd|del|details|div|dl|dt|em|fieldset|figcaption|figure|font|footer|form|h[1-6]|head"
    r"|header|hr|html|i|iframe|img|ins|kbd|label|legend|li|main|mark|math|nav|ol|option|p|pre|q|s"
    r"|samp|script|section|select|small|span|strike|strong|style|sub|summary|sup|svg|table|tbody"
    r"|td|template|textarea|tfoot|th|thead|title|tr|tt|u|ul|var|video|xml",
    re.IGNORECASE,
)


def unknown_tag(text: str) -> str:
    """Return the first tag of a text, outside of code, that is no HTML and encloses a part of it.

    A tag within a sentence is a word of that sentence, and a text that one tag encloses is data.
    """
    if "</" not in text:
        return ""
    tags = list(_ANY_TAG.finditer(text))
    last = {tag[2].lower(): tag.start() for tag in tags if tag[1]}  # closing tag of each name
    fences = [found.start() for found in FENCE.finditer(text)] if last else []
    for tag in tags:
        name = tag[2].lower()
        is_paired = not tag[1] and last.get(name, 0) > tag.start()
        if not is_paired or _HTML.fullmatch(name) or not _begins_apart(text, tag.start()):
            continue
        in_code = bisect_left(fences, tag.start()) % 2 == 1 or in_backticks(text, *tag.span())
        if not in_code and not _is_enclosed(text, tag, tags):
            return tag[0]
    return ""


def _begins_apart(text: str, place: int) -> bool:
    """Test whether a place begins a text, a line or a sentence."""
    before = text[max(0, place - 40) : place].rstrip(" \t")
    return before == "" or before[-1] in "\n.!?:;。！？>"


def _is_enclosed(text: str, tag: re.Match[str], tags: list[re.Match[str]]) -> bool:
    """Test whether a whole text stands between a tag, the first of `tags`, and its closing tag."""
    if tag is not tags[0] or text[: tag.start()].strip():
        return False
    closing = next(other for other in tags if other[1] and other[2].lower() == tag[2].lower())
    return not text[closing.end() :].strip()
