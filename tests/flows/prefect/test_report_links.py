"""Links to reports: served where `make up` serves them, else files."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from flows.prefect.report_links import link_to_report, serving_reports
from flows.study.configuration import Study
from flows.study.loading import load_study
from tests.flows.small_study import TINY


def written(root: Path, words: str) -> Study:
    study = load_study(TINY, root=root)
    study.report.parent.mkdir(parents=True)
    study.report.write_text(f"<html><body>{words}</body></html>")
    return study


def test_reports_open_from_a_page_of_a_server_also_two_of_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    first, second = written(tmp_path / "first", "Tokens"), written(tmp_path / "second", "Others")
    assert link_to_report(first) == first.report.as_uri()
    with serving_reports() as address, serving_reports(int(address.rpartition(":")[2])) as other:
        assert other != address
        links = [link_to_report(study) for study in (first, second, first, second)]
        assert links[:2] == links[2:]
        # As in `make up`, whose flow runs have another temporary folder.
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "dreamer-0" / "runner"))
        for link, words in zip(links[:2], (b"Tokens", b"Others"), strict=True):
            assert link.startswith(f"{other}/tiny-")
            with urllib.request.urlopen(link) as answer:
                assert words in answer.read()
        for name in ("tiny", "..", "../reports", ""):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{other}/{name}/")
