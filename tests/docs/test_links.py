"""The documents: every link, file, module and command that they name is there."""

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.commands.parser import GROUPS

PROJECT = Path(__file__).resolve().parents[2]
LISTED = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
TRACKED = [name for name in LISTED.splitlines() if (PROJECT / name).exists()]
PAGES = [name for name in TRACKED if name.endswith(".md")]
TODAY = [page for page in PAGES if page != "docs/log.md"]  # the log's names are those of the day of an entry

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
FILE = re.compile(r"(?<![\w./<>-])\w[\w.-]*(?:/[\w.-]+)*\.(?:py|sql|md|yaml|toml)\b")
MODULE = re.compile(r"python -m ((?:benchmarks|flows|model|pipeline|reports|sql)\b[\w.]*)")
COMMAND = re.compile(r"(?:^|[`$]|\(| )\s?dreamer ([a-z][a-z-]+)")
OF_READERS = re.compile(r"my[-\w]*\.(?:yaml|py)|(?:study|gpt)\.yaml")  # files that the reader of a page has


def text(page: str) -> str:
    return (PROJECT / page).read_text(encoding="utf-8")


def code(page: str) -> str:
    return "\n".join(CODE.findall(text(page)))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: str) -> Iterator[str]:
    for link in LINK.findall(CODE.sub("", text(page))):
        name, _, anchor = link.partition("#")
        target = (PROJECT / page).parent / name if name else PROJECT / page
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
            yield link


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", TODAY)
def test_files_that_are_named_are_there(page: str) -> None:
    named = {name for name in FILE.findall(code(page)) if not OF_READERS.fullmatch(name)}
    assert [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in TRACKED)] == []


@pytest.mark.parametrize("page", TODAY)
def test_modules_and_commands_that_are_named_are_there(page: str) -> None:
    assert [name for name in MODULE.findall(code(page)) if importlib.util.find_spec(name) is None] == []
    assert set(COMMAND.findall(code(page))) <= {command for group in GROUPS.values() for command in group}
