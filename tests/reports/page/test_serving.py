"""The served page: on this machine only, loaded again after a change, written again when the results are newer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread

import pytest

from pipeline.errors import InputError
from reports.page.serving import refresh, server


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "index.html"
    page.write_text("<html><body>Tokens</body></html>")
    return page


@pytest.fixture
def port(page: Path) -> Iterator[int]:
    with server({"": page, "named": page}.get) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_port
        serving.shutdown()


def get(port: int, path: str, host: str = "127.0.0.1") -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Host": host})
    return connection.getresponse()


def test_the_page_asks_for_its_version(port: int, page: Path) -> None:
    text = get(port, "/").read().decode()
    assert text.startswith("<html><body>Tokens<script>")
    assert 'fetch("version")' in text
    assert get(port, "/named/").read().decode() == text
    before = get(port, "/version").read()
    assert get(port, "/named/version").read() == before
    os.utime(page, (1, 1))
    assert get(port, "/version").read() != before


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [("/../secret", "localhost", 404), ("/other/", "localhost", 404), ("/", "evil.example", 403)],
)
def test_nothing_else_is_answered(port: int, path: str, host: str, status: int) -> None:
    assert get(port, path, host).status == status


def test_newer_results_make_a_new_page(tmp_path: Path) -> None:
    database, written = tmp_path / "results.duckdb", []
    database.touch()
    os.utime(database, ns=(100, 100))
    assert refresh(database, 200, lambda: written.append(1)) == (200, "")
    assert not written
    assert refresh(database, 50, lambda: written.append(1)) == (100, "")
    assert written == [1]

    def locked() -> None:
        raise InputError("results.duckdb: another process writes")

    assert refresh(database, 50, locked) == (50, "results.duckdb: another process writes")
    database.unlink()
    assert refresh(database, 50, locked)[0] == 50
