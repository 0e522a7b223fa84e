"""Name artifacts in Prefect's UI: keys of letters, digits and dashes, with the study's name in them."""

from __future__ import annotations

import hashlib
import re
import unicodedata

LETTERS = re.compile("[^a-z0-9]+")


def artifact_key(*words: str) -> str:
    """Make a key that Prefect accepts (a to z, digits, dashes) of any words; other words give another key.

    Example: `artifact_key("mini", "train DR+DA-4 seed 0")` gives `mini-train-dr-plus-da-4-seed-0`.
    """
    text = " ".join(words)
    plain = unicodedata.normalize("NFKD", text.lower().replace("+", " plus ")).encode("ascii", "ignore").decode()
    key = LETTERS.sub("-", plain).strip("-")
    if re.fullmatch("[A-Za-z0-9 +-]*", text) and key:
        return key
    return f"{key}-{hashlib.blake2b(text.encode(), digest_size=3).hexdigest()}".strip("-")
