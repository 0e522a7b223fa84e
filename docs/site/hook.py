"""Build the site: pages from other folders, links that leave docs/, and the generated reference.

`mkdocs.yml` names this hook. GitHub reads the same Markdown, so that pages link to files of the
repository, such as ../src/... and ../CHANGELOG.md. In the site README.md is the first page, a few
documents of the top folder are pages of `project/`, and any other file that a page links to is
copied to `files/`.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference import reference_pages

PROJECT = Path(__file__).parents[2]
# Pages of the site by the file of the repository that they are.
MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/CHANGELOG.md",
    "CONTRIBUTING.md": "project/CONTRIBUTING.md",
    "SECURITY.md": "project/SECURITY.md",
}
FROM = {page: name for name, page in MOVED.items()}
COPIES = "files"
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
SORTING = "javascripts/tables.js"  # as mkdocs.yml names it
# A click on a head sorts a table of many rows, as tables of reports are sorted.
SORTABLE = """
for (const table of document.querySelectorAll("article table")) {
  if (table.tBodies[0].rows.length < 10) continue;
  makeSortable(table);
  for (const button of table.tHead.querySelectorAll("button")) {
    button.style = "all: unset; cursor: pointer; text-decoration: underline dotted";
  }
}
"""
log = logging.getLogger("mkdocs.plugins.dreamer")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make anchors as GitHub makes them."""
    config.mdx_configs["toc"] |= {"slugify": anchor}
    return config


def anchor(heading: str, separator: str) -> str:
    """Make the anchor of a heading: "GPUs, and more" becomes "gpus-and-more"."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder, the generated ones, and the files that pages link to."""
    for name, page in MOVED.items():
        text = (PROJECT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for page, text in reference_pages().items():
        files.append(File.generated(config, page, content=text))
    script = (PROJECT / "reports/style/tables.js").read_text(encoding="utf-8")
    files.append(File.generated(config, SORTING, content=f"(() => {{\n{script}{SORTABLE}}})();\n"))
    for page in list(files.documentation_pages()):
        for target in linked_files(page.src_uri, page.content_string):
            copy = f"{COPIES}/{target}"
            if copy not in files.src_uris:
                files.append(File.generated(config, copy, abs_src_path=str(PROJECT / target)))
    config.nav = present(config.nav, files)
    return files


def present(entry: Any, files: Files) -> Any:
    """Leave out entries of the navigation whose page is not there."""
    if isinstance(entry, list):
        entries = [present(inner, files) for inner in entry]
        return [inner for inner in entries if inner]
    if isinstance(entry, dict):
        return {title: inner for title, of in entry.items() if (inner := present(of, files))}
    return entry if entry in files.src_uris else None


def linked_files(page: str, text: str) -> set[str]:
    """Name the files of the repository that a page links to and that are no part of docs/."""
    targets = set()
    for link in LINK.findall(CODE.sub("", text)):
        target = in_repository(page, link[1])
        if target and is_copied(target):
            targets.add(target)
    return targets


def is_copied(target: str) -> bool:
    """Whether a link to this file leads to a copy: it is neither a page nor within docs/."""
    is_outside = not target.startswith("docs/") and target not in MOVED
    return is_outside and (PROJECT / target).is_file()


def in_repository(page: str, link: str) -> str:
    """Return the path in the repository that a link of a page means; "" for other links."""
    name = link.partition("#")[0]
    if not name or "://" in name or name.startswith("mailto:"):
        return ""
    folder = posixpath.dirname(FROM.get(page, f"docs/{page}"))
    return posixpath.normpath(posixpath.join(folder, name))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of a page into links within the site."""
    parts = CODE.split(markdown)
    here = page.file.src_uri
    for number in range(0, len(parts), 2):  # the others are code
        parts[number] = LINK.sub(
            lambda match: match[1] + in_site(here, match[2]) + match[3], parts[number]
        )
    return "".join(parts)


def in_site(page: str, link: str) -> str:
    """Return the link within the site for a link of a page."""
    target = in_repository(page, link)
    if not target:
        return link
    anchor_mark, anchor_name = link.partition("#")[1:]
    path = PROJECT / target
    if not path.exists():
        log.warning("%s: a dead link to %s", page, link)
        return link
    if target == "docs":
        target = "README.md"
    if path.is_dir() and target != "README.md":
        target += "/README.md"  # as GitHub shows a folder
        if not (PROJECT / target).is_file():
            log.warning("%s: the folder %s has no page of its own", page, link)
            return link
    if is_copied(target):
        place = f"{COPIES}/{target}"
    else:
        place = MOVED.get(target, target.removeprefix("docs/"))
    relative = posixpath.relpath(place, posixpath.dirname(page) or ".")
    return relative + anchor_mark + anchor_name
