"""The page from its parts: menus, summary, and the server that shows it as results change."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pandas as pd
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.data import read_study
from dreamer_study.reports.figures.accuracy import accuracy
from dreamer_study.reports.figures.library import packed, packed_library
from dreamer_study.reports.page.report import write_data
from dreamer_study.reports.page.serving import refresh, server, watch
from dreamer_study.reports.page.summary import summary
from dreamer_study.reports.page.toolbar import toolbar
from tests.reports.figures.frames import COUNTED, DRAWN, FACTORS, NO_RAW, RUNS, curve
from tests.reports.small_results import (
    ITEMS,
    POINTS,
    RIGHT,
    STUDY,
    entered,
    model_row,
    run_row,
    study,
    whole_study,
)

COSTS = pd.DataFrame(
    {"depth": 4, "variant": ["LA", "DR"], "flops": [6e9, 6e9], "seconds": [0.1, 0.2]}
)


def test_a_menu_needs_two_things_to_choose_from() -> None:
    figure = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    made = toolbar([figure], DRAWN, COSTS.assign(seconds=[0.1, None]))
    assert [style.variant for style in made.variants] == ["LA", "DR"]
    assert [menu.name for menu in made.menus] == ["task", "axis", "scale"]
    assert made.menus[1].options == (("", "tokens"), ("flops", "training FLOPs")), (
        "seconds are not known of DR"
    )
    assert made.menus[0].options == (
        ("", "all benchmarks"),
        ("average", "Average"),
        ("gsm8k", "GSM8K"),
    )
    assert not made.seeds


def test_seeds_and_raw_weights_are_offered_where_they_are_drawn() -> None:
    raw = curve()[["depth", "variant", "task", "tokens", "accuracy"]]
    figure = accuracy(curve(seeds=2), RUNS, FACTORS, raw, COUNTED, DRAWN, depth=4)
    made = toolbar([figure], DRAWN, COSTS[:0])
    assert made.seeds
    assert "weights" in [menu.name for menu in made.menus]


@pytest.mark.slow
def test_the_answer_the_ratios_and_the_curves(tmp_path: Path) -> None:
    text = summary(read_study(whole_study(tmp_path / "results.duckdb"), STUDY))
    lines = text.splitlines()
    assert lines[0] == f"# {STUDY}"
    assert "took" in lines[2]
    rows = [line.split(" | ") for line in lines if line.startswith("| 4 |")]
    averages = {row[1]: row[4] for row in rows if row[2:4] == ["Average", "accuracy"]}
    assert list(averages) == ["DR", "DR+DA", "tiny"]
    # DR+DA is better everywhere: it has no accuracy in common with LA, and so a bound.
    assert [value[0] in "≥≤" for value in averages.values()] == [False, True, False]
    start = lines.index("Accuracy, Average:")
    models = lines[start + 2].strip("| ").split(" | ")[1:]
    assert set(models) == set(RIGHT)
    first = [f"{RIGHT[model][0] / ITEMS:.3g}" for model in models]
    assert lines[start + 4] == f"| {' | '.join(['1M', *first])} |"
    assert len([line for line in lines[start + 4 :] if line.startswith("| ")]) == len(POINTS)


@pytest.mark.slow
def test_a_study_without_results_and_with_odd_names(tmp_path: Path) -> None:
    odd = "a|b*c"
    tables = {"studies": [study()], "models": [model_row(odd, odd, 4)], "runs": [run_row("r", odd)]}
    text = summary(read_study(entered(tmp_path / "results.duckdb", tables), STUDY))
    assert text.startswith(f"# {STUDY}\n\nThere is no answer yet")
    assert "|" not in text.replace("\\|", "")


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
    assert get(port, "/named/").read().decode() == get(port, "/?task=gsm8k").read().decode() == text
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


def test_who_does_not_know_the_address_gets_no_page(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_: float) -> None:
        raise KeyboardInterrupt

    def look(address: str) -> None:
        port, name = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]{22})/", address).groups()
        told[:] = [
            get(int(port), path).status
            for path in ("/", "/version", f"/{name}/", f"/{name}/version")
        ]

    told: list[int] = []
    monkeypatch.setattr("time.sleep", ended)
    with pytest.raises(KeyboardInterrupt):
        watch(page, page, page.stat().st_mtime_ns, lambda: None, look)
    assert told == [404, 404, 200, 200]


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


def test_the_folder_of_what_is_kept_is_this_users_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda: "script")
    before = os.umask(0o002)
    try:
        packed_library.__wrapped__()
    finally:
        os.umask(before)
    folder = tmp_path / "dreamer-study"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (kept,) = folder.iterdir()
    kept.write_text("of somebody else")
    assert packed_library.__wrapped__() == "of somebody else"
    folder.chmod(0o777)
    assert packed_library.__wrapped__() == packed("script")


@pytest.mark.parametrize("link", ["report", "report/figures"])
def test_no_report_is_written_through_a_link(tmp_path: Path, link: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "folder" / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "folder" / link).symlink_to(tmp_path / "site")
    with pytest.raises(InputError, match=rf"{link} is a link to .*site"):
        write_data(Mock(), tmp_path / "folder/report")
    assert list((tmp_path / "site").iterdir()) == []
