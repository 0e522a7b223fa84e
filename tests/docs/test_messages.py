"""Each message that docs/faq.md quotes is one of the code."""

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = ("pipeline", "model", "sql", "reports", "flows")
GAP = "\0"  # in place of what a message is filled with
SHORTEST = 12  # letters of text that a quoted message has at least
QUOTED = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
PAGE = (PROJECT / "docs" / "faq.md").read_text(encoding="utf-8")
MESSAGES = QUOTED.findall(PAGE)


def texts_of(node: ast.AST) -> str | None:
    """Return the text of a string in the code, with gaps; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [texts_of(part) for part in node.values]
        return "".join(GAP if part is None else part for part in parts)
    return None


def strings() -> list[str]:
    """List every text in the code of the package."""
    found: list[str] = []
    for folder in FOLDERS:
        for path in (PROJECT / folder).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            found += [text for node in nodes if (text := texts_of(node))]
    return found


STRINGS = strings()


def is_in_the_code(message: str) -> bool:
    """Whether one text of the code has the parts of a message in their order."""
    parts = [re.escape(part.strip()) for part in message.split("…") if part.strip()]
    pattern = re.compile(".*".join(parts), re.DOTALL)
    return any(pattern.search(text) for text in STRINGS)


def test_the_page_has_messages_of_every_kind() -> None:
    assert len(MESSAGES) > 25


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_in_the_code(message: str) -> None:
    assert len(re.sub(r"[^a-z]", "", message.lower())) >= SHORTEST or "is damaged" in message
    assert is_in_the_code(message)


def test_a_message_that_no_code_has_is_seen() -> None:
    assert not is_in_the_code("…: the moon is full; wait until it wanes")
    assert not is_in_the_code("fetch it again … the compressed file is cut off")
