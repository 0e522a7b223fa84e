"""The site: links lead somewhere, nothing is loaded from a network, the reference is complete."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from dreamer_study.flows.commands.parser import GROUPS
from dreamer_study.flows.study.schema import study_schema

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parents[2]
# what a browser fetches by itself: links of <a> are for the reader to follow
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
FETCHED_RELATIONS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload"}
ELSEWHERE = re.compile(r"^(?:https?:)?//")
# each with a name of its own, by which its warning is known
DEAD = ["lost.md", "statistics.md#gone", "../missing.py", "../tests", "#nowhere"]


class Links(HTMLParser):
    """The links and anchors of a page, and what its browser fetches."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in FETCHED:
            self.fetched.append(values.get(FETCHED[tag], ""))
        if tag == "link" and {*values.get("rel", "").split()} & FETCHED_RELATIONS:
            self.fetched.append(values["href"])


def build(folder: Path, project: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does; a proxy that is not there refuses every address."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    # report.html is a page of its own, and 404.html is for a server
    paths = [path for path in site.rglob("*.html") if path.name not in ("report.html", "404.html")]
    return {path: Links(path) for path in paths}


def test_a_page_fetches_nothing_from_elsewhere(pages: dict[Path, Links]) -> None:
    assert len(pages) > 30
    for page, links in pages.items():
        assert [one for one in links.fetched if ELSEWHERE.match(one)] == [], page


def test_styles_fetch_nothing_from_elsewhere(site: Path) -> None:
    styles = list(site.rglob("*.css"))
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']*", text) == [], style


def test_every_link_leads_somewhere(pages: dict[Path, Links]) -> None:
    dead = []
    for page, links in pages.items():
        for link in links.links:
            name, _, anchor = unquote(link).partition("#")
            target = (page.parent / name).resolve() if name else page
            if ELSEWHERE.match(link) or link.startswith("mailto:"):
                continue
            there = target.is_file()
            if there and anchor and target in pages:
                there = anchor in pages[target].anchors
            if not there:
                dead.append(f"{page.name}: {link}")
    assert dead == []


def test_the_reference_has_every_command_key_and_table(site: Path) -> None:
    options = (site / "reference/options.html").read_text(encoding="utf-8")
    for command in (command for names in GROUPS.values() for command in names):
        assert f"dreamer {command}" in options or command == "lm-eval"
    keys = (site / "reference/study-file.html").read_text(encoding="utf-8")
    schema = study_schema()
    for kind in [schema, *schema["$defs"].values()]:
        for key in kind.get("properties", {}):
            assert f"<code>{key}</code>" in keys
    tables = (site / "reference/tables.html").read_text(encoding="utf-8")
    for name in ("token_ratios", "token_accuracy", "tokens_to", "p_adjusted"):
        assert name in tables


def test_pages_of_the_top_folder_are_pages(site: Path) -> None:
    assert "How many training tokens" in (site / "index.html").read_text(encoding="utf-8")
    for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"):
        assert (site / f"project/{name}.html").is_file()


def test_the_log_is_not_in_the_navigation(site: Path) -> None:
    page = (site / "glossary.html").read_text(encoding="utf-8")
    navigation = re.sub(r"<article.*</article>", "", page, flags=re.DOTALL)
    assert "statistics.html" in navigation
    assert "log.html" not in navigation


def test_every_dead_link_is_an_error(tmp_path: Path) -> None:
    """All are in one build, and all warnings are of them: each warning alone ends such a build."""
    copy = tmp_path / "project"
    pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
    names = ["docs", "mkdocs.yml", *pages, "CITATION.cff", "LICENSE"]
    copy.mkdir()
    for name in names:
        place = PROJECT / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, copy / name)
    for name in ("flows", "model", "pipeline", "reports", "sql", "src", "tests", "benchmarks"):
        (copy / name).symlink_to(PROJECT / name)
    with (copy / "docs/glossary.md").open("a") as page:
        for link in DEAD:
            page.write(f"\n[dead]({link})\n")
    done = build(tmp_path / "site", copy)
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    ends = [link.rpartition("/")[2] for link in DEAD]
    assert [end for end in ends if not any(end in line for line in warnings)] == []
    assert [line for line in warnings if not any(end in line for end in ends)] == []
    assert f"Aborted with {len(warnings)} warnings in strict mode" in done.stdout + done.stderr
