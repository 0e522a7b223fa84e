"""Links to reports: served where `make up` serves them, else files."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from flows.running.report_links import link_to_report, serving_reports
from flows.study.loading import load_study

TINY = Path(__file__).resolve().parents[2] / "studies" / "tiny.yaml"


def test_a_report_opens_from_a_page_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    study = load_study(TINY, root=tmp_path)
    study.report.parent.mkdir()
    study.report.write_text("<html><body>Tokens</body></html>")
    assert link_to_report(study) == study.report.as_uri()
    with serving_reports() as address, serving_reports(int(address.rpartition(":")[2])) as other:
        assert other != address
        link = link_to_report(study)
        assert link == f"{other}/tiny/"
        with urllib.request.urlopen(link) as answer:
            assert b"Tokens" in answer.read()
        for name in ("other", "..", "../reports", ""):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{other}/{name}/")
