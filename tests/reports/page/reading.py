"""Read a page as its reader does: its elements, and its words without script and style, a line for each part."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass, field
from gzip import decompress
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "img", "br", "input"}
PARTS = {"p", "h1", "h2", "h3", "li", "tr", "figcaption", "summary", "dt", "label", "option", "figure", "button", "pre"}


@dataclass
class Page(HTMLParser):
    """A parsed page: its elements, its lines of words, and the content of its scripts by type."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[tuple[str | None, str]] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in PARTS:
            self.lines.append([])
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif not {"style", "svg"} & set(self.open):
            self.lines[-1].append(data)

    @property
    def text(self) -> str:
        joined = (" ".join(" ".join(words).split()) for words in self.lines)
        return "\n".join(filter(None, joined))

    @property
    def figures(self) -> dict[str, dict]:
        """The specifications from which the page's script draws, by the names of the figures."""
        library, content = (decompress(b64decode(text)).decode() for kind, text in self.scripts if kind == "text/plain")
        assert "vegaEmbed" in library
        return json.loads(content)["figures"]


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text())
    page.close()
    assert not page.open
    return page
