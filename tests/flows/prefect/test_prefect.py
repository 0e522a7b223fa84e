"""What needs no server of Prefect's: links to reports, lost runs, logs, the served flow."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import prefect
import pytest
import yaml
from prefect.logging.handlers import PrefectConsoleHandler

from dreamer_study.flows.commands.make_up import deployments
from dreamer_study.flows.jobs import Stopped
from dreamer_study.flows.prefect.logs import outlive_readers, plain_errors
from dreamer_study.flows.prefect.lost_runs import is_lost
from dreamer_study.flows.prefect.report_links import link_to_report, serving_reports
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import as_file, lasting_name, load_study, presets
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import digest
from tests.flows.small_study import PROJECT, TINY, small_study


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
            assert digest(str(first.report.resolve()))[:8] not in link, (
                "who knows the folder does not know the link"
            )
            with urllib.request.urlopen(link) as answer:
                assert words in answer.read()
        for name in ("tiny", "..", "../reports", ""):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{other}/{name}/")


def test_a_run_is_lost_where_no_process_runs_its_study(tmp_path: Path) -> None:
    path, root = small_study(tmp_path), tmp_path / "run"
    run = {"study": str(path), "root": str(root)}
    with only_run(load_study(path, root=root)):
        assert not is_lost(run)
    assert is_lost(run)
    assert not is_lost({**run, "root": str(tmp_path / "of another machine")})
    odd = [
        {"study": "nowhere.yaml"},
        {"study": "n" * 5000},
        {"study": {"name": 1}},
        {"study": None},
        {},
    ]
    assert not any(map(is_lost, odd))


def test_a_study_of_a_relative_path_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    study = load_study("small.yaml", root="run")
    study.folder.mkdir()
    monkeypatch.chdir("/")
    assert is_lost({"study": lasting_name(study), "root": str(study.folder)})
    assert lasting_name(load_study("demo")) == "demo"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger whose handler writes to a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    logger = logging.getLogger("prefect.flow_runs.unread")
    # which a stream tells again when it is closed
    with suppress(BrokenPipeError), os.fdopen(writer, "w") as stream:
        handler = PrefectConsoleHandler(stream)
        logger.addHandler(handler)
        logger.propagate = False
        yield logger
        logger.removeHandler(handler)


def test_a_log_line_that_nobody_reads_does_not_end_the_process(logger: logging.Logger) -> None:
    outlive_readers()
    for line in range(3):
        logger.error("line %d", line)


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.task_runs", "prefect.engine"])
def test_an_error_of_a_user_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain_errors()
    logger = logging.getLogger(name)
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])  # one of which asks for a flow run
    for error in (
        InputError("no such study"),
        Stopped("train LA-2 seed 0"),
        KeyError("of the program"),
    ):
        try:
            raise error
        except Exception as raised:
            logger.exception("%r", raised)
    assert caplog.text.count("Traceback") == 1
    assert "no such study" in caplog.text


LOAD_FLOW = """
import sys
from importlib.machinery import PathFinder

from prefect.flows import load_flow_from_entrypoint

load_flow_from_entrypoint(sys.argv[1])
print(PathFinder.find_spec("prefect").origin)
"""


@pytest.mark.slow
def test_a_deployed_flow_is_loaded_by_name_which_leaves_prefect_importable() -> None:
    """The processes of a data stage get the path of the flow's process.

    A flow that is loaded from `flows/full_study.py` leaves `flows/` first on the path, where
    `flows/prefect/` is taken for Prefect.
    """
    listed = yaml.safe_load((PROJECT / "prefect.yaml").read_text())["deployments"]
    served = {deployment.entrypoint for deployment in deployments(PROJECT / "prefect.yaml")}
    entrypoints = served | {deployment["entrypoint"] for deployment in listed}
    module = "dreamer_study.flows.full_study"
    assert entrypoints == {f"{module}.full_study", f"{module}.report"}
    command = [sys.executable, "-c", LOAD_FLOW, f"{module}.full_study"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.stdout.strip() == prefect.__file__, done.stderr


@pytest.mark.parametrize("name", presets())
def test_values_come_back_from_their_file(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    path = as_file(study, root=tmp_path)
    assert Path(path) == tmp_path / "study.yaml"
    assert load_study(path).model_dump(exclude={"root"}) == study.model_dump(exclude={"root"})
    assert as_file(name) == name
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["name"] == name
