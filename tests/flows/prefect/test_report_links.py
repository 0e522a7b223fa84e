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


def written(root: Path) -> Study:
    study = load_study(TINY, root=root)
    study.report.parent.mkdir(parents=True)
    study.report.write_text("<html><body>Tokens</body></html>")
    return study


def test_a_report_opens_from_a_page_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    study = written(tmp_path)
    assert link_to_report(study) == study.report.as_uri()
    with serving_reports() as address, serving_reports(int(address.rpartition(":")[2])) as other:
        assert other != address
        link = link_to_report(study)
        assert link.startswith(f"{other}/tiny-")
        with urllib.request.urlopen(link) as answer:
            assert b"Tokens" in answer.read()
        for name in ("tiny", "..", "../reports", ""):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{other}/{name}/")


def test_studies_of_one_name_in_two_folders_have_a_link_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with serving_reports():
        first, second = written(tmp_path / "first"), written(tmp_path / "second")
        second.report.write_text("<html><body>Others</body></html>")
        links = [link_to_report(study) for study in (first, second, first, second)]
        assert links[:2] == links[2:]
        pages = [urllib.request.urlopen(link).read() for link in links[:2]]
        assert [b"Tokens" in pages[0], b"Others" in pages[1]] == [True, True]


def test_make_up_serves_what_flow_runs_link_to_though_its_own_temporary_folder_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with serving_reports():
        link = link_to_report(written(tmp_path))  # as a flow run does
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "dreamer-0" / "runner"))
        with urllib.request.urlopen(link) as answer:
            assert b"Tokens" in answer.read()
